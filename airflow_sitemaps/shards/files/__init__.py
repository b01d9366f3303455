"""The file of a shard: its entries in order, its limits, and what is remembered of its URLs."""
