"""The same results for people and for machines. Nothing here decides anything."""
