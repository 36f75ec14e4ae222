"""The steps from one version's tables to the next's."""
