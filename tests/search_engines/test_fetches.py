"""Fetches of files: the recipes over generated logs in DuckDB, whose addresses count, the record, and late files."""

from __future__ import annotations

import re
import socket
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from airflow_sitemaps import AccessLog, Crawler, MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import ConfigurationError, SourceConfigurationError
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.ports import Overwrite, Requests
from airflow_sitemaps.search_engines import fetches
from airflow_sitemaps.search_engines.crawlers import BING, GOOGLE
from airflow_sitemaps.search_engines.fetches import Fetches, late, lines, observe, record_of, summary_of
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.source_sessions import connected, create
from tests.support.website import Page

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from airflow_sitemaps.http import HttpClient
    from tests.support.website import Site

URL = "https://shop.example/"
PATH = "/sitemap-pages-00001.xml.gz"
RECIPES = dict(
    re.findall(r"## (\w+)\n.*?```sql\n(.*?)```", (Path(__file__).parents[2] / "docs/fetches.md").read_text(), re.DOTALL)
)
OURS, OTHERS = "66.249.66.1", "203.0.113.9"
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
BINGBOT = "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)"
AGENTS = {"google": "googlebot", "bing": "bingbot"}
DAY = date(2026, 1, 15)
NOON = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)

LOG = [
    (NOON, PATH, GOOGLEBOT, OURS, 200),
    (NOON + timedelta(hours=1), PATH, GOOGLEBOT, OURS, 200),
    (NOON + timedelta(hours=2), PATH, GOOGLEBOT, OURS, 503),
    (NOON + timedelta(hours=3), PATH, GOOGLEBOT, OTHERS, 200),
    (NOON + timedelta(hours=4), PATH, BINGBOT, OTHERS, 304),
    (NOON + timedelta(hours=5), PATH, "curl/8", OTHERS, 200),
    (NOON + timedelta(hours=5), "/p/1", GOOGLEBOT, OURS, 200),
    (NOON - timedelta(days=3), PATH, GOOGLEBOT, OURS, 200),
]
GROUPS = {
    ("google", PATH, OURS, "200", NOON + timedelta(hours=1), 2),
    ("google", PATH, OURS, "503", NOON + timedelta(hours=2), 1),
    ("google", PATH, OTHERS, "200", NOON + timedelta(hours=3), 1),
    ("bing", PATH, OTHERS, "304", NOON + timedelta(hours=4), 1),
}


def cloudfront() -> tuple[str, list[tuple[Any, ...]]]:
    rows = [
        (at.date(), f"{at:%H:%M:%S}", path, ip, status, agent.replace(" ", "%20"))
        for at, path, agent, ip, status in LOG
    ]
    columns = '"date" DATE, "time" VARCHAR, cs_uri_stem VARCHAR, c_ip VARCHAR, sc_status INTEGER, cs_user_agent VARCHAR'
    return f"cloudfront_logs ({columns})", rows


def cloudflare() -> tuple[str, list[tuple[Any, ...]]]:
    rows = [(path, f"{at:%Y-%m-%dT%H:%M:%SZ}", agent, ip, status) for at, path, agent, ip, status in LOG]
    columns = (
        "ClientRequestPath VARCHAR, EdgeStartTimestamp VARCHAR, ClientRequestUserAgent VARCHAR, ClientIP VARCHAR, "
        "EdgeResponseStatus INTEGER"
    )
    return f"cloudflare_http_requests ({columns})", rows


def nginx() -> tuple[str, list[tuple[Any, ...]]]:
    zone = timezone(timedelta(hours=2))
    rows = [
        (
            at.date(),
            f'{ip} - - [{at.astimezone(zone):%d/%b/%Y:%H:%M:%S %z}] "GET {path}?a=1 HTTP/1.1" {status} 512 "-" "{agent}"',
        )
        for at, path, agent, ip, status in LOG
    ]
    return "nginx_lines (loaded_on DATE, line VARCHAR)", rows


