"""Routes that read the store's state area. Where it cannot be read, they answer with ``StateUnavailableError``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Final, Literal, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response, status

from airflow_sitemaps.airflow_compat import create_session
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.pipeline.status import guard_results
from airflow_sitemaps.plugin import urls
from airflow_sitemaps.plugin.events import StoreFacts
from airflow_sitemaps.plugin.pages import overview
from airflow_sitemaps.plugin.pages.announcements import (
    MAX_DAYS,
    MAX_OBSERVATIONS,
    Coverage,
    Funnel,
    IndexStatus,
    coverage_of,
    funnel_of,
    index_status_of,
)
from airflow_sitemaps.plugin.pages.sitemap_pages import csv_of
from airflow_sitemaps.plugin.readings import StrictModel, read_as
from airflow_sitemaps.plugin.routes import Asset, Now, ReadableDags, as_csv, may_read_assets, sitemap_of, validated
from airflow_sitemaps.plugin.shard_map import (
    MAX_PAGE,
    FetchTimes,
    Generations,
    ShardColumns,
    ShardMap,
    ShardPage,
    live_map,
)
from airflow_sitemaps.plugin.state_reader import STORE_STATES, StateReader, StateUnavailableError, open_state, readable
from airflow_sitemaps.plugin.urls import Compared, GenerationChanges
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.search_engines import fetches, index_status
from airflow_sitemaps.search_engines.searchconsole import history

T = TypeVar("T")

STATES: Final = StateReader(open_state)

router = APIRouter(prefix="/api", dependencies=[Depends(may_read_assets)])


class Unavailable(StrictModel):
    """The store cannot be read. The page shows this sentence instead."""

    unavailable: str


def detached_sitemap(asset: Asset, readable: ReadableDags, moment: Now) -> overview.Overview:
    """Return the requested sitemap and release the database connection, for routes that wait for the store."""
    with create_session(scoped=False) as session:
        return sitemap_of(asset, session, readable, moment)


DetachedSitemap = Annotated[overview.Overview, Depends(detached_sitemap)]


def store_of(sitemap: overview.Overview) -> StoreFacts:
    """Return the store of a sitemap, or raise StateUnavailableError if nothing is published yet."""
    if not sitemap.snapshot.published:
        raise StateUnavailableError("Nothing has been published yet, so there is no manifest.")
    return readable(sitemap.store)


async def manifest_of(sitemap: overview.Overview) -> tuple[str, ShardMap]:
    """Return the ETag of the published manifest, and its shard map."""
    return await live_map(STATES, store_of(sitemap), sitemap.snapshot.generation)


def unavailable(_: Request, error: Exception) -> Response:
    """Return the message of a ``StateUnavailableError``."""
    return uncached(Unavailable(unavailable=str(error)))


def uncached(answer: StrictModel) -> Response:
    """Return a response that no cache keeps."""
    body = answer.model_dump_json()
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get("/sitemap/shards", responses={200: {"model": ShardColumns | Unavailable}})
async def shard_columns(request: Request, sitemap: DetachedSitemap) -> Response:
    """Return the numbers of every shard, one column for each number, from the store."""
    etag, shard_map = await manifest_of(sitemap)
    return validated(request, etag, await asyncio.to_thread(lambda: shard_map.columns))


@router.get("/sitemap/shards/fetches", responses={200: {"model": FetchTimes | Unavailable}})
async def shard_fetches(sitemap: DetachedSitemap) -> Response:
    """Return the last fetch of every shard by each crawler, as an access log says."""
    _, shard_map = await manifest_of(sitemap)
    record = await STATES.run(store_of(sitemap), "fetches", fetches.record_of)
    return uncached(await asyncio.to_thread(shard_map.fetched, record))


@router.get("/sitemap/shards/texts", responses={200: {"model": ShardPage | Unavailable}})
async def shard_texts(
    request: Request,
    sitemap: DetachedSitemap,
    section: Annotated[str, Query(max_length=200)],
    start: Annotated[int, Query(ge=0)] = 0,
    count: Annotated[int, Query(ge=1, le=MAX_PAGE)] = MAX_PAGE,
) -> Response:
    """Return names, key ranges and newest lastmod for a range of a section's shards."""
    etag, shard_map = await manifest_of(sitemap)
    return validated(request, etag, shard_map.page(section, start, count).model_dump_json())


@router.get("/sitemap/generations", responses={200: {"model": Generations | Unavailable}})
async def kept_generations(request: Request, sitemap: DetachedSitemap) -> Response:
    """Return the generations that are available for a rollback."""
    etag, shard_map = await manifest_of(sitemap)
    return validated(request, etag, shard_map.generations.model_dump_json())


def pair_of(
    from_generation: Annotated[int | None, Query(ge=1)] = None,
    to_generation: Annotated[int | None, Query(ge=1, description="Default: what a blocked run would publish")] = None,
    run: Annotated[
        str, Query(pattern=r"^[A-Za-z0-9_-]{0,100}$", description="A blocked or staged run to compare")
    ] = "",
) -> tuple[int | None, int | None, str]:
    """Return two generations, or without both what ``run`` would publish, by default the run that was blocked last."""
    return from_generation, to_generation, run


