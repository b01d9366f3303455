"""robots.txt: our lines in a stranger's file, and what such a file says."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol import robots

OURS = ["https://example.com/sitemap.xml", "https://example.com/sitemap-2.xml"]
THEIRS = b"User-agent: *\nDisallow: /private # keep out\n\nSitemap: https://example.com/other.xml\n"

LINES = st.sampled_from(
    [
        "User-agent: *", "Disallow: /x", "Sitemap: https://example.com/other.xml", "sitemap : https://example.com/sitemap.xml",
        "# a comment", "", "   ", robots.BEGIN, robots.END, "rubbish", "\ufeffUser-agent: a", "Sitemap: https://old.example/s.xml",
        "Allow: /\u2028y",
    ]
)  # fmt: skip
FILES = st.lists(LINES, max_size=8).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\r"]).flatmap(
        lambda end: st.sampled_from(["", end]).map(lambda last: (end.join(lines) + (last if lines else "")).encode())
    )
)
SITEMAPS = st.lists(st.sampled_from([*OURS, "https://example.com/other.xml"]), max_size=3)


@given(FILES, SITEMAPS, SITEMAPS)
def test_merging_again_changes_nothing_and_the_last_wish_holds(
    file: bytes, first: list[str], second: list[str]
) -> None:
    once = robots.merge(file, first)
    assert robots.merge(once, first) == once
    again = robots.merge(once, second)
    assert robots.merge(again, second) == again
    assert set(second) <= set(robots.read(again.decode()).sitemaps)


@given(
    st.lists(LINES.filter(lambda line: line not in (robots.BEGIN, robots.END)), max_size=8)
    .map("\n".join)
    .map(str.encode),
    SITEMAPS,
)
def test_a_strangers_lines_stay_as_they_are(file: bytes, sitemaps: list[str]) -> None:
    merged = robots.merge(file, sitemaps)
    assert merged.startswith(file)
    without = robots.merge(merged, [])
    assert without in (file, file + b"\n")


def test_the_block_is_put_at_the_end_and_replaced_in_place() -> None:
    merged = robots.merge(THEIRS, OURS)
    assert merged == THEIRS + f"{robots.BEGIN}\nSitemap: {OURS[0]}\nSitemap: {OURS[1]}\n{robots.END}\n".encode()
    later = merged + b"User-agent: late\nDisallow: /\n"
    changed = robots.merge(later, OURS[:1])
    assert changed.index(robots.BEGIN.encode()) == len(THEIRS)
    assert changed.endswith(b"User-agent: late\nDisallow: /\n")
    assert OURS[1].encode() not in changed


NAME, OTHER = "https://example.com/sitemap.xml", "https://example.com/de/sitemap.xml"
RAW_LINES = st.one_of(
    LINES.map(lambda line: line.encode("utf-8", "surrogatepass")),
    st.binary(max_size=12).filter(lambda line: not {*line} & {*b"\r\n"}),
    st.sampled_from([b"Disallow: /caf\xe9", "Disallow: /поиск".encode("cp1251"), f"{robots.BEGIN} {OTHER}".encode(), f"{robots.END} {OTHER}".encode()]),
).filter(lambda line: not line.startswith((b"\xff\xfe", b"\xfe\xff")))  # fmt: skip
RAW_FILES = st.lists(st.tuples(RAW_LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=8).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(RAW_FILES, SITEMAPS)
def test_other_lines_stay_byte_for_byte(file: bytes, sitemaps: list[str]) -> None:
    named = robots.merge(file, sitemaps, name=NAME)
    assert robots.merge(named, sitemaps, name=NAME) == named
    without = robots.merge(file, [], name=NAME)
    assert robots.merge(named, [], name=NAME) == without
    ends = f"{robots.END} {NAME}".encode()
    if named != without:
        begin = named.index(f"{robots.BEGIN} {NAME}".encode())
        end = named.index(ends, begin) + len(ends)
        behind = named[end:].removeprefix(b"\r\n" if named[end:].startswith(b"\r\n") else b"\n")
        assert named[:begin] + behind == without


@given(
    RAW_FILES,
    SITEMAPS,
    st.lists(st.sampled_from(["https://example.com/de/sitemap.xml", "https://example.com/de/2.xml"])),
)
@example(f"{robots.BEGIN} {OTHER}\nSitemap: {NAME}\n{robots.END} {OTHER}\n".encode(), [NAME], [])
def test_two_sitemaps_share_a_file(file: bytes, first: list[str], second: list[str]) -> None:
    both = robots.merge(robots.merge(file, first, name=NAME), second, name=OTHER)
    for content in (both, robots.merge(both, first, name=NAME)):
        assert {*first, *second} <= {*robots.read(content.decode("utf-8", "replace")).sitemaps}
    assert robots.merge(both, first, name=NAME) == both
    gone = robots.merge(both, [], name=NAME)
    assert {*second} <= {*robots.read(gone.decode("utf-8", "replace")).sitemaps}


def test_a_block_of_another_name_or_of_none_stays() -> None:
    unnamed = robots.merge(THEIRS, OURS)
    assert robots.merge(unnamed, [OTHER], name=OTHER).startswith(unnamed)


def test_a_file_in_utf_16_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="UTF-8"):
        robots.merge("User-agent: *\n".encode("utf-16"), OURS)


def test_a_line_that_a_stranger_has_is_not_repeated() -> None:
    file = b" SITEMAP :https://example.com/sitemap.xml   # theirs\r\nUser-agent: *\r\n"
    merged = robots.merge(file, OURS)
    assert merged.startswith(file)
    assert merged.count(OURS[0].encode()) == 1
    assert b"\r\n" in merged.removeprefix(file)
    assert b"\n" not in merged.replace(b"\r\n", b"")


def test_a_block_that_somebody_wrote_into_is_left_alone() -> None:
    file = f"{robots.BEGIN}\nSitemap: https://old.example/s.xml\nDisallow: /x\n{robots.END}\n".encode()
    merged = robots.merge(file, OURS)
    assert merged.startswith(file)
    assert robots.merge(merged, OURS) == merged


@pytest.mark.parametrize("address", ["https://example.com/\nDisallow: /", "https://example.com/\r", ""])
def test_an_address_cannot_smuggle_in_a_line(address: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        robots.merge(b"", [address])


def test_lines_can_be_printed() -> None:
    assert robots.lines(OURS) == [f"Sitemap: {OURS[0]}", f"Sitemap: {OURS[1]}"]


# ---------------------------------------------------------------- RFC 9309

RFC = """
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("agent", "path", "allowed"),
    [
        ("anybot", "/", True), ("anybot", "/a.gif", False), ("anybot", "/a.gif?x", True), ("anybot", "/example/x", False),
        ("anybot", "/publications/a", True), ("foobot", "/", False), ("Foobot/2.1", "/example/page.html", True),
        ("FOOBOT", "/example/allowed.gif", True), ("barbot", "/example/page.html", False), ("bazbot", "/", True),
        ("bazbot", "/example/page.html?x", False), ("quxbot", "/example/", True), ("foobot", "/robots.txt", True),
    ],
)  # fmt: skip
def test_the_example_of_the_rfc(agent: str, path: str, allowed: bool) -> None:
    assert robots.read(RFC).allows(f"https://example.com{path}", agent) is allowed


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Disallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("Allow: /a/b\nDisallow: /a", "/a/c", False),
        ("Disallow: /page\nAllow: /page", "/page", True),
        ("Disallow: /*?sort=", "/list?sort=asc", False),
        ("Disallow: /*?sort=", "/list?x", True),
        ("Disallow: /*.php$", "/a.php", False),
        ("Disallow: /*.php$", "/a.php5", True),
        ("Disallow: /$", "/", False),
        ("Disallow: /$", "/a", True),
        ("Disallow: /a*b*c$", "/aXbYc", False),
        ("Disallow: /a*b*c$", "/abcd", True),
        ("Disallow: /a*aa$", "/aa", True),
        ("Disallow: /ä", "/%C3%A4", False),
        ("Disallow: /%c3%a4", "/ä", False),
        ("Disallow: /%7Euser", "/~user", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow: /a%2fb", "/a%2Fb", False),
        ("Disallow: /a%2a", "/aXYZ", True),
        ("Disallow:", "/", True),
        ("Disallow: /x # comment", "/x", False),
        ("Crawl-delay: 5\nDisallow: /x", "/x", False),
    ],
)
def test_the_longest_match_decides(rules: str, path: str, allowed: bool) -> None:
    found = robots.read(f"User-agent: *\n{rules}\n")
    assert found.allows(f"https://example.com{path}", "bot") is allowed


