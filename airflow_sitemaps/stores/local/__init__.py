"""A local folder that a web server serves."""
