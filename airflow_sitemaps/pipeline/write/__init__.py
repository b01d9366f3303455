"""Write one batch of shards to private objects."""
