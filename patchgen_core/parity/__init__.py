"""Checks that run models: what the generated code computes, loads and shards. The first room that imports torch."""
