"""The canaries of a commit: before it, random pages that the run adds or changes are requested and judged."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from random import Random
from typing import Final, Literal

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import HttpClient
from airflow_sitemaps.http.page_judge import MAX_PAGE_BYTE_SIZE, PAGE_WAIT_S, Paced, PageJudge, RobotsCache
from airflow_sitemaps.pipeline.earlier_parts import read_part, rows_of_body
from airflow_sitemaps.pipeline.report import CanaryReport
from airflow_sitemaps.pipeline.request import OpenSitemap
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.codec import Receipt, StagedShard
from airflow_sitemaps.shards.guards import Canary, Permit, Refusal, SequentialTest
from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
from airflow_sitemaps.shards.plan import OldShard, Plan, SectionPlan

log = logging.getLogger(__name__)

LONGEST: Final = timedelta(minutes=10)
"""Longest duration of a canary. A section that is not decided by then is published with a warning."""
MOST_FILES: Final = 100
"""Number of a section's staged files from which a sample is drawn at most."""
MOST_OF_FILE: Final = 2_000
"""Number of URLs of one of them that are kept at most."""
SAMPLES: Final = 3
"""Number of pages that a refusal names for each fault."""
SILENT: Final = 10
"""Number of requests without an answer, if they are the most, after which the site counts as unreachable."""


def new_urls(
    state: ObjectStore, plan: SectionPlan, receipts: Sequence[Receipt], before: SectionManifest | None, draw: Random
) -> Iterator[str]:
    """Yield the URLs that a run adds or changes, in random order. A file is read when the first of its URLs is drawn.

    The ledger says which they are. Without one they are those whose URL or lastmod no old shard of their range lists.
    """
    files = [
        (piece, olds, weight)
        for olds, pieces in _staged(plan, receipts).items()
        for piece, weight in zip(pieces, _weights(plan, pieces, olds, before), strict=True)
    ]
    weights = [weight for _, _, weight in files]
    pools: dict[int, list[str]] = {}
    seen: set[str] = set()
    while any(weights) and len(pools) <= MOST_FILES:
        number = draw.choices(range(len(files)), weights)[0]
        if number not in pools:
            urls = _urls_of(state, plan, *files[number][:2])
            pools[number] = draw.sample(urls, min(len(urls), MOST_OF_FILE))
        if not pools[number]:
            weights[number] = 0
        elif (url := pools[number].pop()) not in seen:
            seen.add(url)
            yield url


def _staged(plan: SectionPlan, receipts: Sequence[Receipt]) -> Mapping[tuple[OldShard, ...], list[StagedShard]]:
    """Return the staged files of a section by the old shards that they continue."""
    staged: dict[tuple[OldShard, ...], list[StagedShard]] = defaultdict(list)
    for receipt in receipts:
        for position, pieces in receipt.pieces.items() if receipt.section == plan.name else ():
            staged[plan.actions[position].olds].extend(pieces)
    return staged


def _weights(
    plan: SectionPlan, pieces: Sequence[StagedShard], olds: Sequence[OldShard], before: SectionManifest | None
) -> list[float]:
    """Return how often each file is drawn: by its number of new and changed URLs.

    Without a ledger it is not known. The growth of what continues the same old shards, at least 1, stands for it.
    """
    if plan.ledger is not None:
        return [piece.fresh + piece.changed for piece in pieces]
    bodies = {old.body for old in olds}
    shards = before.shards if before is not None else ()
    listed = sum(shard.urls for shard in shards if shard.file is not None and shard.file.body in bodies)
    grown = (sum(piece.urls for piece in pieces) - listed) / len(pieces)
    return [0.0 if piece.body is None else max(1.0, grown) for piece in pieces]


def _urls_of(state: ObjectStore, plan: SectionPlan, piece: StagedShard, olds: Sequence[OldShard]) -> list[str]:
    """Return the URLs of a staged file that are new or changed."""
    import pyarrow.compute as pc  # noqa: PLC0415 - pyarrow is loaded where work is done

    if plan.ledger is None:
        assert piece.body is not None
        old = {entry for shard in olds for entry in _entries(state, shard.body)}
        return [entry[0] for entry in _entries(state, piece.body) if entry not in old]
    rows = read_part(state, piece.part, ["loc", "first_listed", "changed_at"]) if piece.part is not None else None
    if rows is None:
        return []
    is_new, is_changed = (pc.equal(rows.column(name), plan.ledger.at) for name in ("first_listed", "changed_at"))
    urls: list[str] = rows.filter(pc.or_kleene(is_new, is_changed)).column("loc").to_pylist()
    return urls


def _entries(state: ObjectStore, body: str) -> Iterable[tuple[str, str | None]]:
    rows = rows_of_body(state, body)
    return zip(rows.column("loc").to_pylist(), rows.column("lastmod").to_pylist(), strict=True)


