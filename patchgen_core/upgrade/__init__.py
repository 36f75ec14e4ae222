"""What another release of upstream does to every patch, and patches carried over to it."""
