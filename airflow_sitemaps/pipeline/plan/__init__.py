"""Decide what a run changes: survey the sources, compare with the manifest."""
