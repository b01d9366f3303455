"""S3, and stores that implement its protocol."""
