"""What is set going from the pages: each action is done by a visitor, and its DAG run seen to its end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from airflow_sitemaps.operators.links import run_page
from tests.ui.browser import PANELS
from tests.ui.scale import add_planted

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.ui.browser import Visitor
    from tests.ui.conftest import Published

pytestmark = [pytest.mark.ui, pytest.mark.timeout(1_800)]

LONG_MS = 300_000
"""Within which a run ends on a busy machine."""


def confirmed(page: Page, button: str) -> None:
    """Press the button in the confirmation, and wait until the run was triggered.

    The confirmation closes as the page learns the new run's id: what stands beneath it until then is the run before.
    """
    dialog = page.get_by_test_id("confirm")
    expect(dialog).to_contain_text("Triggers a run of the DAG")
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0, timeout=60_000)
    expect(page.get_by_test_id("started")).to_be_visible()


def last_run(published: Published, dag_id: str) -> Any:
    runs = published.site.request("GET", f"/api/v2/dags/{dag_id}/dagRuns", params={"order_by": "-id", "limit": 1})
    return runs.json()["dag_runs"][0]


def seen_to_its_end(
    published: Published, page: Page, dag_id: str, conf: dict[str, Any], *, state: str = "success"
) -> Any:
    """The run that was just confirmed: with these params, by this user, and as the page itself tells it ended."""
    said = {"success": "succeeded", "failed": "failed"}[state]
    expect(page.get_by_test_id("started")).to_contain_text(said, timeout=LONG_MS)
    run = last_run(published, dag_id)
    expect(page.get_by_test_id("started")).to_contain_text(run["dag_run_id"])
    assert (run["conf"], run["state"], run["triggering_user_name"]) == (conf, state, "admin")
    assert run["note"].startswith("Started from the page Sitemaps")
    return run


def generation(page: Page) -> int:
    """The generation that the page shows."""
    found = re.search(r"Generation\s+([\d,]+)", page.get_by_test_id("sitemaps-page").inner_text())
    assert found is not None
    return int(found[1].replace(",", ""))


def test_nothing_happens_without_a_confirmation(published: Published, admin: Visitor) -> None:
    before = last_run(published, "hostile")["dag_run_id"]
    page = admin.sitemap(published.asset("hostile"))
    page.get_by_role("button", name="Rebuild everything").click()
    page.get_by_test_id("confirm").get_by_role("button", name="Cancel").click()

    expect(page.get_by_test_id("confirm")).to_have_count(0)
    page.get_by_role("button", name="Rebuild everything").click()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("confirm")).to_have_count(0)
    assert last_run(published, "hostile")["dag_run_id"] == before


def test_run_now(published: Published, admin: Visitor) -> None:
    published.site.execute("update products set updated_at = '2026-11-03 10:00:00' where id = 700")
    page = admin.sitemap(published.asset("shop"), "history", "map")
    before = generation(page)
    page.get_by_role("button", name="Run now").click()
    confirmed(page, "Run now")

    seen_to_its_end(published, page, "shop", {})
    expect(page.get_by_role("img", name=re.compile("URLs over 3 runs"))).to_be_visible()
    assert generation(page) == before + 1
    expect(page.get_by_role("list", name="Legend")).to_contain_text("written: 1")


def test_a_run_is_watched_from_its_start(published: Published, admin: Visitor, pictures: Path) -> None:
    page = admin.sitemap(published.asset("shop"))
    page.get_by_role("button", name="Rebuild everything").click()
    confirmed(page, "Rebuild")

    page.get_by_role("link", name=re.compile("^Watch ")).click()
    progress = page.get_by_test_id("run-progress")
    expect(progress).to_be_visible(timeout=60_000)
    begun = progress.inner_text().split(" batches")[0]
    expect(progress).not_to_contain_text(f"{begun} batches", timeout=LONG_MS)
    admin.picture(pictures / "live-light.png")
    expect(progress).to_contain_text("4 of 4 batches done", timeout=LONG_MS)
    expect(page.get_by_role("heading", name="Result")).to_be_visible(timeout=LONG_MS)
    assert last_run(published, "shop")["conf"] == {"full": True, "sections": []}


def test_the_plan_of_the_next_run(published: Published, admin: Visitor) -> None:
    published.site.execute("update products set updated_at = '2026-11-02 10:00:00' where id = 7")
    page = admin.sitemap(published.asset("shop"), "next")
    before = generation(page)
    page.get_by_role("button", name="Plan the next run").click()
    confirmed(page, "Plan the next run")

    expect(page.get_by_role("region", name="Next run")).to_contain_text("40 rows to read in 1 batch", timeout=LONG_MS)
    seen_to_its_end(published, page, "shop", {"dry_run": True})
    assert generation(page) == before
    assert "plan=shop" in page.url
    page.reload()
    expect(page.get_by_role("region", name="Next run")).to_contain_text("40 rows to read in 1 batch", timeout=LONG_MS)


def test_a_dry_run_hides_no_refusal(published: Published, admin: Visitor) -> None:
    """U1, U2: the verdict stands while the dry run is under way, and after it."""
    page = admin.sitemap(published.asset("fading"), "next", "runs")
    verdict = page.get_by_test_id("verdict").first
    expect(verdict).to_have_text("Failing")
    page.get_by_role("button", name="Plan the next run").click()
    confirmed(page, "Plan the next run")
    expect(verdict).to_have_text("Failing")
    expect(page.get_by_test_id("started")).to_contain_text(re.compile("succeeded|failed"), timeout=LONG_MS)
    run = last_run(published, "fading")
    assert run["conf"] == {"dry_run": True}
    page.reload()
    expect(verdict).to_have_text("Failing")
    expect(page.get_by_test_id("problem-refused")).to_contain_text("Last run blocked by a safety check (shrink)")
    rows = page.get_by_test_id("run-row")
    expect(rows.filter(has_text="Blocked").first).to_contain_text("3,000")


def test_a_refused_run_is_let_pass(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("fading"))
    page.get_by_role("button", name="Override “shrink:offers=0.8” for one run").click()
    changes = page.get_by_test_id("changes")
    expect(changes).to_contain_text("Changes from generation 1 by what was blocked")
    expect(changes).to_contain_text("offers: 3,000 → 600 URLs (−2,400)")
    expect(changes).to_contain_text("URLs removed, first 20 of")
    with page.expect_download() as download:
        changes.get_by_role("link", name="Export CSV").click()
    rows = download.value.path().read_text().splitlines()
    assert rows[0] == "change,url"
    assert "removed,https://fading.example/offers/offer-3000" in rows
    confirmed(page, "Override")

    seen_to_its_end(published, page, "fading", {"allow": ["shrink:offers=0.8"]})
    expect(page.get_by_test_id("problem-refused")).to_have_count(0)
    expect(page.get_by_test_id("verdict").first).to_have_text("Not verified")

    page = admin.sitemap(published.asset("fading"), "guards")
    results = page.get_by_test_id("guard-results")
    expect(results.nth(0)).to_contain_text("Allowed: Section 'offers' would shrink from 3,000 to 600")
    expect(results.nth(1)).to_contain_text("Refused: Section 'offers' would shrink from 3,000 to 600")


def test_rebuild_a_shard(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("shop"), "map")
    page.get_by_test_id("map-products").click(position={"x": 5, "y": 5})
    page.get_by_role("button", name="Rebuild this shard").click()
    confirmed(page, "Rebuild the shard")

    run = seen_to_its_end(published, page, "shop", {"rebuild": ["products-00001"]})
    admin.visit(run_page("shop", run["dag_run_id"]))
    expect(page.get_by_text(re.compile("asked|rebuild", re.IGNORECASE)).first).to_be_visible()


def test_rebuild_a_section(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("shop"), "rows")
    page.get_by_role("button", name="Rebuild section").last.click()
    confirmed(page, "Rebuild")

    run = seen_to_its_end(published, page, "shop", {"full": True, "sections": ["articles"]})
    admin.visit(run_page("shop", run["dag_run_id"]))
    expect(page.get_by_text("articles 1/1 (10 shards)")).to_be_visible()
    expect(page.get_by_text("products 1/3 (10 shards)")).to_have_count(0)


def verify(published: Published, page: Page, state: str) -> Any:
    page.get_by_role("button", name="Verify").click()
    confirmed(page, "Verify")
    return seen_to_its_end(published, page, "shop_verify", {}, state=state)


def test_verify_finds_a_spoilt_file_and_a_run_mends_it(published: Published, admin: Visitor, pictures: Path) -> None:
    page = admin.sitemap(published.asset("shop"), "verification")
    result = page.get_by_role("region", name="Verification", exact=True)
    expect(page.get_by_test_id("verdict").first).to_have_text("Not verified")
    verify(published, page, "success")
    expect(result).to_contain_text("verified, no issues")
    expect(page.get_by_test_id("verdict").first).to_have_text("Healthy")
    expect(page.get_by_test_id("verdict-reason")).to_contain_text(
        re.compile("Last passed verification (just now|.*min ago)")
    )
    expect(page.get_by_test_id("problem-invalid")).to_have_count(0)

    (published.site.home / "sites" / "shop" / "products-00002.xml.gz").write_bytes(b"spoilt")
    run = verify(published, page, "failed")
    problem = page.get_by_test_id("problem-invalid")
    expect(problem).to_contain_text("in the published files")
    expect(problem).to_contain_text("products-00002.xml.gz")
    expect(result).to_contain_text("products-00002.xml.gz")
    expect(page.get_by_test_id("verdict").first).to_have_text("Failing")
    page.get_by_test_id("started").wait_for()
    admin.picture(pictures / "invalid-light.png")
    problem.get_by_role("link", name="Open the run").click()
    page.wait_for_url(lambda url: f"/dags/shop_verify/runs/{run['dag_run_id'][:10]}" in url)
    expect(page.get_by_test_id("verification")).to_contain_text("products-00002.xml.gz")

    page = admin.sitemap(published.asset("shop"), "drift", "rows", "runs")
    page.get_by_role("button", name="Run now").click()
    confirmed(page, "Run now")
    seen_to_its_end(published, page, "shop", {})
    drift = page.get_by_test_id("problem-drift")  # U24
    expect(drift).to_contain_text("1 file was modified outside Airflow")
    expect(drift).to_contain_text("products-00002.xml.gz")
    expect(drift).to_contain_text("The run restored the files that it found changed.")
    expect(page.get_by_role("region", name="External changes")).to_contain_text(
        "found and repaired by the run that published"
    )
    expect(page.get_by_role("region", name="Rows and files", exact=True)).to_contain_text("uncompressed), 1 repaired")
    expect(page.get_by_test_id("run-row").first).to_contain_text("Published")
    verify(published, page, "success")
    expect(page.get_by_test_id("problem-invalid")).to_have_count(0)


def test_a_run_that_failed_says_why(published: Published, admin: Visitor) -> None:
    published.site.execute("alter table hostile rename to away")
    page = admin.sitemap(published.asset("hostile"))
    page.get_by_role("button", name="Run now").click()
    confirmed(page, "Run now")

    seen_to_its_end(published, page, "hostile", {}, state="failed")
    problem = page.get_by_test_id("problem-failed")
    expect(problem).to_contain_text("The task sitemap.plan failed.")
    expect(problem).to_contain_text("no such table: hostile")
    problem.get_by_role("link", name="Open the run").click()
    expect(page.get_by_test_id("sitemaps-page")).to_contain_text("no such table: hostile")
    published.site.execute("alter table away rename to hostile")


def test_roll_back(published: Published, admin: Visitor) -> None:
    page = admin.sitemap(published.asset("shop"), "generations")
    before = generation(page)
    page.get_by_role("button", name="Roll back to 1", exact=True).click()
    changes = page.get_by_test_id("changes")
    expect(changes).to_contain_text(f"Changes from generation {before} to 1")
    expect(changes).to_contain_text("URLs added")
    confirmed(page, "Roll back")

    seen_to_its_end(published, page, "shop_rollback", {"generation": 1})
    expect(page.get_by_role("region", name="Generations", exact=True)).to_contain_text(f"Roll back to {before}")
    assert generation(page) == before + 1


def test_names_that_mean_harm_are_text(published: Published, admin: Visitor) -> None:
    """Section, rule, sample, drift, warning, stage, group, run and shard, as an attacker could forge them."""
    page = admin.sitemap(add_planted(published.site), *PANELS)
    page.get_by_role("application").click(position={"x": 5, "y": 5})
    expect(page.get_by_test_id("shard-details")).to_contain_text("<img src=x onerror=")

    shown = page.get_by_test_id("sitemaps-page")
    assert shown.inner_text().count("<img src=x onerror=") >= 10
    assert shown.locator("script, img, iframe").count() == 0
    assert page.locator("a[href^=javascript]").count() == 0
    assert "\u202e" not in shown.inner_text()
    page.get_by_test_id("sitemaps-page").get_by_role("link", name="Sitemaps", exact=True).click()
    expect(page.get_by_text("planted.example").first).to_be_visible()
    assert "broken in" not in page.title()
