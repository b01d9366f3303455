"""Telling the world, and asking it: HTTP, IndexNow, Search Console, pings."""
