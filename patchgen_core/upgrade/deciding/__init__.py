"""Conflicts of an upgrade that a person decides: what there is to choose, what came of it, what was chosen before."""
