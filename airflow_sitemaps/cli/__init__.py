"""The command line: ``airflow-sitemaps build | plan | status | verify | rollback | adopt | find``."""

from __future__ import annotations

from airflow_sitemaps.cli.main import main as main
