"""Running code of a repository so that it can neither see, change nor exhaust what is not its own."""
