"""Rebuild, from the plan and the receipts in the private area, the generation that a blocked run would have published.

A run that is blocked after it rendered its entries has left a receipt for each batch: its generation is known URL by
URL. A run that is blocked while it plans has rendered nothing: only its row counts and the files of emptied ranges are
known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import ConfigurationError, ConflictError
from airflow_sitemaps.pipeline.state.repository import plan_key, receipts_directory
from airflow_sitemaps.protocol.entry import CURRENT
from airflow_sitemaps.shards.commit import next_manifest
from airflow_sitemaps.shards.index_layout import IndexSettings
from airflow_sitemaps.shards.plan import Action
from airflow_sitemaps.shards.section_commit import CommitFacts, SectionFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import Plan, SectionPlan
    from airflow_sitemaps.shards.receipt import Receipt
    from airflow_sitemaps.shards.shard_names import Format

MOVES: Final = (Action.MERGE, Action.SPLIT)
"""Actions that write the entries of removed files under other names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The live generation, and the generation that a blocked run would have published.

    If the run rendered no entries, its generation lacks those of every file that it would have written again.
    """

    live: Manifest
    manifest: Manifest
    plan: Plan
    is_rendered: bool


def proposal_of(state: StateRepository, run: str) -> Proposal:
    """Rebuild a blocked run's generation. Raises ``ConfigurationError`` if another run has published since."""
    live = state.manifest()
    if live is None:
        raise ConfigurationError("Nothing is published yet, so there is nothing to compare with.")
    plan = _whole(state.read_plan(plan_key(run)))
    if live.generation != plan.base_generation:
        raise ConfigurationError(
            f"The blocked run was planned on generation {plan.base_generation:,}; generation {live.generation:,} is "
            "live now. Plan the next run to see what it would do."
        )
    receipts = _receipts(state, plan)
    rendered = {receipt.batch for receipt in receipts} == {batch.number for batch in plan.batches}
    if not rendered or _writes(plan.refused.values()):
        return Proposal(live=live, manifest=_without_removed(live, plan), plan=plan, is_rendered=False)
    try:
        manifest = next_manifest(live, plan, receipts, _facts(live, plan))
    except ConflictError as error:
        raise ConfigurationError(f"{str(error).rstrip('.')}. Plan the next run to see what it would do.") from error
    return Proposal(live=live, manifest=manifest, plan=plan, is_rendered=True)


def _whole(plan: Plan) -> Plan:
    """Return a plan with the sections that guards refused while planning, and without those that it would remove."""
    vanished = tuple(refusal.section for refusal in plan.refusals if refusal.guard == "vanished")
    return replace(
        plan,
        sections={**plan.sections, **plan.refused},
        retired=tuple(dict.fromkeys((*plan.retired, *vanished))),
    )


def _writes(sections: Iterable[SectionPlan]) -> bool:
    return any(action.kind.writes for section in sections for action in section.actions)


def _receipts(state: StateRepository, plan: Plan) -> list[Receipt]:
    """Read the receipt of each batch's last try."""
    newest: dict[str, tuple[str, str]] = {}
    for info in state.objects.list(receipts_directory(plan.run)):
        batch = info.key.rpartition("/")[2].partition("-")[0]
        written = info.modified_at.isoformat() if info.modified_at is not None else ""
        newest[batch] = max(newest.get(batch, ("", "")), (written, info.key))
    return [state.read_receipt(key) for _, key in newest.values()]


def _without_removed(live: Manifest, plan: Plan) -> Manifest:
    """Return the live generation without the sections that the plan removes and without the ranges that it empties."""
    sections = {
        name: _section_without_removed(section, plan.sections.get(name))
        for name, section in live.sections.items()
        if name not in plan.retired
    }
    return replace(live, generation=live.generation + 1, sections=sections)


def _section_without_removed(section: SectionManifest, plan: SectionPlan | None) -> SectionManifest:
    """Return a section without the files that the plan removes because their ranges have no rows."""
    if plan is None or plan.base != section.changed_in:
        return section
    lowers = {shard.range.lower: position for position, shard in enumerate(section.shards)}
    uppers = {shard.range.upper: position + 1 for position, shard in enumerate(section.shards)}
    emptied: set[int] = set()
    for action in plan.actions:
        within = action.range
        if action.kind not in MOVES and within.lower in lowers and within.upper in uppers:
            emptied.update({*range(lowers[within.lower], uppers[within.upper])} & {*plan.gone} - {action.carries})
    shards = [
        replace(shard, file=None, urls=0) if position in emptied else shard
        for position, shard in enumerate(section.shards)
    ]
    return replace(section, shards=tuple(shards))


def _facts(live: Manifest, plan: Plan) -> CommitFacts:
    """Return the input of the reducer from the live generation, whose address new sections get."""
    published = {
        name: SectionFacts(path=section.path, base_url=section.base_url, format=_format(section))
        for name, section in live.sections.items()
    }
    new = {name: SectionFacts(path="", base_url=live.base_url, format="xml") for name in plan.sections}
    settings = IndexSettings(base_url=live.base_url, name="", mode="one", limits=CURRENT)
    return CommitFacts(
        owner=live.owner,
        sections={**new, **published},
        index=settings,
        history=0,
        now=plan.created_at,
        write_id="",
        state_id=live.state_id,
    )


def _format(section: SectionManifest) -> Format:
    return "text" if any(file.name.endswith(".txt.gz") for file in section.files()) else "xml"
