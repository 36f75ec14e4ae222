"""The pieces of HTML reports: pages of one file each that need no other."""
