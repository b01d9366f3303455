"""Use cases over ports: plan, write, publish, verify, rollback, sweep, build."""

from airflow_sitemaps.pipeline.build import build

__all__ = ["build"]
