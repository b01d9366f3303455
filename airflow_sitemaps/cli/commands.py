"""The commands: each calls one use case of the pipeline and answers."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps import inspection, summary
from airflow_sitemaps.cli.answer import Answer
from airflow_sitemaps.cli.rendering import rendered
from airflow_sitemaps.cli.target import TargetError, load
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.adopting import adopt as adopt_sitemap
from airflow_sitemaps.pipeline.build import build as build_sitemap
from airflow_sitemaps.pipeline.clock import SYSTEM_CLOCK
from airflow_sitemaps.pipeline.duplicates import find_duplicates
from airflow_sitemaps.pipeline.planning import chosen
from airflow_sitemaps.progress import LogProgress
from airflow_sitemaps.protocol import robots as robots_txt

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.pipeline.status import Status
    from airflow_sitemaps.ports import Progress
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


def build(arguments: argparse.Namespace) -> Answer:
    """Plan, write, publish."""
    with _progress(arguments) as progress:
        report = build_sitemap(
            _sitemap(arguments),
            arguments.full,
            sections=arguments.sections,
            rebuild=arguments.rebuild,
            allow=_allowed(arguments),
            progress=progress,
        )
    return _reported(report)


def plan(arguments: argparse.Namespace) -> Answer:
    """Explain what a build would do. A refusal of it is the answer, and exit status 1."""
    request = stages.RunRequest(
        sections=arguments.sections,
        full=arguments.full,
        rebuild=arguments.rebuild,
        allow=_allowed(arguments),
        dry_run=True,
    )
    with _progress(arguments) as progress:
        made = stages.plan(_sitemap(arguments), request, progress=progress).plan
    lines = stages.explain(made)
    return Answer(document=_plan_document(made, lines), lines=lines, well=not made.refusals)


def status(arguments: argparse.Namespace) -> Answer:
    """What is published now."""
    found = stages.status(_sitemap(arguments))
    return Answer(document=found.to_dict(), lines=_status_lines(found))


def adopt(arguments: argparse.Namespace) -> Answer:
    """Take over an address where something else's sitemap lies; without ``--yes`` only say what would be done."""
    with _progress(arguments) as progress:
        found = adopt_sitemap(_sitemap(arguments), yes=arguments.yes, allow=_allowed(arguments), progress=progress)
    lines = [
        f"their sitemap lists {found.theirs:,} URLs, ours {found.ours:,}",
        f"{found.only_theirs:,} would leave" + _shown(found.only_theirs_samples),
        f"{found.only_ours:,} would be new" + _shown(found.only_ours_samples),
        *(f"could not be read: {name}" for name in found.unread),
    ]
    document = asdict(replace(found, report=None))
    del document["report"]
    if found.report is None:
        lines.append("nothing public was changed: give --yes to publish ours in its place")
    else:
        lines += summary.lines(found.report)
        document |= found.report.to_dict()
    return Answer(document=document, lines=lines)


def verify(arguments: argparse.Namespace) -> Answer:
    """Read what is published as a crawler does; a broken rule is exit status 1."""
    target = arguments.target
    is_address = "://" in target
    is_ours = ".py:" in target and not is_address
    if not is_ours and not is_address and not Path(target).exists():
        raise TargetError(f"{target!r}: there is no such folder or file here ({Path.cwd()})")
    with _progress(arguments) as progress:
        if is_ours:
            what = inspection.of_sitemap(_sitemap(arguments))
        else:
            what = inspection.of_address(target, conn_id=arguments.conn)
        found = what.verify(replace(what.options, sample=arguments.sample, public=arguments.public), progress)
    return Answer(document=found.to_dict(), lines=summary.verification_lines(found), well=found.valid)


def duplicates(arguments: argparse.Namespace) -> Answer:
    """URLs that several rows share, section by section. Exit status 1 when there are any."""
    sitemap = _sitemap(arguments)
    sections = chosen(sitemap, stages.RunRequest(sections=arguments.sections))
    found = find_duplicates(sections, arguments.most)
    lines = [
        f"section {name}: {shared.rows:,} rows have {shared.loc}" for name, all_of in found.items() for shared in all_of
    ]
    document = {name: [asdict(shared) for shared in all_of] for name, all_of in found.items()}
    return Answer(document=document, lines=lines or ["no URL is shared by several rows"], well=not lines)


