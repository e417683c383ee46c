# SPDX-License-Identifier: Apache-2.0
"""Changes of living nodes: the answers of pod managers, power, drains, deaths, and reconciling."""

import contextlib
import dataclasses
import itertools
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import msgspec
import sqlalchemy as sa

from tests.unit.planning.test_node_change import HOST, decide, gpu, gpus
from tests.unit.store.engines import empty_file
from tests.unit.store.site import part
from valence_sched import errors
from valence_sched.drivers.composer import AmountChange, Change
from valence_sched.lifecycle.change import NodeChanger
from valence_sched.lifecycle.compose import NodeComposer
from valence_sched.lifecycle.guard import GuardedComposer
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.claim import ComposedNode, Grant
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.need import NodeRequest
from valence_sched.model.node_change import NodeChange, exact_change, uris
from valence_sched.model.request_spec import compile_request
from valence_sched.store import tables
from valence_sched.store.store import Store
from valence_sched.words.phrases import change_line, check_line

URI, OWN = "/S/1", "/B/host-1"
ATTACH = msgspec.convert({"attach": {"accelerators": [{"count": 2}]}}, NodeChange)
DETACH = NodeChange(detach_blocks=("1",))
SWAP = NodeChange(attach_blocks=("2",), detach_blocks=("1",))
MORE = msgspec.convert({"attach": {"resources": {"mem": 100}}}, NodeChange)
BOTH = msgspec.convert(
    {"attach": {"accelerators": [{}], "resources": {"mem": 100}}, "detach_blocks": ["1"]},
    NodeChange,
)
CHUNK, DOMAIN = "/D/1/MemoryChunks/1", "/D/1"


class Died(BaseException):
    """The end of a process at a checkpoint."""


class Manager:
    """A pod manager with one host; ``answers`` are taken by the next changes.

    An answer is ``None`` (done), a text (refused), ``lost`` (done, without an answer), ``nothing``
    (a success without an effect), ``half`` (the first block or amount only), ``loses`` (done, but
    /B/1 is gone), ``full`` (no port is free), ``unread``, or an error to raise. ``loose`` are
    amounts that are not connected.
    """

    def __init__(self, *blocks):
        self.blocks, self.answers, self.calls = [OWN, *blocks], [], []
        self.amounts, self.loose, self.made = {}, set(), 0
        self.on, self.hot, self.power_error, self.in_use = True, True, None, None
        self.dead = False  # of the calling process
        self.refusal = None

    @property
    def reads(self):
        return self

    amount_reads = reads

    def may_change(self, request, node=None):
        assert (node, request.blocks[0]) == (URI, OWN)
        if self.in_use:
            raise self.in_use
        return self

    def is_on(self, node):
        assert node == URI
        if isinstance(self.on, Exception):
            raise self.on
        return self.on

    def node_blocks(self, node):
        assert node == URI
        return tuple(self.blocks)

    def is_hot_removable(self, _block):
        return self.hot

    def amounts_refusal(self, request, node):
        assert (node, [one.uri for one in request.grants]) == (URI, [DOMAIN])
        return self.refusal

    def change_refusal(self, node, attach, detach):
        assert (node, attach, detach) == (URI, ("/B/2",), ("/B/1",))
        return self.refusal

    def set_power(self, node, on, _watch):
        assert node == URI
        if self.dead:
            raise Died
        self.calls.append("on" if on else "off")
        if self.power_error == on:
            raise errors.PodmError("the system does not answer")
        self.on = on

    def attach_amounts(self, request, node, _watch):
        assert (node, request.name[:3]) == (URI, "vs-")
        self.calls.append(("+", *(f"{one.uri}={one.amount:g}" for one in request.grants)))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        made = []
        for one in request.grants if answer in (None, "half", "unread") else ():
            self.made += 1
            uri = f"{one.uri}/MemoryChunks/{self.made}"
            self.amounts[uri] = one.amount
            made.append(Grant(uri, one.amount))
        if answer == "half":
            self.loose.add(made[0].uri)
        found = None if answer in ("nothing", "unread") else tuple(made)
        return AmountChange(found, answer or "")

    def detach_amounts(self, request, node, _watch):
        assert (node, len(request.grants)) == (URI, len(request.amounts))
        self.calls.append(("-", *(one.uri for one in request.amounts)))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        left = [one for one in request.amounts if one.uri in self.amounts]
        for one in left[: 1 if answer == "half" else 9] if answer in (None, "half") else ():
            del self.amounts[one.uri]
        left = tuple(one for one in left if one.uri in self.amounts)
        return AmountChange(None if answer == "unread" else left, answer or "")

    def read_amounts(self, request, node, *, new=False):
        assert node == URI
        known = {one.uri for one in request.amounts}
        found = [Grant(*it) for it in self.amounts.items() if (it[0] not in known) == new]
        loose = self.loose & {one.uri for one in found}
        return AmountChange(tuple(found), f"{loose} not connected" if loose else "")

    def change(self, node, attach, detach, _watch):
        assert node == URI
        self.calls.append(("+", *attach) if attach else ("-", *detach))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        lost = ("/B/1",) if answer == "loses" and "/B/1" in self.blocks else ()
        if answer in (None, "lost", "half", "loses"):
            count = 1 if answer == "half" else 9
            self.blocks += [uri for uri in attach if uri not in self.blocks][:count]
            gone = [uri for uri in detach if uri in self.blocks][:count]
            self.blocks = [uri for uri in self.blocks if uri not in (*gone, *lost)]
        reasons = {None: "", "half": "the port is full", "loses": "/S/1 has lost /B/1"}
        reason = reasons.get(answer, answer or "")
        blocks = None if answer == "unread" else tuple(self.blocks)
        works, full = answer == "nothing", answer == "full"
        return Change(blocks, reason, works=works, lost=lost, is_full=full)


