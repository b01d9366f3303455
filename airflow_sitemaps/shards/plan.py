"""The plan of a run: data, made by pure functions, explained by the dry run, executed by the run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_sitemaps.shards.digest import EMPTY, Digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow_sitemaps.shards.guards import Refusal
    from airflow_sitemaps.shards.key import KeyRange


class Action(str, Enum):
    """What becomes of a key range."""

    KEEP = "keep"
    """Its file stays as it is (its range may widen over emptiness, or narrow behind its last entry)."""
    REPAIR = "repair"
    """Its file is promoted again from its private body: somebody else changed or deleted it."""
    CREATE = "create"
    """Rows that had no file get one."""
    REWRITE = "rewrite"
    """Rows changed; the file keeps its name."""
    SPLIT = "split"
    """Rows no longer fit; each piece gets a fresh name."""
    MERGE = "merge"
    """Neighbours became small; they share one file with a fresh name."""
    EMPTY = "empty"
    """No rows; no file."""

    @property
    def writes(self) -> bool:
        """Whether rows are read and rendered."""
        return self in (Action.CREATE, Action.REWRITE, Action.SPLIT, Action.MERGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One range of the new layout.

    ``carries``: position, in the base generation, of the shard whose file name (and, unless rows are read, file) this
    range continues. ``digest``: as surveyed. ``drifted``: somebody else changed the carried file;
    ``found_etag``: of what lies there now (None: nothing).
    ``known_sha256``: of the XML that the carried file has; an equal rendering is not stored again.
    """

    range: KeyRange
    action: Action
    digest: Digest = EMPTY
    carries: int | None = None
    reason: str = ""
    drifted: bool = False
    found_etag: str | None = None
    known_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPlan:
    """One section's part of the plan. ``targets`` partition the key space, in key order.

    ``base``: the generation that last changed the section when this was planned (0: never). ``gone``: positions of
    shards whose file the new layout no longer names. ``taken``: public names in this section's pattern that are not
    ours. ``drift``: sentences about files that somebody else touched.
    """

    name: str
    base: int
    fingerprint: str
    digest_kind: str
    targets: tuple[Target, ...]
    gone: tuple[int, ...] = ()
    taken: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    null_keys: int = 0
    null_key_samples: tuple[str, ...] = ()
    watermark: datetime | None = None
    """The database's time at the survey, where changes are found by watermark."""
    slice: int = 0
    """Which slice of the other ranges the next run surveys."""
    refresh: bool = False
    """Whether anything but files changed (digests, ranges, configuration), so that a commit is worth it."""

    def count(self) -> dict[str, int]:
        """Targets by action."""
        counts: dict[str, int] = {}
        for target in self.targets:
            counts[target.action.value] = counts.get(target.action.value, 0) + 1
        return counts

    @property
    def rows(self) -> int:
        """Rows surveyed, without those whose key is NULL."""
        return sum(target.digest.rows for target in self.targets)

    @property
    def changes(self) -> bool:
        """Whether publishing this plan changes anything at all."""
        acts = any(t.action.writes or t.action is Action.REPAIR for t in self.targets)
        return acts or bool(self.gone) or self.refresh


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one task writes: targets of one section, by position, in key order. ``rows``: as surveyed."""

    number: int
    section: str
    targets: tuple[int, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run's plan. ``base_generation``: 0 before the first commit. ``adopted``: public names of a sitemap that
    something else wrote, which this run takes over: they stay through the grace, then are swept. ``extras_due``: the files beside the shards
    (recent entries, feeds, indexes) change though no shard may."""

    run: str
    created_at: datetime
    base_generation: int
    sections: Mapping[str, SectionPlan]
    batches: tuple[Batch, ...] = ()
    retired: tuple[str, ...] = ()
    index_drift: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    extras_due: bool = False
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def changes(self) -> bool:
        """Whether there is anything to publish."""
        return bool(self.retired or self.index_drift or self.extras_due) or any(
            s.changes for s in self.sections.values()
        )
