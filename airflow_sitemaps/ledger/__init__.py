"""The ledger: when each URL was listed first and changed last, in a private Parquet part beside each shard's body. Pure."""
