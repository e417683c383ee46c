# SPDX-License-Identifier: Apache-2.0
"""Documents and what comes with them: what is asked for, what is believed, what is read alone."""

import unittest
from unittest import mock

import msgspec

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.crawl import crawler as expand
from valence_sched.drivers.crawl.crawler import MAX_EXPANDED_BYTES, TIME_SHARE, ExpandReader, unfold
from valence_sched.drivers.http.exchange import Answer, Cut, Slow, Unreachable
from valence_sched.errors import InputError

FULL = {"ExpandQuery": {"NoLinks": True, "Levels": True, "MaxLevels": 6}}


class Recorded:
    """A connection that answers by path; what is an error is raised, None is not there."""

    def __init__(self, answers) -> None:
        self.answers, self.asked = answers, []

    def get(self, path, most=MAX_DOCUMENT_BYTES, share=1.0):
        self.asked.append((path, most, share))
        found = self.answers.get(path)
        if isinstance(found, Exception):
            raise found
        if isinstance(found, Answer):
            return found
        return Answer(404 if found is None else 200, {}, msgspec.json.encode(found))


def reader(answers, features=FULL) -> ExpandReader:
    made = ExpandReader(Recorded(answers))
    made.read_features({"ProtocolFeaturesSupported": features} if features is not None else {})
    return made


def whole(uri: str, **more):
    return {"@odata.id": uri, "@odata.type": "#T", "Id": "1", "Name": "?", **more}


def asked(made: ExpandReader) -> list[str]:
    return [path for path, _, _ in made._connection.asked]


class TestFeatures(unittest.TestCase):
    """What a service root promises."""

    def test_levels_are_those_that_can_be_asked_for_at_once(self):
        for features, levels in (
            (None, 0),
            ({}, 0),
            ("?", 0),
            ({"ExpandQuery": True}, 0),
            ({"ExpandQuery": {}}, 0),
            ({"ExpandQuery": {"NoLinks": False, "Levels": True, "MaxLevels": 6}}, 0),
            ({"ExpandQuery": {"NoLinks": "?", "Levels": True, "MaxLevels": 6}}, 0),
            ({"ExpandQuery": {"NoLinks": True}}, 1),
            ({"ExpandQuery": {"NoLinks": True, "MaxLevels": 6}}, 1),
            ({"ExpandQuery": {"NoLinks": True, "Levels": False, "MaxLevels": 6}}, 1),
            ({"ExpandQuery": {"NoLinks": True, "Levels": True}}, 1),
            ({"ExpandQuery": {"NoLinks": True, "Levels": True, "MaxLevels": "?"}}, 1),
            ({"ExpandQuery": {"NoLinks": True, "Levels": True, "MaxLevels": 6}}, 6),
        ):
            with self.subTest(features):
                self.assertEqual(levels, reader({}, features).levels)

    def test_the_number_of_levels_is_asked_for_where_it_can_be(self):
        for features, query in (
            (FULL, "$expand=.($levels=2)"),
            ({"ExpandQuery": {"NoLinks": True}}, "$expand=."),
        ):
            for path, mark in (("/a", "?"), ("/a?page=2", "&")):
                made = reader({}, features)
                made.read(path, 2)
                self.assertEqual(f"{path}{mark}{query}", asked(made)[0])


