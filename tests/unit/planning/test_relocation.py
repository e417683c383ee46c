# SPDX-License-Identifier: Apache-2.0
"""Failing, draining and rebalancing: each node that can be re-placed is, step by step."""

import dataclasses
import unittest
from collections import Counter

import msgspec
from hypothesis import given, strategies as st

from tests.unit.core.deciders import cpu, gpu
from tests.unit.core.sites import quietly, sized
from tests.unit.planning.sites import WEB, edit, site_of
from valence_sched.errors import NothingMatches, RequestError
from valence_sched.model.flavor import Flavor, ProcessorSpec, Properties
from valence_sched.model.inventory import Accelerator, Devices, Drive, Memory, Nic, Processor
from valence_sched.model.need import NameRequirements, NodeRequest
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.model.scenario import parse_target
from valence_sched.planning.edits import edited
from valence_sched.planning.relocate import Residents, drain, fail, hardware_notes, like, survive
from valence_sched.planning.whatif import rebalance
from valence_sched.testing import request
from valence_sched.view.leftover import imbalance
from valence_sched.words.planning import rebalance_lines

USED = {"state": "Composed", "compositions": 1}


def podm(name, free, nodes, **fields):
    """Return a pod manager with free blocks and with nodes, each a string such as ``4c 8c g``."""
    blocks = [block(f"f{number}", kind) for number, kind in enumerate(free.split())]
    written = []
    for number, node in enumerate(nodes):
        names = [f"n{number}b{place}" for place, _ in enumerate(node.split())]
        blocks += [block(uri, kind, status=USED) for uri, kind in zip(names, node.split(),
                                                                       strict=True)]  # fmt: skip
        written.append({"uri": f"/{name}/{number}", "name": f"{name}-{number}", "blocks": names})
    return {"id": name, "blocks": blocks, "nodes": written, **fields}


def block(uri, kind, **fields):
    return gpu(uri, **fields) if kind == "g" else cpu(uri, int(kind[:-1]), **fields)


def where(relocation):
    return [(one.node, one.to_podm, one.to_blocks) for one in relocation.moves]


def targets(*texts):
    return [parse_target(text) for text in texts]


KINDS = st.sampled_from(["4c", "8c", "g"])
PODMS = st.lists(
    st.tuples(st.lists(KINDS, max_size=4), st.lists(st.lists(KINDS, min_size=1, max_size=3),
                                                   max_size=3)),
    min_size=2, max_size=4,
)  # fmt: skip


def site_from(drawn):
    return site_of(*(podm(f"p{number}", " ".join(free), [" ".join(node) for node in nodes])
                     for number, (free, nodes) in enumerate(drawn)))  # fmt: skip


class TestFailing(unittest.TestCase):
    def test_the_dearest_node_is_placed_first_and_the_other_finds_what_is_left(self):
        site = site_of(podm("a", "", ["4c", "8c g"]), podm("b", "4c 8c g", []))
        found = fail(site, targets("a"))
        self.assertEqual([("a-1", "b", ("f1", "f2")), ("a-0", "b", ("f0",))], where(found))
        self.assertEqual((2, (), [1, 2]),
                         (found.nodes, found.stuck, [one.step for one in found.moves]))  # fmt: skip

    def test_a_node_that_finds_no_place_is_named_with_the_reason(self):
        site = site_of(podm("a", "", ["8c g"]), podm("b", "8c", []))
        (stuck,) = fail(site, targets("a")).stuck
        self.assertEqual("a-0", stuck.node)
        self.assertIn(
            "GPU NVIDIA A100: needs 1, has 0",
            [group.reason.text.partition(": ")[2] for group in stuck.reasons],
        )

    def test_an_order_in_which_all_land_is_found_where_the_first_one_leaves_a_node(self):
        # 12 cores use both blocks of 8 or one of 12; the more expensive node with 8 + card goes
        # first
        site = site_of(podm("a", "", ["8c 4c", "8c g"]), podm("b", "8c g 12c", []))
        found = fail(site, targets("a"))
        self.assertEqual((), found.stuck)
        self.assertEqual(2, len(found.moves))

    def test_only_the_nodes_of_a_failed_block_are_lost(self):
        site = site_of(podm("a", "8c", ["8c", "8c"]))
        found = fail(site, targets("n1b0@a"))
        self.assertEqual([("a-1", "a", ("f0",))], where(found))

    def test_a_node_of_unknown_hardware_is_stuck_and_noted(self):
        site = site_of({"id": "a", "nodes": [{"uri": "/n", "blocks": ["gone"]}, {"uri": "/m"}]},
                       podm("b", "8c", []))  # fmt: skip
        found = fail(site, targets("a"))
        self.assertEqual([("m", ()), ("n", ())], [(one.node, one.reasons) for one in found.stuck])
        self.assertEqual(
            ("node /n of a: 1 of its 1 block unknown", "node /m of a: its hardware is unknown"),
            found.notes,
        )

    def test_what_is_not_there_cannot_fail(self):
        with self.assertRaises(NothingMatches):
            fail(site_of(podm("a", "", [])), targets("b"))

    @quietly(sized(180))
    @given(PODMS)
    def test_no_block_is_given_twice_and_none_that_failed(self, drawn):
        site = site_from(drawn)
        found = fail(site, targets("p0"))
        free = {(one.id, block.uri) for one in edited(site, [edit(fail="p0")]).podms
                for block in one.blocks if b"Composed" not in bytes(block.status or b"")
                and one.id != "p0"}  # fmt: skip
        used = Counter((one.to_podm, uri) for one in found.moves for uri in one.to_blocks)
        self.assertEqual({1} if used else set(), set(used.values()))
        self.assertLessEqual(set(used), free)
        self.assertEqual(found.nodes, len(found.moves) + len(found.stuck))


