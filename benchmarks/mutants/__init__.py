"""Defects for :mod:`mutation`, and the gate that has to find them."""
