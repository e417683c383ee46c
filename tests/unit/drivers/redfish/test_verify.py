# SPDX-License-Identifier: Apache-2.0
"""Reading a node back: finding its system, checking it, and finding the remains of a node."""

import unittest

from tests.unit.drivers.redfish.stored import StoredPodm, block, links, system as composed
from valence_sched.drivers.redfish import verify
from valence_sched.drivers.redfish.methods import CONSTRAINED, ComposeCapabilities, UseCase
from valence_sched.model.claim import CompositionRequest

NODE = CompositionRequest(name="node-1", blocks=("/B/1", "/B/2"))
EXACT = ComposeCapabilities("/S", None, False, ())
ABOUT = ComposeCapabilities("/S", None, False, (UseCase(CONSTRAINED, "/S", (), {}),))


def shared(*systems, state="ComposedAndAvailable"):
    return block(state, *systems, SharingCapable=True, SharingEnabled=True, MaxCompositions=4)


def system(*blocks, name="node-1", type_="Composed"):
    return {**composed(*blocks, name=name), "SystemType": type_}


def recorded(documents):
    systems = [uri for uri in documents if uri.startswith("/S/")]
    return StoredPodm({"/S": {"Members": links(*systems)}, **documents})


def read(documents, node=None, request=NODE, offers=EXACT, **words):
    reader = verify.NodeReader(recorded(documents), lambda: offers)
    return reader.read_node(request, node, **words)


USED, IN_1 = block("Composed"), block("Composed", "/S/1")
WHOLE = {"/B/1": IN_1, "/B/2": IN_1, "/S/1": system("/B/1", "/B/2")}
OTHER = {**WHOLE, "/S/1": system("/B/1", "/B/3", name="sys-1"), "/B/3": IN_1}
LARGER = {**OTHER, "/S/1": system("/B/1", "/B/2", "/B/3", name="sys-1")}