class TestSurviving(unittest.TestCase):
    def test_a_site_with_room_for_any_loss_survives(self):
        site = site_of(*(podm(name, "8c", ["8c"]) for name in "abc"))
        found = survive(site, 1)
        self.assertEqual((True, 3, 3, 0), (found.answer, found.sets, found.tried, found.bad_sets))

    def test_the_worst_set_is_named_with_the_nodes_that_it_strands(self):
        site = site_of(podm("a", "", ["8c", "8c", "8c"]), podm("b", "8c 8c", ["8c"]))
        found = survive(site, 1)
        self.assertEqual((False, ("a",), 3, 2), (found.answer, found.worst, found.worst_nodes,
                                                 found.bad_sets))  # fmt: skip
        self.assertEqual(["a-2"], [one.node for one in found.stuck])

    def test_more_failures_than_pod_managers_are_all_of_them(self):
        found = survive(site_of(podm("a", "8c", ["8c"])), 5)
        self.assertEqual((1, ("a",), 1), (found.failures, found.worst, len(found.stuck)))

    def test_a_site_without_pod_managers_that_work_has_nothing_to_lose(self):
        found = survive(site_of(podm("a", "8c", [], status="Offline")), 1)
        self.assertEqual((True, 0), (found.answer, found.failures))

    @quietly(sized(120))
    @given(PODMS)
    def test_each_loss_is_what_the_edit_of_it_says(self, drawn):
        site = site_from(drawn)
        alone = {one.id: len(fail(site, targets(one.id)).stuck) for one in site.podms}
        found = survive(site, 1)
        self.assertEqual(sum(map(bool, alone.values())), found.bad_sets)
        self.assertEqual(max(alone.values()), len(found.stuck))
        self.assertEqual(alone[found.worst[0]], len(found.stuck))


class TestDraining(unittest.TestCase):
    def test_each_node_has_its_new_place_before_the_old_one_is_free(self):
        site = site_of(podm("a", "", ["8c"]), podm("b", "", ["8c"], zone="z"), podm("c", "8c", []))
        found = drain(site, targets("a", "b"))
        self.assertEqual([("a-0", "c", ("f0",))], where(found))
        self.assertEqual(["b-0"], [one.node for one in found.stuck])

    def test_what_a_move_frees_elsewhere_serves_the_next(self):
        # the node of the drained card also has a CPU, which is free after its move
        site = site_of(podm("a", "", ["8c g", "8c"]), podm("b", "8c g", []))
        found = drain(site, targets("n0b1@a", "n1b0@a"))
        self.assertEqual([("a-0", "b", ("f0", "f1")), ("a-1", "a", ("n0b0",))], where(found))

    def test_nothing_is_moved_to_what_is_drained(self):
        site = site_of(podm("a", "8c", ["8c"]), podm("b", "8c", []))
        self.assertEqual([("a-0", "b", ("f0",))], where(drain(site, targets("a"))))

    @quietly(sized(180))
    @given(PODMS, st.sampled_from(["p0", "n0b0@p*", "f*@p1"]))
    def test_no_step_uses_what_is_not_free_then(self, drawn, target):
        site = site_from(drawn)
        try:
            found = drain(site, targets(target))
        except NothingMatches:
            return
        after = edited(site, [edit(drain=target)])
        users = {(one.id, uri): node.uri for one in after.podms for node in one.nodes
                 for uri in node.blocks}  # fmt: skip
        closed = {
            (one.id, block.uri)
            for one in after.podms
            for block in one.blocks
            if not one.enabled or b'"enabled":false' in bytes(block.status or b"")
        }
        for move in found.moves:
            new = {(move.to_podm, uri) for uri in move.to_blocks}
            self.assertTrue(new.isdisjoint(users) and new.isdisjoint(closed), (move, users))
            users = {place: node for place, node in users.items() if node != move.uri}
            users |= dict.fromkeys(new, f"moved {move.uri}")


