# SPDX-License-Identifier: Apache-2.0
"""Pod managers: their inventory, its amounts, their use by claims, and the registration."""

import itertools
import unittest

import msgspec
from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import cpu, engine_of, lean
from tests.unit.core.fit import brute
from tests.unit.core.sites import quietly
from tests.unit.store.site import podm
from valence_sched.errors import UnknownName
from valence_sched.model.claim import ComposedNode, PodmRemainder, Usage, sum_devices
from valence_sched.model.hardware import block_usage
from valence_sched.model.inventory import (
    FREE_STATUS,
    Accelerator,
    CompositionState,
    Devices,
    FullPodm,
    Limit,
    Memory,
    Node,
    Status,
    Stock,
    free_amount,
    grant_size,
    largest_grant,
    parse_capabilities,
    to_json,
)
from valence_sched.model.registration import (
    Registration,
    alters_reading,
    reregistered,
    with_marks,
    without_taints,
)
from valence_sched.testing import request

STATES = CompositionState.__args__


def subtracted(site, usage):
    return PodmRemainder(site, usage).podm


class TestSlots(unittest.TestCase):
    """The number of further nodes that may use a block of Redfish."""

    # (fields of the status, slots)
    READINGS = (
        ({}, 1),
        ({"state": "Unused"}, 1),
        ({"state": "Composing"}, 0),
        ({"state": "Composed"}, 0),
        ({"state": "Composed", "compositions": 1}, 0),
        ({"state": "ComposedAndAvailable", "compositions": 1}, 0),
        ({"state": "Failed"}, 0),
        ({"state": "Unavailable"}, 0),
        ({"state": "Unknown"}, 0),
        # the block says it is free and counts a node: the strictest reading
        ({"state": "Unused", "compositions": 1}, 0),
        ({"state": "Unused", "max_compositions": 5}, 1),
        ({"state": "Unused", "max_compositions": 0}, 1),
        # one statement against it is enough
        ({"reserved": True}, 0),
        ({"enabled": False}, 0),
        ({"enabled": True}, 1),
        ({"active": True}, 0),
        ({"health": "Critical"}, 0),
        ({"health": "Warning"}, 1),
        ({"health": "OK"}, 1),
        ({"client": "somebody"}, 1),
        # sharing
        ({"shareable": True}, 1),
        ({"shareable": True, "max_compositions": 4}, 4),
        ({"shareable": True, "max_compositions": 0}, 0),
        ({"shareable": True, "max_compositions": 4, "compositions": 1}, 3),
        ({"shareable": True, "max_compositions": 4, "compositions": 5}, 0),
        ({"shareable": True, "state": "ComposedAndAvailable"}, 1),
        ({"shareable": True, "state": "ComposedAndAvailable", "compositions": 7}, 1),
        (
            {
                "shareable": True,
                "state": "ComposedAndAvailable",
                "max_compositions": 4,
                "compositions": 3,
            },
            1,
        ),
        ({"shareable": True, "state": "Composed", "max_compositions": 4}, 0),
        ({"shareable": True, "state": "Failed", "max_compositions": 4}, 0),
    )

    def test_readings(self):
        for words, slots in self.READINGS:
            with self.subTest(words):
                self.assertEqual(slots, msgspec.convert(words, Status).slots)

    def test_what_forbids_a_use_is_named(self):
        for words, expected in (
            ({}, "Unused"),
            ({"state": "Composed", "health": "OK"}, "Composed, OK"),
            ({"compositions": 1, "reserved": True}, "Unused, in use, reserved"),
            ({"active": True, "health": "Critical"}, "Unused, in the pool Active, Critical"),
            ({"enabled": False}, "Unused, Disabled"),
            ({"enabled": False, "resource_state": "Absent"}, "Unused, Absent"),
        ):
            self.assertEqual(expected, Status(**words).summary)

    def test_every_state_and_every_flag_together_is_read_by_the_same_rules(self):
        every = itertools.product(
            STATES,
            (False, True),
            (None, False, True),
            (None, "OK", "Warning", "Critical"),
            (False, True),
            (False, True),
            (None, 0, 1, 3),
            (0, 1, 3),
        )
        table = {
            (state, reserved, enabled, health, active, shareable, most, count): Status(
                state=state,
                reserved=reserved,
                enabled=enabled,
                health=health,
                active=active,
                shareable=shareable,
                max_compositions=most,
                compositions=count,
            ).slots
            for state, reserved, enabled, health, active, shareable, most, count in every
        }
        self.assertEqual(7 * 2 * 3 * 4 * 2 * 2 * 4 * 3, len(table))
        for words, slots in table.items():
            state, reserved, enabled, health, active, shareable, most, count = words
            barred = reserved or enabled is False or health == "Critical" or active
            if barred or state not in ("Unused", "ComposedAndAvailable"):
                self.assertEqual(0, slots, words)
            elif not shareable:
                self.assertEqual(int(state == "Unused" and count == 0), slots, words)
            else:
                self.assertEqual(1 if most is None else max(0, most - count), slots, words)

    def test_states_are_those_of_redfish(self):
        self.assertEqual(
            {
                "Unused",
                "Composing",
                "Composed",
                "ComposedAndAvailable",
                "Failed",
                "Unavailable",
                "Unknown",
            },
            set(STATES),
        )


