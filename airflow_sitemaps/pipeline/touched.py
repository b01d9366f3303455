"""Whether unusually much of the data changed: it only warns, for a bulk load may stamp every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.shards.manifest import Manifest, SectionState
    from airflow_sitemaps.shards.plan import SectionPlan, Target
    from airflow_sitemaps.sitemap import Sitemap


def warnings(sitemap: Sitemap, plans: Mapping[str, SectionPlan], manifest: Manifest | None) -> tuple[str, ...]:
    """A warning for each section of which unusually many shards hold other rows than before.

    What is written for another reason (asked to, another configuration, drift) is no news about the data.
    """
    found = []
    for section in sitemap.sections:
        plan = plans.get(section.name)
        state = manifest.sections.get(section.name) if manifest is not None else None
        if (
            plan is None
            or state is None
            or (state.fingerprint, state.digest_kind) != (plan.fingerprint, plan.digest_kind)
        ):
            continue
        changed = sum(_holds_other_rows(target, state) for target in plan.targets)
        limit = sitemap.guards_of(section).max_touched
        if len(plan.targets) >= 10 and changed > limit * len(plan.targets):
            found.append(
                f"section {section.name!r}: {changed:,} of {len(plan.targets):,} shards change "
                f"({changed / len(plan.targets):.0%}; max_touched={limit:.0%} only warns). Did a load stamp every row?"
            )
    return tuple(found)


def _holds_other_rows(target: Target, state: SectionState) -> bool:
    if target.carries is None:
        return target.action.writes
    return not target.digest.same_rows(state.shards[target.carries].digest)
