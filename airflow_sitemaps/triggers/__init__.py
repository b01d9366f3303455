"""The triggers that poll in Airflow's triggerer."""