class TestLike(unittest.TestCase):
    def test_a_node_asks_for_what_it_has_and_nothing_that_is_unknown(self):
        asked = like(Devices(
            processors=(Processor(count=2, cores=16), Processor(cores=8)),
            memory=(Memory(count=4, capacity_mib=1024), Memory(capacity_mib=None)),
            accelerators=(Accelerator(kind="GPU", model="A100"), Accelerator(kind="GPU")),
            drives=(Drive(count=2, capacity_bytes=1 << 40, media="SSD"), Drive()),
            nics=(Nic(speed_mbps=25000), Nic(count=2)),
        ))  # fmt: skip
        self.assertEqual(40, asked.processor.total_cores)
        self.assertEqual(4096, asked.memory.capacity_mib)
        self.assertEqual(
            [("A100", 1), (None, 1)], [(one.model, one.count) for one in asked.accelerators]
        )
        self.assertEqual(
            [("SSD", 1024.0, 2), (None, None, 1)],
            [(one.media, one.capacity_gib, one.count) for one in asked.drives],
        )
        self.assertEqual(
            {(25000, 1), (None, 2)}, {(one.speed_mbps, one.count) for one in asked.nics}
        )

    def test_processors_of_unknown_cores_are_asked_for_by_number(self):
        asked = like(Devices(processors=(Processor(count=2),)))
        self.assertEqual((None, 2), (asked.processor.total_cores, asked.processor.sockets))

    def residents(self, *nodes, flavors=()):
        asked = podm("a", "", ["8c g"] * len(nodes))
        for node, more in zip(asked["nodes"], nodes, strict=True):
            node.update(more)
        known = {flavor.name: flavor for flavor in flavors}
        return list(Residents(site_of(asked).view(), "default", known))

    def test_a_node_asks_again_for_what_it_was_requested_as(self):
        kept = msgspec.to_builtins(NodeRequest.of(WEB))
        one, other = self.residents({"request": kept}, {"request": kept})
        self.assertEqual(("request", WEB.needs), (one.shown.asks_for, one.request.needs))
        self.assertIs(one.request, other.request)

    def test_else_for_a_node_of_its_flavor_where_that_is_known(self):
        small = Flavor(name="small", properties=Properties(processor=ProcessorSpec(total_cores=4)))
        one, other, third = self.residents({"flavor": "small"}, {"flavor": "gone"}, {},
                                           flavors=[small])  # fmt: skip
        self.assertEqual(
            ("flavor", [4]), (one.shown.asks_for, [n.amount for n in one.request.needs])
        )
        self.assertEqual(("hardware", "hardware"), (other.shown.asks_for, third.shown.asks_for))
        note = "request of 2 nodes unknown, matching hardware: a-1 and 1 more"
        self.assertEqual([note], list(hardware_notes([one, other, third])))

    def test_a_node_that_asked_for_less_lands_where_its_like_would_not(self):
        asked = podm("a", "", ["8c g"])
        asked["nodes"][0]["request"] = msgspec.to_builtins(NodeRequest.of(WEB))
        for one, places in ((asked, ["b"]), (podm("a", "", ["8c g"]), [])):
            found = fail(site_of(one, podm("b", "8c", [])), targets("a"))
            self.assertEqual(places, [move.to_podm for move in found.moves])
        note = "request of 1 node unknown, matching hardware: a-0"
        self.assertEqual((note,), found.notes)

    def test_an_edited_inventory_keeps_what_nodes_were_requested_as(self):
        asked = podm("a", "8c", ["8c"])
        asked["nodes"][0] |= {"request": msgspec.to_builtins(NodeRequest.of(WEB)), "flavor": "web"}
        (after,) = edited(site_of(asked), [edit(drain="a")]).documents()
        (node,) = after.nodes
        self.assertEqual((NodeRequest.of(WEB), "web"), (node.request, node.flavor))

    def test_nodes_of_equal_blocks_share_one_request(self):
        residents = Residents(site_of(podm("a", "", ["8c", "8c", "4c"])).view(), "default", {})
        first, second, third = (one.request for one in residents)
        self.assertIs(first, second)
        self.assertIsNot(first, third)


