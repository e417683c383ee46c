# SPDX-License-Identifier: Apache-2.0
"""Pod managers with the habits of older and careless services are read like any other."""

import itertools
import re

import msgspec
from hypothesis import given, settings, strategies as st

from tests.unit import trees
from tests.unit.core.sites import SOAK, sized
from tests.unit.drivers.live import (
    NOON,
    OWN,
    TREES,
    LiveTest,
    cut,
    dressed,
    half,
    half_without_length,
    hang,
    is_object,
    on,
    sampled,
)
from tests.unit.drivers.served import DIALECTS, PASSWORD, USER, Server
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.drivers.files.tree import join_pages
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import Registration
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

V = "/redfish/v1"
SERVICE = f"{V}/CompositionService"
BLOCKS = f"{SERVICE}/ResourceBlocks"
#: Pod managers with blocks, agents, pages, racks and amounts; a soak test has all.
SOME = ("gpu-east", "memory-domains", "rack-mockup", "rsd-pcie", "shared-blocks", "systems")


def sources():
    """Return the documents of all pod managers to test habits on."""
    found = {name: {uri: msgspec.json.decode(OWN.sub(b"", data)) for uri, data in documents.items()
                    if is_object(data)}
             for name, documents in TREES.items()}  # fmt: skip
    return found | {name: trees.tree(name) for name in ("gpu-east", "mem-1")}


def readings_of(sources, *fail, login=False, auth="auto", page_size=0):
    """Return a reading of each source with these habits, and its number of requests."""
    account = Account(USER, PASSWORD) if login else Account()
    settings = SimulatorSettings(login=account, page_size=page_size, clock=lambda: 0.0)
    known = {"username": USER if login else None, "auth": auth}
    with served(documents=sources, fail=fail, settings=settings) as podms:
        targets = [
            ReadTarget(Registration(name=name, url=one.url, **known), PASSWORD)
            for name, one in podms.items()
        ]
        found = {one.podm.id: one for one in read(targets, DIALECTS, ReadSettings(parallel=1))}
        assert not any(one.open_sessions for one in podms.values())
        return found, {name: one.requests for name, one in podms.items()}


def plain(reading):
    return to_json(msgspec.structs.replace(reading.podm, url=None, read_at=None, id="podm-0"))


class HabitsTest(LiveTest):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        found = sources()
        cls.sources = found if SOAK else {name: found[name] for name in SOME}
        readings, _ = readings_of(cls.sources)
        cls.expected = {name: plain(one) for name, one in readings.items()}

    def some(self, *names):
        """Return the sources of these names."""
        return {name: self.sources[name] for name in names}

    def check(self, *fail, **more):
        """Compare readings with readings without habits, and with recorded readings."""
        found, requests = readings_of(self.sources, *fail, **more)
        for name, reading in found.items():
            with self.subTest(name, fail=fail):
                self.assertEqual((None, self.expected[name]), (reading.failure, plain(reading)))
                pages = join_pages(reading.documents).items()
                recorded = {uri: msgspec.json.encode(json) for uri, json in pages}
                self.assertEqual(self.expected[name], to_json(self.recorded(recorded)[0]))
        return found, requests

    def test_older_collections_and_roots_are_read(self):
        for fail in (["older-collections"], ["older-root", "older-collections", "no-expand"]):
            self.check(*fail, page_size=2)

    def test_links_without_the_path_of_their_document_are_read_below_it_and_said(self):
        for fail in (["short-links"], ["short-links", "no-expand", "older-collections"]):
            found, _ = self.check(*fail)
            texts = [one.text for one in found["shared-blocks"].diagnostics]
            said = [text for text in texts if "without the path of their agent" in text]
            self.assertEqual(1, len(said), texts)

    def test_the_root_is_found_where_it_answers_with_and_without_a_login(self):
        some = self.some("gpu-east", "rack-mockup", "shared-blocks")
        for spelling in ("slash-root", "bare-root"):
            self.check(spelling)
            for auth in ("auto", "session", "basic"):
                readings, _ = readings_of(some, spelling, "closed-root", login=True, auth=auth)
                for name, reading in readings.items():
                    with self.subTest(name, spelling=spelling, auth=auth):
                        self.assertEqual(self.expected[name], plain(reading))

    def test_a_list_without_members_fails_the_reading(self):
        some = self.some("shared-blocks", "gpu-east", "systems")
        for uri in (BLOCKS, f"{V}/Systems"):
            found, _ = readings_of(some, f"no-members:{uri}", "no-expand")
            for name in some:
                with self.subTest(name, uri=uri):
                    self.assertRegex(found[name].failure, f"{uri}: found no (property|members)")


