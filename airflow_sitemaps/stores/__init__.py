"""Stores of files: S3, Azure Blob Storage, a local folder, and memory."""
