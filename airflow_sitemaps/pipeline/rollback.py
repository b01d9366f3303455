"""Roll back: publish an earlier generation again, as a new one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_sitemaps.shards.commit import first_serial, succeed
from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionState, Shard
from airflow_sitemaps.shards.naming import shard_name

if TYPE_CHECKING:
    from airflow_sitemaps.shards.commit import CommitFacts
    from airflow_sitemaps.shards.naming import Format


def rolled_back(current: Manifest, earlier: Manifest, facts: CommitFacts, run: str) -> Manifest:
    """The manifest that publishes an earlier generation's content as the next generation. Pure.

    A file whose key range is the same now keeps its name; where ranges moved since, entries would move between
    files, so those files get fresh names.
    """
    generation = current.generation + 1
    sections = {
        name: _section(current.sections.get(name), state, facts, generation, first_serial(current, name))
        for name, state in earlier.sections.items()
    }
    return Manifest(
        generation=generation,
        write_id=facts.write_id,
        run=run,
        owner=current.owner,
        base_url=current.base_url,
        committed_at=facts.now,
        sections=sections,
        indexes=(),
    )


def _section(
    now: SectionState | None, then: SectionState, facts: CommitFacts, generation: int, serial: int
) -> SectionState:
    same_place = now is not None and (now.path, now.base_url) == (then.path, then.base_url)
    public = {shard.file.name: shard for shard in now.shards if shard.file is not None} if now and same_place else {}
    serial = max(then.next_serial, serial)
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
            file = replace(
                shard.file,
                name=shard_name(then.path, then.name, serial, form),
                etag=None,
                replaces=None,
                modified_at=facts.now,
                past=(),
                variant=0,
            )
            serial += 1
        shards.append(_restored(shard, file, there, generation))
    # Whoever rolls back wants so few: the greatest of the week would refuse every run from here on.
    peaks = {facts.now.date().isoformat(): then.urls}
    return replace(then, shards=tuple(shards), changed_in=generation, next_serial=serial, peaks=peaks)


def _again(now: PublicFile, then: PublicFile, facts: CommitFacts) -> PublicFile:
    """An earlier content under the name it still has."""
    if now.xml_sha256 == then.xml_sha256:
        return now
    fresh = replace(then, etag=None, replaces=now.etag, modified_at=facts.now)
    return succeed(now, fresh)


def _restored(shard: Shard, file: PublicFile, there: Shard | None, generation: int) -> Shard:
    written_in = there.written_in if there is not None and there.file == file else generation
    return replace(shard, file=file, written_in=written_in)