def robots(arguments: argparse.Namespace) -> Answer:
    """The Sitemap lines of robots.txt: printed, or put into a file between markers."""
    urls = stages.robots(_sitemap(arguments))
    if not urls:
        raise TargetError("nothing was published yet, so there is nothing to name in robots.txt: run build first")
    if arguments.file:
        path = Path(arguments.file)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(robots_txt.merge(before, urls), encoding="utf-8")
    return Answer(document={"sitemaps": list(urls)}, lines=robots_txt.lines(urls).splitlines())


def rollback(arguments: argparse.Namespace) -> Answer:
    """Publish an earlier generation again."""
    sitemap = _sitemap(arguments)
    _confirm(arguments, f"Publish generation {arguments.generation} of {sitemap.index_url} again?")
    with _progress(arguments) as progress:
        return _reported(stages.rollback(sitemap, arguments.generation, progress=progress))


def demo(arguments: argparse.Namespace) -> Answer:
    """Run the demonstration; it prints as it goes."""
    story = import_module("airflow_sitemaps.demo.story")
    return Answer(document={}, well=story.run(site=arguments.site, work=arguments.work, places=arguments.places))


COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], Answer]]] = {
    "build": build,
    "plan": plan,
    "status": status,
    "verify": verify,
    "rollback": rollback,
    "adopt": adopt,
    "demo": demo,
    "duplicates": duplicates,
    "robots": robots,
}


def _shown(samples: Sequence[str]) -> str:
    return f", such as {', '.join(samples[:3])}" if samples else ""


def _sitemap(arguments: argparse.Namespace) -> Sitemap:
    return rendered(load(arguments.target), SYSTEM_CLOCK.now())


def _allowed(arguments: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name for names in arguments.allow for name in names)


@contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[Progress]:
    """Bars on a terminal, log lines elsewhere and under ``--verbose``, which would tear the bars."""
    if sys.stderr.isatty() and not arguments.verbose:
        from airflow_sitemaps.cli.bars import Bars

        with Bars() as bars:
            yield bars
    else:
        yield LogProgress(log)


def _confirm(arguments: argparse.Namespace, question: str) -> None:
    """Ask, unless ``--yes``. Raises TargetError where nobody can be asked, or the answer is no."""
    if arguments.yes:
        return
    if not sys.stdin.isatty() or arguments.json:
        raise TargetError(f"{question} Nobody can be asked here: give --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise TargetError("not confirmed: nothing was done")


def _reported(report: Report) -> Answer:
    return Answer(document=report.to_dict(), lines=summary.lines(report), well=report.result != "refused")


def _plan_document(made: Plan, lines: list[str]) -> dict[str, Any]:
    return {
        "run": made.run,
        "base_generation": made.base_generation,
        "changes": made.changes,
        "sections": {
            name: {
                "actions": section.count(),
                "rows": section.rows,
                "null_keys": section.null_keys,
                "dirty": [
                    {"range": str(t.range), "action": t.action.value, "rows": t.digest.rows, "reason": t.reason}
                    for t in section.targets
                    if t.action.value not in ("keep", "empty")
                ],
                "drift": list(section.drift),
            }
            for name, section in made.sections.items()
        },
        "rows_to_read": sum(batch.rows for batch in made.batches),
        "retired": list(made.retired),
        "warnings": list(made.warnings),
        "refusals": [{**asdict(refusal), "permit": refusal.permit} for refusal in made.refusals],
        "explanation": lines,
    }


def _status_lines(found: Status) -> Iterator[str]:
    if not found.generation:
        yield "nothing was published here yet"
        return
    yield (
        f"generation {found.generation} of {found.committed_at}: {found.urls:,} URLs in {found.shards:,} shards, "
        f"{summary.size(found.byte_size)}" + ("" if found.promoted else "; its promotion is not finished yet")
    )
    for name, section in found.sections.items():
        yield (
            f"section {name}: {section.urls:,} URLs of {section.rows:,} rows in {section.shards:,} shards, last changed "
            f"in generation {section.changed_in}, newest lastmod {section.newest_lastmod or 'none'}"
        )
    for note in reversed(found.history):
        yield (
            f"history: generation {note.generation} of {note.committed_at.isoformat()}: {note.action}, {note.urls:,} URLs, "
            f"{note.shards:,} shards, {note.touched:,} touched, {summary.size(note.byte_size)}"
        )
    yield from (f"index: {url}" for url in found.index_urls)
