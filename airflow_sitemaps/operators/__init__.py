"""Airflow operators: a thin layer that calls the pipeline, logs, and returns the result."""
