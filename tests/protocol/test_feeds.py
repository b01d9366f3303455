"""Feeds and the stylesheet."""

from __future__ import annotations

import locale
import re
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import feedparser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from airflow_sitemaps.protocol import feeds, markup
from airflow_sitemaps.protocol.markup import NAMESPACE

CHANNEL = feeds.Channel(address="https://example.com/feed.xml?a=1&b=2", site="https://example.com/", title="A & B")
STYLES: tuple[feeds.Format, ...] = ("rss", "mrss", "atom")
ENTRIES = st.builds(
    feeds.FeedEntry,
    loc=st.from_regex(r"https://example\.com/[a-z0-9?=&']{0,8}", fullmatch=True),
    lastmod=st.none()
    | st.dates(date(1900, 1, 1), date(2100, 1, 1))
    | st.datetimes(datetime(1900, 1, 2), datetime(2100, 1, 1), timezones=st.just(timezone.utc)),
    title=st.text(max_size=10),
    description=st.text(max_size=10),
    media=st.lists(st.just(feeds.FeedMedia(medium="image", url="https://example.com/a.jpg?a&b")), max_size=2).map(
        tuple
    ),
)


def unique(entries: list[feeds.FeedEntry]) -> list[feeds.FeedEntry]:
    return list({entry.loc: entry for entry in entries}.values())


@given(st.sampled_from(STYLES), st.lists(ENTRIES, max_size=5).map(unique), st.randoms(use_true_random=False))
def test_every_feed_is_well_formed_and_a_function_of_its_entries(
    style: feeds.Format, entries: list, random: object
) -> None:
    body = feeds.render(style, CHANNEL, entries)
    etree.fromstring(body)
    shuffled = list(entries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert feeds.render(style, CHANNEL, shuffled) == body


@pytest.mark.parametrize("style", STYLES)
def test_feedparser_reads_the_same_links_and_dates(style: feeds.Format) -> None:
    zone = timezone(timedelta(hours=2))
    entries = [
        feeds.FeedEntry(
            loc="https://example.com/a?x=1&y='2'", lastmod=datetime(2026, 3, 1, 10, tzinfo=zone), title="<b>"
        ),
        feeds.FeedEntry(
            loc="https://example.com/b",
            lastmod=date(2026, 3, 2),
            media=(feeds.FeedMedia(medium="image", url="https://example.com/b.jpg"),),
        ),
        feeds.FeedEntry(loc="https://example.com/c", lastmod=datetime(1999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)),
    ]
    parsed = feedparser.parse(feeds.render(style, CHANNEL, entries))
    assert not parsed.bozo
    assert parsed.feed.title == "A & B"
    assert parsed.version == ("atom10" if style == "atom" else "rss20")
    assert [entry.link for entry in parsed.entries] == [
        "https://example.com/b", "https://example.com/a?x=1&y='2'", "https://example.com/c",
    ]  # fmt: skip
    name = "updated_parsed" if style == "atom" else "published_parsed"
    stamps = [datetime(*entry[name][:6]) for entry in parsed.entries]
    assert stamps == [datetime(2026, 3, 2), datetime(2026, 3, 1, 8), datetime(1999, 12, 31, 23, 59, 59)]
    assert parsed.entries[0].title == "https://example.com/b"
    if style == "mrss":
        assert [medium["url"] for medium in parsed.entries[0].media_content] == ["https://example.com/b.jpg"]


def test_a_medium_has_its_own_title_and_the_pages_where_it_has_none() -> None:
    def titles(*media: feeds.FeedMedia) -> list[tuple[str, str]]:
        entry = feeds.FeedEntry(loc="https://example.com/", title="Page", description="About", media=media)
        root = etree.fromstring(feeds.render("mrss", CHANNEL, [entry]))
        return [
            (etree.QName(one.getparent()).localname, one.text) for one in root.iter(f"{{{feeds.MEDIA_NAMESPACE}}}title")
        ]

    video = feeds.FeedMedia(medium="video", url="https://example.com/v.mp4", title="Video", description="Seen")
    image = feeds.FeedMedia(medium="image", url="https://example.com/i.jpg")
    assert titles(video) == [("item", "Video"), ("content", "Video")]
    assert titles(video, image) == [("item", "Video"), ("content", "Video"), ("content", "Page")]
    assert titles(image) == [("item", "Page")]


@pytest.mark.parametrize("style", STYLES)
def test_an_empty_feed_is_legal_and_names_no_time_of_writing(style: feeds.Format) -> None:
    parsed = feedparser.parse(feeds.render(style, CHANNEL, []))
    assert not parsed.bozo
    assert parsed.entries == []


def test_an_atom_entry_without_a_date_gets_one_that_is_no_news() -> None:
    body = feeds.render("atom", CHANNEL, [feeds.FeedEntry(loc="https://example.com/")])
    assert b"<updated>1970-01-01T00:00:00Z</updated>" in body
    assert b"pubDate" not in feeds.render("rss", CHANNEL, [feeds.FeedEntry(loc="https://example.com/")])


def test_a_date_begins_at_midnight_of_the_sections_zone() -> None:
    entry = feeds.RecentEntry(
        loc=b"https://example.com/", element=b"<url><lastmod>2026-01-16</lastmod></url>",
        moment=b"2026-01-16T00:00:00",
    )  # fmt: skip
    body = feeds.render("rss", CHANNEL, [feeds.feed_entry(entry, None, "Asia/Tokyo")])
    assert b"<pubDate>Thu, 15 Jan 2026 15:00:00 +0000</pubDate>" in body


@given(
    st.sampled_from(STYLES),
    st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(timezone.utc)),
    st.sampled_from(
        ["Pacific/Kiritimati", "Asia/Tokyo", "America/Havana", "America/Sao_Paulo", "Pacific/Apia", "Etc/GMT+12"]
    ),
    st.integers(0, 2),
)
def test_a_date_that_has_begun_in_the_sections_zone_is_never_in_the_future(
    style: feeds.Format, now: datetime, zone: str, age: int
) -> None:
    day = now.astimezone(ZoneInfo(zone)).date() - timedelta(days=age)
    element = f"<url><loc>https://example.com/</loc><lastmod>{day}</lastmod></url>\n".encode()
    (entry,) = feeds.pick(element, now - timedelta(days=4))
    body = feeds.render(style, CHANNEL, [feeds.feed_entry(entry, None, zone)])
    read = feedparser.parse(body)
    of_entry = read.entries[0]["updated_parsed" if style == "atom" else "published_parsed"]
    for parts in (read.feed.updated_parsed, of_entry):
        assert now - timedelta(days=age + 1, hours=1) < datetime(*parts[:6], tzinfo=timezone.utc) <= now