@pytest.fixture
def duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("duckdb_engine")
    url = f"duckdb:///{tmp_path / 'logs.duckdb'}"
    monkeypatch.setenv("AIRFLOW_CONN_LOGS", f'{{"conn_type": "generic", "extra": {{"sqlalchemy_url": "{url}"}}}}')

    def fill(table: str, rows: list[tuple[Any, ...]]) -> None:
        engine = sa.create_engine(url)
        places = ", ".join(f":c{n}" for n in range(len(rows[0])))
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE TABLE {table}")
            name = table.partition(" ")[0]
            values = [{f"c{n}": value for n, value in enumerate(row)} for row in rows]
            connection.execute(sa.text(f"INSERT INTO {name} VALUES ({places})"), values)
        engine.dispose()

    return fill


def requests(log: AccessLog, since: date = DAY) -> list[Requests]:
    return list(log.requests(since, AGENTS, [".xml", ".xml.gz"], render=str))


# ---------------------------------------------------------------- the log


@pytest.mark.parametrize(("name", "made"), [("CloudFront", cloudfront), ("Cloudflare", cloudflare), ("nginx", nginx)])
def test_a_recipe_reads_its_log_in_one_grouped_statement(name: str, made: Any, duckdb: Any) -> None:
    duckdb(*made())

    found = requests(AccessLog("logs", query=RECIPES[name]))

    assert set(map(tuple, found)) == GROUPS
    assert len(requests(AccessLog("logs", query=RECIPES[name]), DAY - timedelta(days=4))) == 4, "one more in a group"


def test_a_log_without_addresses_and_with_local_times(duckdb: Any) -> None:
    duckdb("log (path VARCHAR, requested_at TIMESTAMP, agent VARCHAR)", [(PATH, datetime(2026, 1, 15, 12), GOOGLEBOT)])
    query = "SELECT path, requested_at, agent AS user_agent FROM log WHERE requested_at >= CAST(:since AS TIMESTAMP)"

    (found,) = requests(AccessLog("logs", query=query, timezone="Europe/Berlin"))

    assert (found.address, found.status, found.at) == (None, "", NOON - timedelta(hours=1))


def test_a_log_with_local_times_west_of_utc_is_read_from_the_day_before(duckdb: Any) -> None:
    local = datetime(2026, 1, 14, 22)  # 3 o'clock in UTC, on the first day
    duckdb("log (path VARCHAR, requested_at TIMESTAMP, agent VARCHAR)", [(PATH, local, GOOGLEBOT)])
    query = "SELECT path, requested_at, agent AS user_agent FROM log WHERE requested_at >= CAST(:since AS TIMESTAMP)"
    (found,) = requests(AccessLog("logs", query=query, timezone="America/New_York"))
    assert found.at == datetime(2026, 1, 15, 3, tzinfo=timezone.utc)


