"""Key ranges, digests, the manifest, and the pure functions that decide what a run writes."""
