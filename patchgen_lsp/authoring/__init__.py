"""What a process beside the server writes: configs with what an action asks for."""
