# SPDX-License-Identifier: Apache-2.0
"""Which of what there is after a write is the memory chunk or volume that it made."""

import functools
from typing import Any

from tests.unit.drivers.redfish.stored import StoredPodm, links
from tests.unit.drivers.redfish.test_amounts import (
    CHUNKS,
    DOMAIN,
    MEMORY,
    NAME,
    POOL,
    STORAGE,
    Amounts,
    chunk,
)
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.redfish.amounts import Creation
from valence_sched.errors import PodmError
from valence_sched.model.claim import Grant


class TestMade(Amounts):
    """Which of what there is after a write is what it made."""

    def check(self, made: list[float], problem: str = "", unknown: bool = False) -> Creation:
        found = self.create(MEMORY)
        self.assertEqual(made, [one.amount for one in found.made])
        self.assertEqual((problem, unknown), (found.problem, found.unknown))
        return found

    def test_every_amount_is_made_in_turn_and_told(self):
        podm = self.podm()
        found = self.create(MEMORY, STORAGE)
        self.assertEqual([1024.0, 10.0], [one.amount for one in found.made])
        self.assertEqual(("", False), (found.problem, found.unknown))
        self.assertTrue(all(one.uri in podm.documents for one in found.made))
        self.assertEqual(["creating", "answered"] * 2, podm.states)

    def test_what_is_refused_ends_it_and_what_was_made_before_is_named(self):
        podm = self.podm(pool={})
        found = self.create(MEMORY, STORAGE, MEMORY)
        self.assertEqual([1024.0], [one.amount for one in found.made])
        self.assertRegex(found.problem, f"^{POOL}: found nothing")
        self.assertEqual([CHUNKS], podm.sent("POST"))

    def test_a_stock_that_cannot_be_read_is_a_problem_before_the_write(self):
        podm = self.podm(domain=500)
        self.check([], f"{DOMAIN}: HTTP 500, expected a document")
        self.assertEqual([], podm.sent("POST"))

    def test_a_refusal_is_no_chunk_even_if_anothers_came_meanwhile(self):
        podm = self.podm()
        podm.on_post = podm.refuse
        self.check([], f"{CHUNKS}: HTTP 400: not here")
        podm.on_post = lambda uri, body: podm.add(uri, **chunk()) and podm.refuse()
        self.check([], f"{CHUNKS}: HTTP 400: not here")

    def test_what_was_never_sent_made_nothing(self):
        podm = self.podm()
        error = PodmError("refused")
        error.sent = False

        def fail(*_):
            raise error

        podm.on_post = fail
        self.check([], "no reply: refused")

    def test_success_that_made_nothing_is_a_problem(self):
        podm = self.podm()
        podm.on_post = lambda uri, body: Reply(201, {}, None)
        self.check([], f"{CHUNKS}: it answered success, and made nothing")

    def test_a_task_that_does_not_end_may_make_it_yet(self):
        podm = self.podm(pauses=2)
        podm.on_post = lambda uri, body: Reply(202, {"Location": "/T/1"}, None)
        podm.documents["/T/1"] = {"TaskState": "Running"}
        self.check([], f"{CHUNKS}: its task did not end in time", unknown=True)

    def test_it_is_where_the_answer_says_though_the_collection_does_not_list_it(self):
        podm = self.podm()
        podm.documents["/X/9"] = chunk()
        podm.on_post = lambda uri, body: Reply(201, {"Location": "/X/9"}, None)
        self.assertEqual("/X/9", self.check([1024.0]).made[0].uri)

    def test_an_answer_that_names_what_was_there_before_names_nothing(self):
        podm = self.podm()
        old = podm.add(CHUNKS, **chunk())
        podm.on_post = lambda uri, body: Reply(201, {"Location": old.upper()}, None)
        podm.documents[old.upper()] = podm.documents[old]
        self.check([], f"{CHUNKS}: it answered success, and made nothing")

    def test_of_several_new_ones_ours_has_the_name_or_is_what_the_answer_names(self):
        for name, location in ((NAME, False), ("theirs", True), ("theirs", False)):
            with self.subTest(name=name, location=location):
                podm = self.podm()
                made = []

                def answer(uri, body, name=name, location=location, podm=podm, made=made):
                    podm.add(uri, **chunk(Name="another"))
                    made.append(podm.add(uri, **chunk(Name=name)))
                    return Reply(201, {"Location": made[0].upper()} if location else {}, None)

                podm.on_post = answer
                found = self.create(MEMORY)
                if name == NAME or location:
                    self.assertEqual((Grant(made[0], 1024.0),), found.made)
                else:
                    new = ", ".join(uri for uri in podm.documents if uri.startswith(f"{CHUNKS}/"))
                    doubt = f"{new} came meanwhile, and whose it is cannot be told"
                    self.assertEqual(Creation((), doubt, True), found)

    def test_two_that_have_our_name_are_in_doubt(self):
        podm = self.podm()
        podm.on_post = lambda uri, body: podm.add(uri, **body) and podm.create(uri, body)
        found = self.create(MEMORY)
        self.assertRegex(found.problem, ", .* came meanwhile")
        self.assertTrue(found.unknown)

    def test_the_only_new_one_is_ours_after_a_success(self):
        podm = self.podm()
        podm.add(CHUNKS, **chunk(Name="before"))
        podm.on_post = lambda uri, body: podm.add(uri, **chunk()) and Reply(201, {}, None)
        self.check([1024.0])

    def lose(self, podm: StoredPodm) -> None:
        def fail(*_):
            raise PodmError("timed out")

        podm.on_post = fail

    def test_after_a_lost_reply_it_is_looked_for_some_time(self):
        podm = self.podm()
        self.lose(podm)
        podm.meanwhile = [lambda: None, lambda: podm.add(CHUNKS, **chunk(Name=NAME))]
        self.check([1024.0])
        self.assertEqual([], podm.meanwhile)
        podm = self.podm()
        self.lose(podm)
        self.check([], f"{CHUNKS}: no reply: timed out")

    def test_after_a_lost_reply_a_new_one_without_our_name_is_in_doubt(self):
        podm = self.podm()
        self.lose(podm)
        podm.meanwhile = [lambda: podm.add(CHUNKS, **chunk())]
        doubt = f"{CHUNKS}/5 came meanwhile, and whose it is cannot be told"
        self.check([], f"no reply: timed out; {doubt}", unknown=True)

    def test_after_an_answer_it_is_looked_for_once(self):
        podm = self.podm()
        podm.on_post = lambda uri, body: Reply(201, {}, None)
        podm.meanwhile = [lambda: podm.add(CHUNKS, **chunk())]
        self.check([], f"{CHUNKS}: it answered success, and made nothing")
        self.assertEqual(1, len(podm.meanwhile))

    def test_where_it_cannot_be_read_back_something_may_be_made(self):
        podm = self.podm()

        def answer(uri, body):
            podm.documents[CHUNKS] = 500
            return Reply(201, {}, None) if body else podm.refuse()

        podm.on_post = answer
        error = f"could not be read back: {CHUNKS}: HTTP 500, expected a document"
        self.check([], f"{CHUNKS}: {error}", unknown=True)
        podm = self.podm()
        podm.on_post = lambda uri, body: answer(uri, {})
        self.check([], f"HTTP 400: not here: {error}", unknown=True)

    def makes(self, size: object, **properties: Any) -> StoredPodm:
        """Return a service that makes chunks of this size, whatever is asked."""
        podm = self.podm()
        podm.on_post = lambda uri, body: podm.create(uri, chunk(size, **properties))
        return podm

    def test_one_smaller_than_granted_is_made_and_a_problem(self):
        for size, found, made in ((512, "512", 512.0), (None, "no size", 0.0)):
            with self.subTest(size):
                self.makes(size)
                self.check([made], f"{CHUNKS}/5: found {found}, expected 1024 as granted")

    def test_one_larger_than_granted_is_taken(self):
        self.makes(2048)
        self.check([2048.0])

    def test_its_size_is_read_when_it_has_stopped_changing(self):
        enabled = {f"{CHUNKS}/5": chunk(Status={"State": "Enabled"})}
        for state in ("Starting", "Updating", "Qualified"):
            with self.subTest(state):
                podm = self.makes(None, Status={"State": state})
                podm.meanwhile = [functools.partial(podm.documents.update, enabled)]
                self.check([1024.0])

    def test_one_that_never_stops_changing_is_taken_as_it_is_when_patience_ends(self):
        podm = self.podm(pauses=3)
        podm.on_post = lambda uri, body: podm.create(uri, chunk(Status={"State": "Starting"}))
        self.check([1024.0])

    def test_one_whose_status_is_no_object_is_as_large_as_it_says(self):
        self.makes(1024, Status="Starting")
        self.check([1024.0])

    def test_members_of_every_page_were_there_before(self):
        podm = self.podm(chunks={"Members": [], "Members@odata.nextLink": "/Next"})
        podm.documents["/Next"] = {"Members": links("/X/1"), "Members@odata.nextLink": CHUNKS}
        podm.documents["/X/1"] = chunk()
        podm.on_post = lambda uri, body: Reply(201, {"Location": "/X/1"}, None)
        self.check([], f"{CHUNKS}: it answered success, and made nothing")
