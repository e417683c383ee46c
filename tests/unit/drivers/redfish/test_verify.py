# SPDX-License-Identifier: Apache-2.0
"""Reading a node back: which system is the node, whether it is whole, what is left of none."""

import unittest

from valence_sched.drivers.composer import Reply
from valence_sched.drivers.redfish import verify
from valence_sched.drivers.redfish.methods import CONSTRAINED, ComposeCapabilities, UseCase
from valence_sched.errors import PodmError
from valence_sched.model.composition import CompositionRequest

NODE = CompositionRequest(name="node-1", blocks=("/B/1", "/B/2"))
EXACT = ComposeCapabilities("/S", None, False, ())
ABOUT = ComposeCapabilities("/S", None, False, (UseCase(CONSTRAINED, "/S", (), {}),))


def links(*uris):
    return [{"@odata.id": uri} for uri in uris]


def block(state="Composed", *systems, **status):
    return {"CompositionStatus": {"CompositionState": state, **status},
            "Links": {"ComputerSystems": links(*systems)}}  # fmt: skip


def shared(*systems, state="ComposedAndAvailable"):
    return block(state, *systems, SharingCapable=True, SharingEnabled=True, MaxCompositions=4)


def system(*blocks, name="node-1", type_="Composed"):
    return {"Name": name, "SystemType": type_, "Links": {"ResourceBlocks": links(*blocks)}}


class Recorded:
    """A session on documents that do not change; what is an int is answered as that status."""

    def __init__(self, documents):
        systems = [uri for uri in documents if uri.startswith("/S/")]
        self._documents = {"/S": {"Members": links(*systems)}, **documents}
        self.read = []

    def get(self, uri):
        self.read.append(uri)
        found = self._documents.get(uri, 404)
        return Reply(found, {}, None) if isinstance(found, int) else Reply(200, {}, found)


def read(documents, node=None, request=NODE, offers=EXACT, **words):
    reader = verify.NodeReader(Recorded(documents), lambda: offers)
    return reader.read_node(request, node, **words)


USED, IN_1 = block(), block("Composed", "/S/1")
WHOLE = {"/B/1": IN_1, "/B/2": IN_1, "/S/1": system("/B/1", "/B/2")}


class TestNode(unittest.TestCase):
    """A system that is there is the node only where all of it is right."""

    def test_a_whole_node_is_composed(self):
        found = read(WHOLE)
        expected = ("composed", "/S/1", NODE.blocks, "", False)
        have = (found.state, found.node, found.blocks, found.reason, found.works)
        self.assertEqual(expected, have)

    def test_each_thing_that_is_wrong_leaves_it_behind_with_the_reason(self):
        other = system("/B/2", name="theirs")
        for change, reason in (
            ({"/S/1": system()}, "/S/1 is there without any block"),
            ({"/B/2": 404}, "/S/1 is there, and /B/2 is not"),
            ({"/B/2": block("Failed", "/S/1")}, "/S/1 is there, and /B/2 is Failed"),
            ({"/S/1": system("/B/1")}, "/S/1 is there without /B/2"),
            ({"/B/2": block("Composed", "/S/1", "/S/2"), "/S/2": other},
             "its blocks are part of /S/2 too"),
            ({"/B/2": block("Composed", "/S/1", "/S/2", "/S/3"), "/S/2": other, "/S/3": other},
             "its blocks are part of /S/2, /S/3 too"),
        ):  # fmt: skip
            with self.subTest(reason):
                found = read(WHOLE | change)
                self.assertEqual(("left", "/S/1", reason), (found.state, found.node, found.reason))

    def test_what_is_no_fault_is_none(self):
        sharer = system("/B/2", name="theirs")
        for name, change in (
            ("a block that never changes its state", {"/B/2": block("Unused")}),
            ("a block of unknown state", {"/B/2": block("Unknown")}),
            ("a shared block is of others too",
             {"/B/2": shared("/S/1", "/S/2"), "/S/2": sharer}),
            ("a system that is no composition", {"/B/2": block("Composed", "/S/1", "/S/2"),
             "/S/2": system("/B/2", name="host", type_="Physical")}),
            ("a link to nowhere", {"/B/2": block("Composed", "/S/1", "/S/9")}),
            ("more blocks than were asked for",
             {"/S/1": system("/B/1", "/B/2", "/B/3"), "/B/3": IN_1}),
        ):  # fmt: skip
            with self.subTest(name):
                found = read(WHOLE | change)
                self.assertEqual(("composed", ""), (found.state, found.reason))

    def test_who_composes_by_what_is_asked_for_may_take_other_blocks(self):
        other = WHOLE | {"/S/1": system("/B/1", "/B/3"), "/B/3": IN_1, "/B/2": block("Unused")}
        found = read(other, offers=ABOUT)
        self.assertEqual(("composed", ("/B/1", "/B/3")), (found.state, found.blocks))
        self.assertEqual("/S/1 is there without /B/2", read(other).reason)

    def test_while_a_block_is_composing_it_goes_on(self):
        for state, works in (("Composing", True), ("Composed", False)):
            found = read(WHOLE | {"/B/2": block(state, "/S/1")})
            self.assertEqual(works, found.works)


