"""Invariants of publishing, checked from outside after every operation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.pipeline.state.repository import MANIFEST
from airflow_sitemaps.protocol.extensions.languages import NEWS_WINDOW
from airflow_sitemaps.shards import codec
from airflow_sitemaps.shards.layout import RECENT
from airflow_sitemaps.shards.plan import plan_key
from airflow_sitemaps.shards.ranges import is_partition
from tests.simulation.content import Content, parsed
from tests.simulation.dagfile import REWRITE_AFTER
from tests.simulation.gone_oracle import WrongGoneError
from tests.simulation.ledger_oracle import BrokenLawError
from tests.simulation.oracle import MARGIN, WrongListingError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import datetime

    from airflow_sitemaps.shards.guards import Guards
    from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionManifest
    from airflow_sitemaps.shards.plan import SectionPlan
    from airflow_sitemaps.shards.ranges import Digest, KeyRange
    from tests.simulation.gone_oracle import GoneOracle
    from tests.simulation.ledger_oracle import LedgerOracle
    from tests.simulation.oracle import Oracle


NOT_SHARDS: Final = ("recent", "gone.xml.gz")
"""Beginnings of the names of listed files that are no shards. The URLs of the second are not listed ones."""


class BrokenInvariantError(AssertionError):
    """An invariant does not hold.

    Attributes:
        invariant: Its name: I1 to I6, names, steady, sweep, progress, recent, ledger, gone or oracle.
        lines: The trace of the history.
    """

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.lines: tuple[str, ...] = ()


@dataclass(slots=True)
class InvariantChecker:
    """Follows the calls to a memory store, and checks what a crawler would see after each.

    Attributes:
        store: The store without faults.
        grace_s: Time in seconds for which files that left the index must stay.
        guards: The guards that every commit must respect. None: no guards are set.
        moved: URLs of rows whose key changed. They may be missing while two files are promoted.
        tampered: Whether another program changed public files, so that only the end of the history is checked.
        oracle: Knows which URLs must be listed. None: this is not checked.
        ledger: Knows when each URL was listed first and changed last. None: this is not checked.
        gone: Knows which URLs are gone. None: this is not checked.
        turn: Returns the current turn.
        manifest: The last committed manifest.
        promoted: The last manifest whose promotion is complete.
        generations: Every manifest by its generation.
        crawls: Number of times the public area was read.
        checked: Number of compared URLs.
    """

    store: Any
    grace_s: float
    guards: Guards | None = None
    moved: set[str] = field(default_factory=set)
    tampered: bool = False
    oracle: Oracle | None = None
    ledger: LedgerOracle | None = None
    gone: GoneOracle | None = None
    turn: Callable[[], int] = lambda: 0
    manifest: Manifest | None = None
    promoted: Manifest | None = None
    generations: dict[int, Manifest] = field(default_factory=dict)
    crawls: int = 0
    checked: int = 0
    _reported: BrokenInvariantError | None = None
    _seen: int = 0
    _contents: dict[bytes, Content] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _committed: dict[tuple[str, str], int] = field(default_factory=dict)
    """The last generation that committed each name with each content."""
    _index_generation: dict[str, int] = field(default_factory=dict)
    _locs: dict[int, Counter[str]] = field(default_factory=dict)
    _before_the_loss: Counter[str] = field(default_factory=Counter)

    def report(self, broken: BrokenInvariantError) -> None:
        """Record an error that an actor found. The next check raises it."""
        self._reported = self._reported or broken

    def check(self) -> None:
        """Check everything that changed since the last check.

        Raises:
            BrokenInvariantError: An invariant does not hold.
        """
        if self._reported is not None:
            raise self._reported
        changed = False
        log = self.store.log
        while self._seen < len(log):
            call = log[self._seen]
            self._seen += 1
            if call.verb == "put" and not call.refused:
                changed |= self._put(call.area, call.key)
            elif call.verb == "delete" and not call.refused:
                changed |= self._deleted(call.area, call.key)
        if changed and not self.tampered:
            self.crawl()

    def state_lost(self) -> None:
        """Reset the checks after the state area was lost. The public files stay."""
        if self.promoted is not None:
            self._before_the_loss = self.locs_of(self.promoted)
        if self.ledger is not None:
            self.ledger.state_lost(self.promoted)
        self.manifest = self.promoted = self.oracle = None
        self.generations.clear()
        self.gone = None
        self._locs.clear()
        self._gone.clear()
        self._index_generation.clear()

    def crawl(self) -> None:
        """Read the index and every listed file, and compare them with the commit (I1, I2, I6)."""
        self.crawls += 1
        listed: Counter[str] = Counter()
        for name in self.listed():
            content = self.content(name)
            if content is None:
                raise BrokenInvariantError("I1", f"{name} is listed and not there")
            if content.kind != "urlset" or not content.locs:
                raise BrokenInvariantError("I1", f"{name} is listed and is {content.kind} of {len(content.locs)} URLs")
            if name.startswith(NOT_SHARDS):
                continue
            listed.update(content.locs)
        self._compare(listed)

    def unchanged(self, run: str) -> None:
        """Compare the public area after a run without changes with the oracle. The next check raises a difference."""
        if self.oracle is None:
            return
        try:
            self.oracle.unchanged(self.turn(), run, self.locs())
        except WrongListingError as error:
            self.report(BrokenInvariantError("oracle", str(error)))

    def listed(self) -> list[str]:
        """Return the public names in the indexes that robots.txt names, in order."""
        names: list[str] = []
        current = self.promoted or self.manifest
        for index in current.indexes if current is not None else ():
            content = self.content(index.name)
            if self.promoted is None and (content is None or (index.name, content.hash) not in self._committed):
                continue  # another program's index, until ours is there
            if content is None:
                if self.promoted is not None:
                    raise BrokenInvariantError("I1", f"the index {index.name} is gone")
                continue
            names += [loc.removeprefix(self.store.base_url) for loc in content.locs]
        return names

    def locs(self) -> set[str]:
        """Return every URL in a listed file."""
        contents = [self.content(name) for name in self.listed() if name != NOT_SHARDS[1]]
        return {loc for content in contents if content is not None for loc in content.locs}

    def readable(self) -> set[str]:
        """Return every URL in a listed file, or none while another program's file is in the way of a crawler."""
        try:
            return self.locs()
        except BrokenInvariantError:
            if not self.tampered:
                raise
            return set()

    def content(self, name: str) -> Content | None:
        """Return the decoded content of a public file, or None if there is no such file.

        Raises:
            BrokenInvariantError: The file is damaged.
        """
        stored = self.store.public.objects.get(name)
        return None if stored is None else self._read(name, stored.body)

    def locs_of(self, manifest: Manifest) -> Counter[str]:
        """Return how often the shards of a manifest list each loc."""
        locs = self._locs.get(manifest.generation)
        if locs is None:
            locs = Counter()
            for section in manifest.sections.values():
                for file in section.files():
                    locs.update(self._body(file).locs)
            self._locs[manifest.generation] = locs
        return locs

    # ------------------------------------------------------------ calls

    def _put(self, area: str, key: str) -> bool:
        if area == "state":
            return self._manifest_put() if key == MANIFEST else False
        if self.tampered:
            return True
        content = self.content(key)
        assert content is not None
        generation = self._committed.get((key, content.hash))
        if generation is None:
            raise BrokenInvariantError("I6", f"{key} became public with a content that no generation committed")
        if content.kind == "sitemapindex":
            newest = self._index_generation.get(key, 0)
            if generation < newest:
                raise BrokenInvariantError("I3", f"{key} of generation {newest} was replaced by {generation}'s")
            self._index_generation[key] = generation
        return True

    def _deleted(self, area: str, key: str) -> bool:
        if area == "public":
            # A late put may restore an index that was removed; the next sweep removes it.
            self._index_generation.pop(key, None)
            return True
        for note in self.manifest.history if self.manifest is not None else ():
            if key in self.generations[note.generation].bodies():
                raise BrokenInvariantError("sweep", f"{key} was deleted; generation {note.generation} is kept")
        return False

    def _manifest_put(self) -> bool:
        old = self.manifest
        new = codec.decode_manifest(self.store.state.objects[MANIFEST].body)
        if old is None or new.generation != old.generation:
            self._commit(old, new)
        elif new.run != old.run:
            raise BrokenInvariantError("I3", f"generation {new.generation} of {old.run} became {new.run}'s")
        self.manifest = new
        if new.promoted:
            self.promoted = new
        return True

    def _commit(self, old: Manifest | None, new: Manifest) -> None:
        before = old.generation if old is not None else 0
        if new.generation != before + 1:
            raise BrokenInvariantError("I3", f"generation {before} was followed by {new.generation}")
        for file in new.files():
            if file.name in self._gone and file not in new.extras:
                raise BrokenInvariantError("names", f"{file.name} was used before and is used again")
            self._committed[file.name, self._body(file).hash] = new.generation
        for index in new.indexes:
            self._committed[index.name, self._body(index).hash] = new.generation
        for section in new.sections.values():
            if not is_partition([shard.range for shard in section.shards]):
                raise BrokenInvariantError("I5", f"the ranges of {section.name} are no partition")
        if old is not None:
            extras = {file.name for file in old.extras}
            self._gone |= {f.name for f in old.files() if f.name not in extras} - {f.name for f in new.files()}
        self.generations[new.generation] = new
        self._guarded(old, new)
        self._in_time(new)
        self._of_shards(new)
        self._foretell(old, new)

    def _foretell(self, old: Manifest | None, new: Manifest) -> None:
        action = new.history[-1].action
        restored = int(action.removeprefix("rollback to ")) if action.startswith("rollback to ") else None
        try:
            if self.ledger is not None:
                self.ledger.committed(new, None if restored is None else self.generations[restored], self.guards)
        except BrokenLawError as error:
            raise BrokenInvariantError("ledger", str(error)) from error
        if self.gone is not None:
            try:
                self.gone.committed(old, new, None if restored is None else self.generations[restored])
            except WrongGoneError as error:
                raise BrokenInvariantError("gone", str(error)) from error
        if self.oracle is None:
            return
        try:
            self.oracle.committed(self.turn(), new.generation, new.run, restored)
        except WrongListingError as error:
            raise BrokenInvariantError("oracle", str(error)) from error

    def _in_time(self, new: Manifest) -> None:
        """Check that no change of an attribute waits for longer than it may, and none where nothing may wait."""
        stored = self.store.state.objects.get(plan_key(new.run))
        if stored is None:
            return
        plan = codec.decode_plan(stored.body)
        for name, section in new.sections.items():
            is_planned = name in plan.sections and section.changed_in == new.generation
            for shard in section.shards if is_planned else ():
                if shard.dirty_since is not None and plan.created_at >= shard.dirty_since + REWRITE_AFTER:
                    raise BrokenInvariantError(
                        "waits", f"{shard.file} waits since {shard.dirty_since} at {plan.created_at}"
                    )

    def _of_shards(self, new: Manifest) -> None:
        """Check that the file of recent entries lists no URL that no shard lists."""
        for file in new.extras:
            if file.name == RECENT and (alien := set(self._body(file).locs) - self.locs_of(new).keys()):
                raise BrokenInvariantError("recent", f"{sorted(alien)[:3]} of {file.name} is in no shard")

    def _guarded(self, old: Manifest | None, new: Manifest) -> None:
        """Check that a commit respects the guards, and that no part of a range replaced the whole range (I6)."""
        stored = self.store.state.objects.get(plan_key(new.run))
        if self.guards is None or stored is None:
            return
        plan = codec.decode_plan(stored.body)
        for name, section_plan in plan.sections.items():
            now = new.sections.get(name)
            if now is None or now.changed_in != new.generation:
                continue  # the section stayed as it was
            was = old.sections.get(name) if old is not None else None
            permitted = any(permit.startswith("shrink") for permit in plan.allow)
            permitted |= f"empty:{name}" in plan.allow and not now.urls  # a person answered a question
            fresh = None if was is None else self._fresh(was, new.committed_at)
            due = now.urls + now.expired_rows if fresh is None else now.urls
            earlier = (was.urls + was.expired_rows if fresh is None else fresh) if was is not None else 0
            judged = not permitted and earlier >= self.guards.min_rows
            if judged and was is not None and due < earlier * (1 - self.guards.max_shrink):
                raise BrokenInvariantError("I6", f"{name} shrank from {was.urls} to {now.urls} URLs")
            rebased = plan.rebases and was is not None and was.changed_in != section_plan.base
            repaired = was is not None and _digests(was) == _digests(
                now
            )  # left out, but its damaged files are put again
            for planned, rows in () if rebased or repaired else _rows_by_action(section_plan, now):
                if rows < planned * (1 - self.guards.max_shrink) - 1:
                    raise BrokenInvariantError("I6", f"{name}: {rows} rows were read where {planned} were planned")

    def _fresh(self, section: SectionManifest, now: datetime) -> int | None:
        """Return the number of articles that are younger than two days on every worker, or None if URLs are no articles."""
        contents = [self._body(file) for file in section.files()]
        dates = [date for content in contents for date in content.published]
        if len(dates) != sum(len(content.locs) for content in contents):
            return None
        return sum(date + NEWS_WINDOW > now + MARGIN for date in dates)

    def _compare(self, found: Counter[str]) -> None:
        """Compare the listed URLs with the last promoted generation and the one being promoted (I2, I6)."""
        current, settled = self.manifest, self.promoted
        if current is None:
            if not found:
                return
            raise BrokenInvariantError("I6", "something is listed and nothing was committed")
        if current is settled:
            wanted = self.locs_of(current)
            if found != wanted:
                raise BrokenInvariantError("I2", _difference(found, wanted))
            self.checked += sum(wanted.values())
            self._ask_oracle(found)
            return
        after = self.locs_of(current)
        before = self.locs_of(settled) if settled is not None else self._before_the_loss
        lost = [loc for loc in before if loc in after and loc not in found and loc not in self.moved]
        if lost:
            raise BrokenInvariantError("I2", f"while promoting: {lost[:3]} is in both generations and in no file")
        alien = [loc for loc in found if loc not in after and loc not in before]
        if alien:
            raise BrokenInvariantError("I6", f"while promoting: {alien[:3]} is in neither generation")
        self.checked += len(found)

    def _ask_oracle(self, listed: Collection[str]) -> None:
        if self.oracle is None:
            return
        try:
            self.oracle.check(listed)
        except WrongListingError as error:
            raise BrokenInvariantError("oracle", str(error)) from error

    def steady(self, old: Manifest, new: Manifest) -> None:
        """Check that a shard with the same entries keeps its name, bytes and lastmod.

        This does not hold if keys of its rows changed, because another shard may then get the same entries, or if the section
        has a new address.
        """
        earlier = {file.xml_hash: file for file in _shards(old)}
        stayed = [s for s in new.sections.values() if s.name in old.sections and _same_place(s, old.sections[s.name])]
        for file in (file for section in stayed for file in section.files()):
            before = earlier.get(file.xml_hash)
            if before is None or any(loc in self.moved for loc in self._body(file).locs):
                continue
            if (before.name, before.body, before.variant, before.modified_at) != (
                file.name, file.body, file.variant, file.modified_at,
            ):  # fmt: skip
                raise BrokenInvariantError("steady", f"{before.name} has the same entries as before, but is now {file}")

    # ------------------------------------------------------------ reading

    def locs_in(self, file: PublicFile) -> tuple[str, ...]:
        """Return the URLs of a committed file."""
        return self._body(file).locs

    def _body(self, file: PublicFile) -> Content:
        stored = self.store.state.objects.get(file.body)
        if stored is None:
            raise BrokenInvariantError("I1", f"the body {file.body} of {file.name} was committed and is not there")
        content = self._read(file.name, stored.body)
        if content.hash != file.xml_hash:
            raise BrokenInvariantError("I1", f"the body {file.body} of {file.name} is not what the manifest says")
        return content

    def _read(self, name: str, body: bytes) -> Content:
        content = self._contents.get(body)
        if content is None:
            try:
                content = parsed(name, body)
            except Exception as error:
                raise BrokenInvariantError("I1", f"{name} is damaged: {error}") from error
            self._contents[body] = content
        return content


