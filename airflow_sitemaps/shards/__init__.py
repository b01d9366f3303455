"""Key ranges, digests, the manifest, and the pure functions that plan what is to be written."""
