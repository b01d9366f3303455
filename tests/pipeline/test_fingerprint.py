"""The fingerprint of a section changes with what its files depend on, and not because the package has one rule more."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline.state.identity import RENDERER, fingerprint
from airflow_sitemaps.protocol import rules
from tests.support.environment import World, row

if TYPE_CHECKING:
    import pytest

DEFAULTS = {
    1: {
        "key-null": "drop_row",
        "loc-missing": "drop_row",
        "loc-duplicate": "drop_row",
        "loc-slash": "keep",
        "loc-relative": "repair",
        "loc-scheme": "drop_row",
        "loc-host": "drop_row",
        "loc-port": "drop_row",
        "loc-characters": "drop_row",
        "loc-replacement-character": "drop_row",
        "loc-encoding": "repair",
        "loc-entity": "repair",
        "loc-too-long": "drop_row",
        "scope-host": "drop_row",
        "scope-path": "keep",
        "lastmod-format": "omit_field",
        "lastmod-range": "omit_field",
        "lastmod-future": "omit_field",
        "changefreq": "omit_field",
        "priority": "omit_field",
        "extension-json": "omit_field",
        "image": "omit_field",
        "video": "omit_field",
        "video-title": "omit_field",
        "news": "omit_field",
        "alternate": "omit_field",
        "alternate-dropped": "omit_field",
        "news-age": "omit_field",
        "news-missing": "drop_row",
        "ignored-field": "keep",
        "entry-too-large": "drop_row",
    }
}
"""The default verdicts by version of the renderer. A new rule may be left out."""


def made(**settings: object) -> str:
    sitemap = World([row(1)], section_settings=settings).sitemap()
    return fingerprint(sitemap, sitemap.sections[0])


def test_a_new_rule_reads_no_row_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made(), made(rules={"loc-slash": "fail"})
    new = rules.Rule(
        name="new", text="", source="", default=rules.Verdict.KEEP, allowed=(rules.Verdict.KEEP, rules.Verdict.FAIL)
    )
    monkeypatch.setattr(rules, "RULES", MappingProxyType({**rules.RULES, "new": new}))
    assert (made(), made(rules={"loc-slash": "fail"})) == before
    assert made(rules={"new": "fail"}) != before[0]


def test_only_a_verdict_that_differs_from_its_default_counts() -> None:
    assert made(rules={"loc-slash": "keep"}) == made()
    assert len({made(), made(rules={"loc-slash": "fail"}), made(rules={"loc-scheme": "fail"})}) == 3


def test_a_changed_default_has_a_new_version_of_the_renderer() -> None:
    """Without one, files in which the old verdict was applied would stay."""
    defaults = {name: rule.default.value for name, rule in rules.RULES.items()}
    assert DEFAULTS[RENDERER].items() <= defaults.items(), "raise RENDERER, and add its defaults here"
