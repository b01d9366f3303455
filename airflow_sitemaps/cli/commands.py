"""The commands. Each one calls one use case of the pipeline and returns its result."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, cast

from airflow_sitemaps import pipeline, report_text
from airflow_sitemaps.cli import estimate as cost_estimate
from airflow_sitemaps.cli.lookups import connection_of, diff, find, indexnow_key, inventory, status, store_check
from airflow_sitemaps.cli.output import Answer, bars
from airflow_sitemaps.cli.targets import TargetError, load_target
from airflow_sitemaps.errors import ConfigurationError, PartlyPublishedError, SitemapError
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.pipeline.plan.dry_run import explain
from airflow_sitemaps.pipeline.report import Report
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, RunRequest, chosen, with_published_members
from airflow_sitemaps.pipeline.status import robots as robots_addresses
from airflow_sitemaps.ports import Progress
from airflow_sitemaps.protocol import robots as robots_txt
from airflow_sitemaps.protocol.loc import normalise
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.report_text import LogProgress
from airflow_sitemaps.shards.guards import Permit
from airflow_sitemaps.shards.plan import Plan
from airflow_sitemaps.sitemap import Sitemap
from airflow_sitemaps.templates import rendered
from airflow_sitemaps.verification import of_address, of_sitemap
from airflow_sitemaps.verification import result as formats
from airflow_sitemaps.verification.result import Verification

log = logging.getLogger(__name__)


def build(arguments: argparse.Namespace) -> Answer:
    """Plan, write and publish."""
    with _progress(arguments) as progress:
        try:
            report = pipeline.build(_rendered(arguments), progress=progress, **_run_settings(arguments))
        except PartlyPublishedError as error:
            report = cast("Report", error.report)
    return _reported(report)


def plan(arguments: argparse.Namespace) -> Answer:
    """Explain the actions of a build. A refusal by a guard is part of the explanation, with exit status 1."""
    request = RunRequest(**_run_settings(arguments), dry_run=True, check_rows=arguments.check)
    with _progress(arguments) as progress:
        plan = pipeline.plan(_rendered(arguments), request, progress=progress)
    lines = explain(plan)
    return Answer(document=_plan_document(plan, lines), lines=lines, well=not (plan.refusals or plan.failures))


def adopt(arguments: argparse.Namespace) -> Answer:
    """Take over an address that holds another program's sitemap. Without ``--yes``, only explain what would be done."""
    is_complete, file = True, Path(os.devnull if arguments.difference is None else arguments.difference)
    try:
        output = file.open("a", encoding="utf-8")  # before anything is published; an earlier list is kept until then
    except OSError as error:
        raise TargetError(f"--difference {file}: {error.strerror}") from None
    with output, _progress(arguments) as progress:
        adoption = pipeline.adopt(_rendered(arguments), yes=arguments.yes, allow=_allowed(arguments), progress=progress)
        try:
            if file.is_file():
                output.truncate(0)
            output.writelines(f"{line}\n" for line in (adoption.difference() if arguments.difference else ()))
            output.close()
        except OSError as error:
            is_complete = False
            log.error("--difference %s: %s; the list of URLs is not complete", file, error.strerror)
    lines = [
        f"their sitemap lists {counted(adoption.theirs, 'URL')}, ours {adoption.ours:,}",
        f"{adoption.only_theirs:,} would be removed" + _shown(adoption.only_theirs_samples),
        f"{adoption.only_ours:,} would be new" + _shown(adoption.only_ours_samples),
        *(f"URLs that cannot be counted: {name}" for name in adoption.unread),
    ]
    if arguments.difference and is_complete:
        lines.append(f"all of them: {file}, '-' before a URL that would be removed, '+' before a new one")
    document = asdict(replace(adoption, report=None, left=(), new=()))
    for name in ("report", "left", "new"):
        del document[name]
    if adoption.report is None:
        lines.append("nothing public was changed: give --yes to publish ours in its place")
    else:
        lines += report_text.lines(adoption.report)
        document |= adoption.report.to_dict()
    failures = adoption.report.failures if adoption.report is not None else ()
    return Answer(document=document, lines=lines, well=is_complete and not failures)


