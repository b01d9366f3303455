"""A store in S3, or in a store that implements its protocol."""
