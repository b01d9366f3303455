"""Checks of the repository itself: layout, imports, names and wording."""
