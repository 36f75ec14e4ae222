"""What the rooms that generated code imports share."""
