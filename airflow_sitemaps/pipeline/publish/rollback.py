"""Roll back: publish an earlier generation again, as a new one."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from airflow_sitemaps.errors import ConfigurationError, ConflictError, StoreContentError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.publish import public_files
from airflow_sitemaps.pipeline.publish.commit_files import attach, commit_facts
from airflow_sitemaps.pipeline.publish.promotion import roll_forward
from airflow_sitemaps.pipeline.publish.publisher import finish, put_manifest
from airflow_sitemaps.pipeline.report import Report, make_report
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, OpenSitemap, members_of
from airflow_sitemaps.pipeline.state.capability_probe import ensure_conditions
from airflow_sitemaps.pipeline.state.identity import check_origin, check_owner, check_stamp
from airflow_sitemaps.pipeline.state.repository import StateRepository, new_run
from airflow_sitemaps.ports import QUIET, Clock, Progress
from airflow_sitemaps.shards.commit import complete, first_serial
from airflow_sitemaps.shards.guards.judgement import day_of, recent_days
from airflow_sitemaps.shards.layout import FEED_NAMES, Format, shard_name
from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionManifest, restore, succeed

if TYPE_CHECKING:
    from airflow_sitemaps.shards.section_commit import CommitFacts
    from airflow_sitemaps.sitemap import Sitemap


def rollback(
    sitemap: Sitemap,
    generation: int,
    *,
    origin: str = "",
    allow: Sequence[str] = (),
    since: datetime | None = None,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Report:
    """Publish an earlier generation again, as a new one. Files that another program changed or deleted are put again.

    The next run surveys the source as usual and publishes the source's state at that time. Pause the DAG, or correct
    the source first. ``origin`` is the deployment that rolls back (default: "", not known). The permit ``moved`` in
    ``allow`` lets one roll back that did not publish last. A rollback to the generation at or after ``since`` (default: None)
    counts as an earlier try of this one, which is not repeated.

    Raises:
        ConfigurationError: The generation is not kept.
        ConflictError: Another run committed first, or after an earlier try.
        GuardError: Another deployment published last.
        OwnershipError: Another pipeline replaced a file.
    """
    started = clock.now()
    opened = OpenSitemap.of(sitemap, clock, progress)
    ensure_conditions(opened.store, sitemap.store.single_writer)
    current = opened.state.current()
    if current is None:
        raise ConfigurationError(
            f"nothing was ever published at {sitemap.store.describe()}: there is no generation yet"
        )
    check_owner(opened.sitemap, current.manifest)
    run = new_run(clock)
    if origin:
        check_origin(current.manifest, origin, allow, run=run)
    action = f"rollback to {generation}"
    is_again = False
    if not current.manifest.promoted:
        promoted = roll_forward(opened, current)
        if promoted.manifest.generation != current.manifest.generation:
            raise ConflictError(
                f"another run committed generation {promoted.manifest.generation} first; nothing was rolled back. "
                "Look at the status, then try again."
            )
        current = promoted
        is_again = current.manifest.history[-1].action == action  # of a try that failed
    own = [n for n in current.manifest.history if n.action == action and since is not None and n.committed_at >= since]
    if own and own[-1].run != current.manifest.run:
        raise ConflictError(
            f"this run rolled back before, and generation {current.manifest.generation} of run {current.manifest.run} has "
            "replaced that: nothing is left to do for this task. To roll back again, start a new run."
        )
    if current.manifest.promoted and (is_again or own):
        return _reported(opened, started, opened.state.generation(current.manifest.generation - 1), current.manifest)
    old = current.manifest
    earlier = _earlier(opened.state, old, generation)
    opened = opened.of_members(members_of(earlier))
    facts = commit_facts(opened, old)
    listing = public_files.look(opened.store)
    drifted: dict[str, str | None] = {}
    for state in old.sections.values():
        names = [shard.file.name if shard.file is not None else "" for shard in state.shards]
        files = public_files.find(opened.store, old, state, listing).files
        drifted |= {names[position]: etag for position, etag in files.items()}
    for name in (name for name, etag in drifted.items() if etag is not None):
        if (info := opened.store.public.head(name)) is not None:
            check_stamp(opened.store.public.url(name), info, old)
    etags = {**facts.index_etags, **drifted}
    texts_of = earlier if any(file.name in FEED_NAMES.values() for file in earlier.extras) else None
    facts = dataclasses.replace(facts, index_etags=etags)
    manifest = attach(opened, old, rolled_back(old, earlier, facts, run, listing), facts, texts_of=texts_of)
    manifest = complete(old, manifest, facts, action=action)
    new = [file for file in manifest.public_files() if file.etag is None]
    sound = mapped(lambda file: public_files.is_sound(opened.store, file), new, "sitemap-check")
    for damaged in (file for file, whole in zip(new, sound, strict=True) if not whole):
        raise StoreContentError(
            f"{opened.store.state.url(damaged.body)}, the body of {damaged.name} in generation {generation}, is missing or "
            "damaged. Nothing was rolled back: roll back to another generation, or correct the source and run the DAG."
        )
    version, bodies = put_manifest(opened, current, manifest, has_bodies=None)
    if version is None:
        raise ConflictError("another run committed first; nothing was rolled back. Look at the status, then try again.")
    done, swept = finish(opened, version, fresh=True, bodies=bodies)
    return _reported(opened, started, old, done.manifest, swept=swept)


def _reported(opened: OpenSitemap, started: datetime, old: Manifest | None, new: Manifest, **fields: Any) -> Report:
    """Make and store the report of the rollback that a generation is."""
    now = opened.clock.now()
    report = make_report(
        None,
        (),
        old=old,
        new=new,
        run=new.run,
        result="published",
        started_at=started.isoformat(),
        finished=now,
        seconds={"publish": (now - started).total_seconds()},
        action=new.history[-1].action,
        **fields,
    )
    opened.state.write_report(report)
    return report


def _earlier(state: StateRepository, current: Manifest, generation: int) -> Manifest:
    # A sweep may have removed bodies of a generation that left the history, even if its manifest is still stored.
    kept = [note.generation for note in current.history[:-1]]
    earlier = state.generation(generation) if generation in kept else None
    if earlier is None:
        why = "its manifest is missing; " if generation in kept else ""
        raise ConfigurationError(
            f"generation {generation} cannot be rolled back to: {why}the current one is {current.generation}, and the "
            f"earlier ones kept are: {', '.join(map(str, kept)) or 'none'}"
        )
    return earlier


def rolled_back(current: Manifest, earlier: Manifest, facts: CommitFacts, run: str, taken: Collection[str]) -> Manifest:
    """Compute the manifest that publishes an earlier generation's content as the next generation. Pure.

    A file keeps its name if its key range is still the same. If ranges have moved since, entries would move between
    files, so those files get new names, and none that is ``taken``.
    """
    sections = {name: _section(current, state, facts, taken) for name, state in earlier.sections.items()}
    return Manifest(
        generation=current.generation + 1,
        write_id=facts.write_id,
        run=run,
        owner=current.owner,
        base_url=current.base_url,
        committed_at=facts.now,
        sections=sections,
        gone=earlier.gone,
        state_id=facts.state_id,
        origin=current.origin,
        headers=current.headers,
    )


def _section(current: Manifest, then: SectionManifest, facts: CommitFacts, taken: Collection[str]) -> SectionManifest:
    now, generation = current.sections.get(then.name), current.generation + 1
    same_place = now is not None and (now.path, now.base_url) == (then.path, then.base_url)
    public = {shard.file.name: shard for shard in now.shards if shard.file is not None} if now and same_place else {}
    serial = max(then.next_serial, first_serial(current, then.name))
    shards = []
    for shard in then.shards:
        if shard.file is None:
            shards.append(shard)
            continue
        there = public.get(shard.file.name)
        if there is not None and there.file is not None and there.range == shard.range:
            file = _again(there.file, shard.file, facts)
        else:
            form: Format = "text" if shard.file.name.endswith(".txt.gz") else "xml"
            while (name := shard_name(then.path, then.name, serial, form)) in taken:
                serial += 1
            fresh = replace(shard.file, name=name, etag=None, replaces=None)
            file = replace(fresh, modified_at=facts.now, past=(), variant=0)
            serial += 1
        unchanged = there is not None and there.file == file
        shards.append(replace(shard, file=file, written_in=there.written_in if there and unchanged else generation))
    # A rollback to fewer URLs is intended: keeping the greatest number of the week would refuse every later run.
    day, week = day_of(then), recent_days(now, facts.now) if now is not None else {}
    days = {date: replace(day, changed=own.changed, trust=own.trust) for date, own in week.items()}
    days.setdefault(facts.now.date().isoformat(), day)
    compared = any(shard.part is not None and not shard.part.observed for shard in then.shards)
    rolled_back_at = then.dated_at and max(facts.now, (now and now.dated_at) or facts.now)
    return replace(
        then,
        shards=tuple(shards),
        changed_in=generation,
        next_serial=serial,
        days=days,
        known=then.known and replace(then.known, version="", watermark=None),
        permitted_requests=(now or then).permitted_requests,
        question=None,
        # Crawlers know what is rolled back: its URLs are not new in the next run. Compared dates are still as read then.
        dated_at=then.dated_at if compared else rolled_back_at,
    )


def _again(now: PublicFile, then: PublicFile, facts: CommitFacts) -> PublicFile:
    """Return an earlier content under the name that it still has."""
    if now.xml_hash == then.xml_hash:
        return restore(now, facts.index_etags[now.name], facts.now) if now.name in facts.index_etags else now
    fresh = replace(then, etag=None, replaces=facts.index_etags.get(now.name, now.etag), modified_at=facts.now)
    return succeed(now, fresh)
