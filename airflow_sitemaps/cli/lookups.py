"""The commands that read what generations list: ``find`` and ``diff``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.cli.answer import Answer
from airflow_sitemaps.cli.dag_target import load_target
from airflow_sitemaps.cli.target import TargetError
from airflow_sitemaps.cli.template_renderer import rendered
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline import find as find_url
from airflow_sitemaps.pipeline.changes import MOST, TooManyChangesError, compare
from airflow_sitemaps.pipeline.clock import SYSTEM_CLOCK
from airflow_sitemaps.pipeline.source_row import with_source
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards.key import show

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_sitemaps.pipeline.changes import Changes
    from airflow_sitemaps.pipeline.find import UrlMatch, UrlSearch

SAMPLES: Final = 20
"""URLs of each kind that ``diff`` shows."""

KINDS: Final = ("added", "changed", "removed")
"""The ways in which a URL differs between two generations."""


def find(arguments: argparse.Namespace) -> Answer:
    """Say whether the published sitemap lists a URL. Exit status 1 when it does not."""
    target = load_target(arguments.target)
    try:
        search = find_url(target.sitemap, arguments.url)
        if arguments.source:
            sitemap = rendered(target.sitemap, SYSTEM_CLOCK.now(), {**target.params, **dict(arguments.param)})
            search = with_source(sitemap, search)
    except ConfigurationError as error:
        raise TargetError(str(error)) from error
    return Answer(document=_search_document(search), lines=_search_lines(search), well=search.listed)


def diff(arguments: argparse.Namespace) -> Answer:
    """Count and sample the URLs that differ between two kept generations."""
    state = StateRepository(load_target(arguments.target).sitemap.store.open().state)
    try:
        changes = compare(state, since=arguments.before, generation=arguments.after, most=MOST)
    except ConfigurationError as error:
        raise TargetError(str(error)) from error
    except TooManyChangesError as error:
        raise TooManyChangesError(
            f"{error}, too many to compare; give generations that are closer together",
            generation=error.generation,
            since=error.since,
        ) from error
    return Answer(document=_changes_document(changes), lines=_changes_lines(changes))


def _search_document(search: UrlSearch) -> dict[str, Any]:
    return {
        "url": search.url,
        "generation": search.generation,
        "listed": search.listed,
        "matches": [_match_document(match) for match in search.matches],
        "shards_read": search.shards_read,
        "shards_total": search.shards_total,
        "complete": search.complete,
        "note": search.note,
    }


def _match_document(match: UrlMatch) -> dict[str, Any]:
    lower, upper = match.range.lower, match.range.upper
    return {
        "section": match.section,
        "shard": match.shard,
        "file_url": match.file_url,
        "lower": None if lower is None else show(lower),
        "upper": None if upper is None else show(upper),
        "written_in": match.written_in,
        "fields": dict(match.fields),
    }


def _search_lines(search: UrlSearch) -> Iterator[str]:
    yield f"{'listed' if search.listed else 'NOT listed'} in generation {search.generation}: {search.url}"
    for match in search.matches:
        yield (
            f"section {match.section}: shard {match.shard}, {match.range}, "
            f"file last changed in generation {match.written_in}"
        )
        yield "fields: " + (", ".join(f"{name} {value}" for name, value in match.fields.items()) or "none")
        yield f"file: {match.file_url}"
    if search.note:
        yield search.note
    every = search.shards_read >= search.shards_total
    yield f"files read: {'all ' if every else ''}{search.shards_read:,} of {search.shards_total:,}"


def _changes_document(changes: Changes) -> dict[str, Any]:
    counts = {kind: len(getattr(changes, kind)) for kind in KINDS}
    samples = {f"{kind}_samples": list(getattr(changes, kind)[:SAMPLES]) for kind in KINDS}
    sections = {name: asdict(section) for name, section in changes.sections.items()}
    return {
        "from_generation": changes.since,
        "to_generation": changes.generation,
        **counts,
        "sections": sections,
        **samples,
    }


def _changes_lines(changes: Changes) -> Iterator[str]:
    urls = {kind: getattr(changes, kind) for kind in KINDS}
    counts = ", ".join(f"{len(urls[kind]):,} {kind}" for kind in KINDS)
    yield f"URLs from generation {changes.since} to {changes.generation}: {counts}"
    for name, section in changes.sections.items():
        yield f"section {name}: {section.added:,} added, {section.changed:,} changed, {section.removed:,} removed"
    for kind in KINDS:
        yield from (f"{kind}: {url}" for url in urls[kind][:SAMPLES])
        if len(urls[kind]) > SAMPLES:
            yield f"{kind}: {len(urls[kind]) - SAMPLES:,} more, not shown"
