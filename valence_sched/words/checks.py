# SPDX-License-Identifier: Apache-2.0
"""Results of expectations: their sentence, a JUnit document, and annotations for GitHub."""

from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree

from valence_sched.errors import escape
from valence_sched.model.check import CheckResult
from valence_sched.model.quantity import format_count

#: Characters to escape in a GitHub workflow command: in its text, and further ones in its
#: properties.
_TEXT_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = _TEXT_ESCAPES | str.maketrans({":": "%3A", ",": "%2C"})


def junit_document(file: str, results: Sequence[CheckResult]) -> bytes:
    """Return results as a JUnit document, escaped as in JSON, one test case each."""
    failures = str(sum(one.result == "fail" for one in results))
    counts = {"tests": str(len(results)), "failures": failures, "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": escape(file), **counts})
    for one in results:
        words = {"name": escape(one.name), "classname": "scheduler check"}
        place = {"file": escape(one.file), "line": str(one.line)}
        case = ElementTree.SubElement(suite, "testcase", words | place)
        found = escape(one.found)
        if one.result == "fail":
            ElementTree.SubElement(case, "failure", {"message": found}).text = found
        else:
            ElementTree.SubElement(case, "system-out").text = found
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def github_annotations(results: Iterable[CheckResult]) -> Iterator[str]:
    """Yield a GitHub workflow command for each expectation that is not met."""
    for one in results:
        if one.result == "fail":
            file = escape(one.file.translate(_PROPERTY_ESCAPES))
            text = escape(f"{one.name}: {one.found}".translate(_TEXT_ESCAPES))
            yield f"::error file={file},line={one.line}::{text}"


def expectations_line(results: Sequence[CheckResult]) -> str:
    """Return the number of expectations that are met, in one sentence."""
    recorded = sum(one.result == "recorded" for one in results)
    failed = sum(one.result == "fail" for one in results)
    total = format_count(len(results), "expectation")
    more = f", {recorded:,} recorded" if recorded else ""
    if failed:
        return f"{failed:,} of {total} not met{more}"
    return f"{total} met{more}" if not recorded else f"{total}: 0 failed{more}"
