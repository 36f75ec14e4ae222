"""Results of checks that hold for as long as everything that went into them stays the same."""
