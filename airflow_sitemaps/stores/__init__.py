"""Where files go: S3, a local folder, memory."""
