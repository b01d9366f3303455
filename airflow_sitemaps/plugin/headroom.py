"""Headroom: how near a sitemap is to each limit of the protocol, from a report alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sitemaps.protocol.limits import CURRENT

if TYPE_CHECKING:
    from collections.abc import Mapping


def gauges(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Headroom to each limit that a report tells of. ``used`` and ``limit`` are in ``unit``."""
    totals = [section["shards"].get("total", 0) for section in report["sections"].values()]
    parted = len(report["index_urls"]) > 1 and totals
    found = [
        {
            "name": "Files in the largest index" if parted else "Files in the index",
            "used": max(totals) if parted else report["shards"].get("total", 0),
            "limit": CURRENT.max_sitemaps,
            "unit": "files",
            "source": "sitemaps.org: an index lists at most 50,000 sitemaps.",
            "next_step": "When it is full a further index file opens: let robots.txt name it (airflow-sitemaps robots). "
            'Larger shards, or index="per_section", put that off.',
            "warns": True,
        }
    ]
    for name, section in report["sections"].items():
        total = section["shards"].get("total", 0)
        if not total:
            continue
        average = {"limit_note": "average over the section's files", "warns": False, "next_step": ""}
        found.append(
            {
                "name": f"{name}: URLs a file",
                "used": round(section["urls"] / total),
                "limit": CURRENT.max_urls,
                "unit": "URLs",
                "source": "sitemaps.org: a file holds at most 50,000 URLs. Full files are meant to be full.",
                **average,
            }
        )
        found.append(
            {
                "name": f"{name}: size of a file",
                "used": round(section["xml_bytes"] / total),
                "limit": CURRENT.max_byte_size,
                "unit": "bytes",
                "source": "sitemaps.org: a file has at most 52,428,800 bytes, uncompressed.",
                **average,
            }
        )
    return found
