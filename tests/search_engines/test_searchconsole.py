"""Search Console: the requests, the state that is read, the meaning of each response, and the source of the token."""

from __future__ import annotations

import json
import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.search_engines import searchconsole
from airflow_sitemaps.search_engines.searchconsole import (
    GoogleInspector,
    SearchConsoleClient,
    SubmittedSitemap,
    submit_all,
)
from airflow_sitemaps.web_services import ATTEMPTS, NotAcceptedError
from tests.support.website import Page, Site

if TYPE_CHECKING:
    from airflow_sitemaps.http import HttpClient

SITE = "https://www.example.com/"
INDEX = "https://www.example.com/sitemaps/sitemap.xml?a=1&b=é"
PATH = (
    "/webmasters/v3/sites/https%3A%2F%2Fwww.example.com%2F/sitemaps/"
    "https%3A%2F%2Fwww.example.com%2Fsitemaps%2Fsitemap.xml%3Fa%3D1%26b%3D%C3%A9"
)
TOKEN = "ya29.secret-token"
KNOWN = {
    "path": INDEX,
    "lastSubmitted": "2026-01-15T12:00:00.000Z",
    "isPending": True,
    "isSitemapsIndex": True,
    "type": "sitemap",
    "lastDownloaded": "2026-01-14T03:00:00.000Z",
    "warnings": "2",
    "errors": "1",
    "contents": [{"type": "web", "submitted": "50000", "indexed": "0"}, {"type": "image", "submitted": "7"}],
}


def console(engine: Site, http: HttpClient, site: str = SITE, **settings: Any) -> SearchConsoleClient:
    return SearchConsoleClient(
        site=site, token=lambda: TOKEN, api=f"{engine.base}/webmasters/v3", http=http, **settings
    )


def test_a_sitemap_is_submitted_and_read_back(engine: Site, loopback: HttpClient) -> None:
    client = console(engine, loopback)
    engine.pages[PATH] = Page(status=204)
    client.submit(INDEX)
    engine.pages[PATH] = Page(json.dumps(KNOWN).encode())

    known = client.get(INDEX)

    assert known == SubmittedSitemap(
        path=INDEX, last_submitted="2026-01-15T12:00:00.000Z", last_downloaded="2026-01-14T03:00:00.000Z",
        pending=True, is_index=True, errors=1, warnings=2, urls={"web": 50_000, "image": 7},
    )  # fmt: skip
    assert [(method, path, body) for method, path, _, body in engine.asked] == [("PUT", PATH, b""), ("GET", PATH, b"")]
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for _, _, headers, _ in engine.asked)
    assert engine.asked[0][2]["content-length"] == "0"


def test_domain_properties_hold_every_host_of_theirs(engine: Site, loopback: HttpClient) -> None:
    client = console(engine, loopback, "sc-domain:example.com")
    assert "/sites/sc-domain%3Aexample.com/sitemaps/https%3A%2F%2F" in client.address(INDEX)
    for url in ("https://example.com/s.xml", "http://a.b.example.com/s.xml"):
        engine.pages[client.address(url).removeprefix(engine.base)] = Page(status=204)
        client.submit(url)
    for url in ("https://badexample.com/s.xml", "https://example.com.evil.example/s.xml"):
        with pytest.raises(ConfigurationError, match="is outside"):
            client.submit(url)
    assert len(engine.asked) == 2


def test_a_sitemap_of_another_property_is_not_sent(engine: Site, loopback: HttpClient) -> None:
    for url in ("https://example.com/s.xml", "http://www.example.com/s.xml"):
        with pytest.raises(ConfigurationError, match="Give the property"):
            console(engine, loopback).submit(url)
    assert engine.asked == []


@pytest.mark.parametrize(
    "site", ["", "example.com", "https://www.example.com", "sc-domain:", "sc-domain:a/b.c", "https://[x/"]
)
def test_properties_that_cannot_be(site: str) -> None:
    with pytest.raises(ConfigurationError, match="give a URL prefix that ends in '/'"):
        SearchConsoleClient(site=site, token=lambda: TOKEN)


@pytest.mark.parametrize(
    ("site", "written"),
    [
        ("HTTPS://WWW.Example.com/Shop/", "https://www.example.com/Shop/"),
        ("SC-Domain:Example.com", "sc-domain:example.com"),
    ],
)
def test_the_host_of_a_property_may_have_capitals(site: str, written: str) -> None:
    url = "https://www.example.com/Shop/sitemap.xml"
    client = SearchConsoleClient(site=site, token=lambda: TOKEN)
    assert client.site == written
    assert client.address(url) == SearchConsoleClient(site=written, token=lambda: TOKEN).address(url)
    inspector = GoogleInspector(properties=(site, written), token=lambda: TOKEN)
    assert (inspector.properties, inspector.homes(url)) == ((written,), [written])


