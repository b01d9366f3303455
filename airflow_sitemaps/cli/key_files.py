"""The command that checks the key file of IndexNow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_sitemaps.cli.answer import Answer
from airflow_sitemaps.cli.dag_target import load_target
from airflow_sitemaps.http.destinations import AccessRules
from airflow_sitemaps.search_engines import connections, key_file

if TYPE_CHECKING:
    import argparse

_WORDS = {True: "served", False: "NOT served", None: "not known"}


def indexnow_key(arguments: argparse.Namespace) -> Answer:
    """Say whether each host of the sitemap serves the key file of IndexNow. Exit status 1 unless all do."""
    sitemap = load_target(arguments.target).sitemap
    rules = AccessRules(allow_http=arguments.allow_http, allow_private=arguments.allow_private)
    urls = [sitemap.base_url_of(section) for section in sitemap.sections]
    files = key_file.key_files(connections.indexnow(arguments.conn), urls, replace(key_file.reader(), rules=rules))
    return Answer(
        document={"key_files": [file.to_dict() for file in files]},
        lines=[f"{_WORDS[file.served]}: {file}" for file in files],
        well=all(file.served for file in files),
    )
