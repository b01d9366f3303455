"""The pages in Airflow's UI with 50,000 shards and 1,000 generations: seconds until usable, sizes of answers.

``python -m benchmarks.ui`` starts a real Airflow and Chromium on this machine; it takes about a minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.ui.browser import chromium, log_in
from tests.ui.measure import answers, seconds_of_pages
from tests.ui.scale import GENERATIONS, MAX_BYTES, SHARDS, add_huge
from tests.ui.site import running_site

TRIES = 3


def main() -> None:
    """Measure and print, as a table for the documentation."""
    with tempfile.TemporaryDirectory() as folder, running_site(Path(folder)) as site:
        asset = add_huge(site)
        cold, warm = (answers(site, asset, list(MAX_BYTES)) for _ in range(2))
        with chromium() as browser:
            visitor = log_in(browser, site.url, "admin")
            tries = [seconds_of_pages(visitor, asset) for _ in range(TRIES)]
    print(f"{SHARDS:,} shards, {GENERATIONS:,} generations\n")
    print("| answer of the API | bytes | bytes as sent | first time | again |\n|---|--:|--:|--:|--:|")
    for first, again in zip(cold, warm, strict=True):
        print(
            f"| {first.path} | {first.byte_size:,} | {first.wire_bytes:,} | {first.seconds:.2f} s | {again.seconds:.2f} s |"
        )
    print("\n| from a click until usable | median |\n|---|--:|")
    for name in tries[0]:
        print(f"| {name} | {sorted(one[name] for one in tries)[TRIES // 2]:.2f} s |")


if __name__ == "__main__":
    main()
