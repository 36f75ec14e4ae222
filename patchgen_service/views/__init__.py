"""What pages and the API show: queries that only read, and give frozen values."""
