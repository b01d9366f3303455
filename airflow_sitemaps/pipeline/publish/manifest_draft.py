"""The draft of a commit: the next manifest, and the refusals of the guards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import GuardError
from airflow_sitemaps.pipeline.publish import extra_files
from airflow_sitemaps.pipeline.publish.commit_input import commit_facts
from airflow_sitemaps.pipeline.publish.content_warnings import content_warnings
from airflow_sitemaps.pipeline.refusals import at_commit, missing_at_commit
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards.commit import complete, next_manifest
from airflow_sitemaps.shards.guards import refusal_text
from airflow_sitemaps.shards.guards.row_losses import RowLosses
from airflow_sitemaps.shards.plan import failures_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.ports import Clock, Store
    from airflow_sitemaps.shards.guards import Refusal
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.shards.receipt import Receipt
    from airflow_sitemaps.sitemap import Sitemap


_PAST_ITS_AGE: Final = (
    "every row of the sitemap is past its age, and an index must list a file (siteindex.xsd); the files published before "
    "stay until a row is listed again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A manifest to commit, without the sections that guards refuse, and the verdicts of the guards.

    The manifest is the published one if every row is past its age, because an index must list a file.
    """

    manifest: Manifest
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...]


def make_draft(
    sitemap: Sitemap, store: Store, old: Manifest | None, plan: Plan, receipts: Sequence[Receipt], clock: Clock
) -> Draft:
    """Compute the next manifest and apply the guards. Raises ``GuardError`` if they leave nothing to publish."""
    given = plan
    facts = commit_facts(sitemap, store, old, plan.adopted, clock, run=plan.run)
    manifest = next_manifest(old, plan, receipts, facts)
    refusals = refused = at_commit(sitemap, store, plan, old, manifest)
    while refused:
        names = {refusal.section for refusal in refused}
        plan = plan.without(names)
        if sitemap.on_section_failure == "fail_all" or not plan.changes:
            raise GuardError(refusal_text(refusals), refusals, run=plan.run)
        receipts = [receipt for receipt in receipts if receipt.section not in names]
        manifest = next_manifest(old, plan, receipts, facts)
        refused = missing_at_commit(sitemap, plan, old, manifest)  # an omitted section may be the new home of a URL
        refusals = (*refusals, *refused)
    if old is not None and _is_past_its_age(manifest):
        return Draft(manifest=old, refusals=refusals, warnings=(_PAST_ITS_AGE,))
    state = StateRepository(store.state)
    manifest = extra_files.attach(sitemap, state, old, manifest, facts=facts, clock=clock, receipts=receipts)
    failed = [failure.section for failure in (*plan.failures, *failures_of(refusals))]
    return Draft(
        manifest=complete(old, manifest, facts, action="build", failed=failed, losses=_losses(sitemap, manifest)),
        refusals=refusals,
        warnings=(*plan.warnings[len(given.warnings) :], *content_warnings(sitemap, plan, old, manifest)),
    )


def _is_past_its_age(manifest: Manifest) -> bool:
    """Return whether no section has a row to list, and age alone is the reason."""
    sections = manifest.sections.values()
    return any(s.rows for s in sections) and all(s.rows == s.expired_rows for s in sections)


def _losses(sitemap: Sitemap, manifest: Manifest) -> list[str]:
    """Explain for each section why its rows are not listed, if no row of any section is."""
    if any(file.listed for file in manifest.files()):
        return []
    texts = {
        section.name: RowLosses.of_section(manifest.sections[section.name], sitemap.base_url_of(section)).explanation()
        for section in sitemap.sections
        if section.name in manifest.sections
    }
    return [f"section {name}: {text}" for name, text in texts.items() if text]
