"""The commands `find` and `diff`: what they print, and with which status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.test_commands import Shop

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "https://shop.example/p/"


@pytest.fixture
def shop(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop whose URLs state their keys, published once: 3 shards of products and 1 of pages."""
    shop = Shop(tmp_path, capfd)
    shop.file.write_text(shop.file.read_text().replace("/p/{slug}", "/p/{id}"))
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", shop.connection)
    shop.json("build", shop.target)
    return shop


def test_a_listed_url_is_status_0_with_its_shard(shop: Shop) -> None:
    answer = shop.json("find", shop.target, PAGE + "24")

    assert (answer["url"], answer["listed"], answer["generation"]) == (PAGE + "24", True, 1)
    assert (answer["shards_read"], answer["shards_total"], answer["complete"]) == (1, 4, True)
    (match,) = answer["matches"]
    assert (match["section"], match["written_in"], match["upper"]) == ("products", 1, None)
    assert match["file_url"] == "https://shop.example/" + match["shard"]

    status, out, _ = shop.shell("find", shop.target, "/p/24")
    assert (status, out.splitlines()) == (
        0,
        [
            f"listed in generation 1: {PAGE}24",
            f"section products: shard {match['shard']}, keys from {match['lower']}, file last changed in generation 1",
            "fields: none",
            f"file: {match['file_url']}",
            "files read: 1 of 4",
        ],
    )


def test_a_file_that_changed_later_says_since_when(shop: Shop) -> None:
    shop.insert(range(900, 901))
    shop.json("build", shop.target)

    assert shop.json("find", shop.target, "/p/900")["matches"][0]["written_in"] == 2
    assert shop.json("find", shop.target, "/p/0")["matches"][0]["written_in"] == 1


def test_a_url_that_is_not_listed_is_status_1_with_the_reason(shop: Shop) -> None:
    answer = shop.json("find", shop.target, PAGE + "900", status=1)

    assert (answer["listed"], answer["matches"], answer["complete"]) == (False, [], True)
    assert "no such row" in answer["note"]
    status, out, _ = shop.shell("find", shop.target, PAGE + "900")
    assert (status, out.splitlines()[0]) == (1, f"NOT listed in generation 1: {PAGE}900")
    assert answer["note"] in out.splitlines()


def test_the_answer_says_that_every_file_was_read(shop: Shop) -> None:
    answer = shop.json("find", shop.target, "/nowhere", status=1)

    assert (answer["shards_read"], answer["complete"]) == (answer["shards_total"], True)
    assert shop.shell("find", shop.target, "/nowhere")[1].splitlines()[-1] == "files read: all 4 of 4"


def test_a_search_that_cannot_be_answered_is_status_2(shop: Shop) -> None:
    assert "rule loc-scheme" in shop.json("find", shop.target, "javascript:alert(1)", status=2)["error"]["message"]

    shop.file.write_text(shop.file.read_text().replace(str(shop.site), str(shop.site) + "-new"))
    for command in (("find", "/p/1"), ("diff", "1", "2")):
        failed = shop.json(command[0], shop.target, *command[1:], status=2)
        assert "nothing has been published yet" in failed["error"]["message"]


def test_two_generations_are_compared_by_section_in_both_directions(shop: Shop) -> None:
    shop.insert(range(900, 925))
    shop.execute("DELETE FROM products WHERE id IN (1, 2)")
    shop.execute("UPDATE pages SET slug = 'contact'")
    shop.json("build", shop.target)

    there = shop.json("diff", shop.target, "1", "2")
    assert (there["from_generation"], there["to_generation"]) == (1, 2)
    assert (there["added"], there["changed"], there["removed"]) == (26, 0, 3)
    assert there["sections"] == {
        "products": {"added": 25, "changed": 0, "removed": 2},
        "pages": {"added": 1, "changed": 0, "removed": 1},
    }
    assert (len(there["added_samples"]), there["removed_samples"]) == (
        20,
        ["https://shop.example/about", PAGE + "1", PAGE + "2"],
    )
    back = shop.json("diff", shop.target, "2", "1")
    assert (back["added"], back["removed"]) == (3, 26)

    status, out, _ = shop.shell("diff", shop.target, "1", "2")
    lines = out.splitlines()
    assert (status, lines[:3]) == (
        0,
        [
            "URLs from generation 1 to 2: 26 added, 0 changed, 3 removed",
            "section products: 25 added, 0 changed, 2 removed",
            "section pages: 1 added, 0 changed, 1 removed",
        ],
    )
    assert "added: 6 more, not shown" in lines
    assert f"removed: {PAGE}2" in lines


