"""Sensors and triggers that wait for a sitemap's data."""
