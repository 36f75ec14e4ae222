"""What is checked in, beside what the configs make now: which files differ, and why."""
