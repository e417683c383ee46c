# SPDX-License-Identifier: Apache-2.0
"""What became of expectations: rows, a JUnit document, and annotations of a GitHub workflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from valence_sched.errors import escape

if TYPE_CHECKING:
    from valence_sched.model.check import CheckResult

COLUMNS = ("Result", "Expectation", "Found")
LONG_COLUMNS = (*COLUMNS, "File", "Line")

#: What GitHub's runner unescapes in the text of a workflow command, and besides in its properties.
_TEXT_ESCAPES = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
_PROPERTY_ESCAPES = (*_TEXT_ESCAPES, (":", "%3A"), (",", "%2C"))


def check_rows(results: Iterable[CheckResult], *, long: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each expectation."""
    for one in results:
        row = (one.result, one.name, one.found)
        yield (*row, one.file, one.line) if long else row


def check_outcome(results: Sequence[CheckResult]) -> str:
    """Return how many expectations are met, in one sentence."""
    recorded = sum(one.result == "recorded" for one in results)
    failed = sum(one.result == "fail" for one in results)
    total = f"{len(results):,} expectation" + ("" if len(results) == 1 else "s")
    more = f", {recorded:,} recorded" if recorded else ""
    if failed:
        return f"{failed:,} of {total} not met{more}"
    return f"{total} met{more}" if not recorded else f"{total}: none failed{more}"


def junit_document(file: str, results: Sequence[CheckResult]) -> bytes:
    """Return results as a JUnit document, one test case each.

    What does not print, and so may be no character of XML, is escaped as in JSON.
    """
    failures = str(sum(one.result == "fail" for one in results))
    counts = {"tests": str(len(results)), "failures": failures, "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": escape(file), **counts})
    for one in results:
        words = {"name": escape(one.name), "classname": "scheduler check",
                 "file": escape(one.file), "line": str(one.line)}  # fmt: skip
        case = ElementTree.SubElement(suite, "testcase", words)
        found = escape(one.found)
        if one.result == "fail":
            ElementTree.SubElement(case, "failure", {"message": found}).text = found
        else:
            ElementTree.SubElement(case, "system-out").text = found
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def github_annotations(results: Iterable[CheckResult]) -> Iterator[str]:
    """Yield a workflow command of GitHub for each expectation that is not met."""
    for one in results:
        if one.result == "fail":
            file = _escaped(one.file, _PROPERTY_ESCAPES)
            text = _escaped(f"{one.name}: {one.found}", _TEXT_ESCAPES)
            yield f"::error file={file},line={one.line}::{text}"


def _escaped(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for character, escaped in pairs:
        text = text.replace(character, escaped)
    return escape(text)
