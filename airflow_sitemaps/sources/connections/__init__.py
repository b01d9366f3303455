"""Engines of Airflow connections, transactions, and driver errors."""