#: Each shape of the collection of two blocks, and the expected words of its note, if any.
LINKS = [{"@odata.id": f"{BLOCKS}/{name}"} for name in "AB"]
URIS = [link["@odata.id"] for link in LINKS]
TYPED = {"@odata.type": "#ResourceBlockCollection.ResourceBlockCollection"}
MORE = {"Members@odata.nextLink": f"{BLOCKS}?page=2"}
SHAPES = {
    "as it is": ({"Members": LINKS}, ""),
    "lower case": ({"members": LINKS, "members@odata.count": 2}, ""),
    "upper case": ({"MEMBERS": LINKS}, ""),
    "below Links": ({"Links": {"Members": LINKS, "Members@odata.count": 2}}, ""),
    "below links": ({"links": {"members": LINKS}}, ""),
    "texts": ({"Members": URIS}, ""),
    "objects by name": ({"Members": {"A": LINKS[0], "B": LINKS[1]}}, ""),
    "texts by name": ({"Members": dict(zip("AB", URIS, strict=True))}, ""),
    "other links": ({"Members": [{"href": uri} for uri in URIS]}, ""),
    "whole members": ({"Members": [{**link, "Id": "?", "Name": "?"} for link in LINKS]}, ""),
    "Items": ({**TYPED, "Items": LINKS}, ""),
    "Items without a type": ({"Items": LINKS}, ""),
    "value": ({"value": LINKS, "@odata.count": 2}, ""),
    "Type of a pre-release": ({"Type": "Collection.1.0.0", "links": {"Member": LINKS}}, ""),
    "pages": ({"Members": LINKS[:1], **MORE}, ""),
    "pages below Links": ({"Links": {"Members": LINKS[:1], **MORE}}, ""),
    "pages of OData": ({"value": LINKS[:1], "@odata.nextLink": f"{BLOCKS}?page=2"}, ""),
    "a page by a link": ({"Members": LINKS[:1],
                          "Members@odata.nextLink": {"@odata.id": f"{BLOCKS}?page=2"}}, ""),
    "a page by a query": ({"Members": LINKS[:1], "Members@odata.nextLink": "?page=2"}, ""),
    "a first page without any": ({"Members": [], "Members@odata.nextLink": f"{BLOCKS}/All"}, ""),
    "members elsewhere": ({"Members@odata.navigationLink": f"{BLOCKS}/All"}, ""),
    "a collection of collections": ({"Members": [{"@odata.id": f"{BLOCKS}/All"}]}, ""),
    "pages in a cycle": (
        {"Members": LINKS, "Members@odata.nextLink": BLOCKS}, "a link to an earlier page",
    ),
    "fewer than counted": ({"Members": LINKS, "Members@odata.count": 9}, "found 2 members, exp"),
}  # fmt: skip
#: The same for shapes in which no block is found.
EMPTY = {
    "none": ({"Members": [], "Members@odata.count": 0}, "found nothing to compose"),
    "none counted": ({"Members@odata.count": 0}, "found nothing to compose"),
    "null": ({"Members": None}, "found no members"),
    "a count alone": ({"Members@odata.count": 2}, "found no members"),
    "a type alone": (TYPED, "found no members"),
    "a context alone": ({"@odata.context": f"{V}/$metadata#X.XCollection"}, "found no members"),
    "a name alone": ({"Name": "Blocks"}, "found neither members nor"),
    "an Id too": ({"Id": "Blocks", "Status": {"State": "Enabled"}}, "found neither members nor"),
    "another word": ({"Blocks": LINKS}, "found neither members nor"),
    "a count and no members": ({"Members": [], "Members@odata.count": 2}, "found 0 members, exp"),
    "no links": ({"Members": [{"Name": "A"}, 7, True]}, "a link without @odata.id"),
    "a number": ({"Members": 7}, "a link without @odata.id"),
}


PLAIN = {"Name": "one", "ResourceBlockType": ["Compute"], "ProcessorType": "CPU",
         "CompositionStatus": {"CompositionState": "Unused"}}  # fmt: skip


