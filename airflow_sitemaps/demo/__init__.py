"""A demonstration that needs nothing but this package: real places, an embedded warehouse, S3 in-process, Airflow."""
