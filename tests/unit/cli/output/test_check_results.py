# SPDX-License-Identifier: Apache-2.0
"""Results of checks for users, for JUnit and for GitHub, with hostile names."""

import unittest
from xml.etree import ElementTree

from hypothesis import given, strategies as st

from tests.unit.cli.output.hostile import EVIL, raw
from valence_sched.model.check import CheckResult
from valence_sched.words.planning import expectations_line, github_annotations, junit_document

MET = CheckResult(name="a fits", result="pass", found="fits 3 times", file="c.yaml", line=2)
NOT_MET = CheckResult(name="b <fits>", result="fail", found='"1" & 2', file="c.yaml", line=7)
RECORDED = CheckResult(name="d", result="recorded", found="written", file="c.yaml", line=9)


def hostile(text):
    return CheckResult(name=text, result="fail", found=text, file=text, line=1)


class TestOutcome(unittest.TestCase):
    """The output for users."""

    def test_the_outcome_is_one_sentence(self):
        for results, line in (
            ([MET], "1 expectation met"),
            ([MET, MET], "2 expectations met"),
            ([MET, NOT_MET], "1 of 2 expectations not met"),
            ([MET, RECORDED], "2 expectations: 0 failed, 1 recorded"),
            ([NOT_MET, RECORDED], "1 of 2 expectations not met, 1 recorded"),
        ):
            self.assertEqual(line, expectations_line(results))


class TestJunit(unittest.TestCase):
    """The document for CI systems."""

    def test_a_test_case_for_each_expectation(self):
        root = ElementTree.fromstring(junit_document("c.yaml", [MET, NOT_MET, RECORDED]))
        (suite,) = root
        self.assertEqual(("testsuites", "testsuite"), (root.tag, suite.tag))
        self.assertEqual({"name": "c.yaml", "tests": "3", "failures": "1", "errors": "0"},
                         suite.attrib)  # fmt: skip
        self.assertEqual([("a fits", "2"), ("b <fits>", "7"), ("d", "9")],
                         [(case.get("name"), case.get("line")) for case in suite])  # fmt: skip
        (failure,) = suite.iter("failure")
        self.assertEqual(('"1" & 2', '"1" & 2'), (failure.get("message"), failure.text))

    @given(st.text(max_size=20))
    def test_any_name_makes_a_document_that_can_be_parsed(self, text):
        root = ElementTree.fromstring(junit_document(text, [hostile(text)]))
        self.assertEqual(1, len(list(root.iter("failure"))))

    def test_no_name_controls_what_shows_it(self):
        self.assertFalse(raw(junit_document(EVIL, [hostile(EVIL)]).decode().replace("\n", "")))


class TestGithub(unittest.TestCase):
    """Workflow commands."""

    def test_an_annotation_stands_at_the_line_of_what_is_not_met(self):
        self.assertEqual(['::error file=c.yaml,line=7::b <fits>: "1" & 2'],
                         list(github_annotations([MET, NOT_MET, RECORDED])))  # fmt: skip

    def test_what_ends_a_property_or_a_command_is_escaped(self):
        (line,) = github_annotations([hostile("a%,b:c\r\n::warning::x")])
        self.assertEqual(
            "::error file=a%25%2Cb%3Ac%0D%0A%3A%3Awarning%3A%3Ax,line=1::"
            "a%25,b:c%0D%0A::warning::x: a%25,b:c%0D%0A::warning::x", line
        )  # fmt: skip

    @given(st.text(max_size=20))
    def test_any_name_is_one_line(self, text):
        (line,) = github_annotations([hostile(text)])
        self.assertEqual(1, len(line.splitlines()))
        self.assertFalse(raw(line))
