"""Stores of files: S3, a local folder, and memory."""
