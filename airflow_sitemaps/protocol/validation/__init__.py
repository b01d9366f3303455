"""Read sitemap files and check them against every rule."""
