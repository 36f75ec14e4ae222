"""The DSL, and reading a config without its imports."""
