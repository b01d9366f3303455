"""Google Search Console: submit sitemaps, read how Google processed them, and keep that by section; inspect URLs.

Reference: developers.google.com/webmaster-tools/v1/sitemaps and …/urlInspection.index. The limits of sitemaps are 20
queries per second and 200 per minute and user; those of inspections 600 per minute and 2,000 per day and property. Each observation is an object of its own in the state area, so two tasks at the same time lose nothing.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, urlsplit

import msgspec

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.publish.commit_files import index_settings
from airflow_sitemaps.pipeline.state.repository import StateRepository, newest, put_newest
from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.search_engines.index_status import PageState
from airflow_sitemaps.setting_checks import prefix_of
from airflow_sitemaps.shards import Decoder
from airflow_sitemaps.shards.layout import address, index_entries, numbered, with_part
from airflow_sitemaps.web_services import NotAcceptedError, Sender, Service, client_for, excerpt, google_busy, parsed

if TYPE_CHECKING:
    from airflow_sitemaps.http import Fetched, HttpClient
    from airflow_sitemaps.ports import ObjectStore
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

MOST_INDEXES: Final = 500
"""Index files that Google reads per property (developers.google.com, "Manage your sitemaps with an index file")."""

UNPACED: Final = 90
"""Number of sitemaps that are submitted and read without pauses: 180 queries, below the limit of 200 per minute."""

PAUSE_S: Final = 0.65
WEBMASTERS: Final = "https://www.googleapis.com/auth/webmasters"
API: Final = "https://www.googleapis.com/webmasters/v3"
INSPECTION: Final = "https://searchconsole.googleapis.com/v1"
DOMAIN: Final = re.compile(r"sc-domain:[a-z0-9-]+(\.[a-z0-9-]+)+")

_USED_UP: Final = ("per day", "dailylimit", "quotaexceeded")
"""Texts of a response that says that the quota of the day is used up, not that of the minute."""

COVERAGE: Final = "coverage/searchconsole/"
KEPT: Final = 200
COVERAGE_FORMAT: Final = 1

_REASONS: Final = {
    400: "the sitemap's address is not of this property, or cannot be read",
    401: "the token is not valid: check the Google connection",
    403: "no permission: add the connection's service account to the property in Search Console, as an owner or with "
    "full rights, and enable the Search Console API in its project",
    404: "no such property, or no such sitemap in it: a URL-prefix property ends in '/', a domain property is 'sc-domain:…'",
    429: "too many requests (limits: 20 per second, 200 per minute)",
}
_INSPECTION_REASONS: Final = _REASONS | {429: "too many requests (limits: 600 per minute, 2,000 per day)"}


def property_of(site: str) -> str:
    """Return a property with its host in small letters, or refuse what cannot be one."""
    if DOMAIN.fullmatch(domain := str(site).lower()):
        return domain
    if prefix := prefix_of(site):
        return prefix
    raise ConfigurationError(
        f"Search Console property {site!r}: give a URL prefix that ends in '/', like "
        "'https://www.example.com/', or a domain, like 'sc-domain:example.com'"
    )


def covers(site: str, url: str) -> bool:
    """Return whether a property contains a URL."""
    if not site.startswith("sc-domain:"):
        return url.startswith(site)
    # Many URLs have the same beginning, so it is parsed once.
    domain, host = site.partition(":")[2], _host_of("/".join(url.split("/", 3)[:3]))
    return host == domain or host.endswith("." + domain)


@lru_cache(maxsize=1_024)
def _host_of(origin: str) -> str:
    return urlsplit(origin).hostname or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedSitemap:
    """The state of the sitemap at an address (``path``) in Search Console. Times are RFC 3339, or None."""

    path: str
    last_submitted: str | None
    last_downloaded: str | None
    pending: bool
    is_index: bool
    errors: int
    warnings: int
    urls: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConsoleClient:
    """A client for one property, ``https://www.example.com/`` or ``sc-domain:example.com``, with a bearer token."""

    site: str
    token: Callable[[], str] = field(repr=False)
    api: str = API
    http: HttpClient | None = None
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "site", property_of(self.site))

    def submit(self, sitemap_url: str) -> None:
        """Submit a sitemap, for the first time or after a change."""
        if not covers(self.site, sitemap_url):
            raise ConfigurationError(
                f"{sitemap_url} is outside the Search Console property {self.site!r}. Give the property that contains "
                "the sitemap's address; Google accepts no other."
            )
        self._request("PUT", sitemap_url)

    def get(self, sitemap_url: str) -> SubmittedSitemap:
        """Return the state of a sitemap in Search Console. Raises the same errors as ``submit``."""
        answer = self._request("GET", sitemap_url)
        return parsed(f"Search Console, {sitemap_url}", answer, partial(_read, sitemap_url))

    def address(self, sitemap_url: str) -> str:
        """Return the API's address of a sitemap. Property and sitemap are one path segment each, so ``/`` is quoted."""
        return f"{self.api}/sites/{quote(self.site, safe='')}/sitemaps/{quote(sitemap_url, safe='')}"

    def _request(self, method: str, sitemap_url: str) -> Fetched:
        sender = self.http or client_for(urlsplit(self.api).hostname or "")
        token = self.token()
        service = Service(sender=sender, reasons=_REASONS, secret=token, busy=google_busy, sleep=self.sleep)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        return service.call(f"Search Console, {sitemap_url}", method, self.address(sitemap_url), headers=headers)


