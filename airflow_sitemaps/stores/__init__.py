"""Stores of files: S3, Google Cloud Storage, Azure Blob Storage, a local folder, and memory."""
