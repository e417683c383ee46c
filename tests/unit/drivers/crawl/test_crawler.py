# SPDX-License-Identifier: Apache-2.0
"""The crawler alone: the links that it follows, the number of requests, and its use of answers."""

import threading
import unittest
from unittest import mock

import msgspec

from tests.unit.drivers.redfish.stored import link
from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.crawl import crawler, crawler as expand
from valence_sched.drivers.crawl.cache import DocumentCache
from valence_sched.drivers.crawl.crawler import (
    MAX_EXPANDED_BYTES,
    TIME_SHARE,
    Crawler,
    ExpandReader,
    FetchTask,
    unfold,
)
from valence_sched.drivers.fields import Link, Resource
from valence_sched.drivers.http.exchange import Answer, Cut, Slow, Unreachable
from valence_sched.drivers.links import fold_uri
from valence_sched.errors import InputError, PodmError

FULL = {"ExpandQuery": {"NoLinks": True, "Levels": True, "MaxLevels": 6}}


class Recorded:
    """A connection that answers by path; errors are raised, and None is a missing document."""

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
    made = ExpandReader(Recorded(answers).get)
    made.read_features({"ProtocolFeaturesSupported": features} if features is not None else {})
    return made


def fetch_task(uri: str, to: type[Resource], levels: int = 0) -> FetchTask:
    return FetchTask(uri, fold_uri(uri), to, levels)


def whole(uri: str, **more):
    return {"@odata.id": uri, "@odata.type": "#T", "Id": "1", "Name": "?", **more}


def requested(made: ExpandReader) -> list[str]:
    return [path for path, _, _ in made._get.__self__.asked]


class TestFeatures(unittest.TestCase):
    """The features that a service root offers."""

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
                self.assertEqual(f"{path}{mark}{query}", requested(made)[0])


class TestRead(unittest.TestCase):
    """One document, and those embedded in it."""

    def test_without_levels_it_is_read_alone(self):
        made = reader({"/a": whole("/a")})
        self.assertEqual({"/a": whole("/a")}, made.read("/a"))
        self.assertEqual(["/a"], requested(made))
        nothing = reader({"/a": whole("/a")}, None)
        nothing.read("/a", 3)
        self.assertEqual(["/a"], requested(nothing))

    def test_a_path_that_expands_already_is_read_as_it_is(self):
        made = reader({"/a?$expand=.": whole("/a")})
        self.assertEqual({"/a?$expand=.": whole("/a")}, made.read("/a?$expand=.", 3))
        self.assertEqual(["/a?$expand=."], requested(made))

    def test_what_comes_with_it_is_there_by_its_uri(self):
        path = "/a?$expand=.($levels=3)"
        made = reader({path: whole("/a", B=whole("/b"))})
        found = made.read("/a", 3)
        self.assertEqual({"/a": whole("/a", B={"@odata.id": "/b"}), "/b": whole("/b")}, found)
        self.assertEqual([(path, MAX_EXPANDED_BYTES, TIME_SHARE)], made._get.__self__.asked)
        self.assertEqual(6, made.levels)

    def test_no_more_levels_are_asked_for_than_are_offered(self):
        made = reader({}, {"ExpandQuery": {"NoLinks": True, "Levels": True, "MaxLevels": 2}})
        made.read("/a", 5)
        self.assertEqual("/a?$expand=.($levels=2)", requested(made)[0])

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
                self.assertEqual(["/a?$expand=.($levels=3)", "/a"], requested(made))

    def test_an_answer_that_is_too_large_is_asked_for_with_half_the_levels(self):
        parts = {levels: whole("/a", B=whole("/b"), Fill="x" * 10 * levels) for levels in (6, 3, 1)}
        made = reader({f"/a?$expand=.($levels={n})": part for n, part in parts.items()})
        size = len(msgspec.json.encode(parts[1]))
        with mock.patch.object(expand, "MAX_EXPANDED_BYTES", size):
            self.assertEqual({"/a", "/b"}, set(made.read("/a", 6)))
        self.assertEqual([f"/a?$expand=.($levels={n})" for n in (6, 3, 1)], requested(made))
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
            ({"error": {}}, "an error message in a successful answer, expected a document"),
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
    """The parts of an expanded document that are documents."""

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


class Leaf(Resource):
    """A document without followed links."""


class Lasting(Resource):
    """A document that rarely changes."""

    lasting = True


class Tree(Resource):
    """A document that links others."""

    leaf = Link("Leaf", Leaf, "one")
    late = Link("Late", Leaf, "read when it is asked for", late=True)
    kept = Link("Kept", Lasting, "one that lasts")
    leaves = Link("Leaves", Leaf, "some", collection=True, levels=2)


