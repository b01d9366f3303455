"""Entry point of ``python -m airflow_sitemaps.cli``."""

from airflow_sitemaps.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