class TestRead(unittest.TestCase):
    """One document, and those in it."""

    def test_without_levels_it_is_read_alone(self):
        made = reader({"/a": whole("/a")})
        self.assertEqual({"/a": whole("/a")}, made.read("/a"))
        self.assertEqual(["/a"], asked(made))
        nothing = reader({"/a": whole("/a")}, None)
        nothing.read("/a", 3)
        self.assertEqual(["/a"], asked(nothing))

    def test_a_path_that_expands_already_is_read_as_it_is(self):
        made = reader({"/a?$expand=.": whole("/a")})
        self.assertEqual({"/a?$expand=.": whole("/a")}, made.read("/a?$expand=.", 3))
        self.assertEqual(["/a?$expand=."], asked(made))

    def test_what_comes_with_it_is_there_by_its_uri(self):
        path = "/a?$expand=.($levels=3)"
        made = reader({path: whole("/a", B=whole("/b"))})
        found = made.read("/a", 3)
        self.assertEqual({"/a": whole("/a", B={"@odata.id": "/b"}), "/b": whole("/b")}, found)
        self.assertEqual([(path, MAX_EXPANDED_BYTES, TIME_SHARE)], made._connection.asked)
        self.assertEqual(6, made.levels)

    def test_no_more_levels_are_asked_for_than_are_offered(self):
        made = reader({}, {"ExpandQuery": {"NoLinks": True, "Levels": True, "MaxLevels": 2}})
        made.read("/a", 5)
        self.assertEqual("/a?$expand=.($levels=2)", asked(made)[0])

    def test_a_document_without_any_link_needs_nothing_more(self):
        made = reader({"/a?$expand=.($levels=3)": whole("/a")})
        self.assertEqual({"/a": whole("/a")}, made.read("/a", 3))
        self.assertEqual(6, made.levels)

    def test_a_promise_that_is_not_held_is_not_asked_for_again(self):
        bare = whole("/a", B={"@odata.id": "/b"})
        for answer in (bare, None, Answer(500, {}, b"{}"), Answer(203, {}, msgspec.json.encode(
                whole("/a", B=whole("/b")))), Answer(200, {}, b"<html>"), Answer(200, {}, b"[]"),
                Cut("cut"), Slow("late"), InputError("/a", "", "x", "y"),
                {"error": {}, "B": whole("/b")}):  # fmt: skip
            with self.subTest(answer):
                made = reader({"/a?$expand=.($levels=3)": answer, "/a": bare})
                self.assertEqual({"/a": bare}, made.read("/a", 3))
                self.assertEqual(0, made.levels)
                self.assertEqual(["/a?$expand=.($levels=3)", "/a"], asked(made))

    def test_an_answer_that_is_too_large_is_asked_for_with_half_the_levels(self):
        parts = {levels: whole("/a", B=whole("/b"), Fill="x" * 10 * levels) for levels in (6, 3, 1)}
        made = reader({f"/a?$expand=.($levels={n})": part for n, part in parts.items()})
        size = len(msgspec.json.encode(parts[1]))
        with mock.patch.object(expand, "MAX_EXPANDED_BYTES", size):
            self.assertEqual({"/a", "/b"}, set(made.read("/a", 6)))
        self.assertEqual([f"/a?$expand=.($levels={n})" for n in (6, 3, 1)], asked(made))
        self.assertEqual(1, made.levels)
        with mock.patch.object(expand, "MAX_EXPANDED_BYTES", size - 1):
            self.assertEqual({}, made.read("/a", 6))
        self.assertEqual(0, made.levels)

    def test_a_document_that_is_gone_is_none(self):
        for code in (404, 410):
            self.assertEqual({}, reader({"/a": Answer(code, {}, b"")}).read("/a"))

    def test_an_answer_that_is_no_document_cannot_be_read(self):
        for answer, words in (
            (Answer(401, {}, b"{}"), "HTTP 401, expected a document"),
            (Answer(300, {}, b"{}"), "HTTP 300"),
            (Answer(200, {}, b"<html>"), "HTML"),
            ({"error": {}}, "an error in an answer of success, expected a document"),
        ):
            with self.subTest(answer), self.assertRaisesRegex(InputError, f"/a.*{words}"):
                reader({"/a?page=2": answer}).read("/a?page=2")
        about = {"error": {}, "@odata.id": "/a"}
        self.assertEqual({"/a": about}, reader({"/a": about}).read("/a"))
        self.assertEqual({"/a": {}}, reader({"/a": Answer(299, {}, b"{}")}).read("/a"))

    def test_the_reason_is_said_of_the_document_as_a_whole(self):
        with self.assertRaises(InputError) as caught:
            reader({"/a": Answer(406, {}, b"{}")}).read("/a")
        self.assertEqual(InputError("/a", "", "HTTP 406", "a document").args, caught.exception.args)

    def test_a_status_of_an_outage_fails_the_reading_but_not_of_a_path_that_was_guessed(self):
        for code in (403, 408, 429, 500, 503, 599):
            one = reader({"/a": Answer(code, {}, b"{}")})
            with self.assertRaisesRegex(Unreachable, f"^/a: found HTTP {code}, expected a doc"):
                one.read("/a")
            with self.assertRaises(InputError):
                one.read("/a", is_guess=True)

    def test_one_that_is_late_or_cut_off_fails_the_reading(self):
        for error in (Cut("it was cut"), Slow("it is late")):
            with self.assertRaisesRegex(Unreachable, f"^/a: {error}$"):
                reader({"/a": error}).read("/a")


class TestUnfold(unittest.TestCase):
    """Which parts of an expanded document are documents."""

    def test_a_part_is_one_only_with_all_that_every_resource_has(self):
        for drop, more, is_one in (
            ("", {}, True),
            ("Name", {}, False),
            ("@odata.type", {}, False),
            ("Id", {}, False),
            ("Id", {"Id": ""}, False),
            ("Id", {"Members": []}, True),
            ("Name", {"Members": []}, False),
        ):
            with self.subTest(drop=drop, more=more):
                part = {key: value for key, value in whole("/b").items() if key != drop} | more
                document = whole("/a", B=part)
                found, bare = unfold(document)
                self.assertEqual(({"/b": part} if is_one else {}, 0), (found, bare))
                self.assertEqual({"@odata.id": "/b"}, document["B"])

    def test_links_that_were_not_expanded_are_counted_but_for_those_that_never_are(self):
        link = {"@odata.id": "/x"}
        for document, bare in (
            ({"A": link, "B": [link, link]}, 3),
            ({"Links": link}, 0),
            ({"Links": {"A": link, "B": [link]}}, 2),
            ({"A": {"@odata.id": "/x#/Part"}}, 0),
            ({"A": {"@odata.id": 7}}, 0),
            ({"A": "/x", "B": 7, "C": None}, 0),
        ):
            with self.subTest(document):
                self.assertEqual(({}, bare), unfold(document))

    def test_what_is_in_a_document_that_is_in_one_is_found_too(self):
        inner, list_ = whole("/c"), whole("/d", Members=[whole("/e"), {"@odata.id": "/f"}])
        found, bare = unfold(whole("/a", B=whole("/b", C=inner, D=[[list_]])))
        self.assertEqual(({"/b", "/c", "/d", "/e"}, 1), (set(found), bare))
        self.assertEqual([{"@odata.id": "/e"}, {"@odata.id": "/f"}], found["/d"]["Members"])
