"""What ``patchgen --check`` found out."""
