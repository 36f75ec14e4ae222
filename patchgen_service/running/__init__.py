"""One run of the gate: a worktree, an environment, the gate in isolation, and its results as they come."""