class TestNode(unittest.TestCase):
    """A system is the node only if all its properties are right."""

    def test_a_whole_node_is_composed(self):
        found = read(WHOLE)
        expected = ("composed", "/S/1", NODE.blocks, "", False)
        have = (found.state, found.node, found.blocks, found.reason, found.works)
        self.assertEqual(expected, have)

    def test_each_thing_that_is_wrong_leaves_it_behind_with_the_reason(self):
        other = system("/B/2", name="theirs")
        for change, reason in (
            ({"/S/1": system()}, "/S/1 exists without any block"),
            ({"/B/2": 404}, "/S/1 exists, but /B/2 does not"),
            ({"/B/1": 404, "/B/2": 404}, "/S/1 exists, but /B/1, /B/2 does not"),
            ({"/B/1": block("Failed"), "/B/2": block("Failed")},
             "/S/1 exists, but /B/1, /B/2 is Failed"),
            ({"/S/1": system("/B/3"), "/B/3": IN_1}, "/S/1 exists without /B/1, /B/2"),
            ({"/B/2": block("Failed", "/S/1")}, "/S/1 exists, but /B/2 is Failed"),
            ({"/S/1": system("/B/1")}, "/S/1 exists without /B/2"),
            ({"/B/2": block("Composed", "/S/1", "/S/2"), "/S/2": other},
             "its blocks are also part of /S/2"),
            ({"/B/2": block("Composed", "/S/1", "/S/2", "/S/3"), "/S/2": other, "/S/3": other},
             "its blocks are also part of /S/2, /S/3"),
        ):  # fmt: skip
            with self.subTest(reason):
                found = read(WHOLE | change)
                self.assertEqual(("left", "/S/1", reason), (found.state, found.node, found.reason))

    def test_a_block_that_says_it_is_free_is_looked_for_in_all_systems(self):
        idle = WHOLE | {"/B/2": block("Unused", "/S/1")}
        for other, reason in (
            (system("/B/9", "/b/2", name="theirs"), "its blocks are also part of /S/2"),
            (system("/B/9", name="theirs"), ""),
            (system("/B/2", name="host", type_="Physical"), ""),
            (system("/B/1", name="theirs"), ""),
        ):
            with self.subTest(other):
                self.assertEqual(reason, read(idle | {"/S/2": other}).reason)

    def test_its_blocks_are_those_it_links_as_the_request_spells_them_each_read_once(self):
        session = recorded(WHOLE | {"/S/1": system("/b/1", "/B/2", "/b/2", "/B/3"), "/B/3": IN_1})
        found = verify.NodeReader(session, lambda: EXACT).read_node(NODE, None)
        self.assertEqual(("composed", ("/B/1", "/B/2", "/B/3")), (found.state, found.blocks))
        self.assertEqual(
            ["/B/1", "/B/2", "/B/3"], [u for u in session.sent("GET") if u[:3] == "/B/"]
        )

    def test_what_is_no_fault_is_none(self):
        sharer = system("/B/2", name="theirs")
        for name, change in (
            ("a block that never changes its state", {"/B/2": block("Unused")}),
            ("a block of unknown state", {"/B/2": block("Unknown")}),
            ("a shared block is of others too",
             {"/B/2": shared("/S/1", "/S/2"), "/S/2": sharer}),
            ("a system that is no composition", {"/B/2": block("Composed", "/S/1", "/S/2"),
             "/S/2": system("/B/2", name="host", type_="Physical")}),
            ("a system of no type", {"/B/2": block("Composed", "/S/1", "/S/2"),
             "/S/2": system("/B/2", name="host", type_=None)}),
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
        self.assertEqual("/S/1 exists without /B/2", read(other).reason)

    def test_while_a_block_is_composing_it_goes_on(self):
        goes_on = "/S/1 exists, and /B/2 is Composing"
        for state, works, reason in (("Composing", True, goes_on), ("Composed", False, "")):
            found = read(WHOLE | {"/B/2": block(state, "/S/1")})
            self.assertEqual((works, reason), (found.works, found.reason))


class TestWhich(unittest.TestCase):
    """Finding our system among others."""

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

    def test_one_at_its_uri_need_not_be_in_the_collection(self):
        documents = {"/X/1": system("/B/1"), "/B/1": USED, "/B/2": block("Unused")}
        self.assertEqual("/X/1", read(documents, "/X/1").node)
        self.assertIsNone(read(documents | {"/X/1": system("/B/1", name="x")}, "/X/1").node)

    def test_a_collection_is_no_system(self):
        documents = WHOLE | {"/S/1": system("/B/1", "/B/2") | {"Members": []}}
        self.assertIsNone(read(documents, "/S/1").node)

    def test_a_system_of_a_type_that_is_no_word_is_not_composed_and_no_error(self):
        for type_ in (7, True, ["Composed"]):
            documents = WHOLE | {"/S/1": system("/B/1", "/B/2", name="x", type_=type_)}
            self.assertEqual("absent", read(documents, same_blocks=True).state)

    def test_without_a_collection_of_systems_those_that_the_blocks_link_are_read(self):
        session = recorded(WHOLE)
        reader = verify.NodeReader(session, lambda: EXACT._replace(systems=None))
        self.assertEqual("/S/1", reader.read_node(NODE, None).node)
        self.assertEqual(frozenset(), reader.system_uris())
        self.assertNotIn(None, session.sent("GET"))

    def test_its_uri_is_spelled_as_it_says_itself_if_it_is_the_same(self):
        for stated, node in (("/s/1", "/s/1"), ("http://host.invalid/s/1", "/s/1"),
                             ("/S/2", "/S/1"), ("", "/S/1"), (7, "/S/1")):  # fmt: skip
            with self.subTest(stated):
                documents = WHOLE | {"/S/1": system("/B/1", "/B/2") | {"@odata.id": stated}}
                self.assertEqual(node, read(documents).node)

    def test_each_system_is_read_once_and_nothing_where_no_uri_is_known(self):
        session = recorded(OTHER | {"/S/2": system("/B/9", name="theirs")})
        verify.NodeReader(session, lambda: EXACT).read_node(NODE, None)
        self.assertEqual(
            ["/S/1", "/S/2"], [u for u in session.sent("GET") if u is None or "/S/" in u]
        )

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
        for other in (USED, 404):
            found = read(free | {"/B/2": other})
            self.assertEqual("unknown", found.state)
            self.assertRegex(found.reason, "^could not be read back: /S/1: HTTP 500")

    def test_pages_that_are_named_by_a_query_alone_are_read(self):
        page = {"Members@odata.nextLink": "?page=2", "Members": []}
        free = {"/B/1": block("Unused"), "/B/2": block("Unused"), "/S/1": system("/B/1", "/B/2")}
        documents = free | {"/S": page, "/S?page=2": {"Members": links("/S/1")}}
        self.assertEqual("/S/1", read(documents).node)


def wrote(*before, succeeded=True):
    return verify.Written(frozenset(before), succeeded)


class TestWrite(unittest.TestCase):
    """The result of our own write is ours, under any name."""

    DOUBT = "under the name 'sys-1': the owner is unknown"

    def test_the_system_that_the_answer_names_is_ours_if_it_is_new_and_the_write_succeeded(self):
        for written, node in (
            (wrote(), "/S/1"),
            (wrote("/S/2"), "/S/1"),
            (wrote("/s/1"), None),
            (wrote(succeeded=False), None),
            (None, None),
        ):
            with self.subTest(written):
                documents = OTHER | {"/B/2": block("Unused")}
                found = read(documents, "/S/1", offers=ABOUT, written=written)
                self.assertEqual(node, found.node)

    def test_so_is_a_new_system_that_has_all_the_blocks_or_equal_ones_in_their_place(self):
        equal = CompositionRequest(name="n", blocks=NODE.blocks, substitutes={"/B/2": ("/B/3",)})
        nothing = CompositionRequest(name="n")
        for documents, request, written, node in (
            (LARGER, NODE, wrote(), "/S/1"),
            (LARGER, NODE, wrote("/s/1"), None),
            (LARGER, NODE, wrote(succeeded=False), None),
            (LARGER, NODE, None, None),
            (OTHER, NODE, wrote(), None),
            (OTHER, equal, wrote(), "/S/1"),
            (LARGER, nothing, wrote(), None),
        ):
            with self.subTest(request=request, written=written):
                self.assertEqual(node, read(documents, request=request, written=written).node)

    def test_what_was_once_ours_stays_so_for_this_request_alone(self):
        for documents, node in ((OTHER, "/S/1"), (LARGER, None), (OTHER, "/s/1")):
            with self.subTest(documents=documents, node=node):
                session = recorded(documents | {"/s/1": documents["/S/1"]})
                reader = verify.NodeReader(session, lambda: ABOUT)
                self.assertIsNone(reader.read_node(NODE, "/S/1").node)
                self.assertIsNotNone(reader.read_node(NODE, node, written=wrote()).node)
                self.assertEqual("/S/1", reader.read_node(NODE, "/S/1").node)
                stranger = CompositionRequest(name="node-2", blocks=NODE.blocks)
                self.assertIsNone(reader.read_node(stranger, "/S/1").node)

    def test_after_a_success_a_new_system_that_has_any_of_the_blocks_leaves_it_unknown(self):
        success = f"the service reported success, and /S/1 is new, {self.DOUBT}"
        strange = WHOLE | {"/S/1": system("/B/3", name="sys-1"), "/B/3": IN_1}
        host = OTHER | {"/S/1": system("/B/1", name="sys-1", type_="Physical")}
        for documents, offers, written, state, reason in (
            (OTHER, EXACT, wrote(), "unknown", success),
            (OTHER, EXACT, wrote(succeeded=False), "absent", None),
            (OTHER, EXACT, wrote("/s/1"), "absent", None),
            (OTHER, EXACT, None, "absent", None),
            (strange, EXACT, wrote(), "absent", None),
            (strange, ABOUT, wrote(), "unknown", success),
            (strange, ABOUT, wrote("/s/1"), "absent", None),
            (strange, ABOUT, wrote(succeeded=False), "absent", None),
            (host, ABOUT, wrote(), "absent", None),
        ):
            with self.subTest(written=written, offers=offers):
                found = read(documents, offers=offers, written=written)
                self.assertEqual((state, None), (found.state, found.node))
                if reason:
                    self.assertEqual(reason, found.reason)

    def test_where_no_answer_came_a_new_system_with_the_blocks_and_more_leaves_it_unknown(self):
        reason = f"/S/1 has the same blocks, {self.DOUBT}"
        lost = wrote(succeeded=False)
        found = read(LARGER, same_blocks=True, written=lost)
        self.assertEqual(("unknown", reason), (found.state, found.reason))
        for documents, same, written in (
            (LARGER, True, wrote("/s/1", succeeded=False)),
            (LARGER, True, None),
            (LARGER, False, lost),
            (OTHER, True, lost),
        ):
            with self.subTest(same=same, written=written):
                self.assertEqual("absent", read(documents, same_blocks=same, written=written).state)

    def test_a_doubtful_system_behind_others_is_seen(self):
        theirs = {"/S/0": system("/B/8", name="a"), "/S/2": system("/B/9", name="b")}
        found = read(theirs | OTHER, written=wrote("/s/0", "/s/2"))
        self.assertEqual("unknown", found.state)

    def test_the_systems_before_a_write_are_those_of_every_page_in_one_spelling(self):
        documents = {
            "/S": {"Members": links("/S/One"), "Members@odata.nextLink": "/S?page=2"},
            "/S?page=2": {"Members": links("/s/two/", "")},
        }
        reader = verify.NodeReader(recorded(documents), lambda: EXACT)
        self.assertEqual({"/s/one", "/s/two"}, reader.system_uris())


class TestNoNode(unittest.TestCase):
    """If the node has no system, its blocks show the remaining parts."""

    def test_blocks_in_use_that_no_composed_system_has_are_what_is_left(self):
        theirs = system("/B/2", name="theirs")
        for blocks, others, state, reason in (
            ({"/B/1": block("Unused"), "/B/2": block("Unused")}, {}, "absent", ""),
            ({"/B/1": block("Unknown"), "/B/2": block("?")}, {}, "absent", ""),
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
    """Reasons why a block cannot be part of one more node."""

    def test_in_words_or_none(self):
        theirs, host = system("/B/1", name="x"), system("/B/1", name="h", type_="Physical")
        for found, others, conflict in (
            (block("Unused"), {}, None),
            (404, {}, "found no such block"),
            (USED, {}, "found Composed"),
            (block("Composed", "/S/2"), {}, "found Composed by /S/2"),
            (block("Composed", "/S/2", "", "/S/3"), {}, "found Composed by /S/2, /S/3"),
            (block("Composed", Reserved=True), {}, "found Composed, reserved"),
            (block("Failed") | {"Status": {"Health": "Critical"}}, {}, "found Failed, Critical"),
            (block("Unused", "/S/2"), {"/S/2": theirs}, "found Unused, but part of /S/2"),
            (block("Unused", "/S/2", "/S/3"), {"/S/2": theirs, "/S/3": theirs},
             "found Unused, but part of /S/2, /S/3"),
            (block("Unused", "/S/2"), {"/S/2": host}, "found Unused, but part of /S/2"),
            (block("Unused", "/S/2") | {"Pool": "Free", "ResourceBlockType": ["Compute"]},
             {"/S/2": host}, None),
            (block("Unused", "/S/2") | {"ComputerSystems": links("/S/2")}, {"/S/2": host}, None),
            (block("Unused", "/S/3"), {"/S/3": system("/B/2", type_="Physical")}, None),
            (shared("/S/2"), {"/S/2": theirs}, None),
            (shared("/S/2", state="Composed"), {"/S/2": theirs}, "found Composed by /S/2"),
        ):  # fmt: skip
            with self.subTest(found):
                reader = verify.NodeReader(recorded({"/B/1": found, **others}), lambda: EXACT)
                self.assertEqual(conflict, reader.block_conflict("/B/1"))