@pytest.mark.parametrize("name", ["duckdb", "mariadb", "postgresql"])
def test_a_moment_of_the_log_is_in_no_zone_whatever_the_driver_returns(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = connected(name, "requests", monkeypatch)
    moment = "TIMESTAMP" if name == "mariadb" else "TIMESTAMP WITH TIME ZONE"
    create(base, "moments_log", {"path": "text", "user_agent": "text", "requested_at": f"={moment}"})
    zone, end = (["SET time_zone = '+00:00'"], "") if name == "mariadb" else ([], "+00")
    values = f"'{PATH}', '{GOOGLEBOT}', '{NOON:%Y-%m-%d %H:%M:%S}{end}'"
    base.run(*zone, f"INSERT INTO moments_log (path, user_agent, requested_at) VALUES ({values})")
    query = "SELECT path, requested_at, user_agent FROM moments_log WHERE requested_at >= :since"

    (found,) = requests(AccessLog("requests", query=query, timezone="Europe/Berlin"))

    assert found.at == NOON


@pytest.mark.parametrize("column", ["path", "user_agent", "address"])
@pytest.mark.parametrize(("name", "kind"), [("mariadb", "VARBINARY(300)"), ("postgresql", "bytea"), ("duckdb", "BLOB")])
def test_columns_of_bytes_are_refused(name: str, kind: str, column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = connected(name, "requests", monkeypatch)
    texts = dict.fromkeys(("path", "user_agent", "address"), "text") | {column: f"={kind}"}
    create(base, "packed_log", {**texts, "requested_at": "timestamp"})
    query = "SELECT path, requested_at, user_agent, address FROM packed_log WHERE requested_at >= :since"
    with pytest.raises(SourceConfigurationError, match=f": column='{column}' holds bytes; convert it"):
        requests(AccessLog("requests", query=query))


def test_the_first_day_is_no_parameter_of_the_user() -> None:
    with pytest.raises(SourceConfigurationError, match="AccessLog\\('logs'\\): rename parameter 'since'"):
        AccessLog("logs", query="SELECT :since", parameters={"since": "2026-01-01"})


def test_requests_without_a_time_are_not_counted(duckdb: Any) -> None:
    rows = [(PATH, "2026-01-15 12:00:00", GOOGLEBOT), ("/b.xml", "damaged", GOOGLEBOT)]
    duckdb("log (path VARCHAR, moment VARCHAR, agent VARCHAR)", rows)
    query = "SELECT path, TRY_CAST(moment AS TIMESTAMP) AS requested_at, agent AS user_agent FROM log WHERE moment >= :since"
    (found,) = requests(AccessLog("logs", query=query))
    assert (found.path, found.at) == (PATH, NOON)


@pytest.mark.parametrize("text", ["2026-01-15T12:00:00.1234567Z", "2026-01-15 13:00:00,5 +01:00", "2026-01-15 12:00"])
def test_a_time_is_read_from_any_text_that_a_lastmod_may_be(text: str, duckdb: Any) -> None:
    duckdb("log (path VARCHAR, requested_at VARCHAR, user_agent VARCHAR)", [(PATH, text, GOOGLEBOT)])
    (found,) = requests(AccessLog("logs", query="SELECT * FROM log WHERE requested_at >= :since"))
    assert found.at == NOON


@pytest.mark.parametrize(
    ("kind", "value", "status"),
    [("INT", 0, "0"), ("DOUBLE", 200.0, "200"), ("VARCHAR", "000", "000"), ("INT", None, "")],
)
def test_a_status_is_read_from_any_type(kind: str, value: Any, status: str, duckdb: Any) -> None:
    duckdb(
        f"log (path VARCHAR, requested_at TIMESTAMP, agent VARCHAR, status {kind})", [(PATH, NOON, GOOGLEBOT, value)]
    )
    query = "SELECT path, requested_at, agent AS user_agent, status FROM log WHERE requested_at >= CAST(:since AS TIMESTAMP)"
    assert [found.status for found in requests(AccessLog("logs", query=query))] == [status]
    assert (status in fetches.SUCCESS) is (value in (200.0, None))


@pytest.mark.parametrize("address", [OURS, f"{OURS}:52344", f"{OURS}/32", "[2001:db8::1]:443", "2001:db8::1"])
def test_an_address_may_have_a_port(address: str, duckdb: Any) -> None:
    duckdb("log (path VARCHAR, requested_at TIMESTAMP, agent VARCHAR, ip VARCHAR)", [(PATH, NOON, GOOGLEBOT, address)])
    query = "SELECT path, requested_at, agent AS user_agent, ip AS address FROM log WHERE requested_at >= CAST(:since AS TIMESTAMP)"
    (found,) = requests(AccessLog("logs", query=query))
    assert found.address == (OURS if OURS in address else "2001:db8::1")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", r"AccessLog\('logs', query=''\): give a text that is not empty"),
        (None, r"AccessLog\('logs', query=''\): give a text that is not empty"),
        ("SELECT 1 AS path", "does not use :since"),
        ("SELECT :since AS path, :since AS requested_at", "column='user_agent': there is no such column"),
        (f"SELECT '{PATH}' AS path, 'today' AS requested_at, 'Googlebot' AS user_agent, :since AS d", "is not a time"),
    ],
)
def test_queries_that_cannot_be_used(query: Any, words: str, duckdb: Any) -> None:
    duckdb("log (path VARCHAR)", [("/",)])
    with pytest.raises(SourceConfigurationError, match=words):
        requests(AccessLog("logs", query=query))


# ---------------------------------------------------------------- whose requests count