@pytest.mark.parametrize(
    ("agents", "allowed"),
    [
        ("User-agent: Googlebot\rCrawl-delay: 10\nUser-agent: other", False),
        ("User-agent: Googlebot\nNoindex: /x\nUser-agent: other", False),
        ("User-agent: Googlebot\nClean-param: a /x\nUser-agent: other", False),
        ("User-agent: Googlebot\nContent-Signal: search=yes\nUser-agent: other", False),
        ("User-agent: Googlebot\nAllowed-by: us\nSitemap: https://x/s\nUser-agent: other", False),
        ("User-agent: Googlebot/2.1", False),
        ("useragent : googlebot # all", False),
        ("User-agent: * # all", False),
        ("User-agent: Google", True),
        ("User-agent: bot", True),
        ("User-agent: Googlebot-News", True),
        ("User-agent: *bot", True),
    ],
)
def test_a_group_is_of_equal_tokens(agents: str, allowed: bool) -> None:
    assert robots.read(f"{agents}\nDisallow: /\n").allows("https://example.com/", "Googlebot") is allowed


def test_groups_of_one_product_are_joined_and_sitemaps_stand_apart() -> None:
    found = robots.read(
        "User-agent: a\nSitemap: https://x/1\nDisallow: /1\n\nUser-agent: b\nDisallow: /\n\nUser-agent: A\nDisallow: /2"
    )
    assert found.sitemaps == ("https://x/1",)
    assert not found.allows("https://x/1", "a")
    assert not found.allows("https://x/2", "a")
    assert found.allows("https://x/3", "a")


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ("Disallow: /a\nDisallow: /p\nDisallow: /q", "line 3, 'Disallow: /p'"),
        ("Disallow: /p\nDisallow: /p*", "several lines"),
        ("Disallow: /p/x\nAllow: /p\nDisallow: /*p$\nAllow: /", "line 4, 'Disallow: /*p$'"),
        ("dissallow: /p", "line 2, 'dissallow: /p'"),  # Protego reads these spellings too
        ("Disallow /p", "line 2, 'Disallow /p'"),
        ("Disallow: /p\nUser-agent: b\nDisallow: /", "line 2, 'Disallow: /p'"),
        ("Allow: /p\nDisallow: /", ""),
    ],
)
def test_the_line_that_disallows_is_named(rules: str, named: str) -> None:
    assert robots.disallowing_line(f"User-agent: *\n{rules}\n", "https://x/p", "bot") == named


