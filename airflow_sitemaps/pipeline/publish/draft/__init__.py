"""Drafts: the next manifest before its commit, made and checked."""
