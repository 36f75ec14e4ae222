"""Python source and what it says: text, index, scopes, signatures, classes, forms."""
