"""Example DAGs: one for each way in which a run starts, and one for each store. Airflow lists them with ``load_examples``."""
