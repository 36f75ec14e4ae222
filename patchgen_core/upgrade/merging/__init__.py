"""The three-way merge of one definition."""