def crawl(answers, parallel: int = 1, start=lambda work, waiting: False, features=None) -> Crawler:
    source = ExpandReader(Recorded(answers).get)
    source.read_features({"ProtocolFeaturesSupported": features or {}})
    cache = DocumentCache(None, "https://h.invalid", None, 0.0)
    return Crawler(source, cache, "h.invalid", parallel, start)


def asked(made: Crawler) -> list[str]:
    return [path for path, _, _ in made._source._get.__self__.asked]


class TestFetch(unittest.TestCase):
    """Work lists, in order."""

    def test_the_links_of_a_document_are_followed_as_they_are_declared(self):
        made = crawl({
            "/a": {"Leaf": link("/b"), "Other": link("/x"), "Leaves": link("/l")},
            "/b": {"Leaf": link("/y")},
            "/l": {"Members": [link("/m1"), link("/m2")]},
            "/m1": {}, "/m2": {},
        })  # fmt: skip
        made.fetch([fetch_task("/a", Tree)])
        self.assertEqual({"/a", "/b", "/l", "/m1", "/m2"}, set(asked(made)))
        self.assertEqual("/a", asked(made)[0])
        self.assertEqual({"Leaf": link("/y")}, made.get("/b"))

    def test_only_what_a_fetch_that_is_not_deep_names_is_fetched(self):
        made = crawl({"/a": {"Leaf": link("/b")}, "/b": {}})
        made.fetch([fetch_task("/a", Tree)], deep=False)
        self.assertEqual(["/a"], asked(made))
        below = made.below(fetch_task("/a", Tree))
        self.assertEqual([("/b", "/b", Leaf, "/a")],
                         [(one.uri, one.key, one.to, one.parent) for one in below])  # fmt: skip
        made.fetch([fetch_task("/a", Tree)])
        self.assertEqual(["/a", "/b"], asked(made))

    def test_a_document_is_fetched_once_whoever_links_it_and_however_it_is_spelled(self):
        made = crawl({"/a": {"Leaf": link("/B"), "Kept": link("/b/")}, "/b": {"x": 1}})
        made.fetch([fetch_task("/a", Tree), fetch_task("/A", Tree)])
        self.assertEqual(["/a", "/b"], asked(made))
        self.assertEqual({"x": 1}, made.get("/B"))

    def test_a_spelling_that_was_not_tried_is_where_another_was_gone(self):
        made = crawl({"/a": {"Leaf": link("/B")}, "/b": {"x": 1}})
        made.fetch([fetch_task("/a", Tree)])
        self.assertIsNone(made.get("/b"))
        made.fetch([fetch_task("/b", Leaf)])
        self.assertEqual({"x": 1}, made.get("/B"))

    def test_a_collection_with_nonsense_for_a_next_page_is_read_without(self):
        made = crawl(
            {"/l": {"Members": [link("/m")], "Members@odata.nextLink": [{"x": 1}]}, "/m": {}}
        )
        made.fetch([fetch_task("/l", Leaf)])
        self.assertEqual(["/l", "/m"], asked(made))

    def test_a_loop_of_links_ends(self):
        made = crawl({"/a": {"Leaves": link("/l")}, "/l": {"Members": [link("/a")],
                      "Members@odata.nextLink": "/l?page=2"},
                      "/l?page=2": {"Members": [link("/a")], "@odata.nextLink": "/l"}})  # fmt: skip
        made.fetch([fetch_task("/a", Tree)])
        self.assertEqual(["/a", "/l", "/l?page=2"], sorted(asked(made)))

    def test_links_elsewhere_are_not_followed(self):
        for target, followed in (
            ("/b", "/b"),
            ("https://h.invalid/b", "/b"),
            ("/b#/Part", "/b"),
            ("https://other.invalid/b", None),
            ("//other.invalid/b", "/other.invalid/b"),
            ("", None),
        ):
            with self.subTest(target):
                made = crawl({"/a": {"Leaf": link(target)}, "/b": {}})
                made.fetch([fetch_task("/a", Tree)])
                self.assertEqual([followed] if followed else [], asked(made)[1:2])

    def test_what_cannot_be_read_raises_when_it_is_asked_for_and_the_rest_is_read(self):
        made = crawl({"/a": {"Leaf": link("/b"), "Kept": link("/c")}, "/c": {},
                      "/b": Answer(406, {}, b"")})  # fmt: skip
        made.fetch([fetch_task("/a", Tree)])
        with self.assertRaisesRegex(InputError, "HTTP 406"):
            made.get("/b")
        self.assertEqual({}, made.get("/c"))
        with self.assertRaises(KeyError):
            made.get("/never")

    def test_a_pod_manager_that_cannot_be_read_ends_it(self):
        made = crawl({"/a": {"Leaf": link("/b")}, "/b": PodmError("down")})
        with self.assertRaisesRegex(PodmError, "down"):
            made.fetch([fetch_task("/a", Tree)])

    def test_what_is_there_already_is_not_fetched_and_its_links_are(self):
        made = crawl({"/b": {}})
        made.add("/A", {"Leaf": link("/b")})
        self.assertEqual({"Leaf": link("/b")}, made.get("/a"))
        made.fetch([fetch_task("/a", Tree)])
        self.assertEqual(["/b"], asked(made))

    def test_one_more_thread_is_started_for_what_waits_up_to_the_requests_at_a_time(self):
        members = [link(f"/m{n}") for n in range(5)]
        answers = {"/l": {"Members": members}} | {f"/m{n}": {} for n in range(5)}
        for parallel, most in ((1, 0), (2, 1), (4, 3)):
            waiting: list[int] = []
            made = crawl(answers, parallel, lambda work, n, seen=waiting: bool(seen.append(n)))
            made.fetch([fetch_task("/l", Leaf)])
            self.assertEqual([4, 3, 2, 1] if most else [], waiting)
            self.assertEqual(0, made._threads)

    def test_a_thread_that_has_ended_makes_room_for_another(self):
        members = [link(f"/m{n}") for n in range(9)]
        answers = {"/l": {"Members": members}} | {f"/m{n}": {} for n in range(9)}

        def start(work, waiting: int) -> bool:
            threading.Thread(target=work, daemon=True).start()
            return True

        made = crawl(answers, 3, start)
        made.fetch([fetch_task("/l", Leaf)])
        with made._changed:
            self.assertTrue(made._changed.wait_for(lambda: made._threads == 0, 20))
        self.assertEqual(10, len(set(asked(made))))

    def test_links_in_a_collection_stand_in_the_collection(self):
        way = {"UseCase": "ComputerSystemComposition", "CapabilitiesObject": link("/x")}
        page = {"Members": [link("/m")], "@Redfish.CollectionCapabilities": {"Capabilities": [way]}}
        made = crawl({})
        made.add("/l", page)
        found = {(one.uri, one.parent) for one in made.below(fetch_task("/l", Leaf))}
        self.assertEqual({("/m", "/l"), ("/x", "/l")}, found)


