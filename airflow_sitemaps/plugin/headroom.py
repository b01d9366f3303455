"""Usage of the protocol's limits by a sitemap, from its report alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sitemaps.protocol.entry import CURRENT

if TYPE_CHECKING:
    from collections.abc import Mapping


def gauges(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the usage of each limit that a report contains. ``used`` and ``limit`` are in ``unit``."""
    totals = [section["shards"].get("total", 0) for section in report["sections"].values()]
    per_section = len(report["index_urls"]) > 1 and totals
    rows = [
        {
            "name": "Files in the largest index" if per_section else "Files in the index",
            "used": max(totals) if per_section else report["shards"].get("total", 0),
            "limit": CURRENT.max_sitemaps,
            "unit": "files",
            "source": "sitemaps.org: an index lists at most 50,000 sitemaps.",
            "next_step": "When the index is full, another index file is added: list it in robots.txt (airflow-sitemaps robots). "
            'Larger shards, or index="per_section", postpone that.',
            "warns": True,
        }
    ]
    for name, section in report["sections"].items():
        total = section["shards"].get("total", 0)
        if not total:
            continue
        average = {"limit_note": "Average over the section's files", "warns": False, "next_step": ""}
        rows.append(
            {
                "name": f"{name}: URLs per file",
                "used": round(section["urls"] / total),
                "limit": section["max_urls"],
                "unit": "URLs",
                "source": "ShardPolicy(max_urls=…); sitemaps.org allows 50,000 URLs per file. Full files are intended.",
                **average,
            }
        )
        rows.append(
            {
                "name": f"{name}: size per file",
                "used": round(section["xml_bytes"] / total),
                "limit": CURRENT.max_byte_size,
                "unit": "bytes",
                "source": "sitemaps.org: a file has at most 52,428,800 bytes, uncompressed.",
                **average,
            }
        )
    return rows
