"""What a process beside the server finds out about configs and generated files."""
