# SPDX-License-Identifier: Apache-2.0
"""Hardware that may not be changed: what is said of it, what stays, and that nothing is begun."""

from itertools import product

from tests.unit.lifecycle.provisioning import Making, ProvisionCase
from tests.unit.lifecycle.scripted import (
    ABSENT,
    AMOUNT,
    COMPOSED,
    PART,
    URI,
    ComposeCase,
    ReapCase,
    Scripted,
)
from tests.unit.store.site import podm
from valence_sched.errors import BaremetalUnavailable, HardwareInUse, PodmError, Unverified
from valence_sched.model.composition import ComposedNode, CompositionResult

IN_USE = "p: in use in Ironic as node 'n7' (u7): provision state active: undeploy it there first"
AWAY = "Ironic at http://i does not tell what it uses: found HTTP 503"
REFUSALS = ((HardwareInUse, IN_USE, 6), (BaremetalUnavailable, AWAY, 5))


class Refused(Scripted):
    """A composer that lets nothing be changed once it has let it ``allowed`` times."""

    def __init__(self, error, allowed=0, **answers):
        super().__init__(**answers)
        self.error, self.allowed = error, allowed

    def may_change(self, _request, _node=None):
        self.allowed -= 1
        if self.allowed < 0:
            raise self.error
        return self


class TestCompose(ComposeCase):
    """One node."""

    def test_a_claim_of_hardware_that_may_not_be_changed_is_given_up_before_it_is_begun(self):
        for kind, told, _ in REFUSALS:
            with self.subTest(kind):
                self.setUp()
                scripted = Refused(kind(told))
                self.assertEqual(told, str(self.error(kind, scripted)))
                self.assertEqual([], scripted.calls)
                state, note = self.ended()
                self.assertEqual("FAILED", state)
                self.assertTrue(f"not begun: {told}".startswith(note.rstrip("…")))
                self.assertEqual([], self.lines())

    def test_a_node_is_not_taken_back_that_is_in_use_by_then(self):
        scripted = Refused(HardwareInUse(IN_USE), allowed=1, compose=PART)
        error = self.error(Unverified, scripted)
        self.assertIn(f"stays COMPOSING: {PART.reason}; {IN_USE} (", str(error))
        self.assertEqual(["reserve", "compose"], scripted.calls)
        self.assertEqual("COMPOSING", self.state())

    def test_a_node_is_not_removed_and_stays_listed(self):
        for kind, told, exit_code in (*REFUSALS, (PodmError, "HTTP 500", 1)):
            with self.subTest(kind):
                self.setUp()
                node = self.composer(Scripted()).compose(self.claim)
                self.store.effects.clear()
                scripted = Refused(kind(told))
                with self.assertRaises(kind) as caught:
                    self.composer(scripted).remove(node)
                self.assertIn(told, str(caught.exception))
                self.assertEqual(exit_code, caught.exception.exit_code)
                self.assertEqual(([], [], [node.id]),
                                 (scripted.calls, self.lines(),
                                  [one.id for one in self.store.nodes.list()]))  # fmt: skip


class TestProvision(ProvisionCase):
    """All nodes of a request."""

    def refused(self, *names, error):
        composers = {name: Refused(error) for name in names}
        return self.site("p", "q", **composers).provision(self.request())

    def test_another_pod_manager_is_tried_in_place_of_one_whose_hardware_is_in_use(self):
        for name in "pq":
            done = self.refused(name, error=HardwareInUse(IN_USE))
            (node,) = done.nodes
            self.assertNotEqual(name, node.podm)
            self.assertEqual(((), False), (done.failures, done.claim_lost))

    def test_a_result_says_why_nothing_was_composed(self):
        done = self.refused("p", "q", error=HardwareInUse(IN_USE))
        self.assertEqual(((), (IN_USE,)), (done.nodes, done.failures))
        self.assertEqual((True, False), (done.claim_lost, done.cannot_tell))
        done = self.refused("p", "q", error=BaremetalUnavailable(AWAY))
        self.assertEqual(((), (AWAY,)), (done.nodes, done.failures))
        self.assertEqual((False, True), (done.claim_lost, done.cannot_tell))
        self.assertEqual({"FAILED"}, {*self.states().values()})

    def test_where_ironic_does_not_answer_nothing_is_claimed(self):
        def prepare():
            raise BaremetalUnavailable(AWAY)

        provisioner = self.site("p", prepare=prepare)
        with self.assertRaises(BaremetalUnavailable):
            provisioner.provision(self.request())
        self.assertEqual({}, self.states())
        claim = self.claimer.claim(self.request()).claim
        with self.assertRaises(BaremetalUnavailable):
            provisioner.compose_claim(claim.id)
        self.assertEqual({claim.id: "HELD"}, self.states())

    def test_nodes_of_an_earlier_key_are_told_without_ironic(self):
        first = self.site("p").provision(self.request(), key="k")

        def prepare():
            raise BaremetalUnavailable(AWAY)

        object.__setattr__(self.provisioner, "prepare", prepare)
        again = self.provisioner.provision(self.request(), key="k")
        self.assertEqual([one.id for one in first.nodes], [one.id for one in again.nodes])

    def test_too_few_nodes_stay_where_they_may_not_be_taken_apart(self):
        """The first change is its composition, the second its removal."""
        error = HardwareInUse(IN_USE)

        class Once(Refused, Making):
            """Makes a node, and lets nothing be changed afterwards."""

        done = self.site("p", "q", p=Once(error, 1), q=Refused(error)).provision(
            self.request(count=2)
        )
        self.assertEqual((), done.nodes)
        (stays,) = done.unverified
        self.assertIn(f"stays, though too few came to be: node {self.one.nodes.list()[0].id}: p",
                      stays.message)  # fmt: skip


