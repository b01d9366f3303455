"""Messages to people about the runs of a sitemap, through Airflow's notifiers."""
