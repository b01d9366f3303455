"""Fingerprint of all settings that a section's files depend on. If it changes, a run renders the files again."""

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
"""Version of the renderer and the rules; increase it if equal rows are written differently than before.

A changed default of a rule needs a new version. A new rule needs one only if it must apply to unchanged rows at once:
with a new version, every row of every user is read again.
"""


def fingerprint(sitemap: Sitemap, section: Section) -> str:
    """Return 64 hexadecimal digits that depend on a section's source, mapping, rules, limits, format and renderer.

    They do not depend on the digest's expression, which the manifest records separately. They do not depend on the
    sizes of shards either: a change of sizes cuts and joins only the ranges that need it.
    """
    depends: dict[str, object] = {
        "renderer": RENDERER,
        "source": section.source.identity(),
        "rules": sitemap.rulebook(section).changed(),
        "limits": sitemap.limits_of(section).name,
        "kind": section.kind,
        "format": section.format,
        "base_url": sitemap.base_url_of(section),
        "cross_submit": sorted(sitemap.cross_submit),
    }
    if sitemap.must_list:  # a write records which shard lists them
        depends["must_list"] = sorted(sitemap.must_urls)
    return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()


def check_unchanged(sitemap: Sitemap, plan: Plan, names: Iterable[str]) -> None:
    """Refuse a plan that was made with another configuration, because its fingerprints would not match the files."""
    sections = {section.name: section for section in sitemap.sections}
    back = [name for name in plan.retired if name in sections]
    if back:
        raise ConfigurationError(
            f"run {plan.run} removes section {back[0]!r}, but the code has it now: the DAG was changed between two "
            "tasks of this run. Nothing of this run was published and nothing is lost: run the DAG again."
        )
    for name in names:
        if name not in sections:
            what = "is no longer in the code"
        elif fingerprint(sitemap, sections[name]) != plan.sections[name].fingerprint:
            what = "has a different configuration than when this run was planned"
        else:
            continue
        raise ConfigurationError(
            f"section {name!r} {what}: the DAG was changed between two tasks of run {plan.run}. Nothing of this run was "
            "published and nothing is lost: run the DAG again, or clear this run's tasks from the plan task onwards."
        )
