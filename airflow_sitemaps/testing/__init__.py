"""Fakes, strategies and invariants that users can import into their own tests."""
