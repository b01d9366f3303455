"""Render entries from columns, without a Python object per row."""
