"""Entry point of ``python -m airflow_sitemaps.cli``."""

from __future__ import annotations

import sys

from airflow_sitemaps.cli.main import main

sys.exit(main())