@pytest.mark.timeout(60)  # a parse of the file for each of its lines would take minutes
def test_the_line_that_disallows_is_found_among_thousands() -> None:
    text = "User-agent: *\n" + "".join(f"Disallow: /{number}/x\n" for number in range(5_000))
    assert robots.disallowing_line(f"{text}Disallow: /p\n", "https://x/p", "bot") == "line 5002, 'Disallow: /p'"
    assert robots.disallowing_line(f"{text}Disallow: /p\nDisallow: /*p\n", "https://x/p", "bot") == "several lines"


def test_a_fragment_sign_within_an_address_belongs_to_it() -> None:
    assert robots.read("Sitemap: https://x/#a # b").sitemaps == ("https://x/#a",)


@pytest.mark.timeout(60)  # a search that goes back would take hours
def test_a_hostile_file_takes_no_time() -> None:
    pattern = "*a" * 20_000
    found = robots.read(f"User-agent: *\nDisallow: /{pattern}b\n" + "x" * 400_000)
    assert found.allows("https://example.com/" + "a" * 30_000, "bot")
    assert not robots.read("Sitemap:" + " " * 600_000 + "x").sitemaps, "beyond 500 KiB nothing is read"


@pytest.mark.timeout(10)  # a search of each end of the name for an end of the block would take a minute
def test_a_block_whose_name_ends_in_spaces_takes_no_time() -> None:
    for name in (b" " * 20_000, b" x" + b"\t" * 20_000):
        before = b"# BEGIN airflow-sitemaps" + name + b"\n" + b"Sitemap: https://x/a\n" * 5_000
        assert robots.merge(before, OURS).startswith(before)


@given(st.text(max_size=60))
def test_whatever_the_text_it_is_read(content: str) -> None:
    robots.read(content).allows("https://example.com/a", "bot")
    robots.merge(content.encode(), OURS)
