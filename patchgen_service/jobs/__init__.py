"""What is done in the background: durable, retried, by the clock, and resumed after a crash."""
