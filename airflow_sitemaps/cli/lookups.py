"""The commands that publish nothing: ``status``, ``find``, ``inventory``, ``diff``, ``indexnow-key`` and ``store-check``."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from airflow_sitemaps import pipeline
from airflow_sitemaps.cli.output import Answer
from airflow_sitemaps.cli.targets import TargetError, load_target
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import AccessRules
from airflow_sitemaps.pipeline.changes import AGES, MOST, Changes, TooManyChangesError, ages, compare, kept_manifest
from airflow_sitemaps.pipeline.find import UrlSearch, with_source
from airflow_sitemaps.pipeline.inventory import PERIODS, SectionInventory, count, export
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK
from airflow_sitemaps.pipeline.state.capability_probe import Reply, examine
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.pipeline.status import Status
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.quantities import counted, size
from airflow_sitemaps.report_text import trust_lines
from airflow_sitemaps.search_engines import announcer, fetches
from airflow_sitemaps.stores import FOLDER, default_connection, open_area, scheme_of
from airflow_sitemaps.stores.local.permissions import explained
from airflow_sitemaps.templates import rendered
from airflow_sitemaps.web_services import public_client

SAMPLES: Final = 20

_SERVED: Final = {True: "served", False: "NOT served", None: "not known"}
KINDS: Final = ("added", "changed", "removed")
AGE_TEXTS: Final = {"first_listed": "first listed", "changed_at": "changed", "gone": "gone"}


def status(arguments: argparse.Namespace) -> Answer:
    """Describe the published sitemap. The exit status is 1 if it is older than ``--max-age``, or nothing is published."""
    sitemap = load_target(arguments.target).sitemap
    state, summary = pipeline.status(sitemap), fetches.summary_of(sitemap.store.open().state)
    document, lines = state.to_dict(), [*_status_lines(state, sitemap.store.describe()), *fetches.lines(summary)]
    document["crawlers"] = msgspec.to_builtins(summary.crawlers)
    if arguments.max_age is None:
        return Answer(document=document, lines=lines)
    checked_at, limit = state.checked_at, arguments.max_age
    age = None if checked_at is None else SYSTEM_CLOCK.now() - datetime.fromisoformat(checked_at)
    fresh = age is not None and age <= limit
    document |= {"fresh": fresh, "age_s": None if age is None else round(age.total_seconds())}
    if age is None:
        lines.append(f"NOT fresh: no successful run yet; the limit is {_hours(limit)}")
    else:
        lines.append(
            f"{'fresh' if fresh else 'NOT fresh'}: last successful run {_hours(age)} ago; limit {_hours(limit)}"
        )
    return Answer(document=document, lines=lines, well=fresh)


def find(arguments: argparse.Namespace) -> Answer:
    """Say whether the published sitemap lists a URL. Exit status 1 when it does not."""
    target = load_target(arguments.target)
    try:
        search = pipeline.find(target.sitemap, arguments.url)
        if arguments.source:
            sitemap = rendered(target.sitemap, SYSTEM_CLOCK.now(), target.params_with(arguments.param))
            search = with_source(sitemap, search)
    except ConfigurationError as error:
        raise TargetError(str(error)) from error
    return Answer(document=search.to_dict(), lines=_search_lines(search), well=search.listed)


def inventory(arguments: argparse.Namespace) -> Answer:
    """Count the listed URLs by age, or write them with what the ledger knows as Parquet files."""
    sitemap = load_target(arguments.target).sitemap
    if arguments.to == "":
        raise TargetError("--to '': give a folder or the address of a store's folder")
    conn_id = connection_of(arguments.to or "", arguments.conn)
    if arguments.to is None:
        sections = count(pipeline.inventory(sitemap))
        lines = [line for section in sections for line in _inventory_lines(section)]
        return Answer(document={"sections": [asdict(section) for section in sections]}, lines=lines)
    area = open_area(arguments.to, conn_id)
    store, place = sitemap.store.open(), area.url("").rstrip("/")
    if any(f"{place}/".startswith(own.url("").rstrip("/") + "/") for own in (store.public, store.state)):
        raise TargetError(
            f"--to {arguments.to}: this is in the sitemap's own public area, which everyone may read, or in its state area, "
            "which holds only what runs keep. Give another folder"
        )
    done = export(sitemap, area)
    line = (
        f"{counted(done.urls, 'URL')} of generation {done.generation} in {counted(done.files, 'file')} below "
        f"{arguments.to}: {done.written:,} written, {done.removed:,} removed"
    )
    return Answer(document=asdict(done), lines=[line])


def connection_of(address: str, given: str | None) -> str | None:
    """Return the Airflow connection that reads an address in a store: the given one, or the store's default."""
    if given is not None and scheme_of(address) in (FOLDER, "http"):
        raise TargetError(f"--conn {given}: only an address such as s3://bucket/folder is read by it. Omit --conn")
    return given or default_connection(address)


