"""The pages in a real browser, over a real Airflow."""
