"""Output formats of a verification: each is valid by its own standard, whatever a hostile sitemap puts into it."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.protocol.rules import CHECKS
from airflow_sitemaps.verification import result as formats
from airflow_sitemaps.verification.result import Failure, Verification


def failure(rule: str, where: str = "https://a.example/s.xml", message: str = "line 3: x", count: int = 1) -> Failure:
    return Failure(rule=rule, where=where, message=message, severity=CHECKS[rule].severity, count=count)


def verification(*failures: Failure) -> Verification:
    return Verification(
        addresses=("https://a.example/s.xml",),
        failures=tuple(sorted(failures, key=lambda each: each.severity)),
        files=2,
        urls=1_234,
        index_urls=("https://a.example/s.xml",),
    )


def check_junit(text: str) -> list[ElementTree.Element]:
    """Check the counts of a JUnit document, and return its test cases."""
    root = ElementTree.fromstring(text.encode())
    (suite,) = root
    cases = list(suite)
    for element in (root, suite):
        assert int(element.get("tests", "")) == len(cases)
        for counter, tag in (("failures", "failure"), ("errors", "error")):
            assert int(element.get(counter, "")) == len(suite.findall(f"testcase/{tag}"))
    assert all(case.get("classname") and case.get("name") for case in cases)
    return cases


def test_junit_fails_a_case_for_each_rule_of_severity_error() -> None:
    cases = check_junit(formats.to_junit(verification(failure("loc-host"), failure("loc-encoding"), failure("gzip"))))

    failed = {case.get("name"): case.find("failure") is not None for case in cases}
    assert failed == {"read": False, "gzip": True, "loc-host": True, "loc-encoding": False}
    (element,) = (case.find("failure") for case in cases if case.get("name") == "loc-host")
    assert element is not None
    assert element.text == "https://a.example/s.xml: line 3: x"
    assert element.get("message") == CHECKS["loc-host"].text


def test_a_sitemap_without_a_failure_is_a_suite_that_passes() -> None:
    assert [case.get("name") for case in check_junit(formats.to_junit(verification()))] == ["read"]


def test_an_error_is_valid_output_too() -> None:
    error = StoreError("no <answer> & none\x00 of s3://bucket")
    (case,) = check_junit(formats.junit_of_error(error))
    element = case.find("error")
    assert element is not None
    assert element.get("message") == "no <answer> & none\ufffd of s3://bucket"


def test_text_counts_errors_and_warnings_by_rule() -> None:
    lines = list(
        formats.text_lines(
            verification(failure("loc-host", count=3), failure("gzip"), failure("loc-encoding", count=9))
        )
    )

    assert lines[-3:] == [
        "errors by rule: loc-host 3, gzip 1",
        "warnings by rule: loc-encoding 9",
        "NOT valid: 2 files, 1,234 URLs; 2 errors, 1 warning",
    ]
    assert formats.to_json(verification(failure("gzip")))["rules"] == {"gzip": 1}
    assert formats.to_json(verification())["format"] == 1


texts = st.text(st.characters(codec=None), max_size=30)


@given(st.lists(st.tuples(st.sampled_from(sorted(CHECKS)), texts, texts), max_size=5))
def test_hostile_text_cannot_break_a_format(drawn: list[tuple[str, str, str]]) -> None:
    result = verification(*(failure(rule, where, message) for rule, where, message in drawn))

    assert len(check_junit(formats.to_junit(result))) == 1 + len({rule for rule, _, _ in drawn})
