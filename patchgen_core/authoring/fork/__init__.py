"""From a forked modeling file to a config that makes the same module of upstream's."""