def _inventory_lines(section: SectionInventory) -> Iterator[str]:
    unknown = f", {section.of_unknown_age:,} of unknown age" if section.of_unknown_age else ""
    yield f"section {section.section}: {counted(section.urls, 'URL')}{unknown}"
    periods = zip(PERIODS, section.listed, section.changed, strict=True)
    yield from (f"  in {counted(d, 'day')}: {new:,} listed first, {changed:,} changed" for d, new, changed in periods)


def diff(arguments: argparse.Namespace) -> Answer:
    """Count and sample the URLs that differ between two kept generations."""
    state = StateRepository(load_target(arguments.target).sitemap.store.open().state)
    try:
        current = state.published()
        old, new = (kept_manifest(state, current, number) for number in (arguments.before, arguments.after))
        changes = compare(state, old, new, most=MOST)
        ages_by_url = ages(state, old, new, [url for kind in KINDS for url in getattr(changes, kind)[:SAMPLES]])
    except ConfigurationError as error:
        raise TargetError(str(error)) from error
    except TooManyChangesError as error:
        error.args = (f"{error}, too many to compare; give generations that are closer together",)
        raise
    urls = {kind: getattr(changes, kind) for kind in KINDS}
    document = {
        "from_generation": changes.since,
        "to_generation": changes.generation,
        **{kind: len(every) for kind, every in urls.items()},
        "sections": {name: asdict(section) for name, section in changes.sections.items()},
        **{f"{kind}_samples": list(every[:SAMPLES]) for kind, every in urls.items()},
        "ages": ages_by_url,
    }
    return Answer(document=document, lines=_changes_lines(changes, ages_by_url))


def indexnow_key(arguments: argparse.Namespace) -> Answer:
    """Say whether each host of the sitemap serves the key file of IndexNow. Exit status 1 unless all do."""
    sitemap = load_target(arguments.target).sitemap
    rules = AccessRules(allow_http=arguments.allow_http, allow_private=arguments.allow_private)
    urls = [sitemap.base_url_of(section) for section in sitemap.sections]
    urls += [host if "://" in host else f"https://{host}" for host in sitemap.cross_submit]
    files = announcer.key_files(announcer.indexnow(arguments.conn), urls, replace(public_client(), rules=rules))
    return Answer(
        document={"key_files": [asdict(file) for file in files]},
        lines=[f"{_SERVED[file.served]}: {file}" for file in files],
        well=all(file.served for file in files),
    )


def _hours(age: timedelta) -> str:
    """Return an age such as ``26.0 h``; below an hour, such as ``5 min``."""
    minutes = age.total_seconds() / 60
    return f"{minutes:,.0f} min" if minutes < 60 else f"{minutes / 60:,.1f} h"


def _status_lines(found: Status, store: str) -> Iterator[str]:
    if not found.generation:
        yield f"nothing was published here yet: {store}"
        return
    yield (
        f"generation {found.generation} of {found.committed_at}: {counted(found.urls, 'URL')} in {counted(found.shards, 'shard')}, "
        f"{size(found.byte_size)}" + ("" if found.promoted else "; its promotion is not finished yet")
    )
    for name, section in found.sections.items():
        yield (
            f"section {name}: {counted(section.urls, 'URL')} of {counted(section.rows, 'row')} in {counted(section.shards, 'shard')}, last changed "
            f"in generation {section.changed_in}, newest lastmod {section.newest_lastmod or 'none'}"
        )
        if section.urls_changed:
            days = ", ".join(f"{date} {number:,}" for date, number in section.urls_changed.items())
            yield f"section {name}: URLs changed a day: {days}"
        if section.lastmod_trust is not None:
            yield from trust_lines(name, section.lastmod_trust)
    for note in reversed(found.history):
        yield (
            f"history: generation {note.generation} of {note.committed_at.isoformat()}: {note.action}, {counted(note.urls, 'URL')}, "
            f"{counted(note.shards, 'shard')}, {note.touched:,} touched, {size(note.byte_size)}"
            + (f"; partly published, without the changes of {', '.join(note.failed)}" if note.failed else "")
        )
    yield from (f"guards: run {each.run} of {each.at}: {line}" for each in found.guard_results for line in each.lines)
    yield from (f"index: {url}" for url in found.index_urls)


