"""Settings of this repository's own test run."""

pytest_plugins = ["pytester"]
