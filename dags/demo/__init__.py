"""A demonstration that needs only this package: real places, an embedded warehouse, S3 in this process, Airflow."""
