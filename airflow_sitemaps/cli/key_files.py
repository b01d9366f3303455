"""The command that checks the key file of IndexNow."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from airflow_sitemaps.cli.answer import Answer
from airflow_sitemaps.cli.dag_target import load_target
from airflow_sitemaps.http.destinations import AccessRules
from airflow_sitemaps.search_engines import indexnow

if TYPE_CHECKING:
    import argparse

_WORDS = {True: "served", False: "NOT served", None: "not known"}


def indexnow_key(arguments: argparse.Namespace) -> Answer:
    """Say whether each host of the sitemap serves the key file of IndexNow. Exit status 1 unless all do."""
    sitemap = load_target(arguments.target).sitemap
    rules = AccessRules(allow_http=arguments.allow_http, allow_private=arguments.allow_private)
    urls = [sitemap.base_url_of(section) for section in sitemap.sections]
    files = indexnow.key_files(indexnow.indexnow(arguments.conn), urls, replace(indexnow.key_reader(), rules=rules))
    return Answer(
        document={"key_files": [asdict(file) for file in files]},
        lines=[f"{_WORDS[file.served]}: {file}" for file in files],
        well=all(file.served for file in files),
    )
