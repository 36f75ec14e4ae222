"""Toy models: their configurations, batches and runs. The first room that imports torch."""