class TestReap(ReapCase):
    """Claims and nodes whose process died."""

    def node(self):
        self.store.claims.start_composing(self.claim.id)
        node = ComposedNode(id="n", podm="p", uri=URI, claim=self.claim.id, name="vs-n",
                            pool="all", blocks=("c0",))  # fmt: skip
        self.store.claims.finish_composing(self.claim.id, [node])
        self.readings["p"] = podm()

    def left(self, composer):
        (action,) = self.reap(composer)
        return action.done, action.exit_code

    def test_what_may_not_be_changed_is_left_as_it_is_in_a_dry_run_too(self):
        for kind, told, exit_code in REFUSALS:
            for dry_run in (False, True):
                with self.subTest(kind, dry_run=dry_run):
                    self.setUp()
                    self.dry_run = dry_run
                    self.store.claims.start_composing(self.claim.id)
                    self.store.claims.fail(self.claim.id, "the reply was lost")
                    name = f"vs-{self.claim.id}"
                    shown = {"uri": URI, "name": name, "blocks": ["c0"]}
                    self.readings["p"] = podm(nodes=[shown])
                    composer = Refused(kind(told))
                    self.assertEqual((f"left as it is: {told}", exit_code), self.left(composer))
                    self.assertEqual([], composer.calls)

    def test_a_part_of_a_node_is_left_with_its_claim(self):
        for (kind, told, exit_code), dry_run in product(REFUSALS, (False, True)):
            with self.subTest(kind, dry_run=dry_run):
                self.setUp()
                self.dry_run = dry_run
                self.start()
                composer = Refused(kind(told), read_node=PART)
                self.assertEqual((f"left as it is: {told}", exit_code), self.left(composer))
                self.assertEqual((["read_node"], "COMPOSING"), (composer.calls, self.state()))

    def test_amounts_of_a_node_that_is_gone_stay(self):
        for (kind, told, exit_code), dry_run in product(REFUSALS, (False, True)):
            with self.subTest(kind, dry_run=dry_run):
                self.setUp()
                self.dry_run = dry_run
                self.node()
                left = CompositionResult(state="left", amounts=(AMOUNT,), reason="a chunk")
                composer = Refused(kind(told), read_node=left)
                self.assertEqual((f"left as it is: {told}", exit_code), self.left(composer))
                self.assertEqual(["n"], [one.id for one in self.store.nodes.list()])

    def test_a_node_in_use_is_found_with_its_reservation_and_without_ironic_it_is_left(self):
        for (kind, told, exit_code), done in zip(
            REFUSALS, ((f"composed: found {URI}", 0), None), strict=True
        ):
            with self.subTest(kind):
                self.setUp()
                self.start()
                self.store.claims.note_reserving(self.claim.id)
                composer = Refused(kind(told), read_node=COMPOSED)
                expected = done or (f"left as it is: {told}", exit_code)
                self.assertEqual((expected, ["read_node"]), (self.left(composer), composer.calls))

    def test_what_is_gone_by_itself_needs_no_leave(self):
        self.node()
        composer = Refused(HardwareInUse(IN_USE), read_node=ABSENT)
        done = "forgotten, and its claim released: it is not there any more"
        self.assertEqual((done, 0), self.left(composer))
