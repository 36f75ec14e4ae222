"""What the contract rules find in monkey patches that nobody here wrote."""
