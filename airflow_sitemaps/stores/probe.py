"""The probe of conditional writes, under the name by which users of stores look for it."""

from airflow_sitemaps.pipeline.conditions import ensure_conditions, forget, probe

__all__ = ["ensure_conditions", "forget", "probe"]
