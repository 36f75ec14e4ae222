"""What happened between two releases to what a patch changes and relies on."""
