"""What runs on each supported release of Airflow, in an environment of its own: ``make test-airflow AIRFLOW=3.1``."""
