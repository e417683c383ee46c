# SPDX-License-Identifier: Apache-2.0
"""Each way in which pod managers go wrong while they compose, and what is left of it.

Whatever they do: no block leaks, none is sold twice, every node is accounted for, and one line
says what became of it.
"""

import unittest
from functools import partial
from typing import NamedTuple

from tests.unit.lifecycle.site import Site, request, site
from valence_sched.lifecycle.guard import GuardedComposer
from valence_sched.model.composition import CompositionRequest

SYSTEMS = "/redfish/v1/Systems"
BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
POST, DELETE = f"POST:{SYSTEMS}", f"DELETE:{SYSTEMS}*"


class Case(NamedTuple):
    """A fault of all pod managers: whether there is a node at once, and the line that says why.

    ``left`` is of an error that exits 7: something may be there.
    """

    rule: str
    node: bool
    line: str = ""
    left: bool = False


COMPOSING = (
    Case("drop-reply:" + POST, node=True),
    Case("async", node=True),
    Case("if-match", node=True),
    Case("stale-tags", node=True),
    Case("status:412:PATCH:*:1", node=True),
    Case(f"status:428:{POST}:1", node=True),
    Case(f"busy:0:{POST}:2", node=True),
    Case(f"busy:60:{POST}", node=False, line="HTTP 503: "),
    Case("patch-replaces", node=True),
    Case("malformed:" + POST, node=True),
    Case(f"malformed:GET:{SYSTEMS}", node=False, line="JSON|document"),
    Case("empty-create", node=False, line="found Unused|composed nothing"),
    Case("lie:" + POST, node=False, line="HTTP 200: "),
    Case("task-exception", node=False, line="HTTP 500: |its task ended in Exception"),
    Case("status:500:" + POST, node=False, line="HTTP 500: "),
    Case("status:503:" + POST, node=False, line="HTTP 503: "),
    Case("status:409:" + POST, node=False, line="HTTP 409: "),
    Case("html:" + POST, node=False, line="a page of HTML or XML"),
    Case("status:500:PATCH:*", node=True),
    Case(f"status:500:GET:{BLOCKS}/*:1", node=False, line="expected a document"),
    Case("die-after:0", node=False, line="stays COMPOSING: .*reserved still", left=True),
    Case("failed-node", node=False, line="is Failed"),
)


class TestComposing(unittest.TestCase):
    """One node, and pod managers that all go wrong in the same way."""

    def test_nothing_leaks_nothing_is_sold_twice_and_a_line_says_why(self):
        """semantics.md, trap 7: what goes wrong half way leaves nothing attached."""
        for case in COMPOSING:
            early, late = ("", case.rule) if ":GET:" in case.rule else (case.rule, "")
            with self.subTest(case.rule), site(*filter(None, [early]), ttl_s=0.01) as here:
                here.add_faults(*filter(None, [late]))  # reading fails by them, too
                self.check(here, case)

    def check(self, here: Site, case: Case) -> None:
        done = here.provisioner.provision(request(), ttl_s=5)
        self.assertEqual(case.node, bool(done.nodes), (done.failures, done.unverified, done.notes))
        self.assertEqual(case.left, bool(done.unverified))
        self.assertEqual((), done.still_composing)
        if not case.left:
            self.assertEqual([], here.store.claims.list(("HELD", "COMPOSING")))
        if not case.node:
            lines = [*done.failures, *(one.message for one in done.unverified)]
            self.assertEqual(1, len(lines), lines)
            self.assertNotIn("\n", lines[0])
            self.assertRegex(lines[0], case.line)
        here.clear_faults()
        here.reconcile()
        settled(self, here)


def settled(test: unittest.TestCase, here: Site) -> None:
    """Check what must hold once all is reconciled."""
    names = sorted(node.name for node in here.store.nodes.list())
    test.assertEqual(names, here.node_names())
    test.assertEqual([], here.blocks_used_twice())
    test.assertEqual(0, here.leak_count())
    test.assertEqual([], here.store.claims.list(("PREPARED", "HELD", "COMPOSING")))


