"""The queries of a source: boundaries, digests, changed ranges, duplicates. Each takes a ``QueryContext``."""
