"""The pages: a file for each, with its routes."""
