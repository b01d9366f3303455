"""A demonstration on this machine: real places, an embedded warehouse, S3 in this process, Airflow."""
