"""The rows of the source for a URL that the published generation does not list. It reads the rows of one key only."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.clock import SYSTEM_CLOCK
from airflow_sitemaps.pipeline.find import key_in_section, normal_url
from airflow_sitemaps.pipeline.request import row_context_of
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol.rules import Tally
from airflow_sitemaps.shards.key import KeyRange

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.find import UrlSearch
    from airflow_sitemaps.ports import Clock
    from airflow_sitemaps.sitemap import Section, Sitemap

NO_KEY: Final = "The source was not queried: the URL does not contain its key."


def with_source(sitemap: Sitemap, search: UrlSearch, *, clock: Clock = SYSTEM_CLOCK) -> UrlSearch:
    """Add the source's row for the URL's key to a search. A URL that is listed is returned as it is.

    Args:
        clock: Source of the time at which the row is checked.

    Raises:
        SourceError: The database failed.
        RuleError: The row breaks a rule that is set to ``fail``.
    """
    if search.listed:
        return search
    published = StateRepository(sitemap.store.open().state).manifest()
    manifests = published.sections if published is not None else {}
    url = normal_url(search.url, sitemap.store.base_url)
    notes = []
    for section in sitemap.sections:
        manifest = manifests.get(section.name)
        key = key_in_section(url, str(getattr(section.source, "loc", "")), manifest) if manifest is not None else None
        if key is not None:
            notes.append(_note(sitemap, section, key, url, clock))
    return replace(search, note=" ".join([search.note, *(notes or [NO_KEY])]).strip())


def _note(sitemap: Sitemap, section: Section, key: int, url: str, clock: Clock) -> str:
    """Describe the source's current row for a key, and the result that a run gets from it."""
    from airflow_sitemaps.protocol.columnar.batch import clean  # noqa: PLC0415 - pyarrow is loaded where work is done

    tally, rows, urls = Tally(), 0, []
    context = row_context_of(sitemap, section, clock)
    with (
        section.source.open(section=section.name) as source,
        closing(source.read([KeyRange((key,), (key + 1,))])) as batches,  # type: ignore[type-var]
    ):
        for batch in batches:
            rows += batch.num_rows
            urls += clean(batch, context, tally).loc.to_pylist()
    where = f"Source of section {section.name}:"
    if not rows:
        return f"{where} no row has the key {key}."
    if url in urls:
        return f"{where} the row with the key {key} is valid; the next run that sees the change lists it."
    if urls:
        return f"{where} the row with the key {key} has the URL {urls[0]}."
    rules = ", ".join(sorted({**tally.dropped, **tally.expired}))
    samples = next((texts[0] for texts in tally.samples.values() if texts), "")
    shown = f": {samples}" if samples else ""
    return f"{where} the row with the key {key} is left out by the rule {rules}{shown}."
