"""Measurements of this package and of what people use instead, side by side. See README.md beside this file."""