def _same_place(left: SectionManifest, right: SectionManifest) -> bool:
    return (left.path, left.key_kinds) == (right.path, right.key_kinds)


def _shards(manifest: Manifest) -> Iterator[PublicFile]:
    for section in manifest.sections.values():
        yield from section.files()


def _digests(section: SectionManifest) -> list[tuple[KeyRange, Digest]]:
    return [(shard.range, shard.digest) for shard in section.shards]


def _rows_by_action(plan: SectionPlan, state: SectionManifest) -> Iterator[tuple[int, int]]:
    """Return, for each written range, the number of surveyed rows and of rows read."""
    shards = iter(state.shards)
    for action in plan.actions:
        rows = 0
        for shard in shards:
            rows += shard.digest.rows
            if shard.range.upper == action.range.upper:
                break
        if action.kind.writes:
            yield action.digest.rows, rows


def _difference(found: Mapping[str, int], wanted: Mapping[str, int]) -> str:
    lost = _sample(loc for loc in wanted if loc not in found)
    alien = _sample(loc for loc in found if loc not in wanted)
    twice = _sample(loc for loc in wanted if found.get(loc, 0) > wanted[loc])
    return f"a promoted generation is not what is listed: lost {lost}, not committed {alien}, too often {twice}"


def _sample(locs: Iterator[str]) -> Collection[str]:
    return sorted(locs)[:3]
