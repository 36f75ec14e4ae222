"""Code that upstream only moved between functions."""
