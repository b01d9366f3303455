"""Safeguards, each taken out in turn: the simulator or a test must notice.

Each mutant replaces a function of the pipeline while it is on. It runs in one process alone: never beside a real run.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pyarrow as pa
from msgspec import structs

from airflow_sitemaps import ledger
from airflow_sitemaps.errors import IncompleteError
from airflow_sitemaps.pipeline import batch_writer, refusals, stages
from airflow_sitemaps.pipeline.plan import planner, section_planner, surveys
from airflow_sitemaps.pipeline.publish import (
    commit_files,
    draft,
    early_entries,
    gone_urls,
    promotion,
    public_files,
    publisher,
    rollback,
    sweep,
)
from airflow_sitemaps.pipeline.report import Swept
from airflow_sitemaps.pipeline.state import capability_probe, repository
from airflow_sitemaps.pipeline.state import repository as conditional_put
from airflow_sitemaps.ports import Overwrite, PutOutcomeError, Update
from airflow_sitemaps.shards import commit, range_actions, ranges, section_commit
from airflow_sitemaps.shards.gone import GoneUrls, SectionMoves
from airflow_sitemaps.shards.guards import judgement
from airflow_sitemaps.shards.layout import shard_name
from airflow_sitemaps.testing import MemorySource
from tests.simulation.history import simulate
from tests.simulation.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Change = tuple[object, str, Any]
"""An object, the name of its attribute, and what stands there instead."""

ROUGH: Final = Profile(faults=0.06, crashes=0.0, temper=0.2, foreign=False, wild_clock=False)
STALLING: Final = Profile(
    faults=0.02, crashes=0.0, stalls=0.04, foreign=False, wild_clock=False, restless=True, rivals=0.8, temper=0.1
)
RESTLESS: Final = Profile(
    faults=0.0, crashes=0.0, stalls=0.05, foreign=False, wild_clock=False, restless=True, detection="digest",
    skew=timedelta(0),
)  # fmt: skip
DEADLY: Final = Profile(faults=0.0, crashes=0.04, temper=0.2, foreign=False, wild_clock=False)
MOVING: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False)
LONG: Final = Profile(faults=0.0, crashes=0.03, foreign=False, wild_clock=True)
RIVALS: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, rivals=0.9, stalls=0.02)
LATER: Final = Profile(faults=0.02, crashes=0.06, stalls=0.0, foreign=False, wild_clock=True, crawlers=4)
RELOADED: Final = Profile(
    faults=0.0, crashes=0.0, foreign=False, wild_clock=False, guarded=True, restless=True, detection="digest",
    skew=timedelta(0),
)  # fmt: skip
JUDGED: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, guarded=True, deploys=4.0)
DEPLOYED: Final = Profile(faults=0.0, crashes=0.01, foreign=False, wild_clock=False, deploys=6.0)
SWEPT: Final = Profile(faults=0.08, crashes=0.03, stalls=0.02, foreign=False, wild_clock=True, temper=0.3)
RETURNING: Final = Profile(
    faults=0.0, crashes=0.0, stalls=0.05, foreign=False, wild_clock=True, deploys=5.0, rivals=0.8
)  # fmt: skip
MARKED: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, detection="watermark")
PARTIAL: Final = Profile(
    faults=0.0, crashes=0.0, foreign=False, wild_clock=False, sections=2, partial=0.6, rivals=0.8, deploys=3.0
)
CRAWLED: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, crawlers=4)
SHARED: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, features=True)
RARE: Final = Profile(features=True)
MEDDLED: Final = Profile(faults=0.0, crashes=0.0, foreign=True, wild_clock=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A safeguard, its replacement, and the histories in which its lack should show."""

    name: str
    changes: Callable[[], Iterable[Change]]
    profile: Profile = field(default_factory=Profile)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Take the safeguard out."""
        with ExitStack() as changed:
            for target, name, value in self.changes():
                changed.enter_context(patch.object(target, name, value))
            yield

    def caught(self, seeds: Iterable[int]) -> tuple[int, int, str] | None:
        """How many seeds it took, the one that noticed, and what it said; None where none did."""
        with self.on():
            for number, seed in enumerate(seeds, start=1):
                try:
                    simulate(seed, self.profile)
                except AssertionError as broken:
                    return number, seed, str(broken)
        return None


def _unconditional_promotion() -> Iterable[Change]:
    def unconditional(real: Any) -> Any:
        return lambda *args, **kwargs: real(*args, **{**kwargs, "mode": Overwrite()})

    yield promotion, "put_verified", unconditional(conditional_put.put_verified)
    yield promotion, "copy_verified", unconditional(conditional_put.copy_verified)


def _unconditional_manifest() -> Iterable[Change]:
    real = conditional_put.put_verified

    def put(objects: Any, key: str, *args: Any, **kwargs: Any) -> str:
        return real(objects, key, *args, **({**kwargs, "mode": Overwrite()} if key == repository.MANIFEST else kwargs))

    yield repository, "put_verified", put


def _joined_neighbour_forgotten() -> Iterable[Change]:
    real = range_actions._joined
    yield range_actions, "_joined", lambda left, right: replace(real(left, right), before=left.before)


def _early_for_ever() -> Iterable[Change]:
    real_next, real = early_entries.next_early, early_entries.early_entries

    def dirty(each: Any) -> Any:
        return (
            each if each.dirty_since else structs.replace(each, dirty_since=datetime.max.replace(tzinfo=timezone.utc))
        )

    def entries(objects: Any, section: Any) -> Any:
        return real(objects, structs.replace(section, shards=tuple(map(dirty, section.shards))))

    yield section_planner, "next_early", lambda context, actions, new: real_next(context, [*map(dirty, actions)], new)
    yield early_entries, "early_entries", entries
    yield commit_files, "early_entries", entries


def _turns_that_never_come() -> Iterable[Change]:
    yield range_actions, "_is_due", lambda *_: False


def _urgent_changes_wait() -> Iterable[Change]:
    yield ranges.Digest, "same_urgent", lambda self, other: True


def _unsurveyed_is_clean() -> Iterable[Change]:
    real = range_actions._dirty

    def dirty(item: Any, shard: Any, context: Any) -> str:
        return real(item, shard, replace(context, surveyed=None))

    yield range_actions, "_dirty", dirty


def _any_kind_of_fingerprint() -> Iterable[Change]:
    yield ledger, "without_fingerprints", lambda rows: rows


def _no_time_after_the_reading() -> Iterable[Change]:
    yield batch_writer._BatchWriter, "_not_before", lambda self, read: None


def _time_rounded_down() -> Iterable[Change]:
    for module in (section_planner, batch_writer):
        yield module, "next_second", lambda moment: moment.replace(microsecond=0)


def _no_second_later() -> Iterable[Change]:
    yield ledger.pc, "max_element_wise", lambda listed, at: pa.repeat(at, len(listed))


def _dates_of_a_lost_part_forgotten() -> Iterable[Change]:
    real = ledger.rows_of_body

    def undated(content: bytes, *, is_text: bool) -> Any:
        rows = real(content, is_text=is_text)
        return rows.set_column(2, ledger.SCHEMA.field("lastmod"), pa.nulls(rows.num_rows, pa.string()))

    yield ledger, "rows_of_body", undated


def _any_number_of_dates() -> Iterable[Change]:
    yield refusals, "_redated", lambda *args: ()


def _no_read_back() -> Iterable[Change]:
    def made_out(objects: Any, key: str, write_id: str, put: Callable[[], str]) -> str:
        try:
            return put()
        except PutOutcomeError as error:
            raise conditional_put.RefusedPutError(str(error)) from error

    yield conditional_put, "_resolve_outcome", made_out


def _no_roll_forward() -> Iterable[Change]:
    def stay(opened: Any, current: Any) -> Any:
        return current

    for module in (publisher, stages, rollback):
        yield module, "roll_forward", stay


def _no_roll_forward_nor_drift() -> Iterable[Change]:
    yield from _no_roll_forward()
    yield from _no_drift()
    real = stages.finish

    def finish(opened: Any, current: Any, **of_commit: Any) -> Any:
        is_left = not (of_commit or current.manifest.promoted)
        return (current, Swept()) if is_left else real(opened, current, **of_commit)

    yield stages, "finish", finish


def _commit_without_finishing() -> Iterable[Change]:
    yield publisher, "roll_forward", lambda opened, current: current


def _index_first() -> Iterable[Change]:
    real = promotion.promote

    def promote(opened: Any, current: Any, **kwargs: Any) -> Any:
        if not current.manifest.promoted:
            for index in current.manifest.indexes:
                if index.etag is None:
                    promotion._promote_file(opened.store, current, index)
        return real(opened, current, **kwargs)

    yield publisher, "promote", promote


def _promotion_before_commit() -> Iterable[Change]:
    real = publisher.check_bodies

    def check(store: Any, old: Any, new: Any) -> None:
        real(store, old, new)
        for file in new.files():
            if file.etag is None:
                body = promotion._body(repository.StateRepository(store.state), file)
                conditional_put.put_verified(
                    store.public,
                    file.name,
                    body,
                    mode=Overwrite(),
                    write_id=file.stamp,
                    content_type="x",
                )

    yield publisher, "check_bodies", check


def _sweep_at_once() -> Iterable[Change]:
    real = sweep.sweep

    def sweep_at_once(opened: Any, current: Any) -> Any:
        return real(replace(opened, sitemap=replace(opened.sitemap, grace=timedelta(0))), current)

    yield publisher, "sweep", sweep_at_once


def _sweep_kept() -> Iterable[Change]:
    yield sweep, "_is_due", lambda item, manifest, now, grace: item.at + grace <= now


def _no_fence() -> Iterable[Change]:
    yield sweep, "_fence", lambda repository, current, left, clock: current
    yield publisher, "_refuse_old", lambda sitemap, plan, clock: None


def _no_deep_sweep() -> Iterable[Change]:
    real = sweep.leftovers

    def leftovers(repository: Any, manifest: Any, now: Any, grace: Any) -> Any:
        return real(repository, structs.replace(manifest, swept_at=now), now, grace)

    yield sweep, "leftovers", leftovers


def _unconditional_deletes() -> Iterable[Change]:
    real = sweep._delete

    def delete(store: Any, due: Any, manifest: Any) -> Any:
        return real(store, [structs.replace(item, etag=None) for item in due], manifest)

    yield sweep, "_delete", delete
    yield sweep, "put_back", lambda *_: None


def _no_checksum() -> Iterable[Change]:
    yield ranges.Digest, "same_rows", lambda self, other: (self.rows, self.newest) == (other.rows, other.newest)


def _planned_digest() -> Iterable[Change]:
    real = section_commit.ShardBuilder._written

    def written(self: Any, piece: Any, action: Any, *rest: Any) -> Any:
        return real(self, structs.replace(piece, digest=action.digest), action, *rest)

    yield section_commit.ShardBuilder, "_written", written


def _names_at_plan_time() -> Iterable[Change]:
    real = batch_writer._BatchWriter._put

    def put(self: Any, key: str, body: bytes, content_type: str) -> None:
        real(self, key, body, content_type)
        if content_type == repository.GZIP and self.actions[self._current].carries is None:
            name = shard_name(self.section.path, self.section.name, self._current + 1, self.section.format)
            conditional_put.put_verified(
                self.store.public,
                name,
                body,
                mode=Overwrite(),
                write_id=key,
                content_type="x",
            )

    yield batch_writer._BatchWriter, "_put", put


def _no_row_check() -> Iterable[Change]:
    yield batch_writer, "SLACK_ROWS", 10**9


def _no_variant() -> Iterable[Change]:
    def succeed(before: Any, after: Any) -> Any:
        return structs.replace(after, past=before.past)

    for module in (section_commit, commit_files, rollback):
        yield module, "succeed", succeed


def _no_still() -> Iterable[Change]:
    yield promotion, "_still", lambda repository, current: None


def _no_body_check() -> Iterable[Change]:
    yield publisher, "check_bodies", lambda store, old, new: None


def _grace_from_commit() -> Iterable[Change]:
    real = repository.StateRepository.replace_manifest

    def replace_manifest(self: Any, manifest: Any, over: Any) -> Any:
        kept = {(i.area, i.key): i.at for i in over.manifest.departed} if over is not None else {}
        departed = tuple(structs.replace(i, at=kept.get((i.area, i.key), i.at)) for i in manifest.departed)
        return real(self, structs.replace(manifest, departed=departed), over)

    yield repository.StateRepository, "replace_manifest", replace_manifest


def _serials_forgotten() -> Iterable[Change]:
    def first(manifest: Any, section: str) -> int:
        found = manifest.sections.get(section) if manifest is not None else None
        return 1 if found is None else int(found.next_serial)

    yield commit, "first_serial", first
    yield rollback, "first_serial", first


def _no_touched() -> Iterable[Change]:
    yield MemorySource, "touched", lambda self, ranges, since: ()


def _no_slices() -> Iterable[Change]:
    yield surveys, "_slice", lambda known, number: set()


def _any_generation() -> Iterable[Change]:
    def remembered(state: Any, section: Any) -> Any:
        found = state.objects.get(repository.known_key(section.name))
        return section.known if found is None else surveys._RECORD.decode(found.body).known

    yield surveys, "remembered", remembered


def _stale_plans() -> Iterable[Change]:
    yield commit, "check_current", lambda old, plan, facts: None


def _no_guard_at_commit() -> Iterable[Change]:
    yield draft, "at_commit", lambda *args, **kwargs: ((), ())


def _changed_code() -> Iterable[Change]:
    for module in (batch_writer, publisher):
        yield module, "check_unchanged", lambda *args, **kwargs: None


def _no_drift() -> Iterable[Change]:
    yield public_files, "find", lambda *args, **kwargs: public_files.Drift()


def _unconditional_copies() -> Iterable[Change]:
    real = conditional_put.copy_verified
    yield promotion, "copy_verified", lambda *args, **kwargs: real(*args, **{**kwargs, "mode": Overwrite()})


def _sweep_after_a_lost_fence() -> Iterable[Change]:
    real = sweep._fence
    yield sweep, "_fence", lambda state, current, left, clock: real(state, current, left, clock) or current


def _half_the_grace() -> Iterable[Change]:
    real = sweep.sweep

    def sweep_early(opened: Any, current: Any) -> Any:
        return real(replace(opened, sitemap=replace(opened.sitemap, grace=opened.sitemap.grace / 2)), current)

    yield publisher, "sweep", sweep_early


def _rival_forgotten() -> Iterable[Change]:
    real = draft.next_manifest

    def next_manifest(old: Any, plan: Any, receipts: Any, facts: Any) -> Any:
        manifest = real(old, plan, receipts, facts)
        kept = {
            name: section
            for name, section in manifest.sections.items()
            if name in plan.sections or section.changed_in <= plan.base_generation
        }
        return structs.replace(manifest, sections=kept)

    yield draft, "next_manifest", next_manifest


def _half_the_checksum() -> Iterable[Change]:
    def same_rows(self: Any, other: Any) -> bool:
        return self.rows == other.rows and (self.checksum ^ other.checksum) % (1 << 32) == 0

    yield ranges.Digest, "same_rows", same_rows


def _no_body_size() -> Iterable[Change]:
    real = commit_files._bodies

    def check(store: Any, old: Any, new: Any) -> Any:
        known = old.bodies() if old is not None else set()
        files = [file for file in new.files() if file.body not in known]
        bodies = real(store, [file.body for file in files])
        if any(file.body not in bodies for file in files):
            raise IncompleteError("a body is not there")
        return bodies

    yield publisher, "check_bodies", check


def _generation_kept_late() -> Iterable[Change]:
    keep = repository.StateRepository.keep_generation
    put = repository.StateRepository.replace_manifest

    def replace_manifest(self: Any, manifest: Any, over: Any) -> Any:
        current = put(self, manifest, over)
        if over is not None and over.manifest.generation < manifest.generation:
            keep(self, over)
        return current

    yield repository.StateRepository, "keep_generation", lambda self, current: None
    yield repository.StateRepository, "replace_manifest", replace_manifest


def _partial_run_retires() -> Iterable[Change]:
    real = planner.at_plan

    def at_plan(sitemap: Any, manifest: Any, plans: Any, refused: Any, request: Any, now: Any) -> Any:
        return real(sitemap, manifest, plans, refused, replace(request, sections=()), now)

    yield planner, "at_plan", at_plan


def _no_stamps() -> Iterable[Change]:
    for module in (public_files, promotion, commit_files):
        yield module, "check_stamp", lambda *args: None
    yield public_files, "_refuse", lambda *args: None


def _rivals_overwritten() -> Iterable[Change]:
    yield commit, "_unchanged_action", lambda plan, planned, before, earlier, shard: planned.get(shard.range)


def _known_kept() -> Iterable[Change]:
    real = commit._section

    def kept(plan: Any, before: Any, now: Any) -> Any:
        rebased, moved = real(plan, before, now)
        return structs.replace(rebased, known=plan.known), moved

    yield commit, "_section", kept


def _no_stamp_before_a_shard() -> Iterable[Change]:
    yield promotion, "check_stamp", lambda *args: None


def _promoted_by_stamp() -> Iterable[Change]:
    yield promotion, "_is_promoted", lambda store, file, there: promotion._is(there, file.stamp)


def _promoted_by_stamp_and_size() -> Iterable[Change]:
    def is_promoted(store: Any, file: Any, there: Any) -> bool:
        return promotion._is(there, file.stamp) and there.byte_size == file.byte_size

    yield promotion, "_is_promoted", is_promoted


def _if_match_unasked() -> Iterable[Change]:
    real = capability_probe._try

    def ask(area: Any, key: str, body: bytes, mode: Any) -> Any:
        return ("refused", "") if mode == Update("0" * 32) else real(area, key, body, mode)

    yield capability_probe, "_try", ask


def _replaced_less_twice() -> Iterable[Change]:
    real = judgement._replaced

    def twice(gone: float, *, earlier: int, now: int) -> float:
        return real(real(gone, earlier=earlier, now=now), earlier=earlier, now=now)

    yield judgement, "_replaced", twice


def _total_of_the_last_run() -> Iterable[Change]:
    yield judgement, "_totals", lambda sections, now: []


def _week_unknown() -> Iterable[Change]:
    for module in (judgement, section_commit):
        yield module, "recent_days", lambda section, now: {}


def _permits_again() -> Iterable[Change]:
    yield planner, "without_spent", lambda request, sitemap, manifest: (request, ())


def _any_deployment() -> Iterable[Change]:
    for module in (stages, publisher):
        yield module, "check_origin", lambda *args, **kwargs: None


def _any_clock() -> Iterable[Change]:
    yield commit_files, "bounded_time", lambda objects, clock, recent=None: clock.now()


def _unread_is_empty() -> Iterable[Change]:
    real = public_files.check_adoption
    yield public_files, "check_adoption", lambda guards, **numbers: real(guards, **{**numbers, "unread": ()})


def _answers_to_closed_questions() -> Iterable[Change]:
    yield publisher, "check_open", lambda manifest, plan, now: None


def _questions_left_open() -> Iterable[Change]:
    yield stages, "close", lambda opened, manifest, names: None


def _next_gone(change: Callable[..., tuple[Any, ...]], after: Callable[..., GoneUrls] | None = None) -> Change:
    """The rule of gone URLs with other arguments, or with another result."""
    real = gone_urls.next_gone

    def changed(*arguments: Any) -> GoneUrls:
        found = real(*change(*arguments))
        return found if after is None else after(found, *arguments)

    return gone_urls, "next_gone", changed


def _no_other_section() -> Iterable[Change]:
    yield _next_gone(lambda before, moves, everyone, now, window: (before, moves, moves.keys(), now, window))


def _listed_elsewhere() -> Iterable[Change]:
    def unlisted(before: Any, moves: Any, *others: Any) -> tuple[Any, ...]:
        return before, {name: SectionMoves(left={*own.left} - own.listed) for name, own in moves.items()}, *others

    yield _next_gone(unlisted)


def _lost_words_are_none() -> Iterable[Change]:
    yield _next_gone(lambda before, *others: (structs.replace(before, unsure=()), *others))


def _for_ever_gone() -> Iterable[Change]:
    yield _next_gone(lambda *arguments: (*arguments[:-1], timedelta(days=10_000)))


def _words_forgotten() -> Iterable[Change]:
    yield _next_gone(lambda before, *others: (structs.replace(before, words={}), *others))


MUTANTS: Final = (
    Mutant(name="gone URLs without the word of other sections", changes=_no_other_section, profile=PARTIAL),
    Mutant(name="gone URLs that another section lists", changes=_listed_elsewhere, profile=RARE),
    Mutant(name="lost words about gone URLs taken for none", changes=_lost_words_are_none, profile=PARTIAL),
    Mutant(name="gone URLs listed for ever", changes=_for_ever_gone, profile=RARE),
    Mutant(name="words about gone URLs forgotten", changes=_words_forgotten, profile=PARTIAL),
    Mutant(name="answers to closed questions", changes=_answers_to_closed_questions),
    Mutant(name="questions left open by unchanged runs", changes=_questions_left_open),
    Mutant(name="turns that never come", changes=_turns_that_never_come),
    Mutant(name="urgent changes that wait", changes=_urgent_changes_wait),
    Mutant(name="waiting ranges that were not surveyed taken for clean", changes=_unsurveyed_is_clean),
    Mutant(name="early entries whose shards wait no more", changes=_early_for_ever),
    Mutant(name="churn discounted twice by the shrink", changes=_replaced_less_twice),
    Mutant(name="total without the week", changes=_total_of_the_last_run),
    Mutant(name="guards without the week", changes=_week_unknown),
    Mutant(name="permits that hold again", changes=_permits_again),
    Mutant(name="any deployment publishes", changes=_any_deployment),
    Mutant(name="commits by any clock", changes=_any_clock),
    Mutant(name="adopted files that cannot be counted", changes=_unread_is_empty),
    Mutant(name="position in a change log kept by a rebase", changes=_known_kept, profile=RIVALS),
    Mutant(name="stamp unchecked before a shard is replaced", changes=_no_stamp_before_a_shard, profile=SHARED),
    Mutant(name="promoted file recognised by its stamp alone", changes=_promoted_by_stamp, profile=MEDDLED),
    Mutant(name="promoted file recognised by stamp and size", changes=_promoted_by_stamp_and_size, profile=MEDDLED),
    Mutant(name="probe without its If-Match question", changes=_if_match_unasked),
    Mutant(name="table version kept by a rebase", changes=_known_kept, profile=RIVALS),
    Mutant(name="objects of another pipeline replaced", changes=_no_stamps, profile=SHARED),
    Mutant(name="full run undoes what others published", changes=_rivals_overwritten, profile=RIVALS),
    Mutant(name="unconditional copies within the store", changes=_unconditional_copies, profile=STALLING),
    Mutant(name="sweep after a lost fence", changes=_sweep_after_a_lost_fence, profile=SWEPT),
    Mutant(name="half the grace", changes=_half_the_grace, profile=LATER),
    Mutant(name="rival's section forgotten in a rebase", changes=_rival_forgotten, profile=PARTIAL),
    Mutant(name="checksum compared on 32 bits", changes=_half_the_checksum),
    Mutant(name="body size unchecked at the commit", changes=_no_body_size, profile=LONG),
    Mutant(name="earlier generation kept after the commit", changes=_generation_kept_late, profile=DEADLY),
    Mutant(name="run of some sections retires others", changes=_partial_run_retires, profile=PARTIAL),
    Mutant(name="unconditional promotion", changes=_unconditional_promotion, profile=STALLING),
    Mutant(name="unconditional manifest", changes=_unconditional_manifest, profile=RIVALS),
    Mutant(name="no read-back", changes=_no_read_back, profile=ROUGH),
    Mutant(name="no roll-forward", changes=_no_roll_forward, profile=DEADLY),
    Mutant(name="no roll-forward, no look for drift", changes=_no_roll_forward_nor_drift, profile=DEADLY),
    Mutant(name="commit without finishing the earlier promotion", changes=_commit_without_finishing, profile=DEADLY),
    Mutant(name="index before shards", changes=_index_first, profile=MOVING),
    Mutant(name="promotion before commit", changes=_promotion_before_commit, profile=MOVING),
    Mutant(name="sweep without grace", changes=_sweep_at_once, profile=CRAWLED),
    Mutant(name="sweep of what a kept generation needs", changes=_sweep_kept, profile=LONG),
    Mutant(name="sweep without a fence, old runs published", changes=_no_fence, profile=SWEPT),
    Mutant(name="no look through the runs' folders", changes=_no_deep_sweep, profile=SWEPT),
    Mutant(name="names that return deleted unconditionally", changes=_unconditional_deletes, profile=RETURNING),
    Mutant(name="watermark that asks for no lastmod", changes=_no_touched, profile=MARKED),
    Mutant(name="watermark without slices", changes=_no_slices, profile=MARKED),
    Mutant(name="watermark of another generation", changes=_any_generation, profile=MARKED),
    Mutant(name="digest without checksum", changes=_no_checksum, profile=MOVING),
    Mutant(name="planned digest instead of the rows read", changes=_planned_digest, profile=RESTLESS),
    Mutant(name="public names written before their commit", changes=_names_at_plan_time, profile=MOVING),
    Mutant(name="no check of rows read against planned", changes=_no_row_check, profile=RELOADED),
    Mutant(name="no variant for content that returns", changes=_no_variant, profile=STALLING),
    Mutant(name="no look at the manifest before promotion puts", changes=_no_still, profile=STALLING),
    Mutant(name="ledger of a joined neighbour forgotten", changes=_joined_neighbour_forgotten, profile=RARE),
    Mutant(name="fingerprints of different kinds compared", changes=_any_kind_of_fingerprint, profile=RARE),
    Mutant(name="no time after the reading", changes=_no_time_after_the_reading, profile=RARE),
    Mutant(name="time of the run rounded down", changes=_time_rounded_down, profile=RARE),
    Mutant(name="date not later than the one before", changes=_no_second_later, profile=RARE),
    Mutant(name="dates of a lost part forgotten", changes=_dates_of_a_lost_part_forgotten, profile=RARE),
    Mutant(name="any number of dates moves", changes=_any_number_of_dates, profile=RARE),
    Mutant(name="no check of bodies", changes=_no_body_check, profile=LONG),
    Mutant(name="grace from the commit, not the promotion", changes=_grace_from_commit, profile=LATER),
    Mutant(name="serials of retired sections forgotten", changes=_serials_forgotten, profile=DEPLOYED),
    Mutant(name="stale plans published", changes=_stale_plans, profile=RIVALS),
    Mutant(name="no guard at the commit", changes=_no_guard_at_commit, profile=JUDGED),
    Mutant(name="code changed between tasks", changes=_changed_code, profile=DEPLOYED),
    Mutant(name="no look for drift", changes=_no_drift, profile=MEDDLED),
)