class BlockManager(Manager):
    """A pod manager whose driver changes blocks only."""

    attach_amounts = None


class ChangeCase(unittest.TestCase):
    """A node with a host block and a GPU on a pod manager with four GPUs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = Store(empty_file(Path(folder.name)))
        self.addCleanup(self.store.close)
        self.manager = Manager("/B/1")
        self.read()
        claim = self.store.claims.create([part("p", 1, OWN, "/B/1")], owner="o")
        self.store.claims.start_composing(claim.id)
        self.node_id, self.claim = f"vs-{claim.id}", claim.id
        blocks = (OWN, "/B/1")
        node = ComposedNode(id=self.node_id, name=self.node_id, podm="p", uri=URI, claim=claim.id,
                            owner="o", pool="all", blocks=blocks)  # fmt: skip
        self.store.claims.finish_composing(claim.id, [node])
        self.points, self.die_at, self.drained = [], None, []

    def limit_slots(self, most):
        """Let a node have at most this number of processor blocks."""
        self.slots = most
        self.read()

    slots = None

    def podm(self):
        blocks = [HOST, *(gpu(str(number)) for number in range(1, 5))]
        blocks = [
            {
                **one,
                "status": {"state": "Composed" if one["uri"] in self.manager.blocks else "Unused"},
            }
            for one in blocks
        ]
        node = {"uri": URI, "blocks": self.manager.blocks}
        used = sum(self.manager.amounts.values())
        stock = {"uri": DOMAIN, "resource": "mem", "unit": "MiB", "total": 1000, "used": used}
        podm = {"id": "p", "blocks": blocks, "nodes": [node], "stocks": [stock]}
        if self.slots is not None:
            podm["pools"] = [{"id": "all", "limits": {"Processor": {"max": self.slots}}}]
            podm["blocks"] = [{**one, "pools": ["all"]} for one in blocks]
            stock["pools"] = ["all"]
        return msgspec.convert(podm, FullPodm)

    def read(self, _id="p"):
        podm = self.podm()
        self.store.remember(podm)
        return podm

    def checkpoint(self, point):
        self.points.append(point)
        if len(self.points) == self.die_at:
            self.manager.dead = True
            raise Died

    def connect(self, _id):
        return contextlib.nullcontext(self.manager)

    def changer(self, drain=None):
        def compile_one(spec):
            if spec.flavor is not None:
                return msgspec.structs.replace(gpus(int(spec.flavor[1:])), flavor=spec.flavor)
            return compile_request(spec)

        return NodeChanger(
            self.store, self.connect, compile_one, decide, 60.0,
            drain=drain or (lambda node, blocks: self.drained.append((node.id, *blocks))),
            checkpoint=self.checkpoint,
        )  # fmt: skip

    def change(self, change, **words):
        return self.changer().change(self.node_id, change, **words)

    def refused(self, kind, words, change, **options):
        with self.assertRaisesRegex(kind, words) as caught:
            self.changer(**options).change(self.node_id, change)
        self.assertNotIn("\n", str(caught.exception))
        parts = str(caught.exception).split(": ")
        for before, after in itertools.pairwise(parts):
            self.assertFalse(f"{after} ".startswith(f"{before} "), caught.exception)
        return caught.exception

    def node(self):
        return self.store.nodes.show(self.node_id)

    def state(self):
        return self.store.claims.show(self.claim).state

    def assert_consistent(self):
        """Check that the records agree with the pod manager, and that nothing else is held."""
        node = self.node()
        self.assertEqual(set(self.manager.blocks), set(node.blocks))
        self.assertEqual(self.manager.amounts, {one.uri: one.amount for one in node.amounts})
        self.assertEqual(sum(self.manager.amounts.values()), sum(g.amount for g in node.grants))
        self.assertEqual(((), ()), (node.changing, node.changing_amounts))
        usage = self.store.usages(["p"])["p"]
        held = set(usage.blocks)
        self.assertEqual({}, usage.amounts)  # the reading has them
        (stock,) = self.store.load_podms()["p"].stocks
        self.assertEqual(sum(self.manager.amounts.values()), stock.used)
        self.assertLessEqual(held, set(node.blocks))
        self.assertIn(self.state(), ("COMPOSED", "SETTLED"))
        states = [claim.state for claim in self.store.claims.list()]
        self.assertEqual([self.state()], states)


class TestChanges(ChangeCase):
    """Changes without faults."""

    def test_devices_are_attached(self):
        result = self.change(ATTACH)
        self.assertEqual(("/B/2", "/B/3"), uris(result.attached))
        self.assertEqual("A100", result.attached[0].devices.accelerators[0].model)
        self.assertEqual((OWN, "/B/1", "/B/2", "/B/3"), result.node.blocks)
        self.assertTrue(result.done)
        self.assertEqual([("+", "/B/2", "/B/3")], self.manager.calls)
        self.assertEqual([], self.drained)
        self.assert_consistent()

    def test_a_block_is_detached_after_the_site_has_drained_it(self):
        result = self.change(DETACH)
        self.assertEqual(((), ("/B/1",)), (uris(result.attached), uris(result.detached)))
        self.assertEqual([(self.node_id, "/B/1")], self.drained)
        self.assert_consistent()
        self.assertEqual("SETTLED", self.state())  # the stored reading was changed, too

    def test_a_swap_attaches_before_it_detaches(self):
        self.change(SWAP)
        self.assertEqual([("+", "/B/2"), ("-", "/B/1")], self.manager.calls)
        self.assert_consistent()

    def test_a_resize_renames_the_flavor_even_without_a_change(self):
        for flavor, blocks in (("g3", 4), ("g3", 4), ("g1", 2)):
            result = self.change(NodeChange(flavor=flavor))
            self.assertEqual((flavor, blocks), (result.node.flavor, len(self.node().blocks)))
        self.assert_consistent()

    def test_a_planned_resize_needs_no_flavor_of_this_name(self):
        resize = NodeChange(flavor="g3")
        planned = exact_change(resize, self.change(resize, dry_run=True))
        node = self.change(msgspec.structs.replace(planned, flavor="mine")).node
        self.assertEqual(("mine", planned.flavor_request), (node.flavor, node.request))
        self.assertEqual(4, len(node.blocks))
        self.assert_consistent()

    def test_a_dry_run_names_the_blocks_and_the_hazard_and_changes_nothing(self):
        self.manager.hot = False
        result = self.change(SWAP, dry_run=True)
        self.assertEqual((("/B/2",), ("/B/1",)), (uris(result.attached), uris(result.detached)))
        self.assertRegex(result.hazard, "powered on, and 1 is not declared removable")
        self.assertFalse(result.done)
        self.assertEqual([], self.manager.calls)
        self.assert_consistent()

    def test_a_dry_run_on_the_server_names_the_refusal_and_changes_nothing(self):
        self.assertIsNone(self.change(SWAP, dry_run=True).refusal)
        for refusal, words in ((None, "would change it"), ("no port", "would refuse: no port")):
            self.manager.refusal = refusal
            result = self.change(SWAP, dry_run="server")
            self.assertEqual((refusal or "", False), (result.refusal, result.done))
            self.assertTrue(check_line(result).startswith(f"p {words} (checked by reading"))
        self.manager.in_use = errors.HardwareInUse("p: in use in Ironic")
        with self.assertRaisesRegex(errors.HardwareInUse, "in use in Ironic"):
            self.change(SWAP, dry_run="server")
        self.manager.hot = False
        with self.assertRaisesRegex(
            errors.HardwareInUse, f"^node {self.node_id}: it is powered on"
        ):
            self.change(SWAP, dry_run="server")
        disabled = dataclasses.replace(self.changer(), disabled=lambda: {"p"})
        with self.assertRaisesRegex(errors.ClaimState, "'p' is disabled: enable it"):
            disabled.change(self.node_id, SWAP, dry_run="server")
        self.assertEqual([], self.manager.calls)
        self.assert_consistent()

    def test_nothing_fits(self):
        change = msgspec.convert({"attach": {"accelerators": [{"count": 9}]}}, NodeChange)
        result = self.change(change)
        self.assertFalse(result.fits)
        self.assertFalse(result.done)
        self.assert_consistent()

    def test_a_key_changes_the_node_once(self):
        first = self.change(ATTACH, key="k")
        again = self.change(ATTACH, key="k")
        self.assertEqual((first.node, True), (again.node, again.done))
        self.assertEqual(1, len(self.manager.calls))
        with self.assertRaisesRegex(errors.NameTaken, "another change of node"):
            self.change(SWAP, key="k")

    def test_a_planned_change_is_applied_exactly_and_not_to_another_node(self):
        planned = exact_change(SWAP, self.change(SWAP, dry_run=True))
        self.change(planned)
        self.assert_consistent()
        exact = self.refused(errors.ClaimLost, "was changed since the plan", planned)
        self.assertEqual(6, exact.exit_code)

    def test_a_claimed_block_is_lost_and_another_one_chosen(self):
        self.store.claims.create([part("p", 1, "/B/2")])
        self.refused(errors.ClaimLost, "/B/2: found Unused, reserved", SWAP)
        self.assertEqual(("/B/3", "/B/4"), uris(self.change(ATTACH).attached))

    def test_the_node_is_shut_down_and_started_again_in_the_end(self):
        self.manager.hot = False
        swap = msgspec.structs.replace(SWAP, power_cycle=True)
        self.assertTrue(self.change(swap).power_cycled)
        self.assertEqual(["off", ("+", "/B/2"), ("-", "/B/1"), "on"], self.manager.calls)
        kinds = [event.kind for event in self.store.events(self.claim)]
        self.assertLess(kinds.index("shut down"), kinds.index("started"))
        self.assert_consistent()

    def test_a_node_that_is_off_stays_off(self):
        self.manager.on = self.manager.hot = False
        self.assertFalse(
            self.change(msgspec.structs.replace(DETACH, power_cycle=True)).power_cycled
        )
        self.assertEqual([("-", "/B/1")], self.manager.calls)


class TestAmounts(ChangeCase):
    """Memory chunks and volumes that are attached and detached."""

    def attach(self, amount):
        change = msgspec.convert({"attach": {"resources": {"mem": amount}}}, NodeChange)
        return self.change(change)

    def test_an_amount_is_attached_and_counts_at_once(self):
        result = self.attach(100)
        self.assertEqual((Grant(CHUNK, 100.0, "mem", "MiB"),), result.attached_amounts)
        self.assertEqual(result.attached_amounts, result.node.amounts)
        self.assertEqual((Grant(DOMAIN, 100.0, "mem", "MiB"),), result.node.grants)
        self.assertEqual(100, self.store.quotas.show("o").used["stock:mem"])
        self.assertEqual("1 amount: /D/1/MemoryChunks/1", self.words("attached"))
        self.assert_consistent()

    def test_an_amount_is_detached_by_name_after_the_site_has_drained_it(self):
        self.attach(100)
        self.attach(200)
        result = self.change(NodeChange(detach_amounts=("1",)))
        self.assertEqual((CHUNK,), uris(result.detached_amounts))
        self.assertEqual([(self.node_id, CHUNK)], self.drained)
        self.assertEqual([200.0], [one.amount for one in self.node().grants])
        self.assertEqual(200, self.store.quotas.show("o").used["stock:mem"])
        self.assert_consistent()

    def test_blocks_are_changed_before_amounts_and_all_is_attached_first(self):
        self.attach(100)
        self.manager.calls.clear()
        change = msgspec.structs.replace(BOTH, detach_amounts=("1",), power_cycle=True)
        self.manager.hot = False
        self.assertTrue(self.change(change).power_cycled)
        new = "/D/1=100"
        calls = ["off", ("+", "/B/2"), ("+", new), ("-", "/B/1"), ("-", CHUNK), "on"]
        self.assertEqual(calls, self.manager.calls)
        self.assert_consistent()

    def test_a_running_node_keeps_an_amount_that_is_not_removable(self):
        self.attach(100)
        self.manager.hot = False
        change = NodeChange(detach_amounts=("1",))
        self.assertIn("1 is not declared removable", self.change(change, dry_run=True).hazard)
        self.refused(errors.HardwareInUse, "powered on, and 1 is not declared", change)
        self.assert_consistent()

    def test_a_planned_change_is_applied_exactly_and_not_to_another_node(self):
        planned = exact_change(MORE, self.change(MORE, dry_run=True))
        self.assertEqual((Grant(DOMAIN, 100.0, "mem", "MiB"),), planned.attach_amounts)
        self.change(planned)
        self.assert_consistent()
        self.refused(errors.ClaimLost, "was changed since the plan", planned)

    def test_a_dry_run_on_the_server_names_the_refusal(self):
        for self.manager.refusal in (None, "no endpoint"):
            result = self.change(MORE, dry_run="server")
            self.assertEqual(self.manager.refusal or "", result.refusal)
        self.assertEqual([], self.manager.calls)

    def test_a_driver_that_changes_blocks_only_is_named(self):
        self.manager = BlockManager("/B/1")
        words = "the driver cannot change the memory or storage of an existing node"
        self.refused(errors.ComposeFailed, f"^p: /S/1: {words}$", BOTH)
        with self.assertRaisesRegex(errors.PodmError, words):
            GuardedComposer(self.manager).amount_reads.read_amounts(None, URI)
        self.assert_consistent()

    def test_two_nodes_never_get_one_amount(self):
        self.store.claims.create([part("p", 1, **{DOMAIN: 950.0})])
        self.assertFalse(self.change(MORE).fits)
        exact = NodeChange(attach_amounts=(Grant(DOMAIN, 100.0),))
        self.refused(errors.ClaimLost, "stock /D/1 .* has 50 free, but the decision", exact)
        self.assertEqual([], self.manager.calls)

    def test_a_pod_manager_that_refuses_leaves_the_node_as_it_was(self):
        self.attach(300)
        before = self.node()
        for change, answers in (
            (MORE, ["no room"]),
            (MORE, [errors.PodmError("no endpoint")]),
            (BOTH, [None, "no room"]),
            (BOTH, [None, None, "the port is full"]),
            (NodeChange(detach_amounts=("1",)), ["no room"]),
            (NodeChange(detach_blocks=("1",), detach_amounts=("1",)), [None, "no room"]),
        ):
            with self.subTest(answers=answers, change=change):
                self.manager.answers = answers
                words = "no room|no endpoint|the port is full"
                self.refused(errors.ComposeFailed, words, change)
                self.assert_consistent()
                self.assertEqual(before.grants, self.node().grants)
                self.assertEqual(set(before.blocks), set(self.node().blocks))
                self.assertEqual(300, self.store.quotas.show("o").used["stock:mem"])

    def words(self, kind):
        return next(event.words for event in self.store.events(self.claim) if event.kind == kind)


class TestDetachingFirst(ChangeCase):
    """Swaps of blocks on a node that has no room for both."""

    def setUp(self):
        super().setUp()
        self.limit_slots(1)

    def test_blocks_are_detached_first_where_the_limits_leave_no_room(self):
        result = self.change(SWAP, key="k")
        self.assertEqual([("-", "/B/1"), ("+", "/B/2")], self.manager.calls)
        self.assertEqual("a node in all has at most 1 Processor block", result.no_room)
        self.assertEqual(f"node {self.node_id} on p: 1 block detached, 1 block attached",
                         change_line(result))  # fmt: skip
        self.assertEqual({"k"}, self.node().changes.keys())
        self.assert_consistent()
        self.limit_slots(2)
        back = NodeChange(attach_blocks=("1",), detach_blocks=("2",))
        self.assertEqual("", self.change(back).no_room)
        self.assertEqual([("+", "/B/1"), ("-", "/B/2")], self.manager.calls[2:])

    def test_a_device_is_chosen_in_the_place_of_one_that_goes(self):
        change = msgspec.convert(
            {"attach": {"accelerators": [{}]}, "detach_blocks": ["1"]}, NodeChange
        )
        self.assertEqual(("/B/2",), uris(self.change(change).attached))
        self.assertEqual((OWN, "/B/2"), self.node().blocks)
        self.assertFalse(self.change(ATTACH).fits)
        self.assert_consistent()

    def test_a_planned_order_is_kept(self):
        planned = exact_change(SWAP, self.change(SWAP, dry_run=True))
        self.assertTrue(planned.detach_first)
        self.limit_slots(2)
        self.assertEqual("as planned", self.change(planned).no_room)
        self.assertEqual([("-", "/B/1"), ("+", "/B/2")], self.manager.calls)

    def test_a_refusal_for_lack_of_a_port_changes_the_order(self):
        self.limit_slots(2)
        self.manager.answers = ["full"]
        change = msgspec.structs.replace(SWAP, power_cycle=True)
        result = self.change(change)
        calls = ["off", ("+", "/B/2"), ("-", "/B/1"), ("+", "/B/2"), "on"]
        self.assertEqual((calls, "full"), (self.manager.calls, result.no_room))
        self.assertEqual([(self.node_id, "/B/1")], self.drained)
        self.assert_consistent()
        for answers in (["full", None, "full"], ["no slot"]):
            self.manager.answers = answers
            back = NodeChange(attach_blocks=("1",), detach_blocks=("2",))
            self.refused(errors.ComposeFailed, "full|no slot", back)
            self.assertEqual([OWN, "/B/2"], self.manager.blocks)
            self.assert_consistent()
        self.limit_slots(9)
        self.manager.answers = ["full"]
        self.refused(errors.ComposeFailed, "full", ATTACH)

    def test_what_was_detached_is_attached_again_if_a_later_step_fails(self):
        amounts = msgspec.structs.replace(BOTH, detach_amounts=("1",))
        self.change(MORE)
        before = self.node()
        for change, answers, words in (
            (SWAP, ["no slot"], "no slot"),
            (SWAP, [None, "no slot"], "no slot"),
            (SWAP, [None, errors.PodmError("refused")], "refused"),
            (amounts, [None, None, "no memory"], "no memory"),
            (amounts, [None, None, None, "no memory"], "no memory"),
        ):
            with self.subTest(answers):
                self.manager.answers = list(answers)
                self.refused(errors.ComposeFailed, words, change)
                self.assert_consistent()
                self.assertEqual(set(before.blocks), set(self.node().blocks))
                self.assertEqual((before.amounts, before.grants),
                                 (self.node().amounts, self.node().grants))  # fmt: skip
        self.assertEqual([(self.node_id, "/B/1")], self.drained[:1])

    def test_nobody_gets_a_detached_block_before_the_other_is_attached(self):
        def take(point):
            if point == "attaching":
                with self.assertRaisesRegex(errors.ClaimLost, "/B/1 .*is held by claim"):
                    claim_it()

        def claim_it():
            generation = self.store.load_podms()["p"].generation
            self.store.claims.create([part("p", generation, "/B/1")], owner="o")

        dataclasses.replace(self.changer(), checkpoint=take).change(self.node_id, SWAP)
        self.assert_consistent()
        claim_it()

    def test_the_owner_pays_for_a_detached_block_until_the_other_is_attached(self):
        used = []

        def note(_point):
            used.append(self.store.quotas.show("o").used.get("accelerators"))

        self.limit_slots(3)
        self.change(ATTACH)
        swap = NodeChange(attach_blocks=("4",), detach_blocks=("3",))
        dataclasses.replace(self.changer(), checkpoint=note).change(self.node_id, swap)
        self.assertEqual([3.0] * 8 + [2.0], used)

    def test_a_quota_counts_the_node_as_it_becomes(self):
        self.limit_slots(9)
        self.change(ATTACH)
        self.store.quotas.change("o", {"accelerators": 2})
        for slots, gone, new in ((9, "3", "4"), (3, "4", "3")):
            self.limit_slots(slots)
            self.change(NodeChange(attach_blocks=(new,), detach_blocks=(gone,)))
            self.assertEqual(2, self.store.quotas.show("o").used["accelerators"])
        self.limit_slots(9)
        with self.assertRaisesRegex(errors.QuotaExceeded, "2 in use and 1 more needed, 2 allowed"):
            self.change(NodeChange(attach_blocks=("4",)))
        self.assert_consistent()

    def test_a_node_that_another_change_takes_in_between_is_named(self):
        def begin_another(point):
            if point == "finished":
                self.store.node_changes.start_detaching(self.node_id, [OWN], 60.0)

        changer = dataclasses.replace(self.changer(), checkpoint=begin_another)
        with self.assertRaisesRegex(errors.Unverified, "lacks /B/1: detached, but nothing was"):
            changer.change(self.node_id, SWAP)
        self.assertEqual("DETACHING", self.node().state)


class TestRefusals(ChangeCase):
    """Changes that leave the node as it was."""

    def tearDown(self):
        self.assert_consistent()
        self.assertEqual([OWN, "/B/1"], self.manager.blocks)

    def test_a_running_node_loses_no_block_that_is_not_declared_removable(self):
        for on, words in ((True, "it is powered on"), (None, "its power state is unknown")):
            self.manager.on, self.manager.hot = on, False
            text = f"^node {self.node_id}: {words}, and 1 is not declared .*--power-cycle"
            error = self.refused(errors.HardwareInUse, text, SWAP)
            self.assertEqual(6, error.exit_code)
        self.assertEqual(([], []), (self.manager.calls, self.drained))

    def test_a_site_that_does_not_drain(self):
        def drain(_node, _blocks):
            raise errors.DrainRefused("busy")

        error = self.refused(errors.DrainRefused, "busy", SWAP, drain=drain)
        self.assertEqual((6, []), (error.exit_code, self.manager.calls))

    def test_a_disabled_pod_manager_gives_no_devices(self):
        changer = dataclasses.replace(self.changer(), disabled=lambda: {"p"})
        with self.assertRaisesRegex(errors.ClaimState, "'p' is disabled: enable it"):
            changer.change(self.node_id, ATTACH)
        self.assertEqual([], self.manager.calls)
        self.store.remember(msgspec.structs.replace(self.podm(), enabled=False))
        enabled_since = self.change(ATTACH, dry_run="client")
        self.assertEqual(["/B/2", "/B/3"], [one.uri for one in enabled_since.attached])

    def test_hardware_that_ironic_uses(self):
        self.manager.in_use = errors.HardwareInUse("in use in Ironic")
        self.refused(errors.HardwareInUse, "node vs-.*in use in Ironic", SWAP)
        self.assertEqual([], self.manager.calls)

    def test_no_error_names_its_place_twice(self):
        node, refused = f"node {self.node_id}", f"^p: {URI}(: found| is off|: no slot)"
        for form in ("{0}: found no system", "p: {0}: found no system", "{0} is off", "no slot"):
            with self.subTest(form):
                self.manager.on, error = True, errors.PodmError(form.format(URI))
                self.manager.answers = [error]
                self.refused(errors.ComposeFailed, refused, ATTACH)
                self.manager.on = error
                self.refused(errors.PodmError, refused, DETACH)
        self.manager.on = True
        for text in ("p: in use", f"{node}: p: in use", f"{node} is in use"):
            self.manager.in_use = errors.HardwareInUse(text)
            self.refused(errors.HardwareInUse, f"^{node}(: p: in use| is in use)$", SWAP)

    def test_a_pod_manager_that_refuses(self):
        for change, answers in (
            (ATTACH, ["no slot"]),
            (DETACH, ["no slot"]),
            (SWAP, [None, "no slot"]),
            (ATTACH, ["half"]),
        ):
            with self.subTest(answers=answers, change=change):
                self.manager.answers = answers
                self.refused(errors.ComposeFailed, "no slot|the port is full", change)

    def test_a_node_that_cannot_be_shut_down_is_not_changed(self):
        self.manager.power_error = False
        change = msgspec.structs.replace(SWAP, power_cycle=True)
        self.refused(errors.ComposeFailed, "the system does not answer", change)
        self.assertEqual(["off", "on"], self.manager.calls)

    def test_a_half_detached_node_gets_its_blocks_again(self):
        self.change(ATTACH)
        self.manager.answers = ["half"]
        both = NodeChange(detach_blocks=("2", "3"))
        self.refused(errors.ComposeFailed, "the port is full", both)
        self.assert_consistent()
        self.change(both)

    def test_a_change_that_is_not_understood(self):
        for words, message in (
            ({}, "Expected devices or blocks"),
            ({"flavor": "g1", "idle": True}, "Expected devices or blocks"),
            ({"flavor": "g1", "flavor_request": NodeRequest()}, "Expected a planned change"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                NodeChange(**words)


class TestUncertainty(ChangeCase):
    """Changes whose effect is unknown, and their reconciliation."""

    step = 5  # of the points of death; the proofs have more

    def reap(self, dry_run=False):
        of = tables.claims.c
        past = {"expires_at": 1.0, "sweep_at": sa.case((of.sweep_at > 0, 1.0), else_=of.sweep_at)}
        with self.store._database.writer.begin() as connection:
            connection.execute(sa.update(tables.claims).values(past))
            for node in self.store.nodes.list():
                if node.off_until is not None:
                    due = to_json(msgspec.structs.replace(node, off_until=1.0))
                    connection.execute(sa.update(tables.nodes).values(document=due))
        reconciler = Reconciler(self.store, self.connect, self.read, dry_run)
        return [action.done for action in reconciler.reconcile() if action.kind == "claim"]

    def unsure(self, words, change, *answers):
        self.manager.answers = list(answers)
        return self.refused(errors.Unverified, words, change)

    def test_a_lost_answer_is_no_failure(self):
        self.manager.answers = ["lost"]
        self.change(ATTACH)
        self.assert_consistent()

    def test_a_block_that_a_change_drops_is_attached_again(self):
        self.manager.answers = ["loses"]
        self.change(ATTACH)
        self.assertEqual(("+", "/B/2", "/B/3", "/B/1"), self.manager.calls[-1])
        self.assert_consistent()
        self.manager.answers = ["loses", None]
        self.change(NodeChange(detach_blocks=("2",)))
        self.assertEqual([("-", "/B/2"), ("+", "/B/1")], self.manager.calls[-2:])
        self.assert_consistent()

    def test_a_block_that_stays_lost_is_named(self):
        words = "stays ATTACHING: /S/1 has lost /B/1; no slot"
        self.assertEqual(7, self.unsure(words, ATTACH, "loses", "no slot").exit_code)

    def test_an_unread_node_is_reconciled_by_its_blocks(self):
        for answer, end in (("unread", "no block was attached"), (RuntimeError("x"), "no block")):
            self.unsure("stays ATTACHING.*podm claim reap", ATTACH, answer)
            self.assertEqual("ATTACHING", self.state())
            (done,) = self.reap(dry_run=True)
            self.assertRegex(done, end)
            self.assertEqual("ATTACHING", self.state())
            (done,) = self.reap()
            self.assertRegex(done, end)
            self.assert_consistent()

    def test_a_pod_manager_that_fails_before_a_write_leaves_the_node_as_it_was(self):
        self.manager.answers = [errors.PodmError("connection refused")]
        self.refused(errors.ComposeFailed, "connection refused", ATTACH)
        self.assert_consistent()

    def test_a_node_that_is_being_changed_is_not_decomposed(self):
        self.unsure("stays ATTACHING", ATTACH, "unread")
        composer = NodeComposer(self.store, self.connect)
        with self.assertRaisesRegex(errors.ClaimState, "is being changed: wait for it"):
            composer.remove(self.node())

    def test_a_success_without_an_effect_is_none(self):
        self.unsure("stays ATTACHING: nothing", ATTACH, "nothing")
        self.reap()
        self.assert_consistent()
        self.unsure("stays DETACHING: nothing", DETACH, "nothing")
        (done,) = self.reap()
        self.assertRegex(done, "no block was detached")
        self.assert_consistent()

    def test_a_part_that_cannot_be_undone_is_named_and_undone_later(self):
        error = self.unsure("/B/2 could not be undone: stuck", ATTACH, "half", "stuck")
        self.assertEqual(7, error.exit_code)
        (done,) = self.reap()
        self.assertRegex(done, "no block was attached")
        self.assert_consistent()
        self.assertEqual([OWN, "/B/1"], self.manager.blocks)

    def test_a_detachment_is_completed(self):
        self.change(ATTACH)
        both = NodeChange(detach_blocks=("2", "3"))
        self.unsure("could not be undone", both, "half", "stuck")
        (done,) = self.reap()
        self.assertRegex(done, "detached 2 blocks")
        self.assert_consistent()

    def test_a_change_that_another_one_interrupts_names_what_stays(self):
        def begin_another(point):
            if point == "finished":
                self.store.node_changes.start_detaching(self.node_id, [OWN], 60.0)

        changer = dataclasses.replace(self.changer(), checkpoint=begin_another)
        with self.assertRaisesRegex(errors.Unverified, "keeps /B/2: attached, but nothing was"):
            changer.change(self.node_id, SWAP)
        self.assertEqual((OWN, "/B/1", "/B/2"), self.node().blocks)

    def test_a_node_that_does_not_start_is_named(self):
        self.manager.power_error = True
        change = msgspec.structs.replace(DETACH, power_cycle=True)
        text = r"was shut down for the change, and could not be started again: .* \(podm claim reap"
        self.unsure(text, change)
        self.assertEqual((OWN,), self.node().blocks)

    def test_a_node_that_an_interrupt_leaves_off_is_named(self):
        change = msgspec.structs.replace(DETACH, power_cycle=True)
        answer = mock.patch.object(self.manager, "set_power", side_effect=[None, KeyboardInterrupt])
        with answer, self.assertRaises(KeyboardInterrupt):
            self.changer().change(self.node_id, change)
        expected = f"node {self.node_id} may be shut down on p: podm claim reap reconciles it"
        self.assertEqual([expected], self.store.effects.unnamed_lines())

    def test_an_amount_of_unknown_effect_is_reconciled_by_what_exists(self):
        for answer, end in (
            ("unread", "attached 1 amount"),
            ("nothing", "no amount was attached"),
            (RuntimeError("x"), "no amount was attached"),
        ):
            with self.subTest(answer):
                self.unsure("stays ATTACHING.*podm claim reap", MORE, answer)
                self.assertEqual("ATTACHING", self.node().state)
                with self.assertRaisesRegex(errors.ClaimState, "is being changed: wait for it"):
                    NodeComposer(self.store, self.connect).remove(self.node())
                (done,) = self.reap()
                self.assertRegex(done, end)
                self.assert_consistent()

    def test_an_amount_that_is_not_connected_is_deleted_again(self):
        self.manager.answers = ["unread"]
        with self.assertRaises(errors.Unverified):
            self.change(MORE)
        self.manager.loose.add(CHUNK)
        (done,) = self.reap(dry_run=True)
        self.assertRegex(done, "no amount was attached")
        self.assertIn(CHUNK, self.manager.amounts)
        (done,) = self.reap()
        self.assertRegex(done, "no amount was attached")
        self.assertEqual({}, self.manager.amounts)
        self.assert_consistent()

    def test_a_deletion_in_part_is_completed(self):
        self.change(MORE)
        self.change(MORE)
        both = NodeChange(detach_amounts=("1", "2"))
        error = self.unsure("stays DETACHING: 1 of 2 amounts deleted: half", both, "half")
        self.assertEqual(7, error.exit_code)
        self.manager.answers = ["stuck"]
        (done,) = self.reap()
        self.assertRegex(done, "unchanged: .*/2 could not be detached: stuck")
        (done,) = self.reap()
        self.assertRegex(done, "detached 2 amounts")
        self.assert_consistent()

    def test_a_block_that_cannot_be_attached_again_is_named_and_its_hold_ends(self):
        self.limit_slots(1)
        self.unsure("/B/1 could not be undone: stuck", SWAP, None, "no slot", "stuck")
        self.assertEqual(("ATTACHING", [OWN]), (self.node().state, self.manager.blocks))
        (done,) = self.reap()
        self.assertRegex(done, "no block was attached")
        self.assert_consistent()

    def test_a_dead_swap_is_undone_unless_the_pod_manager_refuses(self):
        self.limit_slots(1)
        for answers, dry_run, words, blocks in (
            ([], True, "attached 1 block of node vs-.* again", [OWN]),
            (["nothing"], False, "unchanged: /B/1: nothing", [OWN]),
            (["no slot"], False, "freed its holds: 1 block of node vs-.* not be attached again",
             [OWN]),
            ([], False, "attached 1 block of node vs-.* again", [OWN, "/B/1"]),
        ):  # fmt: skip
            with self.subTest(words):
                self.doCleanups()
                self.setUp()
                self.limit_slots(1)
                self.points, self.die_at = [], 5  # the node has neither block
                with self.assertRaises(Died):
                    self.change(SWAP)
                self.assertEqual("finished", self.points[-1])
                self.die_at, self.manager.dead = None, False
                self.assertEqual(("DETACHING", [OWN]), (self.node().state, self.manager.blocks))
                with self.assertRaisesRegex(errors.ClaimState, "is being changed: wait for it"):
                    NodeComposer(self.store, self.connect).remove(self.node())
                self.manager.answers = list(answers)
                (done,) = self.reap(dry_run)
                self.assertRegex(done, words)
                self.assertEqual(blocks, self.manager.blocks)
                self.reap()
                self.assert_consistent()

    def test_an_amount_that_stays_after_blocks_were_refused_is_named(self):
        self.unsure("/D/1/MemoryChunks/1 could not be undone", BOTH, None, None, "no", None, "no")
        (done,) = self.reap()
        self.assertRegex(done, "detached 1 block and 1 amount")
        self.assert_consistent()

    def test_a_key_changes_the_node_once_wherever_its_process_died(self):
        for verb, blocks in (("attach", 5), ("detach", 3)):
            change = msgspec.convert({verb: {"accelerators": [{}]}}, NodeChange)
            for point in range(1, 7):
                self.doCleanups()
                self.setUp()
                self.change(ATTACH)
                self.points, self.die_at = [], point
                with contextlib.suppress(Died):
                    self.change(change, key="k")
                with self.subTest(verb, point=self.points[-1]):
                    self.die_at, self.manager.dead = None, False
                    self.reap()
                    for _ in range(2):
                        self.assertTrue(self.change(change, key="k").done)
                        self.assertEqual(blocks, len(self.manager.blocks))
                    self.assert_consistent()

    def test_a_process_may_die_at_any_point(self):
        amounts = msgspec.structs.replace(BOTH, detach_amounts=("1",))
        for slots, swap, before, after, points in (
            (None, SWAP, None, ATTACH, 9),
            (None, amounts, MORE, MORE, 11),
            (1, amounts, MORE, MORE, 13),
        ):
            change = msgspec.structs.replace(swap, power_cycle=True)  # passes every point
            for point in (*range(1, points + 1, self.step), points + 1):
                self.doCleanups()
                self.setUp()
                self.limit_slots(slots)
                if before is not None:
                    self.change(before)
                self.points.clear()
                self.die_at = point
                if point > points:
                    self.changer().change(self.node_id, change)
                    continue
                with self.assertRaises(Died):
                    self.changer().change(self.node_id, change)
                with self.subTest(point=self.points[-1]):
                    self.die_at, self.manager.dead = None, False
                    self.reap()
                    self.assert_consistent()
                    self.assertTrue(self.manager.on)
                    self.assertFalse({"/B/1", "/B/2"}.isdisjoint(self.manager.blocks))
                    self.change(after)
                    self.assert_consistent()
