"""The bounded HTTP client that verification and notifications share."""