def resolve(monkeypatch: pytest.MonkeyPatch, names: dict[str, str | None], back: dict[str, list[str]]) -> None:
    """Let the resolver give these names of addresses (None: no answer), and these addresses of names."""
    real = socket.getaddrinfo

    def by_address(address: str) -> tuple[str, list[str], list[str]]:
        if name := names[address]:
            return name, [], [address]
        raise socket.herror(*((2, "Host name lookup failure") if name is None else (1, "Unknown host")))

    def by_name(name: str, *args: Any, **settings: Any) -> list[Any]:
        if name not in names.values():
            return real(name, *args, **settings)
        if name not in back:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in back[name]]

    monkeypatch.setattr(socket, "gethostbyaddr", by_address)
    monkeypatch.setattr(socket, "getaddrinfo", by_name)


def test_addresses_in_the_published_ranges_are_the_crawlers_own(
    engine: Site, loopback: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.pages["/ranges.json"] = Page(
        b'{"creationTime": "2026-01-01", "prefixes": [{"ipv6Prefix": "2001:4860:4801::/48"}, {"ipv4Prefix": "66.249.64.0/19"}]}'
    )
    crawler = Crawler(name="google", agent="Googlebot", ranges=["https://ranges.example/ranges.json"])
    object.__setattr__(crawler, "ranges", [f"{engine.base}/ranges.json"])

    own = crawler.own([OURS, f"::ffff:{OURS}", OTHERS, "2001:4860:4801::5", "2001:db8::1", "unknown"], loopback)

    assert own == {OURS, f"::ffff:{OURS}", "2001:4860:4801::5"}
    engine.pages["/ranges.json"] = Page(b'{"prefixes": []}')
    with pytest.raises(FetchError, match="this list of IP ranges is empty"):
        crawler.own([OURS], loopback)


def test_names_decide_where_the_ranges_cannot_be_read(
    engine: Site, loopback: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawler = Crawler(name="google", agent="Googlebot", domains=["googlebot.com"])
    object.__setattr__(crawler, "ranges", [f"{engine.base}/missing.json"])
    names = {
        OURS: "crawl-1.googlebot.com",
        OTHERS: "crawl-2.googlebot.com",
        "198.51.100.1": "googlebot.com.evil.example",
        "198.51.100.2": "evilgooglebot.com",
        "198.51.100.3": "",
        "198.51.100.4": None,
    }
    resolve(monkeypatch, names, {"crawl-1.googlebot.com": [OURS], "crawl-2.googlebot.com": ["66.249.66.2"]})

    assert crawler.own(list(names), loopback) == {OURS}, "a name that does not lead back is forged"
    with pytest.raises(FetchError, match="check the DNS"):
        crawler.own(["198.51.100.4"], loopback)


def test_ranges_that_cannot_be_read_without_domains_are_an_error(engine: Site, loopback: HttpClient) -> None:
    crawler = Crawler(name="other", agent="OtherBot", ranges=["192.0.2.0/24"])
    assert crawler.own(["192.0.2.7", OURS], loopback) == {"192.0.2.7"}
    engine.pages["/ranges.json"] = Page(b"[]")
    object.__setattr__(crawler, "ranges", [f"{engine.base}/ranges.json"])
    with pytest.raises(FetchError, match="no list of IP ranges"):
        crawler.own([OURS], loopback)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "Google"}, "give a name"),
        ({"agent": "100%"}, "without '%'"),
        ({"domains": []}, "or domains="),
        ({"domains": ["bot.example", ".bot.example"]}, r"domains=\['.bot.example'\]; give names in small letters"),
        ({"domains": ["Bot.example"]}, "in small letters, like 'googlebot.com'"),
        ({"domains": ["https://bot.example"]}, "give names"),
        ({"domains": [""]}, "give names"),
        ({"ranges": ["http://ranges.example/"]}, "give IP ranges"),
        ({"ranges": ["https://", "https://[x/"]}, "give IP ranges"),
        ({"ranges": "192.0.2.0/24"}, "list of texts"),
        ({"max_delay": timedelta(0)}, "max_delay"),
    ],
)
def test_crawlers_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Crawler(**{"name": "x", "agent": "XBot", "domains": ["x.example"], **settings})