class TestWhich(unittest.TestCase):
    """Which system is ours."""

    def test_one_at_its_uri_by_its_name_or_by_the_very_blocks(self):
        for found_system, expected in (
            (system("/B/1", "/B/2"), "/S/1"),
            (system("/B/1", "/B/2", name="renamed"), "/S/1"),
            (system("/B/1", name="node-1"), "/S/1"),
            (system("/B/1", name="theirs"), None),
            (system("/B/1", "/B/2", "/B/3", name="theirs"), None),
        ):
            with self.subTest(found_system):
                documents = WHOLE | {"/S/1": found_system, "/B/3": IN_1}
                self.assertEqual(expected, read(documents, "/S/1").node)

    def test_without_a_uri_only_by_its_name(self):
        self.assertEqual("/S/1", read(WHOLE).node)
        self.assertIsNone(read(WHOLE | {"/S/1": system("/B/1", "/B/2", name="theirs")}).node)
        nameless = CompositionRequest(name="", blocks=NODE.blocks)
        documents = WHOLE | {"/S/1": system("/B/1", "/B/2", name="")}
        self.assertIsNone(read(documents, request=nameless).node)

    def test_the_very_blocks_under_another_name_leave_it_unknown_where_that_is_asked(self):
        documents = WHOLE | {"/S/1": system("/B/1", "/B/2", name="theirs")}
        found = read(documents, same_blocks=True)
        self.assertEqual("unknown", found.state)
        self.assertIn("under the name 'theirs'", found.reason)
        self.assertEqual("absent", read(documents).state)
        for other in (system("/B/1", name="x"), system("/B/1", "/B/2", "/B/3", name="x"),
                      system("/B/1", "/B/2", name="x", type_="Physical")):  # fmt: skip
            self.assertEqual("absent", read(WHOLE | {"/S/1": other}, same_blocks=True).state)

    def test_a_system_that_cannot_be_read_matters_only_while_blocks_are_in_use(self):
        free = {"/B/1": block("Unused"), "/B/2": block("Unused"), "/S/1": 500}
        self.assertEqual("absent", read(free).state)
        with self.assertRaisesRegex(PodmError, "/S/1: HTTP 500"):
            read(free | {"/B/2": USED})
        with self.assertRaisesRegex(PodmError, "/S/1: HTTP 500"):
            read(free | {"/B/2": 404})

    def test_pages_that_never_end_are_read_up_to_a_bound(self):
        page = {"Members": [], "Members@odata.nextLink": "/S?page=2"}
        documents = {
            "/S": page,
            "/S?page=2": page,
            "/B/1": block("Unused"),
            "/B/2": block("Unused"),
        }
        session = Recorded(documents)
        found = verify.NodeReader(session, lambda: EXACT).read_node(NODE, None)
        self.assertEqual("absent", found.state)
        self.assertEqual(verify.MAX_PAGES, sum(uri.startswith("/S") for uri in session.read))


class TestNoNode(unittest.TestCase):
    """Where no system is the node, its blocks tell what is left."""

    def test_blocks_in_use_that_no_composed_system_has_are_what_is_left(self):
        theirs = system("/B/2", name="theirs")
        for blocks, others, state, reason in (
            ({"/B/1": block("Unused"), "/B/2": block("Unused")}, {}, "absent", ""),
            ({"/B/1": block("Unused"), "/B/2": USED}, {}, "left", "/B/2: found Composed"),
            ({"/B/1": block("Unused"), "/B/2": USED}, {"/S/2": theirs}, "absent",
             "/B/2: found Composed"),
            ({"/B/1": block("Unused"), "/B/2": block("Composed", "/S/9")}, {}, "absent",
             "/B/2: found Composed by /S/9"),
            ({"/B/1": block("Unused"), "/B/2": USED},
             {"/S/2": system("/B/2", name="host", type_="Physical")}, "left",
             "/B/2: found Composed"),
            ({"/B/1": USED, "/B/2": 404}, {}, "left",
             "/B/1: found Composed; /B/2: found no such block"),
        ):  # fmt: skip
            with self.subTest(blocks=blocks, others=others):
                found = read({**blocks, **others})
                self.assertEqual((state, None, reason), (found.state, found.node, found.reason))

    def test_while_one_is_composing_it_goes_on(self):
        documents = {"/B/1": block("Unused"), "/B/2": block("Composing")}
        self.assertEqual(("left", True), (read(documents).state, read(documents).works))


class TestConflict(unittest.TestCase):
    """Why a block cannot have one more node."""

    def test_in_words_or_none(self):
        theirs, host = system("/B/1", name="x"), system("/B/1", name="h", type_="Physical")
        for found, others, conflict in (
            (block("Unused"), {}, None),
            (404, {}, "found no such block"),
            (USED, {}, "found Composed"),
            (block("Composed", "/S/2"), {}, "found Composed by /S/2"),
            (block("Unused", "/S/2"), {"/S/2": theirs}, "found Unused, and part of /S/2"),
            (block("Unused", "/S/2"), {"/S/2": host}, None),
            (shared("/S/2"), {"/S/2": theirs}, None),
            (shared("/S/2", state="Composed"), {"/S/2": theirs}, "found Composed by /S/2"),
        ):
            with self.subTest(found):
                reader = verify.NodeReader(Recorded({"/B/1": found, **others}), lambda: EXACT)
                self.assertEqual(conflict, reader.block_conflict("/B/1"))
