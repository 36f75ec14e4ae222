"""What the service remembers: its tables, their migrations, and copies of them."""