def test_dates_are_english_whatever_the_locale() -> None:
    before = locale.setlocale(locale.LC_TIME)
    entry = feeds.FeedEntry(loc="https://example.com/", lastmod=date(2026, 3, 1))
    try:
        for name in ("de_DE.UTF-8", "C.UTF-8", "C"):
            try:
                locale.setlocale(locale.LC_TIME, name)
            except locale.Error:
                continue
            assert b"Sun, 01 Mar 2026 00:00:00 +0000" in feeds.render("rss", CHANNEL, [entry])
    finally:
        locale.setlocale(locale.LC_TIME, before)


def test_the_stylesheet_shows_urlset_and_index_and_asks_for_nothing() -> None:
    source = markup.render_stylesheet()
    transform = etree.XSLT(etree.fromstring(source))
    shown = str(
        transform(etree.fromstring(f'<urlset xmlns="{NAMESPACE}"><url><loc>https://a/&lt;</loc></url></urlset>'))
    )
    assert "1 URLs" in shown
    assert "https://a/&lt;" in shown
    index = f'<sitemapindex xmlns="{NAMESPACE}"><sitemap><loc>https://a/b</loc><lastmod>2026-01-01</lastmod></sitemap></sitemapindex>'
    shown = str(transform(etree.fromstring(index)))
    assert "1 sitemaps" in shown
    assert "2026-01-01" in shown
    assert not re.search(rb"<script|@import|url\(|src=|<link|<img", source)
    assert markup.render_stylesheet() == source
