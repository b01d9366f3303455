"""The pages in Airflow's UI with 219 sitemaps, one of them with 50,000 shards and 1,000 generations.

``python -m benchmarks.ui`` starts a real Airflow and Chromium on this machine; it takes about three minutes. It prints the
sizes of the API's answers, and the seconds until list, page and URL search are usable, as tables for ``docs/ui-server.md``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.ui.browser import chromium, log_in
from tests.ui.measure import answers, seconds_of_list, seconds_of_pages, seconds_of_search
from tests.ui.scale import GENERATIONS, LIST, MAX_BYTES, SHARDS, add_huge, add_many
from tests.ui.site import running_site

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 3
AT_ONCE = 100
"""Lines of the list on one page."""


def main() -> None:
    """Measure and print, as tables for the documentation."""
    with tempfile.TemporaryDirectory() as folder, running_site(Path(folder)) as site:
        asset = add_huge(site)
        with chromium() as browser:
            visitor = log_in(browser, site.url, "admin")
            tables = {f"one sitemap, {SHARDS:,} shards, {GENERATIONS:,} generations": _medians(
                lambda: {**seconds_of_pages(visitor, asset), **seconds_of_search(visitor, asset)}
            )}  # fmt: skip
            add_many(site)
            cold, warm = (answers(site, asset, [*MAX_BYTES, "find"]) for _ in range(2))
            tables[f"{LIST} sitemaps"] = _medians(lambda: seconds_of_list(visitor, AT_ONCE))
    print("| response of the API | bytes | bytes as sent | first time | again |\n|---|--:|--:|--:|--:|")
    for first, again in zip(cold, warm, strict=True):
        print(
            f"| {first.path} | {first.byte_size:,} | {first.wire_bytes:,} | {first.seconds:.2f} s | {again.seconds:.2f} s |"
        )
    for title, medians in tables.items():
        print(f"\n| {title}: from a click until usable | median of {TRIES} |\n|---|--:|")
        for name, seconds in medians.items():
            print(f"| {name} | {seconds:.2f} s |")


def _medians(measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    tries = [measure() for _ in range(TRIES)]
    return {name: sorted(one[name] for one in tries)[TRIES // 2] for name in tries[0]}


if __name__ == "__main__":
    main()