def refused(reason: str) -> bytes:
    return json.dumps({"error": {"code": 403, "message": f"no {TOKEN}", "errors": [{"reason": reason}]}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (400, b"", ConfigurationError, "not of this property"),
        (401, b"", ConfigurationError, "token is not valid"),
        (403, refused("forbidden"), ConfigurationError, "add the connection's service account"),
        (403, refused("rateLimitExceeded"), NotAcceptedError, "quota is used up"),
        (403, b'{"error": []}', ConfigurationError, "no permission"),
        (404, b"", ConfigurationError, "no such property"),
        (429, b"", NotAcceptedError, "retry after 3 s"),
        (503, b"<html>", NotAcceptedError, "503"),
    ],
)
def test_answers(
    engine: Site,
    loopback: HttpClient,
    caplog: pytest.LogCaptureFixture,
    status: int,
    body: bytes,
    error: type[Exception],
    words: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    engine.pages[PATH] = Page(body, status, {"Retry-After": "3"})
    with pytest.raises(error, match=words) as raised:
        console(engine, loopback, sleep=lambda _: None).submit(INDEX)
    assert len(engine.asked) == (ATTEMPTS if error is NotAcceptedError else 1)
    assert TOKEN not in str(raised.value)
    assert TOKEN not in caplog.text
    assert INDEX in str(raised.value)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"errors": "many"}', b'{"contents": [1]}'])
def test_answers_that_cannot_be_read(engine: Site, loopback: HttpClient, body: bytes) -> None:
    engine.pages[PATH] = Page(body)
    with pytest.raises(NotAcceptedError, match="cannot be parsed"):
        console(engine, loopback).get(INDEX)


def test_only_google_is_asked_by_default(engine: Site) -> None:
    client = SearchConsoleClient(site=SITE, token=lambda: TOKEN, api=engine.base)
    with pytest.raises(FetchError, match="only https"):
        client.submit(INDEX)
    assert engine.asked == []


def test_many_sitemaps_are_submitted_below_the_quota(
    engine: Site, loopback: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pauses: list[float] = []
    client = console(engine, loopback, sleep=pauses.append)
    urls = [f"{SITE}{number}.xml" for number in range(501)]
    for url in urls:
        engine.pages[client.address(url).removeprefix(engine.base)] = Page(json.dumps({"path": url}).encode())

    assert len(submit_all(client, urls[:3])) == 3
    assert pauses == []
    assert len(submit_all(client, urls)) == 501
    assert sum(pauses) >= 60 * (2 * 501 / 200 - 1)
    assert "501 index files: Google reads at most 500" in caplog.text
    assert "last downloaded never, 0 errors, 0 warnings, URLs not counted yet" in caplog.text


# ---------------------------------------------------------------- the token


class UserCredentials:
    """A user's credentials: their scopes are those of the consent."""

    def __init__(self, scopes: tuple[str, ...] = ("https://www.googleapis.com/auth/cloud-platform",)) -> None:
        self.scopes = scopes
        self.token: str | None = None

    def refresh(self, request: object) -> None:
        self.token = f"{TOKEN} for {' '.join(self.scopes)}"


class Credentials(UserCredentials):
    """A service account's credentials, which Airflow's hook returns with the scopes of the connection."""

    def with_scopes(self, scopes: list[str]) -> Credentials:
        return Credentials(tuple(scopes))


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replaces the Google provider and google-auth."""
    seen = SimpleNamespace(conn_ids=[], credentials=Credentials())

    class Hook:
        def __init__(self, *, gcp_conn_id: str) -> None:
            seen.conn_ids.append(gcp_conn_id)

        def get_credentials(self) -> UserCredentials:
            return seen.credentials

    class RefreshError(Exception):
        def __init__(self, message: str, retryable: bool = False) -> None:
            super().__init__(message)
            self.retryable = retryable

    seen.RefreshError = RefreshError
    names: dict[str, dict[str, Any]] = {
        "airflow.providers.google": {},
        "airflow.providers.google.common": {},
        "airflow.providers.google.common.hooks": {},
        "airflow.providers.google.common.hooks.base_google": {"GoogleBaseHook": Hook},
        "google": {},
        "google.auth": {},
        "google.auth.exceptions": {"DefaultCredentialsError": KeyError, "RefreshError": RefreshError},
        "google.auth.transport": {},
        "google.auth.transport.requests": {"Request": object},
    }
    for name, values in names.items():
        module = ModuleType(name)
        module.__path__ = []  # type: ignore[attr-defined]
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    return seen


@pytest.mark.parametrize(
    ("credentials", "scope"),
    [
        (Credentials(), searchconsole.WEBMASTERS),
        (Credentials((searchconsole.WEBMASTERS,)), searchconsole.WEBMASTERS),
        (UserCredentials(("a", searchconsole.WEBMASTERS)), f"a {searchconsole.WEBMASTERS}"),
    ],
)
def test_the_token_is_of_the_google_connection_and_the_right_scope(
    google: SimpleNamespace, credentials: UserCredentials, scope: str
) -> None:
    google.credentials = credentials
    token = searchconsole.google_token("search")
    assert google.conn_ids == []
    assert token() == f"{TOKEN} for {scope}"
    assert google.conn_ids == ["search"]


@pytest.mark.parametrize(("retryable", "error"), [(False, ConfigurationError), (True, NotAcceptedError)])
def test_credentials_that_give_no_token(google: SimpleNamespace, retryable: bool, error: type[Exception]) -> None:
    def refresh(request: object) -> None:
        raise google.RefreshError("invalid_grant", retryable)

    google.credentials = SimpleNamespace(refresh=refresh)
    with pytest.raises(error, match=r"no Google token for .* from connection 'search'.* invalid_grant"):
        searchconsole.google_token("search")()


def test_without_the_google_provider_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.google.common.hooks.base_google", None)
    monkeypatch.setitem(sys.modules, "airflow.providers.google", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'airflow-sitemaps\[searchconsole\]', or pass token="):
        searchconsole.google_token("search")()
