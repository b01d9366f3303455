"""What is said of sections whose writing tasks ended without a receipt."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_sitemaps.pipeline.batch_writer import unwritten_sections
from airflow_sitemaps.shards.codec import Receipt
from airflow_sitemaps.shards.plan import Batch, Plan

UNKNOWN = (
    ": the writing task left no receipt and no reason: it was killed or marked, or did not run for this plan. "
    "See its log, and clear it together with the publishing task"
)


@pytest.mark.parametrize(
    ("batches", "written", "what"),
    [
        (1, (), "its only batch"),
        (3, (0, 2), "batch 2 of 3"),
        (3, (0,), "2 of its 3 batches, the first of them batch 2,"),
        (3, (), "3 of its 3 batches, the first of them batch 1,"),
    ],
)
@pytest.mark.parametrize("reasons", [{}, {1: "the disk is full", 0: "the disk is full"}], ids=["unknown", "told"])
def test_the_batches_are_counted_and_the_reason_is_told(
    batches: int, written: tuple[int, ...], what: str, reasons: dict[int, str]
) -> None:
    plan = Plan(
        run="r", created_at=datetime(2026, 1, 1, tzinfo=timezone.utc), base_generation=0, sections={},
        batches=tuple(Batch(number=number, section="pages", actions=(), rows=5) for number in range(batches)),
    )  # fmt: skip
    receipts = [
        Receipt(run="r", batch=number, section="pages", pieces={}, rows=5, bytes_written=1, seconds=0.5)
        for number in written
    ]
    (failure,) = unwritten_sections(plan, receipts, reasons)
    expected = f"{what} could not be written: the disk is full" if reasons else what.rstrip(",") + UNKNOWN
    assert failure.message == expected
