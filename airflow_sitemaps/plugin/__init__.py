"""The pages in the Airflow UI, and the API beneath them."""