def test_equal_generations_are_no_failure(shop: Shop) -> None:
    answer = shop.json("diff", shop.target, "1", "1")

    assert (answer["added"], answer["changed"], answer["removed"]) == (0, 0, 0)


def test_too_many_changes_are_refused_with_the_next_step(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.insert(range(900, 903))
    shop.json("build", shop.target)
    monkeypatch.setattr("airflow_sitemaps.cli.lookups.MOST", 2)

    refused = shop.json("diff", shop.target, "1", "2", status=1)["error"]
    assert (refused["type"], "closer together" in refused["message"]) == ("TooManyChangesError", True)


@pytest.mark.parametrize("generations", [("1", "9"), ("9", "1"), ("0", "1")])
def test_a_generation_that_is_not_kept_is_status_2_and_lists_those_kept(
    shop: Shop, generations: tuple[str, str]
) -> None:
    shop.insert(range(900, 901))
    shop.json("build", shop.target)

    status, out, err = shop.shell("diff", shop.target, *generations)
    assert (status, out) == (2, "")
    assert "is not kept; those kept are 1, 2" in err


def test_an_inventory_is_counted_or_written_to_a_folder(shop: Shop, tmp_path: Path) -> None:
    urls = shop.json("status", shop.target)["urls"]
    sections = shop.json("inventory", shop.target)["sections"]
    assert {each["section"] for each in sections} == {"products", "pages"}
    assert sum(each["urls"] for each in sections) == sum(each["of_unknown_age"] for each in sections) == urls
    status, out, _ = shop.shell("inventory", shop.target)
    assert (status, "  in 7 days: 0 listed first, 0 changed" in out.splitlines()) == (0, True)

    folder = tmp_path / "dataset"
    status, out, _ = shop.shell("inventory", shop.target, "--to", str(folder))
    assert (status, out) == (0, f"{urls} URLs of generation 1 in 4 files below {folder}: 4 written, 0 removed\n")
    assert len(list(folder.glob("*/*.parquet"))) == 4


@pytest.mark.parametrize("place", ["", "/dataset", "-state", "-state/dataset"])
def test_an_inventory_is_not_written_into_the_folders_of_the_sitemap(shop: Shop, place: str) -> None:
    folder = f"{shop.site}{place}"
    status, out, err = shop.shell("inventory", shop.target, "--to", folder)
    assert (status, out) == (2, "")
    assert f"--to {folder}: this is in the sitemap's own public area" in err
    assert not list(shop.site.parent.glob("**/inventory.json"))


def test_with_a_ledger_a_url_says_when_it_was_listed_first_and_changed_last(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text().replace('/p/{id}")', '/p/{id}", priority="price"), ledger=True'))
    shop.execute("ALTER TABLE products ADD COLUMN price float")
    shop.json("build", shop.target)
    first = shop.json("find", shop.target, "/p/3")["matches"][0]["fields"]
    assert first == {}, "its age is not known: it was listed before the ledger began"
    shop.execute("INSERT INTO products (id, slug) VALUES (900, 'thing 900')")
    shop.execute("UPDATE products SET price = 0.5 WHERE id = 3")
    shop.execute("DELETE FROM products WHERE id = 5")
    shop.json("build", shop.target)
    changed, new = (shop.json("find", shop.target, f"/p/{n}")["matches"][0]["fields"] for n in (3, 900))
    assert (changed.keys(), new.keys()) == ({"priority", "changed_at"}, {"first_listed"})
    out = shop.shell("find", shop.target, "/p/3")[1].splitlines()
    assert {"fields: priority 0.5", f"ledger: changed {changed['changed_at']}"} <= {*out}
    assert f"ledger: first listed {new['first_listed']}" in shop.shell("find", shop.target, "/p/900")[1]

    difference = shop.json("diff", shop.target, "2", "3")
    ages = {PAGE + "900": {"first_listed": new["first_listed"]}, PAGE + "3": {"changed_at": changed["changed_at"]}}
    assert difference["ages"] == {**ages, PAGE + "5": {}}
    lines = shop.shell("diff", shop.target, "2", "3")[1].splitlines()
    assert f"changed: {PAGE}3 (changed {changed['changed_at']})" in lines
    assert f"added: {PAGE}900 (first listed {new['first_listed']})" in lines
    assert f"removed: {PAGE}5" in lines
