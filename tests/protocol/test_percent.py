"""Many rows percent-encoded at once, against the standard library row by row."""

from __future__ import annotations

from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sitemaps.protocol.columnar.loc import SUSPECT, percent_encoded
from airflow_sitemaps.protocol.loc import MAX_LOC_CHARACTERS, PLAIN, WHITE

ROWS = st.lists(
    st.text(st.one_of(st.sampled_from("az/%–‘é中😀\u00a0\u0085\u2028\u3000\ufffe"), st.characters(exclude_categories=["Cs"])))
    .map(lambda tail: "https://h/" + tail),
    max_size=6,
)  # fmt: skip


def arrow(rows: list[str]) -> pa.StringArray:
    """The rows as a slice of a longer array, as a piece of a batch is."""
    return pa.array(["é", *rows, "中"], pa.string()).slice(1, len(rows))


@given(ROWS)
@example([])
@example(["https://h/"])
@example(["https://h/\u2028"])
@example(["https://h/é", "https://h/中\u00a0", "https://h/" + "é" * 700])
def test_each_row_is_encoded_or_to_be_looked_at(rows: list[str]) -> None:
    encoded, refused = percent_encoded(arrow(rows))
    expected = [quote(row, safe="".join(map(chr, range(128)))) for row in rows]
    assert encoded.to_pylist() == expected
    masks = [False] * len(rows) if refused is None else refused.to_pylist()
    for before, after, mask in zip(rows, expected, masks, strict=True):
        assert mask == (SUSPECT.search(before) is not None or len(after) > MAX_LOC_CHARACTERS)


@pytest.mark.parametrize("character", [c for c in WHITE if c > "\x7f"] + ["\x80", "\x9f", "\ufffe", "\uffff"])
def test_every_suspect_character_is_found(character: str) -> None:
    _, refused = percent_encoded(arrow(["https://h/é", f"https://h/{character}", f"https://h/{character}é{PLAIN}"]))
    assert refused is not None
    assert refused.to_pylist() == [False, True, True]


@pytest.mark.parametrize("tail", [b"\xc3", b"\xed\xa0\x80", b"\xff", b"\xc2", b"\xe2\x80"])
def test_what_is_not_utf8_is_looked_at(tail: bytes) -> None:
    rows = pa.array([b"https://h/\xc3\xa9", b"https://h/" + tail], pa.binary()).view(pa.string())
    _, refused = percent_encoded(rows)
    assert refused is not None
    assert refused.to_pylist()[1]
