"""What is remembered, and how it changes: functions that take a session, and are safe to be repeated."""
