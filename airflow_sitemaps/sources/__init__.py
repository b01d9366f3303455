"""Where entries come from: SQL, by dialect and driver."""
