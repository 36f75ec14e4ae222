"""What another release of upstream does to a project."""
