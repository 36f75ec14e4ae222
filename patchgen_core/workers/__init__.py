"""Processes that answer requests, and where time goes."""
