"""A store in a local folder that a web server serves."""