CARD = request({"processor": {"total_cores": 8}, "accelerators": [{}]}, id="card")
MIX = Mix((FlavorShare(CARD.needs, NameRequirements(), 1.0),))
EIGHT, FOUR = (
    msgspec.to_builtins(NodeRequest.of(request({"processor": {"total_cores": cores}})))
    for cores in (8, 4)
)


def full():
    """Return a pod manager with 20 cores for three needs of 8, 8 and 4, of which two block each
    other.
    """
    written = podm("a", "g", ["8c 4c", "4c 4c"])
    for node, asked in zip(written["nodes"], (EIGHT, FOUR), strict=True):
        node["request"] = asked
    return written


class TestMakeRoom(unittest.TestCase):
    def test_what_fits_moves_nothing(self):
        found = rebalance(site_of(podm("a", "8c g", ["8c"])), 3, CARD)
        self.assertEqual(((), "a", ("f0", "f1")), (found.moves, found.room.podm, found.room.blocks))

    def test_one_node_goes_where_it_does_not_stand_in_the_way(self):
        found = rebalance(site_of(podm("a", "g", ["8c"]), podm("b", "8c", [])), 3, CARD)
        self.assertEqual([("a-0", "b", ("f0",))], where(found))
        self.assertEqual(("a", ("f0", "n0b0"), 1),
                         (found.room.podm, found.room.blocks, found.least))  # fmt: skip

    def test_two_nodes_move_where_one_is_not_enough(self):
        site = site_of(podm("a", "g", ["4c", "4c"]), podm("b", "4c 4c", []))
        found = rebalance(site, 3, CARD)
        self.assertEqual({"a-0", "a-1"}, {move.node for move in found.moves})
        self.assertEqual([1, 2], [move.step for move in found.moves])
        self.assertIsNone(rebalance(site, 1, CARD).room)

    def test_tolerations_and_the_policy_hold_as_in_a_decision(self):
        tainted, tolerated = {"taints": ["k=v:NoPlace"]}, [{"operator": "Exists"}]
        asked = {**EIGHT, "tolerations": tolerated}
        card = request(
            {"processor": {"total_cores": 8}, "accelerators": [{}]},
            id="card", policy="lax", tolerations=tolerated,
        )  # fmt: skip
        full_site, other = podm("a", "", ["8c"]), {"id": "b", "blocks": [block("c", "8c")]}
        full_site["nodes"][0]["request"] = asked
        full_site["blocks"].append(gpu("g", model=None, status=tainted))
        full_site["blocks"][-1]["devices"]["accelerators"][0]["count"] = None
        other["blocks"][0]["status"] = tainted
        site = site_of(full_site, other)
        lax = msgspec.structs.replace(site.policies["default"], name="lax", unknown="allow")
        site = dataclasses.replace(site, policies={**site.policies, "lax": lax})
        found = rebalance(site, 3, card)
        self.assertEqual([("a-0", "b", ("c",))], where(found))
        self.assertEqual(("n0b0", "g"), found.room.blocks[::-1])

    def test_a_node_that_nobody_knows_the_hardware_of_stays(self):
        site = site_of({"id": "a", "nodes": [{"uri": "/n", "name": "n"}]}, podm("b", "8c", []))
        found = rebalance(site, 2, CARD)
        self.assertIsNone(found.room)
        self.assertEqual(("node n of a: its hardware is unknown",), found.notes)

    def test_without_room_anywhere_there_are_no_moves(self):
        found = rebalance(site_of(podm("a", "", ["8c g"])), 3, CARD)
        self.assertEqual((None, (), True), (found.room, found.moves, found.complete))

    def test_nodes_that_need_each_others_places_are_named_where_nothing_is_spare(self):
        found = rebalance(site_of(full()), 3, CARD)
        self.assertEqual((None, True), (found.room, found.complete))
        self.assertEqual(("a-0", "a-1"), found.waiting)

    def test_a_node_that_needs_a_part_of_its_own_place_is_named(self):
        asked = podm("a", "g 4c", ["8c 4c"])
        asked["nodes"][0]["request"] = EIGHT
        self.assertEqual(("a-0",), rebalance(site_of(asked), 3, CARD).waiting)

    def test_with_a_spare_place_there_is_an_order(self):
        found = rebalance(site_of(full(), podm("b", "4c", [])), 3, CARD)
        self.assertEqual((True, ()), (found.reached, found.waiting))

    def test_each_move_says_what_there_is_after_it(self):
        site = site_of(podm("a", "g g", ["4c", "8c"]), podm("b", "4c 8c", []))
        found = rebalance(site, 3, CARD, mix=MIX)
        self.assertEqual((0, 1.0), (found.before.room, found.before.fragmentation))
        self.assertEqual([1], [move.after.room for move in found.moves])
        self.assertLess(found.after.fragmentation, 1.0)