@dataclass(slots=True, kw_only=True)
class CanaryResult:
    """What a section's canary found: the faulty pages by check, and the pages without an answer, each with a message.

    ``refuses`` is None if it could not decide: ``doubt`` then says why. It also says why the canary cannot run.
    """

    test: SequentialTest
    faults: dict[str, list[str]] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    refuses: bool | None = None
    doubt: str = ""

    def text(self) -> str:
        """Return the numbers, with samples of each fault."""
        texts = [f"{len(urls):,} {check}, such as {', '.join(urls[:SAMPLES])}" for check, urls in self.faults.items()]
        pages, test = counted(self.test.judged, "requested page"), self.test
        if not texts:
            return self.doubt or f"none of {pages} is faulty."
        share = f"{test.faulty / test.judged:.1%}; the limit is max_bad={test.max_bad:.1%}"
        return f"{test.faulty:,} of {pages}, new or changed in this run, are faulty ({share}): {'; '.join(texts)}."


def judge(opened: OpenSitemap, canary: Canary, address: str, urls: Iterable[str]) -> CanaryResult:
    """Request pages until they decide, and judge them as ``verify`` does. ``address`` is that of the section."""
    result, end = CanaryResult(test=SequentialTest(canary.max_bad)), opened.clock.now() + LONGEST
    try:
        fetcher = Paced(canary.site.fetcher(address) if canary.site is not None else _CLIENT, canary.per_second)
    except ConfigurationError as error:
        result.refuses, result.doubt = True, f"its canary cannot run: {error}"
        return result
    pages = PageJudge(fetcher=fetcher, robots=RobotsCache(fetcher), ignore=canary.ignore)
    answered, silent = result.test, result.unanswered
    for url in islice(urls, canary.sample):
        page = pages.judge(url)
        if page.is_answered:
            faults = [(check, message) for check, message in page.faults if check not in canary.ignore]
            for check, message in faults:
                result.faults.setdefault(check, []).append(f"{url} ({message})")
            result.refuses = answered.add(is_faulty=bool(faults))
            if result.refuses is not None:
                return result
        else:
            silent.append(f"{url} ({page.faults[0][1]})")
            if len(silent) >= SILENT and len(silent) > answered.judged:
                break
        if opened.clock.now() >= end:
            result.doubt = f"it took longer than {LONGEST.seconds // 60} minutes"
            return result
    if silent and len(silent) >= answered.judged:
        number = counted(answered.judged + len(silent), "request")
        result.doubt = f"the site did not answer {len(silent):,} of {number}, such as {silent[0]}"
    else:
        result.refuses = answered.is_bad
    return result


_CLIENT: Final = HttpClient(wait_s=PAGE_WAIT_S, max_byte_size=MAX_PAGE_BYTE_SIZE)


@dataclass(slots=True)
class Canaries:
    """The canaries of one commit. A section is judged once, however often another run commits first."""

    opened: OpenSitemap
    results: dict[str, CanaryResult] = field(default_factory=dict)

    def refusals(
        self, plan: Plan, receipts: Sequence[Receipt], old: Manifest | None, refused: Collection[str]
    ) -> tuple[Refusal, ...]:
        """Judge the sections with a canary, except those that are refused already, or that a permit of the run names."""
        refusals = []
        sitemap = self.opened.sitemap
        for section in sitemap.sections:
            canary = sitemap.guards_of(section).canary
            if canary is None or section.name not in plan.sections or section.name in refused:
                continue
            refusal = Refusal(guard="canary", section=section.name, message="")
            if any(Permit.of(text).lets_pass(refusal) for text in plan.allow):
                continue
            result = self.results.get(section.name)
            if result is None:
                before = old.sections.get(section.name) if old is not None else None
                draw = Random(self.opened.clock.token())  # noqa: S311 - no secret
                urls = new_urls(self.opened.store.state, plan.sections[section.name], receipts, before, draw)
                result = judge(self.opened, canary, sitemap.base_url_of(section), urls)
                self.results[section.name] = result
                log.info("section %s: canary: %s", section.name, result.text())
            if result.refuses:
                message = f"Section {section.name!r}: {result.text()}"
                refusals.append(Refusal(guard="canary", section=section.name, message=message))
        return tuple(refusals)

    def reports(self) -> dict[str, CanaryReport]:
        """Return what the canaries found, for the run's report."""
        verdicts: dict[bool | None, Literal["passed", "refused", "undecided"]]
        verdicts = {True: "refused", False: "passed", None: "undecided"}
        return {
            name: CanaryReport(
                requested=result.test.judged,
                faulty=result.test.faulty,
                faults={check: len(urls) for check, urls in result.faults.items()},
                verdict=verdicts[result.refuses],
                reason=result.doubt,
            )
            for name, result in self.results.items()
        }

    def warnings(self) -> tuple[str, ...]:
        """Return a warning for each section that a canary could not decide."""
        text = "its new and changed pages are published unchecked, because the canary could not decide"
        return tuple(
            f"section {name!r}: {text}: {result.doubt}"
            for name, result in self.results.items()
            if result.doubt and not result.refuses
        )
