"""What parity varies beside the batches of a training step: one file a dimension."""