def submit_all(client: SearchConsoleClient, urls: Sequence[str]) -> list[SubmittedSitemap]:
    """Submit sitemaps, and log the state of each one. Google chooses when to read them."""
    if len(urls) > MOST_INDEXES:
        log.warning("%d index files: Google reads at most %d per property", len(urls), MOST_INDEXES)
    submitted = []
    for url in urls:
        client.submit(url)
        submitted.append(client.get(url))
        _log_state(submitted[-1])
        if len(urls) > UNPACED:
            client.sleep(PAUSE_S)
    return submitted


def _log_state(sitemap: SubmittedSitemap) -> None:
    log.log(
        logging.WARNING if sitemap.errors or sitemap.warnings else logging.INFO,
        "Search Console, %s: submitted; last downloaded %s, %d errors, %d warnings, URLs %s",
        sitemap.path,
        sitemap.last_downloaded or "never",
        sitemap.errors,
        sitemap.warnings,
        ", ".join(f"{number:,} ({kind})" for kind, number in sitemap.urls.items()) or "not counted yet",
    )


def _read(sitemap_url: str, resource: Mapping[str, Any]) -> SubmittedSitemap:
    """Parse a sitemap resource. Its integers are JSON strings."""
    return SubmittedSitemap(
        path=str(resource.get("path", sitemap_url)),
        last_submitted=resource.get("lastSubmitted"),
        last_downloaded=resource.get("lastDownloaded"),
        pending=bool(resource.get("isPending")),
        is_index=bool(resource.get("isSitemapsIndex")),
        errors=int(resource.get("errors", 0)),
        warnings=int(resource.get("warnings", 0)),
        urls={str(each.get("type", "")): int(each.get("submitted", 0)) for each in resource.get("contents", ())},
    )


def google_token(conn_id: str) -> Callable[[], str]:
    """Return a function that returns a bearer token for Search Console from a Google connection.

    Without provider or credentials it raises ConfigurationError; NotAcceptedError if Google currently issues no token.
    """

    def token() -> str:
        try:
            hook = import_module("airflow.providers.google.common.hooks.base_google").GoogleBaseHook
            request = import_module("google.auth.transport.requests").Request
        except ImportError as error:
            raise ConfigurationError(
                f"Search Console needs Airflow's Google provider, which is not installed ({error}): "
                "pip install 'airflow-sitemaps[searchconsole]', or pass token="
            ) from error
        exceptions = import_module("google.auth.exceptions")
        try:
            credentials = hook(gcp_conn_id=conn_id).get_credentials()  # with the connection's scopes; a user's stay
            credentials = getattr(credentials, "with_scopes", lambda _: credentials)([WEBMASTERS])
            credentials.refresh(request())
        except (exceptions.DefaultCredentialsError, exceptions.RefreshError) as error:
            kind = NotAcceptedError if getattr(error, "retryable", False) else ConfigurationError
            raise kind(
                f"no Google token for {WEBMASTERS} from connection {conn_id!r}: {type(error).__name__}: {error}"
            ) from error
        return str(credentials.token)

    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleInspector:
    """Inspects URLs in Google's index, with the permission to read these ``properties``.

    ``pause_s`` are the seconds between the beginnings of two requests.
    """

    properties: tuple[str, ...]
    token: Callable[[], str] = field(repr=False)
    api: str = INSPECTION
    http: HttpClient | None = None
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    engine: str = "google"
    stages: tuple[str, ...] = ("crawled", "indexed")
    pause_s: float = 0.11
    site_state: None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", tuple(dict.fromkeys(map(property_of, self.properties or ("",)))))

    def day(self, now: datetime) -> date:
        """Return the day in California, where Google's quotas begin again at midnight."""
        return now.astimezone(lastmod.zone("America/Los_Angeles")).date()

    def homes(self, url: str) -> list[str]:
        """Return the properties that contain a URL: longer prefixes first, then longer domains."""
        containing = [site for site in self.properties if covers(site, url)]
        return sorted(containing, key=lambda site: (site.startswith("sc-domain:"), -len(site)))

    def is_used_up(self, response: Fetched) -> bool:
        """Return whether a response says that the property's quota of the day is used up."""
        said = response.body[:4_096].decode(errors="replace").lower()
        return response.status in (403, 429) and any(text in said for text in _USED_UP)

    def sender(self) -> Sender:
        """Return the client that sends the requests."""
        return self.http or client_for(urlsplit(self.api).hostname or "")

    def session(self) -> Callable[[str, str, Sender], PageState]:
        """Return a function that inspects URLs with one token."""
        return partial(self._inspect, self.token())

    def _inspect(self, token: str, site: str, url: str, sender: Sender) -> PageState:
        service = Service(
            sender=sender, reasons=_INSPECTION_REASONS, secret=token, busy=google_busy, sleep=self.sleep,
            success=frozenset({200, 400}),
        )  # fmt: skip
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Content-Type": "application/json"}
        body = json.dumps({"inspectionUrl": url, "siteUrl": site, "languageCode": "en-US"}).encode()
        what = f"Search Console, inspection of {url}"
        answer = service.call(what, "POST", f"{self.api}/urlInspection/index:inspect", headers=headers, body=body)
        if answer.status == 400:
            raise NotAcceptedError(f"{what}: Google refuses the URL (response: {excerpt(answer.body, token)})")
        return parsed(what, answer, partial(_page_state, url), token)


