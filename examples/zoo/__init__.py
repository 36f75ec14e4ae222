"""Patched Hugging Face models, one folder each: the project that this repository's own gate runs on."""
