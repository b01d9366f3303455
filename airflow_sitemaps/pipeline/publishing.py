"""Publish a plan: commit its manifest, promote, sweep, report. Safe to repeat at any point."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConflictError, GuardError, IncompleteError, StoreContentError
from airflow_sitemaps.pipeline import extras
from airflow_sitemaps.pipeline.fingerprint import check_unchanged
from airflow_sitemaps.pipeline.indexes import index_settings, settings_of_commit
from airflow_sitemaps.pipeline.parallel import mapped
from airflow_sitemaps.pipeline.planning import check_owner
from airflow_sitemaps.pipeline.promoting import SupersededError, promote
from airflow_sitemaps.pipeline.putting import RefusedPutError
from airflow_sitemaps.pipeline.state import Root, State
from airflow_sitemaps.pipeline.sweeping import Swept, lifetime, sweep
from airflow_sitemaps.shards.commit import CommitFacts, SectionFacts, check_current, complete, next_manifest
from airflow_sitemaps.shards.guards import Refusal, judge_dropped, judge_size, permitted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.ports import Clock, ObjectInfo, Progress, Store
    from airflow_sitemaps.shards.index import IndexSettings
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.shards.receipt import Receipt
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

RACES: Final = 8
"""How often a losing publisher rebases before it gives up."""

FEW: Final = 8
"""Bodies that are asked for one by one; of more the folder is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The manifest before and after.

    ``repeated``: this run had committed already. ``unchanged``: all that was read turned out as it was, nothing was put.
    ``bodies``: what was seen of the new bodies just before the commit.
    """

    old: Manifest | None
    root: Root
    repeated: bool = False
    unchanged: bool = False
    bodies: Mapping[str, ObjectInfo] = field(default_factory=dict)


def commit_facts(
    sitemap: Sitemap, store: Store, old: Manifest | None, plan_adopted: Sequence[str], clock: Clock
) -> CommitFacts:
    """What the reducer needs of the code and of the public area."""
    settings = index_settings(sitemap)
    return CommitFacts(
        owner=sitemap.owner,
        sections={
            s.name: SectionFacts(path=s.path, base_url=sitemap.base_url_of(s), format=s.format)
            for s in sitemap.sections
        },
        index=settings,
        history=sitemap.history,
        now=clock.now(),
        write_id=clock.token(),
        index_etags=_index_etags(store, old, settings),
        adopted=tuple(plan_adopted),
    )


def commit(
    sitemap: Sitemap, store: Store, plan: Plan, receipts: Sequence[Receipt], *, clock: Clock, progress: Progress
) -> Committed:
    """Put the next manifest in place of the current one.

    Raises:
        ConflictError: another run changed the same sections first.
        ConfigurationError: the code is no longer that which planned, or the sitemap belongs to another pipeline.
        GuardError: what was rendered fails a guard.
        IncompleteError: a receipt or a body is missing.
        StoreError: the store's answers stayed unclear; try again.
    """
    state = State(store.state)
    for _ in range(RACES):
        root = state.root()
        if root is not None:
            check_owner(sitemap, root.manifest)
        if root is not None and root.manifest.run == plan.run:
            return Committed(old=None, root=root, repeated=True)
        _refuse_old(sitemap, plan, clock)
        check_unchanged(sitemap, plan, plan.sections)
        if root is not None and not root.manifest.promoted:
            root = roll_forward(sitemap, store, root, clock=clock, progress=progress)
        old = root.manifest if root is not None else None
        _refuse_stale(old, plan)
        facts = commit_facts(sitemap, store, old, plan.adopted, clock)
        manifest = next_manifest(old, plan, receipts, facts)
        manifest = complete(
            old,
            extras.attach(sitemap, state, old, manifest, drifted=facts.index_etags, clock=clock),
            facts,
            action="build",
        )
        guard(sitemap, plan, old, manifest)
        if root is not None and says_the_same(root.manifest, manifest):
            return Committed(old=old, root=root, unchanged=True)
        bodies = check_bodies(store, old, manifest)
        if root is not None:
            state.keep_generation(root)
        try:
            made = state.replace_root(manifest, root)
        except RefusedPutError as refused:
            log.info("another run committed first (%s); rebasing", refused)
            continue
        return Committed(old=old, root=made, bodies=bodies)
    raise ConflictError(f"{RACES} other commits came between; run again when fewer runs publish at once")


def says_the_same(old: Manifest, new: Manifest) -> bool:
    """Whether a new generation would differ from the last one in nothing but its number."""
    return (dict(old.sections), old.indexes, old.extras) == (dict(new.sections), new.indexes, new.extras)


def roll_forward(sitemap: Sitemap, store: Store, root: Root, *, clock: Clock, progress: Progress) -> Root:
    """Finish the promotion of a committed generation that another run left unfinished."""
    manifest = root.manifest
    log.warning(
        "generation %d (run %s) was committed but not wholly promoted; finishing that first",
        manifest.generation,
        manifest.run,
    )
    try:
        return promote(store, root, settings_of_commit(sitemap, manifest), clock=clock, progress=progress)
    except StoreContentError as error:
        # Else every later run would fail here for ever: the next commit reads the rows of what is lost again.
        log.warning("generation %d cannot be finished; the next one goes over it: %s", manifest.generation, error)
        return root
    except SupersededError:
        now = State(store.state).root()
        if now is None:
            raise ConflictError("the manifest disappeared while an unfinished promotion was finished") from None
        return now


def guard(sitemap: Sitemap, plan: Plan, old: Manifest | None, new: Manifest) -> None:
    """Judge what was really rendered. Raises GuardError."""
    refusals: list[Refusal] = []
    for section in sitemap.sections:
        if section.name not in plan.sections:
            continue
        state = new.sections[section.name]
        before = old.sections.get(section.name) if old is not None else None
        guards = sitemap.guards_of(section)
        if section.kind != "news" or state.urls:
            peak = before.peak(new.committed_at) if before is not None else 0
            was = before.urls if before is not None else None
            refusals += judge_size(guards, section.name, now=state.urls, before=was, peak=peak, what="URLs")
        refusals += judge_dropped(guards, section.name, rows=state.rows, dropped=state.rows - state.urls)
    stand, _ = permitted(refusals, plan.allow)
    if stand:
        raise GuardError(refusal_text(stand), stand)


def refusal_text(refusals: Sequence[Refusal]) -> str:
    """One message for an operator woken at night."""
    lines = "\n".join(f"  - {refusal}" for refusal in refusals)
    return (
        f"This run was refused by {len(refusals)} guard(s); nothing was published, the sitemap published before stays "
        f"up, and trying again will not help until the data or the guard changes:\n{lines}"
    )


def check_bodies(store: Store, old: Manifest | None, new: Manifest) -> Mapping[str, ObjectInfo]:
    """Every body that this generation newly needs is there, whole: what was seen of each. Raises IncompleteError."""
    known = old.bodies() if old is not None else set()
    files = [file for file in new.files() if file.body not in known]
    found = _bodies(store, [file.body for file in files])
    for file in files:
        info = found.get(file.body)
        if info is None or info.byte_size != file.byte_size:
            what = "is not there" if info is None else f"has {info.byte_size:,} bytes, not {file.byte_size:,}"
            raise IncompleteError(
                f"{store.state.url(file.body)}, the body of {file.name}, {what}. Nothing was published; "
                "run again, it will plan anew."
            )
    return found


def _bodies(store: Store, keys: Sequence[str]) -> dict[str, ObjectInfo]:
    """Those bodies that are there: a few are asked for one by one, many are listed by the thousand."""
    if len(keys) <= FEW:
        infos = mapped(lambda key: (key, store.state.head(key)), keys, "sitemap-check")
        return {key: info for key, info in infos if info is not None}
    folders = {key.rpartition("/")[0] + "/" for key in keys}
    return {info.key: info for folder in sorted(folders) for info in store.state.list(folder)}


def _refuse_old(sitemap: Sitemap, plan: Plan, clock: Clock) -> None:
    """A sweep may be about to remove the bodies of a run that is as old."""
    age, most = clock.now() - plan.created_at, lifetime(sitemap.grace)
    if age >= most:
        raise IncompleteError(
            f"run {plan.run} was planned {age} ago, and after {most} what it wrote may be swept. Nothing of it was "
            "published; run the DAG again. If runs take as long, set a longer grace: Sitemap(grace=…)."
        )


def _refuse_stale(old: Manifest | None, plan: Plan) -> None:
    if old is not None and any(note.run == plan.run for note in old.history):
        raise ConflictError(
            f"run {plan.run} was published before, and generation {old.generation} of run {old.run} has replaced it: "
            "nothing is left to do for this task. To publish the source's state of now, run the DAG again.",
            winner=old.run,
        )
    check_current(old, plan)


def _index_etags(store: Store, old: Manifest | None, settings: IndexSettings) -> dict[str, str | None]:
    """Names of indexes and extra files whose object is not as the last generation left it → its etag."""
    names: dict[str, str | None] = {}
    if old is not None:
        names = {index.name: index.etag for index in old.indexes}
        names.update({file.name: file.etag for file in old.extras})
    drifted: dict[str, str | None] = {}
    for name in dict.fromkeys((settings.name, *names)):
        info = store.public.head(name)
        etag = None if info is None else info.etag
        if name in names:
            if etag != names[name]:
                drifted[name] = etag
        elif etag is not None:
            drifted[name] = etag
    return drifted


def finish(
    sitemap: Sitemap, store: Store, committed: Committed, clock: Clock, progress: Progress
) -> tuple[Root, Swept]:
    """Promote what was committed, then sweep."""
    try:
        settings = settings_of_commit(sitemap, committed.root.manifest)
        fresh = not committed.repeated
        root = promote(
            store, committed.root, settings, clock=clock, progress=progress, fresh=fresh, bodies=committed.bodies
        )
    except SupersededError:
        log.info("a later run has finished this generation's promotion and committed its own")
        return committed.root, Swept()
    return sweep(sitemap, store, root, clock=clock)
