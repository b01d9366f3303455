"""The API of the pages: its routes, and what they need."""
