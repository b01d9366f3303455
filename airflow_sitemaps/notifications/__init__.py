"""Notifications about the runs of a sitemap, sent through Airflow's notifiers."""
