"""The API beneath the pages, in Airflow's own application."""
