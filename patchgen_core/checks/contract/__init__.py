"""Static rules over a generated module: what would break at run time, told without running anything."""
