"""Whether a published file keeps the protocol's rules, judged without the package's code and by its own verification."""

from __future__ import annotations

import re
from datetime import date

from lxml import etree

from airflow_sitemaps.protocol import CHANGEFREQS, CURRENT
from airflow_sitemaps.protocol.markup import NAMESPACE, NAMESPACES
from airflow_sitemaps.protocol.reader import read
from airflow_sitemaps.protocol.rules import Findings
from airflow_sitemaps.protocol.validator import ValidationContext, validate
from tests.support.hostile_values import W
from tests.support.reference_renderer import NOW

PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+/(?:[A-Za-z0-9._~!$&'()*+,;=:@/?#-]|%[0-9A-Fa-f]{2})*")
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\dZ)?", re.ASCII)
TAGS = {f"{{{NAMESPACE}}}{name}" for name in ("loc", "lastmod", "changefreq", "priority")} | {
    f"{{{NAMESPACES['image']}}}image", f"{{{NAMESPACES['video']}}}video", f"{{{NAMESPACES['news']}}}news", f"{{{NAMESPACES['xhtml']}}}link",
}  # fmt: skip


def assert_valid(body: bytes) -> int:
    """The number of URLs of a file that keeps the protocol's rules, read without any of the package's code."""
    body.decode("utf-8")
    root = etree.fromstring(body)
    assert root.tag == f"{{{NAMESPACE}}}urlset"
    for url in root:
        assert url.tag == f"{{{NAMESPACE}}}url"
        assert {child.tag for child in url} <= TAGS
        loc = url.findtext(f"{{{NAMESPACE}}}loc")
        assert PLAIN_URL.fullmatch(loc), loc
        assert len(loc) < 2_048
        changed_at = url.findtext(f"{{{NAMESPACE}}}lastmod")
        assert changed_at is None or (DATE.fullmatch(changed_at) and date.fromisoformat(changed_at[:10]))
        assert url.findtext(f"{{{NAMESPACE}}}changefreq") in (None, *CHANGEFREQS)
        priority = url.findtext(f"{{{NAMESPACE}}}priority")
        assert priority is None or (re.fullmatch(r"[01]\.\d+", priority) and float(priority) <= 1)
        for link in url.iter(f"{{{NAMESPACES['xhtml']}}}link"):
            assert (link.get("hreflang") or link.get("media") or "é").isascii()
    return len(root)


def assert_no_error(body: bytes) -> None:
    """Our own verification finds no error either."""
    file = read(body)
    assert not file.problems
    findings = Findings()
    validate(file, ValidationContext(limits=CURRENT, now=NOW, address=f"{W}/s.xml"), findings)
    assert {finding.check for finding in findings.listed()} <= {"alternate-self", "loc-duplicate", "scope-path"}