TEXT = st.text("abcXYZ09_-.: /é", min_size=1, max_size=6).map(str.strip).filter(bool)
CAPABILITIES = st.dictionaries(TEXT, st.lists(TEXT, min_size=1, max_size=3).map(tuple), max_size=4)


def format_capabilities(found: dict[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{key}={';'.join(values)}" for key, values in found.items())


class TestCapabilities(unittest.TestCase):
    """``key=value;value, key=value``."""

    @quietly(100)
    @given(CAPABILITIES)
    def test_parsing_what_was_printed_gives_it_back(self, found):
        """S45: the capability string survives the round trip."""
        self.assertEqual(found, parse_capabilities(format_capabilities(found)))

    @quietly(300)
    @given(CAPABILITIES)
    def test_printing_what_was_parsed_gives_it_back(self, found):
        """S45: the text is canonical after one round."""
        text = format_capabilities(found)
        self.assertEqual(text, format_capabilities(parse_capabilities(text)))

    def test_the_form_of_the_zone_aware_scheduler(self):
        found = parse_capabilities("hypervisor=xenserver;kvm, os=linux;windows")
        self.assertEqual({"hypervisor": ("xenserver", "kvm"), "os": ("linux", "windows")}, found)

    def test_spaces_and_empty_items_do_not_matter(self):
        self.assertEqual({"a": ("1", "2"), "b": ("3",)}, parse_capabilities(" a = 1 ; 2 ,, b=3 ,"))
        self.assertEqual({}, parse_capabilities(" "))

    def test_a_key_twice_adds_up(self):
        self.assertEqual({"a": ("1", "2")}, parse_capabilities("a=1, a=2"))

    def test_an_equals_sign_in_a_value_stays(self):
        self.assertEqual({"a": ("b=c",)}, parse_capabilities("a=b=c"))

    def test_what_is_not_key_and_value_is_refused(self):
        for text in ("a", "=b", "a=", "a=b;", "a=b;;c", " =b", "a=1, b"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, ", expected key=value"):
                parse_capabilities(text)


class TestDocument(unittest.TestCase):
    def test_a_podm_makes_the_round_trip(self):
        words = {
            "id": "a",
            "facts": {"year": 2020.5, "owner": "x", "tags": ["p", "q"]},
            "pools": [{"id": "p", "limits": {"Compute": {"min": 1, "max": 2}}}],
            "blocks": [
                {
                    "uri": "b",
                    "type": ["Compute"],
                    "pools": ["p"],
                    "status": {"state": "Composed", "client": "me"},
                    "devices": {"processors": [{"cores": 8}]},
                }
            ],
            "stocks": [{"uri": "s", "resource": "gib", "total": 10.0, "step": 2.5}],
        }
        podm = msgspec.convert(words, FullPodm)
        self.assertEqual(podm, msgspec.json.decode(to_json(podm), type=FullPodm))
        self.assertEqual(words, msgspec.json.decode(to_json(podm)))


STOCKS = st.builds(
    Stock,
    uri=st.just("s"),
    resource=st.just("gib"),
    total=st.sampled_from([None, *map(float, range(15))]),
    used=st.integers(0, 6).map(float),
    min=st.integers(0, 5).map(float),
    max=st.sampled_from([None, 0.0, 3.0, 7.0, 12.0]),
    step=st.sampled_from([0.0, 1.0, 2.0, 5.0]),
)


class TestGrant(unittest.TestCase):
    @quietly(300)
    @given(STOCKS, st.integers(1, 10))
    def test_it_is_the_smallest_valid_amount_that_is_enough(self, stock, requested):
        self.assertEqual(brute.grants_of(stock, requested), grant_size(stock, requested))

    @quietly(400)
    @given(STOCKS)
    def test_the_largest_grant_is_the_largest_that_is_granted(self, stock):
        granted = [grant_size(stock, requested) for requested in range(1, 16)]
        self.assertEqual(max((g for g in granted if g), default=0), largest_grant(stock))

    def test_by_hand(self):
        # (fields of the stock, requested, granted)
        for fields, requested, granted in (
            ({"total": 65536.0, "step": 64.0}, 1000, 1024),
            ({"total": 65536.0, "step": 64.0, "min": 2048.0}, 1000, 2048),
            ({"total": 1000.0}, 999.5, 999.5),
            ({"total": 1000.0, "used": 1.0}, 999.5, None),
            ({"total": 1000.0, "max": 100.0}, 101, None),
            ({"total": 100.0, "step": 64.0}, 65, None),
            ({"total": 10.0, "used": 12.0}, 1, None),
            ({}, 1, None),
            ({"total": 0.3, "step": 0.1}, 0.3, 0.3),
            ({"total": 1.05, "step": 0.35}, 1.05, 1.05),
            ({"total": 1e13, "step": 1e12}, 100, 1e12),
            ({"total": 1e12 - 100, "step": 1e12}, 100, None),
        ):
            with self.subTest(words=fields, asked=requested):
                self.assertEqual(
                    granted, grant_size(Stock(uri="s", resource="r", **fields), requested)
                )

    def test_an_overdrawn_stock_has_nothing_left(self):
        self.assertEqual(0, free_amount(Stock(uri="s", resource="r", total=10.0, used=12.0)))


ASKED = {"processor": {"total_cores": 8}}


class TestSubtraction(unittest.TestCase):
    """A podm minus the held blocks."""

    def statuses(self, held, *blocks):
        site = subtracted(lean({"id": "p", "blocks": list(blocks)}), Usage(blocks=held))
        return [msgspec.json.decode(b.status, type=Status) if b.status else None
                for b in site.blocks]  # fmt: skip

    def test_a_held_block_has_no_slot_left_and_the_others_are_as_they_were(self):
        told = cpu("b", 8, status={"state": "Unused", "health": "OK"})
        first, second, third = self.statuses({"a": 1, "b": 1}, cpu("a", 8), told, cpu("c", 8))
        self.assertEqual((0, 0, None), (first.slots, second.slots, third))
        self.assertEqual("OK", second.health)

    def test_a_shareable_block_has_as_many_slots_less_as_nodes_hold_it(self):
        shared = {"shareable": True, "max_compositions": 3, "compositions": 1,
                  "state": "ComposedAndAvailable"}  # fmt: skip
        for nodes, slots in ((1, 1), (2, 0)):
            (status,) = self.statuses({"a": nodes}, cpu("a", 8, status=shared))
            self.assertEqual(slots, status.slots)
        unbounded = {"shareable": True}
        (status,) = self.statuses({"a": 1}, cpu("a", 8, status=unbounded))
        self.assertEqual(0, status.slots)

    def test_an_amount_that_is_held_is_used_and_nodes_to_be_are_listed(self):
        site = lean({"id": "p", "stocks": [{"uri": "m", "resource": "r", "total": 9, "used": 1}]})
        node = Node(uri="claim:1#1", owner="o")
        found = subtracted(site, Usage(amounts={"m": 2.5}, nodes=(node,)))
        self.assertEqual((3.5, (node,)), (found.stocks[0].used, found.nodes))

    def test_taken_one_by_one_the_same_is_left_as_taken_at_once(self):
        shared = cpu("s", 8, status={"shareable": True, "max_compositions": 3})
        stock = {"uri": "m", "resource": "r", "total": 9, "used": 1}
        site = lean({"id": "p", "blocks": [shared, cpu("a", 8), cpu("b", 8)], "stocks": [stock]})
        nodes = [Node(uri=f"claim:{number}#1", owner="o") for number in range(3)]
        remaining = PodmRemainder(site, Usage(blocks={"s": 1}, nodes=tuple(nodes[:1])))
        remaining.subtract(Usage(blocks={"a": 1, "s": 1, "went": 1}, nodes=tuple(nodes[1:2])))
        remaining.subtract(Usage(amounts={"m": 2.5}, nodes=tuple(nodes[2:])))
        whole = Usage(blocks={"s": 2, "a": 1}, amounts={"m": 2.5}, nodes=tuple(nodes))
        self.assertEqual(subtracted(site, whole), remaining.podm)

    def test_a_block_that_a_reading_drops_stays_with_its_node(self):
        shared = cpu("s", 8, status={"shareable": True, "max_compositions": 3, "compositions": 1})
        failed = cpu("f", 8, status={"state": "Failed"})
        blocks = [cpu("a", 8), cpu("b", 8, status={"health": "OK"}), shared, failed]
        shown = {"uri": "/S/1", "name": "host", "blocks": ["a"]}
        site = lean({"id": "p", "blocks": blocks, "nodes": [shown]})
        one = Node(uri="/S/1", name="n-1", blocks=("a", "b", "s", "f", "went"))
        two = Node(uri="/S/2", name="n-2", owner="o", blocks=("s",))
        found = PodmRemainder(site, Usage(blocks={"s": 1}, settled=(one, two)))
        status = [msgspec.json.decode(block.status, type=Status) for block in found.podm.blocks]
        self.assertEqual([0, 0, 0, 0], [it.slots for it in status])
        self.assertEqual(["Composed"] * 2, [it.state for it in status[:2]])
        self.assertEqual(
            ("OK", 3, "Failed"), (status[1].health, status[2].compositions, status[3].state)
        )
        first, second = found.podm.nodes
        self.assertEqual(("host (not read)", ("a", "b", "s")), (first.label, first.blocks))
        self.assertEqual(
            ("n-2 (not read)", ("s",), "o"), (second.label, second.blocks, second.owner)
        )
        self.assertEqual("p: node n-1 is read without b, s and 1 other node alike: its blocks stay "
                         "held (podm claim reap, if they are gone)", found.lost)  # fmt: skip
        (alone,) = subtracted(lean({"id": "p"}), Usage(settled=(two,))).nodes or (None,)
        self.assertIsNone(alone)  # the pod manager no longer has its block

    def test_a_node_that_a_reading_shows_is_not_lost(self):
        statuses = ({"state": "Composed"}, {"state": "Unused"})
        for status, nodes in zip(statuses, ([], [{"uri": "/S/1", "blocks": ["a"]}]), strict=True):
            site = lean({"id": "p", "blocks": [cpu("a", 8, status=status)], "nodes": nodes})
            node = Node(uri="/S/1", name="n-1", blocks=("a",))
            found = PodmRemainder(site, Usage(settled=(node,)))
            self.assertEqual(("", site.nodes), (found.lost, found.podm.nodes))
            (block,) = found.podm.blocks
            self.assertEqual(0, msgspec.json.decode(block.status, type=Status).slots)

    def test_nothing_held_is_the_same_podm(self):
        site = lean({"id": "p", "blocks": [cpu("a", 8)]})
        self.assertIs(site, subtracted(site, Usage()))

    def test_the_very_next_decision_is_without_it(self):
        engine = engine_of({"id": "p", "blocks": [cpu("a", 8), cpu("b", 8)]})
        site = lean({"id": "p", "blocks": [cpu("a", 8), cpu("b", 8)]})
        for held, blocks in (({"a": 1}, ["b"]), ({"a": 1, "b": 1}, []), ({}, ["a"])):
            engine.replace(subtracted(site, Usage(blocks=held)))
            placed = engine.select_destinations(request(ASKED)).placements
            self.assertEqual(blocks, [b.uri for p in placed for b in p.chosen.blocks])


class TestUnmanaged(unittest.TestCase):
    """Blocks in use without a claim here."""

    def test_they_are_named_and_ours_are_not(self):
        states = {"a": "Composed", "b": "Composed", "c": "Unused", "d": "Failed"}
        blocks = [{"uri": uri, "status": {"state": state}} for uri, state in states.items()]
        node = ComposedNode(id="n", podm="p", uri="/n", claim="c", blocks=("a",))
        self.assertEqual(("b",), block_usage("p", podm(blocks=blocks), (), [node]).unmanaged)


CARD = Accelerator(kind="GPU", model="A100")
GPU = Devices(accelerators=(CARD,))


class TestDevices(unittest.TestCase):
    def test_equal_devices_are_one_with_the_sum_of_their_counts(self):
        other = Devices(accelerators=(Accelerator(kind="GPU", model="A10", count=3),))
        found = sum_devices([GPU, other, GPU, Devices(memory=(Memory(capacity_mib=1024),))])
        counts = [(card.model, card.count) for card in found.accelerators]
        self.assertEqual([("A100", 2), ("A10", 3)], counts)
        self.assertEqual(1, len(found.memory))

    def test_a_count_that_is_unknown_is_not_added(self):
        unknown = Devices(accelerators=(Accelerator(kind="GPU", model="A100", count=None),))
        found = sum_devices([GPU, unknown, unknown])
        self.assertEqual([1, None], [card.count for card in found.accelerators])


def registration(**most):
    return Registration(name="p", url="https://p", max_blocks=most)


class TestMaxBlocks(unittest.TestCase):
    """The largest number of blocks of a node, by an earlier and the present registration, in an old
    reading.
    """

    def test_by_what_was_read(self):
        for kind, read, before, after, expected in (
            ("Compute", Limit(0, 1), None, 3, Limit(0, 3)),  # one was assumed
            ("Compute", Limit(0, 3), 3, None, Limit(0, 1)),
            ("Compute", Limit(0, 3), 3, 5, Limit(0, 5)),
            ("Compute", Limit(0, 3), 3, 2, Limit(0, 2)),
            ("Compute", Limit(0, 2), 3, 5, Limit(0, 2)),  # the pod manager is stricter
            ("Compute", Limit(0, 2), 3, None, Limit(0, 2)),
            ("Compute", Limit(0, 2), None, 5, Limit(0, 2)),
            ("Compute", Limit(2, 2), 1, None, Limit(2, 2)),  # at least two
            ("Compute", Limit(2, 4), None, 1, Limit(2, 2)),
            ("Storage", Limit(), None, 3, Limit(0, 3)),
            ("Storage", Limit(0, 3), 3, None, None),  # any number
            ("Storage", Limit(1, 3), 3, None, Limit(1, None)),
        ):
            with self.subTest(kind=kind, read=read, before=before, after=after):
                limits = {} if read == Limit() else {kind: read}
                pools = [{"id": "z", "limits": {name: {"min": one.min, "max": one.max}
                                                for name, one in limits.items()}}]  # fmt: skip
                known = podm(blocks=[], pools=pools)
                old = registration(**({} if before is None else {kind: before}))
                new = registration(**({} if after is None else {kind: after}))
                self.assertTrue(alters_reading(old, new))
                (pool,) = reregistered(known, old, new).pools
                self.assertEqual(expected, pool.limits.get(kind))

    def test_the_operator_reserves_blocks_by_name_and_by_pattern(self):
        status = {"state": "Composed", "client": "other"}
        blocks = [{"uri": f"/B/{name}"} for name in ("GPU-1", "GPU-12", "CPU-1")]
        known = podm(blocks=[*blocks, {"uri": "/B/GPU-2", "status": status}])
        none, some = registration(), replace(registration(), reserved={"GPU-1*": "repair"})
        self.assertTrue(alters_reading(none, some))
        marked = reregistered(known, none, some)
        found = {one.uri: one.status and one.status.client for one in marked.blocks}
        self.assertEqual(
            {"/B/GPU-1": "operator: repair", "/B/GPU-12": "operator: repair",
             "/B/CPU-1": None, "/B/GPU-2": "other"}, found,
        )  # fmt: skip
        slots = [(one.status or FREE_STATUS).slots for one in marked.blocks]
        self.assertEqual([0, 0, 1, 0], slots)
        whole = replace(some, reserved={"/B/CPU-1": "spare"})
        again = reregistered(marked, some, whole)
        slots = [(one.status or FREE_STATUS).slots for one in again.blocks]
        self.assertEqual([1, 1, 0, 0], slots)

    def test_the_operator_taints_blocks_by_name_and_by_pattern(self):
        known = podm(blocks=[{"uri": f"/B/{name}"} for name in ("GPU-1", "GPU-12", "CPU-1")])
        none = registration()
        change = with_marks(
            none, ["GPU-1*"], None, {"team": "team=a:NoPlace", "disk": "disk:NoPlace"}
        )
        some = change.applied_to(none)
        some = with_marks(some, ["GPU-12"], None, {"x": "x:NoPlace"}).applied_to(some)
        some = with_marks(some, ["GPU-1*"], None, {"team": "team=b:NoPlace"}).applied_to(some)
        self.assertTrue(alters_reading(none, some))
        marked = reregistered(known, none, some)
        taints = {one.uri: (one.status or FREE_STATUS).taints for one in marked.blocks}
        both = ("disk:NoPlace", "team=b:NoPlace")
        self.assertEqual(
            {"/B/GPU-1": both, "/B/GPU-12": (*both, "x:NoPlace"), "/B/CPU-1": ()}, taints
        )
        self.assertTrue(all((one.status or FREE_STATUS).slots for one in marked.blocks))
        fewer = without_taints(some, ["GPU-1*"], ["team", "disk"]).applied_to(some)
        self.assertEqual({"GPU-12": ("x:NoPlace",)}, fewer.taints)
        left = reregistered(marked, some, fewer).blocks
        self.assertEqual(
            [(), ("x:NoPlace",), ()], [(it.status or FREE_STATUS).taints for it in left]
        )
        for names, keys in ((["CPU-1"], ["team"]), (["GPU-12"], ["team"])):
            with self.assertRaises(UnknownName):
                without_taints(some, names, keys)

    def test_what_did_not_change_stays_as_it_was_read(self):
        pools = [{"id": "z", "limits": {"Compute": {"max": 2}}}]
        known = podm(blocks=[], pools=pools)
        self.assertFalse(alters_reading(registration(Compute=5), registration(Compute=5)))
        found = reregistered(known, registration(Compute=5), registration(Compute=5, Storage=1))
        self.assertEqual({"Compute": Limit(0, 2), "Storage": Limit(0, 1)}, found.pools[0].limits)
