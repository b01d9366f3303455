"""Estimates of the bytes that a survey will scan, from the database's planner, and the limit of a survey."""
