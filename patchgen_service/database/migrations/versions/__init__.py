"""A file for each step; :mod:`tools.migration` writes the next."""