def verify(arguments: argparse.Namespace) -> Answer:
    """Read the published sitemap as a crawler does. The exit status is 1 if a check of severity ``error`` fails."""
    form = arguments.format or ("json" if arguments.json else "text")
    try:
        result = _verified(arguments)
    except TargetError:
        raise
    except SitemapError as error:
        if form != "junit":
            raise
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return Answer(document={}, lines=[formats.junit_of_error(error)], json=False, well=False)
    lines = [formats.to_junit(result)] if form == "junit" else formats.text_lines(result)
    return Answer(document=formats.to_json(result), lines=lines, json=form == "json", well=result.valid)


SITEMAP_SUFFIXES: Final = (".xml", ".gz", ".txt")
"""Suffixes by which ``verify`` distinguishes a missing file from a DAG ID."""


def _verified(arguments: argparse.Namespace) -> Verification:
    target = arguments.target
    if arguments.sample < 0:
        raise TargetError(f"--sample {arguments.sample}: give the number of pages to fetch, 0 or more")
    if arguments.public is not None and not (normalise(arguments.public, origin="").loc or "").startswith("http"):
        raise TargetError(
            f"--public {arguments.public!r}: give the whole address, such as https://www.example.com/sitemap.xml"
        )
    exists = os.path.exists(Path(target.removeprefix("file://")))  # noqa: PTH110 - False for a name that cannot be looked up
    is_address = "://" in target.removeprefix("file://")
    is_dag = not is_address and not exists and "/" not in target and not target.endswith(SITEMAP_SUFFIXES)
    is_ours = (".py:" in target and not is_address) or is_dag
    if not is_ours and not is_address and not exists:
        raise TargetError(f"{target!r}: no such folder or file in {Path.cwd()}")
    conn_id = connection_of("" if target.lower().startswith("https://") else target, arguments.conn)
    if target.lower().startswith("http://") and not arguments.allow_http:
        raise TargetError(
            f"{target!r}: verify requests only https. For a staging site pass --allow-http, and --allow-private as well "
            "when the site is inside your own network"
        )
    rules = AccessRules(allow_http=arguments.allow_http, allow_private=arguments.allow_private)
    web = HttpClient(rules=rules)
    with _progress(arguments) as progress:
        what = of_sitemap(load_target(target).sitemap) if is_ours else of_address(target, conn_id=conn_id, web=web)
        options = replace(what.options, sample=arguments.sample, public=arguments.public)
        return what.verify(options, progress, web=web)


def duplicates(arguments: argparse.Namespace) -> Answer:
    """List the URLs that several rows share, section by section. The exit status is 1 if there are any.

    Within a shard, a run keeps the first of equal URLs (rule ``loc-duplicate``). In different shards, it lists both.
    """
    sitemap = _rendered(arguments)
    lines: list[str] = []
    document: dict[str, object] = {}
    for section in chosen(with_published_members(sitemap), RunRequest(sections=arguments.sections)):
        with section.source.open(section=section.name) as source:
            shared = source.duplicates(arguments.most)
        lines += [f"section {section.name}: {url.rows:,} rows have {url.loc}" for url in shared]
        document[section.name] = [asdict(url) for url in shared]
    return Answer(document=document, lines=lines or ["no URL is shared by several rows"], well=not lines)


def robots(arguments: argparse.Namespace) -> Answer:
    """Print the Sitemap lines for robots.txt, or write them to a file as a block of this sitemap."""
    sitemap = load_target(arguments.target).sitemap
    urls = robots_addresses(sitemap)
    if not urls:
        raise TargetError("nothing has been published yet, so there is nothing to name in robots.txt: run build first")
    if arguments.file is not None:
        path = Path(arguments.file)
        try:
            before = path.read_bytes() if path.is_file() else b""
            after = robots_txt.merge(before, urls, name=sitemap.index_url)
            if after != before:
                _replace_file(path, after)
        except OSError as error:
            raise TargetError(f"--file {path}: {error.strerror}") from None
    return Answer(document={"sitemaps": list(urls)}, lines=robots_txt.lines(urls))


def _replace_file(path: Path, body: bytes) -> None:
    """Replace a file at once, so that a full disk leaves it whole. Write in place where its folder does not permit it."""
    if path.exists() and not path.is_file():  # a pipe or a device takes the text, and a folder refuses it
        path.write_bytes(body)
        return
    path = path.resolve()  # not of /dev/stdout, whose pipe has no name
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
            new = Path(folder, path.name)
            new.write_bytes(body)
            if path.exists():
                old = path.stat()
                os.chown(new, old.st_uid, old.st_gid)
                new.chmod(old.st_mode & 0o7777)
            new.replace(path)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EBUSY):
            raise
        path.write_bytes(body)


