"""The estimate of how many URLs of a section are below each prefix."""

from __future__ import annotations

from airflow_sitemaps.shards.manifest import SectionManifest, Shard
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.shards.url_sample import prefixes


def section(*counts: dict[str, int]) -> SectionManifest:
    """A section of shards of 50,000 URLs each, whose samples hold one of 128 URLs; ``counts``: those below each prefix."""
    shards = tuple(
        Shard(range=KeyRange(None, None), urls=50_000, sample_level=7, sample="", prefixes=each) for each in counts
    )
    return SectionManifest(name="pages", fingerprint="", digest_kind="", changed_in=1, next_serial=1, shards=shards)


def test_the_only_prefix_has_all_urls() -> None:
    assert prefixes(section({"https://a/": 371}, {"https://a/": 356})) == {"https://a/": 100_000}


def test_estimates_add_up_to_the_number_of_urls() -> None:
    estimates = prefixes(section({"https://a/": 300, "https://b/": 71}, {"https://a/": 356}))

    assert estimates is not None
    assert sum(estimates.values()) == 100_000
    assert estimates["https://b/"] < 15_000