Pair = Annotated[tuple[int | None, int | None, str], Depends(pair_of)]


async def compared(sitemap: overview.Overview, pair: Pair, job: Callable[[ObjectStore, Compared], T]) -> T:
    """Return the result of a job on two generations."""
    from_generation, to_generation, run = pair
    outcome = sitemap.snapshot.worst_outcome
    run = run or (outcome.store_run if outcome is not None else "")
    if to_generation is None and not run:
        raise StateUnavailableError("The last run was not blocked, or it did not record what it would publish.")

    def read(area: ObjectStore) -> T:
        if from_generation is None or to_generation is None:
            return job(area, urls.of_blocked_run(area, run))
        return job(area, urls.of_generations(area, from_generation, to_generation))

    form = f"{job.__name__} {from_generation} {to_generation or run}"
    return await STATES.run(store_of(sitemap), form, read)


@router.get("/sitemap/changes", responses={200: {"model": GenerationChanges | Unavailable}})
async def changes(sitemap: DetachedSitemap, pair: Pair) -> Response:
    """Return the differences of two generations: by section, and by URL if only a few files differ."""
    return uncached(await compared(sitemap, pair, urls.changes))


@router.get("/sitemap/changes.csv", response_class=Response)
async def export_changes(sitemap: DetachedSitemap, pair: Pair) -> Response:
    """Return every URL that differs between two generations, as CSV."""
    try:
        rows = await compared(sitemap, pair, urls.url_rows)
    except StateUnavailableError as e:
        raise HTTPException(status.HTTP_409_CONFLICT, str(e)) from e
    return as_csv(await asyncio.to_thread(csv_of, rows, ("change", "url")), "changes.csv")


Engine = Literal["google", "bing"]


@router.get("/sitemap/coverage", responses={200: {"model": Coverage | Unavailable}})
async def coverage(sitemap: DetachedSitemap) -> Response:
    """Return what Search Console reported about each index at the newest submissions."""
    observations = await STATES.run(store_of(sitemap), "coverage", lambda area: history(area, most=MAX_OBSERVATIONS))
    return uncached(coverage_of(observations))


@router.get("/sitemap/index-status", responses={200: {"model": IndexStatus | Unavailable}})
async def inspected(sitemap: DetachedSitemap, engine: Engine = "google") -> Response:
    """Return the estimates by section from the URLs that were inspected in an engine."""
    most = MAX_DAYS + index_status.WINDOW_DAYS - 1

    def read(area: ObjectStore) -> IndexStatus:
        return index_status_of(index_status.history(area, engine, most=most))

    return uncached(await STATES.run(store_of(sitemap), f"index-status {engine}", read))


@router.get("/sitemap/funnel", responses={200: {"model": Funnel | Unavailable}})
async def funnel(sitemap: DetachedSitemap, engine: Engine = "google") -> Response:
    """Return how many of the listed URLs of each section an engine fetched, discovered, crawled and indexed."""

    def read(area: ObjectStore) -> Funnel:
        submitted = history(area, most=1) if engine == "google" else []
        inspected = index_status.history(area, engine, most=index_status.WINDOW_DAYS)
        return funnel_of(sitemap.snapshot.sections, fetches.summary_of(area), submitted, inspected, engine)

    return uncached(await STATES.run(store_of(sitemap), f"funnel {engine}", read))


class GuardResults(StrictModel):
    """What guards, permits, people and canaries decided in one run. ``at`` is ISO 8601."""

    run: str
    at: str
    lines: list[str]


class GuardHistory(StrictModel):
    """Runs with results of guards, newest first."""

    runs: list[GuardResults]


@router.get("/sitemap/guards", responses={200: {"model": GuardHistory | Unavailable}})
async def guards(sitemap: DetachedSitemap) -> Response:
    """Return what the newest reports say of guards: refusals, permits, answers of people, and results of canaries."""
    runs = await STATES.run(store_of(sitemap), "guards", lambda area: guard_results(StateRepository(area)))
    return uncached(GuardHistory(runs=[read_as(GuardResults, asdict(each)) for each in runs]))


@router.get("/find")
async def find(
    readable: ReadableDags,
    moment: Now,
    url: Annotated[str, Query(min_length=1, max_length=2_048)],
    asset: Annotated[str, Query(max_length=1_500)] = "",
) -> urls.UrlSearches:
    """Return whether a sitemap lists a URL. Without ``asset``, every sitemap that serves the URL's host is searched."""

    def sitemaps() -> list[overview.Overview]:
        with create_session(scoped=False) as session:
            assets = overview.sitemap_assets(session)
            named = [one for one in assets if not asset or one.uri == asset]
            return overview.overviews(session, named, readable, moment, STORE_STATES)

    return await urls.search(STATES, await asyncio.to_thread(sitemaps), url, everywhere=not asset)
