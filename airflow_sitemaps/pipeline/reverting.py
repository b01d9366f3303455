"""The use case of a rollback: check, commit, promote, report, as any other publication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.errors import ConfigurationError, ConflictError
from airflow_sitemaps.pipeline import extras
from airflow_sitemaps.pipeline.clock import QUIET, SYSTEM_CLOCK
from airflow_sitemaps.pipeline.conditions import ensure_conditions
from airflow_sitemaps.pipeline.planning import check_owner
from airflow_sitemaps.pipeline.publishing import Committed, check_bodies, commit_facts, finish, roll_forward
from airflow_sitemaps.pipeline.putting import RefusedPutError
from airflow_sitemaps.pipeline.reporting import Outcome, make_report
from airflow_sitemaps.pipeline.rollback import rolled_back
from airflow_sitemaps.pipeline.state import State, new_run
from airflow_sitemaps.shards.commit import complete

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.pipeline.state import Root
    from airflow_sitemaps.ports import Clock, Progress
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap


def rollback(sitemap: Sitemap, generation: int, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = QUIET) -> Report:
    """Publish an earlier generation again, as a new one.

    The next run surveys the source as ever and publishes its state of then: pause the DAG, or mend the source first.

    Raises:
        ConfigurationError: that generation is not kept.
        ConflictError: another run committed meanwhile.
    """
    started = clock.now()
    store = sitemap.store.open()
    ensure_conditions(store, sitemap.store.single_writer)
    state = State(store.state)
    root = state.root()
    if root is None:
        raise ConfigurationError(
            f"nothing was ever published at {sitemap.store.describe()}: there is no generation yet"
        )
    check_owner(sitemap, root.manifest)
    if not root.manifest.promoted:
        root = roll_forward(sitemap, store, root, clock=clock, progress=progress)
    earlier = _earlier(state, root, generation)
    run = new_run(clock)
    facts = commit_facts(sitemap, store, root.manifest, (), clock)
    manifest = rolled_back(root.manifest, earlier, facts, run)
    manifest = extras.attach(sitemap, state, root.manifest, manifest, drifted=facts.index_etags, clock=clock)
    manifest = complete(root.manifest, manifest, facts, action=f"rollback to {generation}")
    bodies = check_bodies(store, None, manifest)
    state.keep_generation(root)
    try:
        made = state.replace_root(manifest, root)
    except RefusedPutError as refused:
        raise ConflictError(
            f"another run committed meanwhile ({refused}); nothing was rolled back. Look at the status, then try again."
        ) from refused
    done, swept = finish(sitemap, store, Committed(old=root.manifest, root=made, bodies=bodies), clock, progress)
    now = clock.now()
    outcome = Outcome(
        run=run,
        result="published",
        started=started,
        finished=now,
        seconds={"publish": (now - started).total_seconds()},
        swept=swept.public + swept.private,
        action=f"rollback to {generation}",
    )
    report = make_report(outcome, old=root.manifest, new=done.manifest)
    state.write_report(report)
    return report


def _earlier(state: State, root: Root, generation: int) -> Manifest:
    earlier = state.generation(generation) if generation < root.manifest.generation else None
    if earlier is None:
        kept = ", ".join(str(note.generation) for note in root.manifest.history[:-1]) or "none"
        raise ConfigurationError(
            f"generation {generation} cannot be rolled back to: the current one is {root.manifest.generation}, and the "
            f"earlier ones kept are: {kept}"
        )
    return earlier
