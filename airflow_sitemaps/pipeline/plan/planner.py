"""Make a plan: survey the sources, compare them with the manifest, and decide. Writes nothing public."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import RequestError
from airflow_sitemaps.pipeline.plan.sections import Surveyed, check_columns, members_with_values, survey
from airflow_sitemaps.pipeline.publish import commit_files, public_files
from airflow_sitemaps.pipeline.publish.commit_files import are_to_change, too_many
from airflow_sitemaps.pipeline.refusals import at_plan, names_of_permits, to_ask, without_spent
from airflow_sitemaps.pipeline.request import OpenSitemap, RunContext, RunRequest
from airflow_sitemaps.shards.guards import Permit, check_permits
from airflow_sitemaps.shards.plan import Action, Plan, SectionPlan, failure_of, failures_of
from airflow_sitemaps.shards.range_actions import make_batches
from airflow_sitemaps.shards.url_sample import top_prefixes

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectInfo, Store
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap

HEADERS_CHANGED: Final = "the store's headers changed: every public file is put again. Without a purge, caches keep the old ones for their lifetime"
UNPROMOTED: Final = (
    "the last generation is committed, and not all its files are public: a run finishes its promotion first"
)
TOUCHED: Final = 0.5
"""Fraction of a section's shards above which a warning says that many hold changed rows."""


def make_plan(
    opened: OpenSitemap, manifest: Manifest | None, request: RunRequest, *, run: str, adopted: tuple[str, ...] = ()
) -> Plan:
    """Make the plan of a run, which takes over the ``adopted`` public names of another program's sitemap.

    Guards are evaluated but not enforced: the plan's ``refusals`` hold what they refuse. Sections that fail are not
    planned but named in the plan's ``failures``, unless the sitemap says ``fail_all`` or no section is left.
    """
    sitemap, store, started = opened.sitemap, opened.store, opened.clock.now()
    check_columns(sitemap, manifest)
    later = {str(name) for text in request.allow if sitemap.has_section(name := Permit.of(text).section)}
    check_permits(request.allow, names_of_permits(sitemap, manifest) | later)
    request, spent = without_spent(request, sitemap, manifest)
    listing = public_files.look(store, manifest, read=request.full or bool(request.rebuild))
    if manifest is not None and not (request.dry_run or request.adopt):
        public_files.check_stamps(store, manifest, listing)
    request = dataclasses.replace(request, rebuild=_rebuilt(request, manifest))
    context = RunContext(
        run=run, manifest=manifest, request=request, listing=listing, adopted=adopted, **opened.values()
    )
    context, surveyed = survey(context)
    whole = _whole(context, surveyed, started, spent)
    new = [name for name in surveyed.errors if manifest is None or name not in manifest.sections]
    plan = _publishable(sitemap, whole.without_removals(new), request)
    asked = to_ask(manifest, plan.refusals, started) if request.asks else ()
    written = {**plan.sections, **{name: plan.refused[name] for name in asked if name in plan.refused}}
    plan = replace(plan, batches=make_batches(written, request.batch_rows))
    # The error of the only section is raised, so that Airflow tries again, unless lost files are to be put again at once.
    is_alone = not surveyed.plans and len(surveyed.errors) == 1
    is_idle = not (plan.repairs_elsewhere or plan.index_drift) if is_alone else not (whole.refusals or plan.changes)
    if surveyed.errors and (is_idle or (plan.fails_all(sitemap.on_section_failure) and not request.dry_run)):
        error = next(iter(surveyed.errors.values()))
        error.sections = tuple(surveyed.errors)
        raise error
    return replace(plan, seconds=max(0.0, (opened.clock.now() - started).total_seconds()))  # a clock may be set back