class TestDeferred(unittest.TestCase):
    """Documents that are read only in some cases."""

    def test_it_is_fetched_when_the_reader_asks_for_it(self):
        made = crawl({"/a": {"Late": link("/b")}, "/b": {}})
        made.fetch([fetch_task("/a", Tree)])
        self.assertEqual(["/a"], asked(made))
        made.queue_deferred("/B")
        made.fetch([])
        self.assertEqual((["/a", "/b"], 0), (asked(made), made.unplanned))

    def test_what_no_declared_link_leads_to_is_fetched_and_counted(self):
        made = crawl({"/a": {}, "/x": {"Leaf": link("/y")}})
        made.fetch([fetch_task("/a", Tree)])
        made.queue_deferred("/x")
        made.queue_deferred("/a")
        made.fetch([])
        self.assertEqual((["/a", "/x"], 1), (asked(made), made.unplanned))


class TestTake(unittest.TestCase):
    """The parts of an answer that are used."""

    def test_documents_that_come_with_another_are_not_fetched(self):
        expanded = {"Members": [whole("/m1"), whole("/m2")]}
        made = crawl({"/a": {"Leaves": link("/l")}, "/l?$expand=.($levels=2)": expanded},
                     features=FULL)  # fmt: skip
        self.assertTrue(made.expands)
        made.fetch([fetch_task("/a", Tree)])
        self.assertEqual(["/a", "/l?$expand=.($levels=2)"], asked(made))
        self.assertEqual(whole("/m2"), made.get("/m2"))
        self.assertFalse(crawl({}).expands)

    def test_one_that_waits_and_comes_with_another_is_not_fetched(self):
        expanded = {"Members": [whole("/m1"), link("/m2")], "More": whole("/c")}
        made = crawl({"/l?$expand=.($levels=2)": expanded, "/m2": {}}, features=FULL)
        made.fetch([fetch_task("/l", Leaf, 2), fetch_task("/c", Leaf)])
        self.assertEqual(["/l?$expand=.($levels=2)", "/m2"], asked(made))
        self.assertEqual(whole("/c"), made.get("/c"))

    def test_links_in_a_list_are_read_one_by_one(self):
        made = crawl({"/a": {"Leaves": [link("/m1"), link("/m2")]}, "/m1": {}, "/m2": {}},
                     features=FULL)  # fmt: skip
        made.fetch([fetch_task("/a", Tree)])
        self.assertEqual(["/a", "/m1", "/m2"], asked(made))

    def test_of_two_that_differ_the_one_with_fewer_expanded_around_it_is_taken(self):
        for first, second, taken in ((2, 1, "y"), (1, 2, "x"), (1, 1, "x"), (0, 0, "x")):
            made = crawl({})
            made._keep("/a", {"Word": "x"}, first)
            made._keep("/a", {"Word": "y"}, second)
            self.assertEqual({"Word": taken}, made.get("/a"))
        made = crawl({})
        for levels, word in ((2, "x"), (1, "y"), (1, "z"), (0, "w")):
            made._keep("/a", {"Word": word}, levels)
        self.assertEqual({"Word": "w"}, made.get("/a"))
        made._keep("https://other.invalid/b", {}, 0)
        with self.assertRaises(KeyError):
            made.get("/b")

    def test_a_spelling_is_the_first_by_order_or_what_the_document_says_of_itself(self):
        made = crawl({})
        for uri, json in (("/b", {}), ("/B", {}), ("/C", {"@odata.id": "/c/"}),
                          ("/d", {"@odata.id": "/x"}), ("/E", {"@odata.id": 7})):  # fmt: skip
            made.add(uri, json)
        made.add("/a", {})
        self.assertEqual(
            {"/B", "/c", "/d", "/E", "/a"}, {uri for uri, _ in made.spelled_documents()}
        )

    def test_lasting_documents_are_those_read_as_such(self):
        made = crawl({"/a": {"Kept": link("/K"), "Leaf": link("/b")}, "/K": {"x": 1}, "/b": {}})
        made.fetch([fetch_task("/a", Tree)])
        self.assertEqual({"/k": {"x": 1}}, made.lasting_documents())

    def test_so_many_documents_and_failures_and_no_more(self):
        answers = {
            "/l": {"Members": [link("/m1"), link("/m2"), link("/gone")]},
            "/m1": {},
            "/m2": {},
        }
        for most, fails in ((6, False), (5, True)):  # a missing document is tried at three places
            with mock.patch.object(crawler, "MAX_DOCUMENTS", most):
                made = crawl(answers)
                if fails:
                    with self.assertRaisesRegex(PodmError, "links more than 5 documents"):
                        made.fetch([fetch_task("/l", Leaf)])
                else:
                    made.fetch([fetch_task("/l", Leaf)])


