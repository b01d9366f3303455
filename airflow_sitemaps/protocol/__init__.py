"""Entries to bytes and back, by the rules of sitemaps.org and the search engines. Pure: no I/O, no clock."""
