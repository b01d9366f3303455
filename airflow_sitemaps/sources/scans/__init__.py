"""Estimates of what a survey will scan, by the database's own planner, and the ceiling that refuses above one."""
