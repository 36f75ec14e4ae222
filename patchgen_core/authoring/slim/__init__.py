"""Replacements that repeat upstream's text, made into edits that say what they change."""