class ShapesTest(LiveTest):
    """Collections of blocks, and of the devices of a block."""

    def documents(self, at, shape):
        """Return a service with a collection at a URI, two members of it, and the links to it."""
        system = f"{V}/Systems/S"
        found = {
            V: {"Name": "root", "CompositionService": {"@odata.id": SERVICE}},
            SERVICE: {"Name": "s", "ResourceBlocks": {"@odata.id": BLOCKS}},
            BLOCKS: {"Members": [{"@odata.id": f"{BLOCKS}/S"}]},
            f"{BLOCKS}/S": {**PLAIN, "ComputerSystems": [{"@odata.id": system}]},
            system: {"Name": "system", "Processors": {"@odata.id": f"{system}/Processors"}},
        }
        own = {BLOCKS: shape, f"{BLOCKS}?page=2": {"Members": LINKS[1:]},
               f"{BLOCKS}/All": {"Members": LINKS}} | dict.fromkeys(URIS, PLAIN)  # fmt: skip
        here, there = BLOCKS.encode(), at.encode()
        documents = {uri: msgspec.json.encode({"@odata.id": uri, **json})
                     for uri, json in found.items()}  # fmt: skip
        return documents | {
            uri.replace(BLOCKS, at): msgspec.json.encode(json).replace(here, there)
            for uri, json in own.items()
        }

    def both(self, documents):
        """Read documents live and as recorded; return the pod manager and its notes."""
        pages = {uri: data for uri, data in documents.items() if "?" in uri}

        def page(handler):
            return handler.path in pages and handler.reply(200, pages[handler.path])

        (reading,) = self.read(self.serve(documents, rules=[page]))
        podm, diagnostics = self.recorded(documents)
        if reading.failure is not None:  # in a recording, a missing document may follow
            return podm, f"outage: {reading.failure}"
        self.same(podm, reading)
        self.assertEqual(diagnostics, reading.diagnostics)
        captured = {uri: msgspec.json.encode(json)
                    for uri, json in join_pages(reading.documents).items()}  # fmt: skip
        self.assertFalse([uri for uri in captured if "?" in uri])
        self.assertEqual(to_json(podm), to_json(self.recorded(captured)[0]))
        return podm, "\n".join(one.text for one in diagnostics)

    def check(self, at, count, fails=""):
        """Read each shape of the collection at a URI; ``count`` counts the found members.

        Shapes whose words match ``fails`` are outages.
        """
        for expected, shapes in ((2, SHAPES), (0, EMPTY)):
            for name, (shape, words) in shapes.items():
                with self.subTest(name):
                    podm, told = self.both(self.documents(at, shape))
                    self.assertEqual(expected, count(podm))
                    if fails and re.search(fails, words):
                        self.assertRegex(told, f"outage: .*{at}: found no")
                        continue
                    self.assertIn(words.removeprefix("found nothing to compose"), told)
                    self.assertEqual(bool(words), bool(told) or words.startswith("found nothing"))

    def test_a_collection_of_blocks_is_read_in_any_shape_and_what_is_none_is_said(self):
        fails = "no members|neither members|without @odata.id"
        self.check(BLOCKS, lambda podm: len(podm.blocks), fails)

    def test_a_collection_of_devices_is_read_in_any_shape_and_what_is_none_is_said(self):
        def processors(podm):
            return sum(cpu.count for block in podm.blocks for cpu in block.devices.processors)

        self.check(f"{V}/Systems/S/Processors", processors)


TREE = dressed(TREES["shared-blocks"])
#: The trees, by whether their documents are requested one by one.
EXPANDS = (0, 2, 6)


def half_in_chunks(handler):
    found = handler.podm.document(handler.path) or b"{}"
    handler.close_connection = True
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    piece = found[: len(found) // 2]
    handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    return True


def die(handler):
    """Answer nothing from now on."""
    handler.podm.rules.insert(0, cut)
    return cut(handler)


TROUBLES = (cut, half, half_without_length, half_in_chunks, hang, die)


def at_request(number, times, act):
    """Return a rule for this number of requests from this one on, counted from 0."""
    count = itertools.count()

    def rule(handler):
        present = handler.command == "GET" and handler.podm.document(handler.path.partition("?")[0])
        return bool(present) and number <= next(count) < number + times and act(handler)

    return rule


def slowly(delay_s):
    return lambda handler: handler.podm.stop.wait(delay_s) and False


class WholeReadingTest(LiveTest):
    def check(self, expand, timeout_s, *rules):
        server = Server(TREE, expand=expand, rules=rules)
        try:
            target = ReadTarget(Registration(name="podm", url=server.url))
            pace = ReadSettings(timeout_s=timeout_s)
            (reading,) = read([target], DIALECTS, pace, clock=lambda: NOON)
        finally:
            server.close()
        podm = reading.podm
        if reading.failure is not None:
            self.assertEqual(("Offline", (), (), ()),
                             (podm.status, podm.blocks, podm.pools, podm.nodes))  # fmt: skip
            self.assertIn("(", reading.failure)
            return False
        self.same(msgspec.structs.replace(self.recorded(TREE)[0], id=podm.id), reading)
        return True

    @settings(max_examples=sized(120))
    @given(
        expand=st.sampled_from(EXPANDS),
        number=st.integers(0, 40),
        times=st.sampled_from((1, 2, 1000)),
        act=st.sampled_from(TROUBLES),
        delay_ms=st.sampled_from((0, 0, 5, 40)),
        timeout_ms=st.sampled_from((60, 200, 700)),
    )
    def test_whatever_is_late_or_cut_off_all_blocks_are_there_or_none(
        self, expand, number, times, act, delay_ms, timeout_ms
    ):
        trouble = at_request(number, times, act)
        self.check(expand, timeout_ms / 1000, slowly(delay_ms / 1000), trouble)

    def test_each_trouble_at_each_document_once_is_read_over_or_fails_the_whole(self):
        for act, expand, number in sampled(TROUBLES[:4], EXPANDS, (0, 3, 9)):
            with self.subTest(act.__name__, expand=expand, number=number):
                self.assertTrue(self.check(expand, 10.0, at_request(number, 1, act)))

    def test_an_expanded_answer_that_is_late_is_requested_again_without(self):
        late = on("expand", hang)
        for expand in EXPANDS[1:]:
            self.assertTrue(self.check(expand, 2.0, late))
