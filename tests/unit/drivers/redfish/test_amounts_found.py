# SPDX-License-Identifier: Apache-2.0
"""Which memory chunks and volumes of a node are there, and what is left of them."""

from tests.unit.drivers.redfish.stored import links
from tests.unit.drivers.redfish.test_amounts import (
    CHUNKS,
    DOMAIN,
    MEMORY,
    NAME,
    POOL,
    STORAGE,
    VOLUMES,
    Amounts,
    chunk,
    wanted,
)
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.redfish.amounts import Creation
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.errors import PodmError
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest


class TestFound(Amounts):
    """What of a node's amounts is there."""

    def line(self, found: int, of: int, where: str = DOMAIN) -> str:
        return f"found {found} of {of} memory chunks and volumes of {NAME} ({where})"

    def find(self, *grants: Grant, amounts: tuple[Grant, ...] = ()) -> Creation:
        return self.composer.find(wanted(*grants, amounts=amounts))

    def test_what_has_the_name_of_the_node_is_found_in_the_collection(self):
        podm = self.podm()
        uri = podm.add(CHUNKS, **chunk(512, Name=NAME))
        podm.add(CHUNKS, **chunk(Name="vs-2"))
        podm.add(CHUNKS, **chunk())
        volume = podm.add(VOLUMES, Name=NAME, CapacityBytes=10 * GIB)
        expected = Grant(uri, 512.0), Grant(volume, 10.0)
        self.assertEqual(Creation(expected), self.find(MEMORY, STORAGE))

    def test_the_name_may_stand_in_the_uri_alone_and_the_size_nowhere(self):
        podm = self.podm(chunks={"Members": links(f"{CHUNKS}/{NAME}")})
        podm.documents[f"{CHUNKS}/{NAME}"] = {}
        self.assertEqual(Creation((Grant(f"{CHUNKS}/{NAME}", 0.0),)), self.find(MEMORY))

    def test_it_is_found_on_pages_that_are_named_by_a_query_alone(self):
        podm = self.podm(chunks={"Members": [], "Members@odata.nextLink": "?page=2"})
        podm.documents[f"{CHUNKS}?page=2"] = {"Members": links("/X/1")}
        podm.documents["/X/1"] = chunk(Name=NAME)
        self.assertEqual(Creation((Grant("/X/1", 1024.0),)), self.find(MEMORY))

    def test_what_is_missing_is_counted_and_each_place_named_once(self):
        self.podm()
        both = self.find(MEMORY, MEMORY, STORAGE)
        self.assertEqual(Creation((), self.line(0, 3, f"{DOMAIN}, {POOL}")), both)
        self.podm(domain=404)
        self.assertEqual(Creation((), self.line(0, 1)), self.find(MEMORY))
        self.assertEqual(Creation(), self.find())

    def test_what_was_made_is_ours_by_its_name_or_while_it_has_none_by_its_size(self):
        one = Grant("/X/1", 1024.0)
        for json, ours in (
            (chunk(Name=NAME), True),
            (chunk(512, Name=NAME), True),
            (chunk(), True),
            (chunk(Name="Chunk 1"), True),
            (chunk(512), False),
            (chunk(Name="vs-2"), False),
            (404, False),
        ):
            with self.subTest(json):
                self.podm().documents["/X/1"] = json
                made, problem = ((one,), "") if ours else ((), self.line(0, 1, "/X/1"))
                self.assertEqual(Creation(made, problem), self.find(MEMORY, amounts=(one,)))

    def test_one_that_is_recorded_in_two_spellings_is_one(self):
        podm = self.podm()
        podm.documents |= {"/X/1": chunk(), "/x/1": chunk()}
        both = Grant("/X/1", 1024.0), Grant("/x/1", 1024.0)
        self.assertEqual(self.line(1, 2, "/X/1, /x/1"), self.find(amounts=both).problem)

    def test_what_this_process_made_is_found_where_it_was_made(self):
        podm = self.podm()
        podm.on_post = lambda uri, body: podm.create(uri, chunk())  # it keeps no name
        (made,) = self.create(MEMORY).made
        self.assertEqual(Creation((made,)), self.find(MEMORY))
        other = CompositionRequest(name="vs-2", grants=(MEMORY,))
        self.assertEqual((), self.composer.find(other).made)

    def test_suspects_have_the_size_and_no_name_of_a_node_each_once(self):
        podm = self.podm()
        first, second = podm.add(CHUNKS, **chunk()), podm.add(CHUNKS, **chunk(Name="Chunk"))
        podm.add(CHUNKS, **chunk(512))
        podm.add(CHUNKS, **chunk(Name="vs-2"))
        podm.documents[CHUNKS]["Members"] += links("/X/gone", "")
        podm.documents[CHUNKS]["Members"].reverse()
        request = wanted(MEMORY, MEMORY)
        self.assertEqual([first, second], self.composer.suspects(request))
        self.podm(domain=404)
        self.assertEqual([], self.composer.suspects(request))


class TestRemoved(Amounts):
    """Deleting, and reading back that it is gone."""

    def remove(self, *uris: str) -> str:
        grants = tuple(Grant(uri, 1.0) for uri in uris)
        return self.composer.remove(grants, self.podm_.states.append)

    def test_what_is_gone_leaves_no_words(self):
        podm = self.podm()
        uri = podm.add(CHUNKS)
        self.assertEqual("", self.remove(uri))
        self.assertEqual(([uri], ["deleting", "answered"]), (podm.sent("DELETE"), podm.states))

    def test_what_stays_is_named_with_why_and_the_rest_is_deleted(self):
        podm = self.podm()
        uris = [podm.add(CHUNKS), podm.add(CHUNKS), podm.add(CHUNKS)]
        podm.on_delete = lambda uri: podm.refuse() if uri != uris[1] else podm.drop(uri)
        first, _, last = uris
        why = "is still there: HTTP 400: not here"
        self.assertEqual(f"{first} {why}; {last} {why}", self.remove(*uris))
        self.assertEqual(1, podm.sent("GET").count(first))  # a refusal does not change its mind

    def test_what_stays_after_a_success_is_read_for_some_time(self):
        podm = self.podm()
        uri = podm.add(CHUNKS)
        podm.on_delete = lambda uri: Reply(204, {}, None)
        self.assertEqual(f"{uri} is still there: it answered that it is gone", self.remove(uri))
        self.assertEqual(8, podm.sent("GET").count(uri))
        podm.meanwhile = [lambda: None, lambda: podm.drop(uri)]
        self.assertEqual("", self.remove(uri))

    def test_a_lost_reply_is_waited_for_until_patience_ends(self):
        podm = self.podm(pauses=3)
        uri = podm.add(CHUNKS)

        def fail(_uri):
            raise PodmError("timed out")

        podm.on_delete = fail
        self.assertEqual(f"{uri} is still there: no reply: timed out", self.remove(uri))
        self.assertEqual(4, podm.sent("GET").count(uri))

    def test_what_cannot_be_read_back_is_said_so(self):
        podm = self.podm()
        podm.documents["/X/1"] = 500
        podm.on_delete = lambda uri: Reply(204, {}, None)
        error = "could not be read back: /X/1: HTTP 500, expected a document"
        self.assertEqual(f"/X/1 is still there: {error}", self.remove("/X/1"))