class TestEndFragmentation(unittest.TestCase):
    def test_the_fewest_moves_make_free_cards_useful(self):
        site = site_of(podm("a", "g", ["8c"]), podm("b", "8c", []))
        found = rebalance(site, 5, CARD, below=0.5, mix=MIX)
        self.assertEqual([("a-0", "b", ("f0",))], where(found))
        self.assertEqual((True, 1, 1.0, 0.0), (found.reached, found.least,
                                               found.before.fragmentation,
                                               found.after.fragmentation))  # fmt: skip
        self.assertEqual((0, 1), (found.before.room, found.after.room))

    def test_what_cannot_be_reached_is_proven_on_a_small_site(self):
        found = rebalance(site_of(podm("a", "g", ["8c"])), 5, below=0.5, mix=MIX)
        self.assertEqual((False, True, ()), (found.reached, found.complete, found.moves))
        self.assertIsNone(found.before.room)

    def test_without_accelerators_the_scarcest_resource_becomes_useful(self):
        # a node of 8 cores needs one block; the free 4 cores of a become useful beside 4 more
        site = site_of(podm("a", "4c", ["4c"]), podm("b", "4c", []), podm("c", "8c", []))
        mix = Mix((FlavorShare(request({"processor": {"total_cores": 8}}).needs),))
        found = rebalance(site, 5, below=0.4, mix=mix)
        self.assertEqual([("a-0", "b", ("f0",))], where(found))
        shares = (found.before.fragmentation, found.after.fragmentation)
        self.assertEqual(("cores", 0.5, 0.0), (found.resource, *shares))
        self.assertEqual(found, rebalance(site, 5, below=0.4, mix=mix, of="cores"))
        self.assertEqual("fragmentation of cores 50.0% becomes 0.0%",
                         list(rebalance_lines(found, 5))[1].removeprefix("total: "))  # fmt: skip

    def test_without_a_flavor_of_the_site_there_is_no_fragmentation(self):
        for blocks, mix in (("8c", MIX), ("g", Mix())):
            with self.assertRaisesRegex(RequestError, "the site lacks a resource of every flavor"):
                rebalance(site_of(podm("a", blocks, [])), 5, below=0.5, mix=mix)
            found = rebalance(site_of(podm("a", blocks, [])), 5, imbalance_below=0.5, mix=mix)
            self.assertEqual((None, None), (found.resource, found.before.fragmentation))


class TestBalance(unittest.TestCase):
    """Imbalance: the standard deviation of the use of pod managers."""

    SITE = (podm("a", "", ["4c", "4c"]), podm("b", "4c 4c", []))

    def test_the_fewest_moves_even_out_the_use(self):
        found = rebalance(site_of(*self.SITE), 5, imbalance_below=0.1)
        self.assertEqual(1, len(found.moves))
        self.assertEqual((True, 1), (found.reached, found.least))
        self.assertEqual((0.5, 0.0), (found.before.imbalance, found.after.imbalance))

    def test_nothing_moves_where_the_goal_is_met(self):
        found = rebalance(site_of(*self.SITE), 5, imbalance_below=0.6)
        self.assertEqual((True, ()), (found.reached, found.moves))

    def test_what_cannot_be_reached_is_proven_on_a_small_site(self):
        site = site_of(podm("a", "", ["4c"]), podm("b", "8c 8c", ["4c"]))
        found = rebalance(site, 3, imbalance_below=0.01)
        self.assertEqual((False, True), (found.reached, found.complete))

    def test_moves_never_pass_through_a_state_that_has_no_room(self):
        site = site_of(full(), podm("b", "4c", []))
        found = rebalance(site, 5, imbalance_below=0.2)
        self.assertTrue(all(move.to_podm in ("a", "b") for move in found.moves))
        self.assertLessEqual(found.after.imbalance, found.before.imbalance)

    def test_pools_and_pod_managers_are_measured_by_their_most_used_resource(self):
        site = site_of(*self.SITE, podm("c", "", []))
        self.assertEqual((0.5, 0.5), tuple(imbalance(site.view())))  # c has no resource that counts
        self.assertEqual((0.0, 0.0), tuple(imbalance(site_of(podm("c", "", [])).view())))
