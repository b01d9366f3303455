"""The spread of texts, from which samples of URLs are drawn."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.protocol.columnar import spread_of


@given(st.lists(st.text(min_size=8, max_size=60), min_size=1, max_size=9), st.integers(0, 8))
def test_the_spread_depends_on_the_text_alone(texts: list[str], place: int) -> None:
    alone = spread_of(pa.array([texts[place % len(texts)]]))
    among = spread_of(pa.array(["a", *texts, "é"]).slice(1, len(texts)))
    assert among[place % len(texts)] == alone[0]
