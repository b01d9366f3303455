"""The thin Airflow layer: operators that open, call the pipeline, log, return."""