class TestElsewhere(unittest.TestCase):
    """Links that lack the path of their document."""

    def test_a_link_to_nothing_is_tried_below_its_document(self):
        made = crawl({"/redfish/v1/Hub/a": {"Leaf": link("/redfish/v1/B")},
                      "/redfish/v1/Hub/a/B": {"x": 1}})  # fmt: skip
        made.fetch([fetch_task("/redfish/v1/Hub/a", Tree)])
        self.assertEqual({"x": 1}, made.get("/redfish/v1/Hub/a/B"))

    def test_so_many_links_to_nothing_are_tried_elsewhere_until_one_is_found_there(self):
        parent = "/redfish/v1/Hub/a"
        for found, tried in ((None, 2), (1, 5), (3, 2)):
            with self.subTest(found=found), mock.patch.object(crawler, "MAX_TRIALS", 2):
                members = [link(f"/redfish/v1/B{n}") for n in range(5)]
                answers = {parent: {"Members": members}}
                if found is not None:
                    answers[f"{parent}/B{found}"] = {}
                made = crawl(answers)
                made.fetch([fetch_task(parent, Leaf)])
                places = [path for path in asked(made) if path.startswith(f"{parent}/B")]
                self.assertEqual(tried, len(places), places)

    def test_the_next_place_is_tried_where_nothing_stands_at_the_first(self):
        task = FetchTask("/redfish/v1/B", "/redfish/v1/b", Leaf, 3, "/redfish/v1/Hub/a")
        first = task.next_place()
        self.assertEqual(("/redfish/v1/Hub/a/B", "/redfish/v1/hub/a/b", Leaf, 3, task.parent),
                         first[:5])  # fmt: skip
        second = first.next_place()
        self.assertEqual("/redfish/v1/Hub/B", second.uri)
        self.assertEqual(first.instead[1:], second.instead)
        self.assertIsNone(second._replace(instead=()).next_place())
        self.assertIsNone(FetchTask("/x", "/x", Leaf, 0, "/redfish/v1/x").next_place())