def _search_lines(search: UrlSearch) -> Iterator[str]:
    yield f"{'listed' if search.listed else 'NOT listed'} in generation {search.generation}: {search.url}"
    for match in search.matches:
        yield (
            f"section {match.section}: shard {match.shard}, {match.range}, "
            f"file last changed in generation {match.written_in}"
        )
        fields = (f"{name} {value}" for name, value in match.fields.items() if name not in AGES)
        yield "fields: " + (", ".join(fields) or "none")
        if age := _age(match.fields):
            yield f"ledger: {age}"
        yield f"file: {match.file_url}"
    if search.note:
        yield search.note
    every = search.shards_read >= search.shards_total
    yield f"files read: {'all ' if every else ''}{search.shards_read:,} of {search.shards_total:,}"


def _age(moments: Mapping[str, str]) -> str:
    """Say when a URL was listed first, changed last and left, as far as the ledger knows."""
    return ", ".join(f"{text} {moments[name]}" for name, text in AGE_TEXTS.items() if name in moments)


def _changes_lines(changes: Changes, ages_by_url: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    urls = {kind: getattr(changes, kind) for kind in KINDS}
    counts = ", ".join(f"{len(urls[kind]):,} {kind}" for kind in KINDS)
    yield f"URLs from generation {changes.since} to {changes.generation}: {counts}"
    for name, section in changes.sections.items():
        yield f"section {name}: {section.added:,} added, {section.changed:,} changed, {section.removed:,} removed"
    for kind in KINDS:
        for url in urls[kind][:SAMPLES]:
            age = _age(ages_by_url.get(url, {}))
            yield f"{kind}: {url}" + (f" ({age})" if age else "")
        if len(urls[kind]) > SAMPLES:
            yield f"{kind}: {len(urls[kind]) - SAMPLES:,} more, not shown"


def store_check(arguments: argparse.Namespace) -> Answer:
    """Ask one area of a store every question of the probe. Exit status 1 if nothing would be published there."""
    with _area(arguments.address, arguments.conn) as area:
        next(area.list(), None)  # a run lists it too, which may need a permission of its own
        replies = list(examine(area))
    accepted = all(reply.is_right for reply in replies if reply.is_needed)
    end = "Publishing is accepted." if accepted else "Publishing is refused."
    return Answer(
        document={
            "address": arguments.address,
            "accepted": accepted,
            "replies": [{**asdict(reply), "is_right": reply.is_right} for reply in replies],
        },
        lines=[*map(_line, replies), end],
        well=accepted,
    )


@contextmanager
def _area(address: str, conn_id: str | None) -> Iterator[ObjectStore]:
    """Open an area. In a folder, use a new one within it, because a local store keeps locks beside its files."""
    conn_id = connection_of(address, conn_id)
    if scheme_of(address) != FOLDER:
        yield open_area(address, conn_id)
        return
    if not address:
        raise TargetError("ADDRESS '': give a folder or the address of a store")
    folder = Path(address.removeprefix("file://"))
    with explained("inspect", folder):
        folder = folder.expanduser()
        is_folder = folder.is_dir()
    if not is_folder:
        raise ConfigurationError(f"{folder}: there is no such folder. Create it, or correct the path")
    try:
        new = tempfile.TemporaryDirectory(prefix=".airflow-sitemaps-", dir=folder)
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: no folder can be made here ({error.strerror}). Permit it to this user, or mount it writable"
        ) from None
    with new as inner:
        yield open_area(inner, None)


def _line(reply: Reply) -> str:
    answer = {"done": "yes", "refused": "refused", "lost": "no clear answer"}[reply.outcome]
    line = f"{'ok   ' if reply.is_right else 'WRONG'}  {reply.question}: {answer} ({1000 * reply.seconds:.0f} ms)"
    if reply.is_right:
        return line
    return f"{line}. Wanted: {reply.wanted}. {reply.effect[:1].upper()}{reply.effect[1:]}" + (
        f". {reply.detail}" if reply.detail else ""
    )