# ---------------------------------------------------------------- the record


@pytest.fixture
def shop() -> Sitemap:
    rows = [{"id": n, "loc": f"{URL}p/{n}"} for n in range(6)]
    sitemap = Sitemap(
        MemoryStore(base_url=URL), [Section("pages", MemorySourceConfig(rows), shards=ShardPolicy(max_urls=2))]
    )
    build(sitemap)
    return sitemap


def seen(sitemap: Sitemap, groups: list[Requests], at: datetime, days: int = 3) -> Fetches:
    def own(_: Crawler, addresses: Collection[str]) -> set[str]:
        return {OURS} & set(addresses)

    objects = sitemap.store.open().state
    return observe(objects, lambda _: groups, [GOOGLE, BING], own, (at - timedelta(days=days)).date(), at)


def paths(sitemap: Sitemap) -> list[str]:
    return [f"/{file.name}" for file in fetches.StateRepository(sitemap.store.open().state).published().files()]


def group(path: str, at: datetime, **values: Any) -> Requests:
    return Requests(
        **{"crawler": "google", "path": path, "address": OURS, "status": "200", "at": at, "number": 2, **values}
    )


def test_fetches_false_crawlers_and_refusals_are_counted_apart(shop: Sitemap) -> None:
    now = datetime.now(timezone.utc) + timedelta(minutes=1)
    first, second, third = paths(shop)
    groups = [
        group(first, now),
        group(f"{URL}{second[1:]}", now, status="304", number=1),
        group(third, now, address=OTHERS, number=9),
        group(third, now, status="503", number=4),
        group("/sitemap-older-00001.xml.gz", now),
        group(first, now, crawler="bing", address=None, status=""),
    ]

    summary = seen(shop, groups, now)

    google, bing = summary.crawlers["google"], summary.crawlers["bing"]
    assert (google.fetches, google.refused, google.false, google.unchecked) == (3, 4, 9, 0)
    assert (bing.fetches, bing.unchecked) == (2, 2)
    pages = google.sections["pages"]
    assert (pages.files, pages.fetched, pages.current, pages.urls) == (3, 2, 2, 4)
    assert google.sections[""].files == 1, "the index"
    assert summary_of(shop.store.open().state) == summary
    assert "google: 2 of 4 files fetched since their last change; 3 fetches, 4 without success, 9 by" in "".join(
        lines(summary)
    )


@pytest.mark.parametrize(
    "origin", ["https://shop.example:443", "HTTPS://SHOP.example", "https://shop.example:444", "https://other.example"]
)
def test_a_whole_url_may_have_the_default_port(shop: Sitemap, origin: str) -> None:
    now = datetime.now(timezone.utc) + timedelta(minutes=1)
    counts = seen(shop, [group(origin + paths(shop)[0], now)], now).crawlers["google"]
    assert counts.fetches == (0 if "444" in origin or "other" in origin else 2)


def test_the_stylesheet_is_no_file_that_crawlers_must_fetch() -> None:
    rows = [{"id": 1, "loc": f"{URL}p/1"}]
    sitemap = Sitemap(MemoryStore(base_url=URL), [Section("pages", MemorySourceConfig(rows))], stylesheet=True)
    build(sitemap)
    assert "/sitemap.xsl" in paths(sitemap)
    assert seen(sitemap, [], NOON).crawlers["google"].sections[""].files == 1, "the index"


def test_a_file_that_changed_and_was_not_fetched_in_time_is_late(shop: Sitemap) -> None:
    built = datetime.now(timezone.utc) + timedelta(seconds=1)
    first, second, third = paths(shop)
    seen(shop, [group(first, built)], built)
    for day in range(2, 8, 2):
        assert not list(late(seen(shop, [], built + timedelta(days=day))))

    summary = seen(shop, [group(second, built + timedelta(days=7))], built + timedelta(days=8))

    ((title, sections, urls),) = late(summary)
    assert title == "google has not fetched 2 files that changed more than 7 days ago"
    assert (sections, urls) == (["pages", ""], [f"{URL}{third[1:]}", f"{URL}sitemap.xml"])
    assert summary.crawlers["google"].sections["pages"].current == 2
    assert "NOT fetched: google has not" in list(lines(summary))[-1]