class TestOthers(unittest.TestCase):
    """Somebody else composes at the same time."""

    def first(self, here: Site) -> tuple[str, str]:
        claim = here.claim(request())
        here.store.claims.release(claim.id)
        (part,) = claim.parts
        return part.podm, part.shares[0].blocks[0]

    def test_a_block_that_is_stolen_between_plan_and_post_costs_one_attempt(self):
        with site() as here:
            podm, block = self.first(here)
        with site(f"steal:{block}@{podm}") as here:
            done = here.provisioner.provision(request())
            self.assertEqual(1, len(done.nodes), done.failures)
            self.assertRegex(done.notes[0], f"{podm}: .*{block}.*: tried .* instead")
            self.assertNotEqual(podm, done.nodes[0].podm)
            here.reconcile()
            settled(self, here)

    def test_a_block_that_went_before_the_plan_was_carried_out_is_left_alone(self):
        with site() as here:
            claim = here.claim(request())
            (part,) = claim.parts
            with here.connect(part.podm) as hands:
                stolen(hands, part.shares[0].blocks)
            writes = len([it for it in here.podms[part.podm].requests if it.method != "GET"])
            source = here.provisioner.claim_source
            another = partial(here.provisioner._claim_another, source, request(), "", 60)
            node, notes = here.provisioner._compose_node(claim, another)
            self.assertRegex(notes[0], "found Composed.*, expected it free")
            after = here.podms[part.podm].requests
            if node.podm != part.podm:
                self.assertEqual(writes, len([it for it in after if it.method != "GET"]))
            self.assertEqual("FAILED", here.store.claims.show(claim.id).state)
            lost = {(part.podm, uri) for uri in part.shares[0].blocks}
            self.assertEqual(set(), lost & {(node.podm, uri) for uri in node.blocks})

    def test_a_busy_block_that_is_accepted_again_is_given_back(self):
        """The second node is taken apart, the first one stays what it was."""
        with site("double-book") as here:
            mine = here.composer.compose(here.claim(request()))
            again = here.store.claims.show(mine.claim)
            second = CompositionRequest(name="vs-second", pool=mine.pool, blocks=mine.blocks)
            with here.connect(mine.podm) as hands:
                outcome = hands.may_change(second).compose(second, lambda _state: None)
                self.assertEqual("left", outcome.state)
                changes = hands.may_change(second, outcome.node)
                gone = changes.remove(second, outcome.node, lambda _state: None)
                self.assertEqual("absent", gone.state)
            self.assertEqual("COMPOSED", again.state)
            self.assertEqual([mine.name], here.node_names())

    def test_what_somebody_else_reserves_is_never_let_go(self):
        with site() as here:
            claim = here.claim(request())
            (part,) = claim.parts
            uris = part.shares[0].blocks
            wanted = wanted_blocks(uris)
            with here.connect(part.podm) as hands:
                self.assertTrue(hands.may_change(wanted).reserve(wanted))
            with self.assertRaisesRegex(Exception, "found Unused, reserved"):
                here.composer.compose(claim)
            for uri in uris:
                status = here.podms[part.podm].documents.get(uri)["CompositionStatus"]
                self.assertIs(True, status["Reserved"])


REMOVING = {
    f"drop-reply:{DELETE}": None,
    f"status:503:{DELETE}": "is still there: HTTP 503",
    f"lie:{DELETE}": "is still there: HTTP 200",
    "ghost": "is still there: it answered that the node is gone",
    "if-match": None,
    "stale-tags": None,
    f"status:412:{DELETE}:1": None,
    f"busy:0:{DELETE}:2": None,
    "die-after:9": None,
}


class TestRemoving(unittest.TestCase):
    """A node that does not go as it should."""

    def test_what_stays_is_said_and_stays_in_the_list(self):
        for rule, line in REMOVING.items():
            with self.subTest(rule), site(rule) as here:
                node = here.composer.compose(here.claim(request()))
                if line is None:
                    here.composer.remove(node)
                else:
                    with self.assertRaisesRegex(Exception, line) as caught:
                        here.composer.remove(node)
                    self.assertEqual(7, caught.exception.exit_code)
                    self.assertEqual([node.id], [one.id for one in here.store.nodes.list()])
                    here.clear_faults()
                    here.composer.remove(node)
                settled(self, here)
                self.assertEqual([], here.node_names())


def wanted_blocks(blocks):
    return CompositionRequest(name="somebody", blocks=tuple(blocks))


def stolen(hands: GuardedComposer, blocks) -> None:
    wanted = wanted_blocks(blocks)
    outcome = hands.may_change(wanted).compose(wanted, lambda _state: None)
    assert outcome.state == "composed", outcome