def _whole(context: RunContext, surveyed: Surveyed, started: datetime, spent: tuple[str, ...]) -> Plan:
    """Return the plan of all sections that could be planned, refused ones included."""
    sitemap, store, manifest, request = context.sitemap, context.store, context.manifest, context.request
    plans, now = surveyed.plans, context.clock.now()
    has_new_headers = public_files.headers_changed(store, manifest)
    stand, passed, retired = at_plan(sitemap, manifest, plans, surveyed.all_of("refusals"), request, now)
    for shrunk in (r.section for r in passed if r.guard in ("shrink", "total")):
        plans[shrunk] = replace(plans[shrunk], refresh=True)  # the commit records the new number of URLs
    return Plan(
        run=context.run,
        created_at=started,
        base_generation=manifest.generation if manifest is not None else 0,
        sections=plans,
        retired=retired,
        index_drift=_index_drift(store, manifest, context.listing),
        extras_due=commit_files.due(sitemap, manifest, now, plans)
        or are_to_change(sitemap, manifest)
        or has_new_headers
        or (manifest is not None and bool(request.origin) and manifest.origin not in ("", request.origin)),
        refusals=stand,
        warnings=(
            *spent,
            *(f"allowed: {refusal.message}" for refusal in passed),
            *surveyed.warnings,
            *surveyed.all_of("warnings"),
            *touched_warnings(sitemap, plans, manifest),
            *too_many(sitemap, plans, manifest),
            *((HEADERS_CHANGED,) if has_new_headers else ()),
            *((UNPROMOTED,) if request.dry_run and manifest is not None and not manifest.promoted else ()),
        ),
        allow=request.allow,
        origin=request.origin,
        asked_by=request.asked_by,
        failures=tuple(failure_of(name, error) for name, error in surveyed.errors.items()),
        rebases=request.full or bool(request.rebuild),
        prefixes=() if manifest is None else top_prefixes(manifest.sections.values(), manifest.sections.values()),
        notes=tuple(surveyed.all_of("notes")),
        checks=tuple(surveyed.all_of("checks")),
        repairs=public_files.repairs(store, manifest, plans, context.listing),
        members=members_with_values(sitemap),
        adopted=context.adopted,
        tied=tuple(surveyed.tied),
    )


def _publishable(sitemap: Sitemap, plan: Plan, request: RunRequest) -> Plan:
    """Return the plan without the sections that guards refuse, if the others are to be published."""
    if request.dry_run or not plan.refusals or plan.fails_all(sitemap.on_section_failure):
        return plan
    names = {refusal.section for refusal in plan.refusals}
    others = plan.without(names)
    return replace(
        others,
        failures=(*others.failures, *failures_of(plan.refusals)),
        refused={name: section for name, section in plan.sections.items() if name in names},
    )


def _rebuilt(request: RunRequest, manifest: Manifest | None) -> tuple[str, ...]:
    """Return the file names of the shards to write again. A request may name a shard without its ending."""
    sections = {} if manifest is None else manifest.sections
    own = [section for name, section in sections.items() if not request.sections or name in request.sections]
    file_names = [file.name for section in own for file in section.files()]
    names = {name.removesuffix(".xml.gz").removesuffix(".txt.gz"): name for name in file_names}
    names |= {name: name for name in file_names}
    unknown = sorted(set(request.rebuild) - set(names))
    if unknown:
        like = f"names look like {sorted(file_names)[:2]}" if file_names else "they have none yet"
        raise RequestError(f"rebuild: {', '.join(unknown)} is not a shard of this run's sections; {like}")
    return tuple(names[name] for name in request.rebuild)


def _index_drift(store: Store, manifest: Manifest | None, listing: Mapping[str, ObjectInfo]) -> tuple[str, ...]:
    """Return the names of index files and extra files that another program changed, or whose body is lost unpromoted."""
    files = (*manifest.indexes, *manifest.extras) if manifest is not None else ()
    promoted = {file.name: file.etag for file in files if file.etag is not None}
    lost = (file.name for file in files if file.etag is None and store.state.head(file.body) is None)
    return (*(name for name, etag in promoted.items() if name not in listing or listing[name].etag != etag), *lost)


def touched_warnings(sitemap: Sitemap, plans: Mapping[str, SectionPlan], manifest: Manifest | None) -> tuple[str, ...]:
    """Warn about each section in which many shards hold changed rows, unless they are written for another reason."""
    warnings = []
    for section in sitemap.sections:
        plan = plans.get(section.name)
        state = manifest.sections.get(section.name) if manifest is not None else None
        if plan is None or state is None:
            continue
        if (state.fingerprint, state.digest_kind) != (plan.fingerprint, plan.digest_kind):
            continue
        changed = sum(
            action.kind.writes
            if action.carries is None
            else action.kind is not Action.WAIT and not action.digest.same_rows(state.shards[action.carries].digest)
            for action in plan.actions
        )
        if len(plan.actions) >= 10 and changed > TOUCHED * len(plan.actions):
            warnings.append(
                f"section {section.name!r}: {changed:,} of {len(plan.actions):,} shards change "
                f"({changed / len(plan.actions):.0%}). Did a load stamp every row?"
            )
    return tuple(warnings)