def test_further_changes_do_not_make_a_file_younger(shop: Sitemap) -> None:
    built = datetime.now(timezone.utc) + timedelta(seconds=1)
    objects = shop.store.open().state
    seen(shop, [], built)
    for day in range(1, 10):
        state = fetches.StateRepository(objects).published()
        section = state.sections["pages"]
        moved = [
            replace(shard, file=replace(shard.file, modified_at=built + timedelta(days=day, hours=-1)))
            for shard in section.shards
            if shard.file is not None
        ]
        changed = replace(state, sections={"pages": replace(section, shards=tuple(moved))})
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(fetches.StateRepository, "published", lambda _, manifest=changed: manifest)
            groups = [group(paths(shop)[0], built + timedelta(days=5))] if day == 5 else []
            summary = seen(shop, groups, built + timedelta(days=day))
        assert summary.crawlers["google"].sections["pages"].late == (0 if day < 7 else 2)


def test_a_crawler_that_a_task_names_later_is_not_late_for_what_it_fetched_before(shop: Sitemap) -> None:
    built = datetime.now(timezone.utc) + timedelta(seconds=1)
    seen(shop, [], built)
    for day in range(2, 60, 2):
        now = built + timedelta(days=day)
        named = [GOOGLE] if day < 30 else [GOOGLE, BING]
        summary = observe(
            shop.store.open().state, lambda _: [], named, lambda *_: (), (now - timedelta(days=3)).date(), now
        )
        titles = [title for title, _, _ in late(summary)]
        assert [title.split()[0] for title in titles] == (["google"] if day > 7 else [])


def test_after_a_gap_no_file_is_late_that_an_unread_day_may_have_fetched(shop: Sitemap) -> None:
    built = datetime.now(timezone.utc)
    seen(shop, [], built)

    summary = seen(shop, [], built + timedelta(days=40))

    assert summary.since == (built + timedelta(days=37)).date().isoformat()
    assert not list(late(summary))


def test_the_newest_fetch_counts_and_a_damaged_record_begins_again(shop: Sitemap) -> None:
    now = datetime.now(timezone.utc) + timedelta(days=1)
    path, objects = paths(shop)[0], shop.store.open().state
    seen(shop, [group(path, now)], now)
    seen(shop, [group(path, now - timedelta(hours=5))], now)
    assert record_of(objects).files == {path[1:]: {"google": int(now.timestamp())}}

    for damage in ('"files": 7', f'"files": {{"{path[1:]}": {{"google": {10**15}}}}}', '"since": "0"'):
        body = f'{{"format": 1, "until": "9", {damage}}}'.encode()
        objects.put(fetches.RECORD, body, mode=Overwrite(), metadata={}, content_type="application/json")
        seen(shop, [], now)
        assert record_of(objects).files == {}


def test_lines_far_in_the_future_make_no_file_current(shop: Sitemap, caplog: pytest.LogCaptureFixture) -> None:
    now = datetime.now(timezone.utc) + timedelta(minutes=1)
    (path, *_), objects = paths(shop), shop.store.open().state
    future = now.replace(year=2099)

    summary = seen(shop, [group(path, future, number=3), group(path, now, status="304")], now)

    assert record_of(objects).files == {path[1:]: {"google": int(now.timestamp())}}
    assert summary.crawlers["google"].fetches == 2
    assert "3 requests not counted: the newest of a crawler, file and address is in the future" in caplog.text
    record = record_of(objects)
    record.files[path[1:]] = {"google": int(future.timestamp()), "bing": 7}
    body = fetches.msgspec.json.encode(record)
    objects.put(fetches.RECORD, body, mode=Overwrite(), metadata={}, content_type="application/json")
    seen(shop, [], now)
    assert record_of(objects).files == {path[1:]: {"bing": 7}}


def test_a_log_with_too_many_groups_is_refused(shop: Sitemap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "MAX_GROUPS", 2)
    now = datetime.now(timezone.utc)
    with pytest.raises(ConfigurationError, match="read fewer days"):
        seen(shop, [group("/x.xml.gz", now)] * 3, now)