def rollback(arguments: argparse.Namespace) -> Answer:
    """Publish an earlier generation again."""
    sitemap = load_target(arguments.target).sitemap
    _confirm(arguments, f"Publish generation {arguments.generation} of {sitemap.index_url} again?")
    with _progress(arguments) as progress:
        return _reported(pipeline.rollback(sitemap, arguments.generation, progress=progress))


def estimate(arguments: argparse.Namespace) -> Answer:
    """Estimate the cost of runs over a table of a given size. It needs no sitemap and no connection."""
    settings = {name: getattr(arguments, name) for name in ("rows", "changed", "scattered", "shard_urls")}
    try:
        load = cost_estimate.Load(**settings)
        costs = [cost for workers in arguments.workers for cost in cost_estimate.estimate(load, workers)]
    except ConfigurationError as error:
        raise TargetError(str(error)) from None
    return Answer(document={"costs": [asdict(cost) for cost in costs]}, lines=cost_estimate.table(costs))


COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], Answer]]] = {
    "build": build,
    "plan": plan,
    "status": status,
    "verify": verify,
    "find": find,
    "inventory": inventory,
    "diff": diff,
    "rollback": rollback,
    "adopt": adopt,
    "estimate": estimate,
    "duplicates": duplicates,
    "indexnow-key": indexnow_key,
    "robots": robots,
    "store-check": store_check,
}


def _shown(samples: Sequence[str]) -> str:
    return f", such as {', '.join(samples[:3])}" if samples else ""


def _rendered(arguments: argparse.Namespace) -> Sitemap:
    """Return the sitemap with its templates rendered, for commands that run SQL. TargetError: a section does not exist."""
    target = load_target(arguments.target)
    sitemap = with_published_members(target.sitemap)
    try:
        chosen(sitemap, RunRequest(sections=getattr(arguments, "sections", ())))
    except ConfigurationError as error:
        raise TargetError(f"--sections: {error}") from None
    try:
        for permit in _allowed(arguments) if "allow" in arguments else ():
            Permit.of(permit)
    except ConfigurationError as error:
        raise TargetError(f"--allow: {error}") from None
    return rendered(target.sitemap, SYSTEM_CLOCK.now(), target.params_with(arguments.param))


def _run_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a run that ``build`` and ``plan`` have in common."""
    names = ("sections", "full", "rebuild", "keep_lastmods")
    return {name: getattr(arguments, name) for name in names} | {"allow": _allowed(arguments)}


def _allowed(arguments: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name for names in arguments.allow for name in names)


@contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[Progress]:
    """Return progress bars on a terminal, or log lines elsewhere and with ``--verbose``, which would break the bars."""
    if sys.stderr.isatty() and not arguments.verbose:
        with bars() as progress:
            yield progress
    else:
        yield LogProgress(log)


def _confirm(arguments: argparse.Namespace, question: str) -> None:
    if arguments.yes:
        return
    if not sys.stdin.isatty() or arguments.json:
        raise TargetError(f"{question} This is not an interactive terminal: pass --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise TargetError("not confirmed: nothing was done")


def _reported(report: Report) -> Answer:
    return Answer(
        document=report.to_dict(),
        lines=report_text.lines(report),
        well=report.result not in ("refused", "partly_published"),
    )


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
                    {"range": str(t.range), "action": t.kind.value, "rows": t.digest.rows, "reason": t.reason}
                    for t in section.actions
                    if t.kind.value not in ("keep", "empty")
                ],
                "drift": list(section.drift),
            }
            for name, section in made.sections.items()
        },
        "rows_to_read": sum(batch.rows for batch in made.batches),
        "retired": list(made.retired),
        "warnings": list(made.warnings),
        "refusals": [{**asdict(refusal), "permit": refusal.permit} for refusal in made.refusals],
        "failures": [{"section": f.section, "error": f.error, "message": f.message} for f in made.failures],
        "checks": [asdict(check) for check in made.checks],
        "explanation": lines,
    }
