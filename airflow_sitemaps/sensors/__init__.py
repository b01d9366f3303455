"""Sensors that wait for a sitemap's data."""