def _page_state(url: str, response: Mapping[str, Any]) -> PageState:
    status = response["inspectionResult"]["indexStatusResult"]
    crawled, canonical = lastmod.parse(status.get("lastCrawlTime") or ""), str(status.get("googleCanonical") or "")
    return PageState(
        crawled_at=None if crawled is None or crawled.year == 1970 else lastmod.begins(crawled),  # 1970 means never
        is_indexed=status.get("verdict") == "PASS",
        reason=str(status.get("coverageState") or ""),
        canonical=canonical if canonical != url else "",
    )


class IndexCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one index; ``section`` is empty for that of all. Times are RFC 3339, None before Google reads it."""

    url: str
    section: str
    listed: int
    discovered: dict[str, int] = {}
    errors: int = 0
    warnings: int = 0
    pending: bool = False
    last_downloaded: str | None = None


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of all indexes of a published generation in a property at one time (ISO 8601 in UTC)."""

    format: Literal[1] = COVERAGE_FORMAT
    at: str
    generation: int
    site: str
    indexes: tuple[IndexCoverage, ...]


_OBSERVATION: Final = Decoder(Observation)


def observe(sitemap: Sitemap, site: str, submitted: Sequence[SubmittedSitemap], now: datetime) -> Observation | None:
    """Store an observation, remove those above ``KEPT``, and return it; None if nothing is published."""
    objects = sitemap.store.open().state
    manifest = StateRepository(objects).manifest()
    if manifest is None:
        return None
    listed = _listed(manifest, sitemap)
    observation = Observation(
        at=now.isoformat(),
        generation=manifest.generation,
        site=site,
        indexes=tuple(_coverage(manifest, each, listed) for each in submitted),
    )
    put_newest(objects, COVERAGE, f"{now:%Y%m%dT%H%M%S%f}", observation, most=KEPT)
    return observation


def history(objects: ObjectStore, most: int = KEPT) -> list[Observation]:
    """Return the newest observations, oldest first. Objects that cannot be read are left out."""
    return newest(objects, COVERAGE, _OBSERVATION, most)


def _listed(manifest: Manifest, sitemap: Sitemap) -> dict[str, int]:
    """Return the number of URLs in the shards that each index lists, by the address of the index."""
    parts = [(section, shard) for section in manifest.sections.values() for shard in section.shards]
    urls = {address(section, shard.file.name): shard.urls for section, shard in parts if shard.file is not None}
    indexes = index_entries(manifest, index_settings(sitemap))
    return {manifest.base_url + name: sum(urls.get(loc, 0) for loc, _ in entries) for name, entries in indexes.items()}


def _coverage(manifest: Manifest, submitted: SubmittedSitemap, listed: Mapping[str, int]) -> IndexCoverage:
    section = section_of(manifest, submitted.path)
    return IndexCoverage(
        url=submitted.path,
        section=section,
        listed=listed.get(submitted.path, manifest.sections[section].urls if section else manifest.urls),
        discovered=dict(submitted.urls),
        errors=submitted.errors,
        warnings=submitted.warnings,
        pending=submitted.pending,
        last_downloaded=submitted.last_downloaded,
    )


def section_of(manifest: Manifest, index_url: str) -> str:
    """Return the section of an index that lists only one section; empty for the index of all sections."""
    record, name = manifest.index_record, index_url.removeprefix(manifest.base_url)
    if record is None or record.mode == "one":
        return ""
    return next((each for each in manifest.sections if numbered(with_part(record.name, each)).fullmatch(name)), "")
