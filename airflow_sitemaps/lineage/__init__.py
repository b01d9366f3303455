"""Lineage of sitemaps as OpenLineage events. It needs Airflow's OpenLineage provider, which is optional."""
