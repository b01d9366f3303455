"""What the pages show of a sitemap and its runs."""
