"""What a run of the gate found out over all configs and checks."""
