"""What a section's files depend on beside the data, in one line: when it changes, they are rendered again."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.sitemap import Section, Sitemap

RENDERER: Final = 1
"""Version of the renderer: raise it when equal rows would be written otherwise than before."""


def fingerprint(sitemap: Sitemap, section: Section) -> str:
    """64 hexadecimal digits of the section's source, mapping, rules, limits, format and renderer.

    The digest's expression is not in it: it stands beside it in the manifest. Sizes of shards are not either: a
    change of them cuts and joins what has to be, and leaves the rest.
    """
    depends = {
        "renderer": RENDERER,
        "source": section.source.identity(),
        "rules": {name: verdict.value for name, verdict in sitemap.rulebook(section).verdicts.items()},
        "limits": sitemap.limits_of(section).name,
        "kind": section.kind,
        "format": section.format,
        "base_url": sitemap.base_url_of(section),
        "cross_submit": sorted(sitemap.cross_submit),
    }
    return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()


def check_unchanged(sitemap: Sitemap, plan: Plan, names: Iterable[str]) -> None:
    """Refuse to go on with a plan that other code made: its fingerprint would then tell of files made otherwise.

    Raises:
        ConfigurationError: one of the sections ``names`` of the plan is gone from the code, or configured otherwise.
    """
    sections = {section.name: section for section in sitemap.sections}
    for name in names:
        if name not in sections:
            what = "is no longer in the code"
        elif fingerprint(sitemap, sections[name]) != plan.sections[name].fingerprint:
            what = "is configured otherwise than when this run was planned"
        else:
            continue
        raise ConfigurationError(
            f"section {name!r} {what}: the DAG was changed between two tasks of run {plan.run}. Nothing of this run was "
            "published and nothing is lost: run the DAG again, or clear this run from its plan task on."
        )
