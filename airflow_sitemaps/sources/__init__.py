"""Sources of entries: SQL databases, lists and files."""
