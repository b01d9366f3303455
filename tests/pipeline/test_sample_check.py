"""A dry run says what a build would leave out or refuse: rule, count, sample, and the setting to change."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import GuardError, RuleError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.plan import dry_run
from airflow_sitemaps.pipeline.plan.dry_run import explain
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.stages import plan
from airflow_sitemaps.protocol.rules import RULES
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.simulated_source import SimulatedSourceConfig

URL = "https://www.example.com/"


def sitemap(rows: list[dict[str, Any]], *, loc: str = "loc", **settings: Any) -> Sitemap:
    section = Section("products", MemorySourceConfig(rows, loc=loc))
    return Sitemap(MemoryStore(base_url=URL), [section], guards=Guards(min_rows=10), **settings)


def dry(site: Sitemap) -> Any:
    return plan(site, RunRequest(dry_run=True))


def rows(number: int, loc: str = URL + "p/{}") -> list[dict[str, Any]]:
    return [{"id": n, "loc": loc.format(n), "slug": f"a/{n}" if n % 2 else str(n)} for n in range(number)]


def test_a_wrong_host_is_refused_by_plan_as_by_build_with_rule_count_sample_and_setting() -> None:
    site = sitemap(rows(30, "https://example.com/p/{}"))

    made = dry(site)

    (warning,) = [line for line in made.warnings if "scope-host" in line]
    assert "of all rows, 30 are left out by rule scope-host, such as " in warning
    assert "https://example.com/p/0" in warning
    assert "The sitemap's base_url is https://www.example.com/: change base_url= or loc=" in warning
    with pytest.raises(GuardError) as refused:
        build(site)
    assert [(r.guard, r.message) for r in made.refusals] == [(r.guard, r.message) for r in refused.value.refusals][::-1]
    assert "Likely cause: all 30 URLs are on example.com; base_url is https://www.example.com/." in str(refused.value)


def test_numbers_that_are_no_lastmod_come_with_the_setting_of_their_unit() -> None:
    numbered = [{**each, "changed": str(1_700_000_000 + each["id"])} for each in rows(30)]
    section = Section("products", MemorySourceConfig(numbered, lastmod="changed"))

    made = dry(Sitemap(MemoryStore(base_url=URL), [section]))

    (warning,) = [line for line in made.warnings if "lastmod-format" in line]
    assert "of all rows, 30 break rule lastmod-format and are listed all the same, such as '1700000000" in warning
    assert warning.endswith("for a column of numbers, give their lastmod_unit=, 's', 'ms' or 'us'.")


def test_rows_without_a_key_are_refused_by_plan_with_a_sample() -> None:
    site = sitemap([*rows(30), *({"id": None, "loc": f"{URL}x/{n}"} for n in range(20))])

    (refusal,) = dry(site).refusals

    assert refusal.permit.startswith("dropped:products")
    assert "20 of 50 rows were dropped by rules" in refusal.message
    assert f"They have a NULL key (rule key-null), such as {URL}x/0" in refusal.message
    with pytest.raises(GuardError, match="key-null"):
        build(site)


def test_slashes_of_values_are_counted_and_sampled_in_plan_and_report() -> None:
    site = sitemap(rows(30), loc=URL + "p/{slug}")

    (warning,) = dry(site).warnings
    report = build(site)

    assert "15 break rule loc-slash and are listed all the same, such as 'https://www.example.com/p/a%2F1" in warning
    assert "Write {column:path} in loc= where slashes part the path." in warning
    assert report.fields_fixed == {"loc-slash": 15}
    assert report.sections["products"].samples["loc-slash"]


def test_a_slash_that_the_template_encodes_itself_is_not_counted() -> None:
    site = sitemap(rows(30), loc=URL + "a%2Fb/{slug:path}", rules={"loc-slash": "fail"})
    assert build(site).fields_fixed == {}
    assert build(sitemap(rows(30), loc=URL + "a%2Fb/{slug}")).fields_fixed == {"loc-slash": 15}


def test_paths_keep_their_slashes_uncounted() -> None:
    site = sitemap(rows(30), loc=URL + "p/{slug:path}")

    assert dry(site).warnings == ()
    assert build(site).fields_fixed == {}


def test_a_rule_set_to_fail_fails_a_dry_run_too() -> None:
    with pytest.raises(RuleError, match="loc-slash"):
        dry(sitemap(rows(30), loc=URL + "p/{slug}", rules={"loc-slash": "fail"}))


def test_a_sample_of_a_large_section_warns_and_does_not_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "SAMPLE_ROWS", 10)

    made = dry(sitemap(rows(30, "https://example.com/p/{}")))

    assert made.refusals == ()
    assert any("of the first 10 of 30 rows, 10 are left out by rule scope-host" in line for line in made.warnings)
    assert any("a build is refused (guard dropped)" in line for line in made.warnings)


def test_an_unchanged_section_is_not_read() -> None:
    operations: list[str] = []
    source = SimulatedSourceConfig(rows(30), before=operations.append)
    site = Sitemap(MemoryStore(base_url=URL), [Section("products", source)])
    build(site)
    operations.clear()

    assert dry(site).warnings == ()
    assert "read" not in operations


def test_the_likely_cause_of_a_sample_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "SAMPLE_ROWS", 10)

    lines = explain(dry(sitemap(rows(30, "https://example.com/p/{}"))))

    cause = "Likely cause: all 10 URLs are on example.com; base_url is https://www.example.com/."
    assert f"warning: section products: {cause}" in lines


@pytest.mark.parametrize("number", [1, 9])
def test_a_small_section_without_a_url_is_refused_by_plan_as_by_build(number: int) -> None:
    site = sitemap(rows(number, "https://example.com/p/{}"))

    made = dry(site)

    with pytest.raises(GuardError) as refused:
        build(site)
    assert [(r.guard, r.message) for r in made.refusals] == [(r.guard, r.message) for r in refused.value.refusals]
    assert f"Likely cause: all {number} URLs are on example.com" in made.refusals[0].message


def test_a_check_says_what_every_rule_does_to_the_first_rows() -> None:
    data = [*rows(30), {"id": 31, "loc": f"{URL}p/1"}, {"id": 32, "loc": "/p/32"}, {"id": 33, "loc": "ftp://x/"}]
    site = sitemap([*data, {"id": 34, "loc": f"{URL}late"}, {"id": None, "loc": f"{URL}keyless"}])

    (check,) = plan(site, RunRequest(dry_run=True, check_rows=33)).checks

    assert (check.section, check.rows, check.all_rows, check.urls) == ("products", 33, 34, 31)
    assert check.xml_byte_size > 31 * len("<url><loc></loc></url>")
    broken = {each.rule: (each.rows, each.effect, each.verdict) for each in check.rules}
    assert broken == {
        "key-null": (1, "left out", "drop_row"),
        "loc-duplicate": (1, "left out", "drop_row"),
        "loc-scheme": (1, "left out", "drop_row"),
        "loc-relative": (1, "listed", "repair"),
    }
    assert broken.keys() | set(check.unbroken) == RULES.keys()
    assert [each.samples for each in check.rules if each.rule == "loc-scheme"] == [("ftp://x/ (key [33])",)]
    settings = {each.rule: each.setting for each in check.rules}
    assert settings["loc-relative"] == "Set rules={'loc-relative': …} to 'drop_row' or 'fail'."
    assert settings["loc-scheme"].startswith("Check loc=: a URL begins with https:// or http://.")


def test_a_check_reads_an_unchanged_section_too() -> None:
    site = sitemap(rows(30))
    build(site)

    made = plan(site, RunRequest(dry_run=True, check_rows=7))

    assert not made.changes
    assert [(check.rows, check.urls) for check in made.checks] == [(7, 7)]
    assert any(
        line.startswith("check of section products: of the first 7 of 30 rows, 7 are listed") for line in explain(made)
    )


def test_a_check_renders_each_shard_of_its_own() -> None:
    """Equal URLs in two shards are both listed, as a build lists them."""
    data = [*rows(8), {"id": 99, "loc": f"{URL}p/0"}]
    site = sitemap(data, shards=ShardPolicy(max_urls=5))

    (check,) = plan(site, RunRequest(dry_run=True, check_rows=100)).checks

    assert (check.rows, check.urls) == (9, 9) == (9, build(site).urls)
