"""Metrics of sitemap runs, sent through Airflow's own stats (StatsD, Datadog or OpenTelemetry)."""
