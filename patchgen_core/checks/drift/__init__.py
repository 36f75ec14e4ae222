"""Is what is checked in what the configs make?"""
