"""Does a parallel plan fit its model, and can it be applied?"""
