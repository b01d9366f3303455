"""Many rows percent-encoded at once, against the standard library row by row."""

from __future__ import annotations

import re
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sitemaps.protocol.columnar.loc import percent_encoded
from airflow_sitemaps.protocol.loc import MAX_LOC_CHARACTERS, PLAIN, WHITE

SUSPECT = re.compile(f"[\x80-\x9f\ufffd-\uffff]|[ {WHITE[4:]}]\\Z")
"""What is never encoded; and what is removed at the end of a URL."""
ASCII = "".join(chr(code) for code in range(128) if chr(code) not in ' "<>\\^`{|}')
ROWS = st.lists(
    st.text(st.one_of(st.sampled_from("az/% \"[\\]^`{|}<>–‘é中😀\u200c\u00a0\u0085\u2028\u3000\ufffe"), st.characters(exclude_categories=["Cs"])))
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
@example(["https://h/a b", "https://h/a "])
@example(["https://h/é", "https://h/中\u00a0", "https://h/" + "é" * 700])
def test_each_row_is_encoded_or_to_be_looked_at(rows: list[str]) -> None:
    encoded, refused = percent_encoded(arrow(rows))
    expected = [quote(row, safe=ASCII) for row in rows]
    assert encoded.to_pylist() == expected
    masks = [False] * len(rows) if refused is None else refused.to_pylist()
    for before, after, mask in zip(rows, expected, masks, strict=True):
        assert mask == (SUSPECT.search(before) is not None or len(after) > MAX_LOC_CHARACTERS)


@pytest.mark.parametrize("character", ["\x80", "\x85", "\x9f", "\ufffd", "\ufffe", "\uffff"])
def test_what_is_never_encoded_is_looked_at(character: str) -> None:
    _, refused = percent_encoded(arrow(["https://h/é", f"https://h/{character}", f"https://h/{character}é{PLAIN}"]))
    assert refused is not None
    assert refused.to_pylist() == [False, True, True]


@pytest.mark.parametrize("character", [c for c in WHITE if c == " " or c > "\x85"])
def test_white_space_is_encoded_except_at_the_end(character: str) -> None:
    rows = ["https://h/é", f"https://h/{character}", f"https://h/{character}é", f"https://h/{character}x"]
    encoded, refused = percent_encoded(arrow(rows))
    assert refused is not None
    assert refused.to_pylist() == [False, True, False, False]
    assert encoded.to_pylist() == [quote(row, safe=":/") for row in rows]


@pytest.mark.parametrize("tail", [b"\xc3", b"\xed\xa0\x80", b"\xff", b"\xc2", b"\xe2\x80"])
def test_what_is_not_utf8_is_looked_at(tail: bytes) -> None:
    rows = pa.array([b"https://h/\xc3\xa9", b"https://h/" + tail], pa.binary()).view(pa.string())
    _, refused = percent_encoded(rows)
    assert refused is not None
    assert refused.to_pylist()[1]
