"""Announcements to other services: IndexNow, Search Console and pings."""
