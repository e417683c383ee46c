# SPDX-License-Identifier: Apache-2.0
"""Composition: its steps, the answers of pod managers, and the stored rows."""

import unittest
from functools import partial
from typing import NamedTuple
from unittest import mock

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.lifecycle.scripted import (
    ABSENT,
    COMPOSED,
    DOWN,
    LONG,
    PART,
    URI,
    ComposeCase,
    Watched,
)
from tests.unit.lifecycle.site import Site, request, site
from tests.unit.store.engines import SERVERS, StoreCase, on_each_engine
from tests.unit.store.site import expire
from tests.unit.store.test_database_errors import ServerCase
from tests.unit.trees import tree
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.errors import ClaimLost, ClaimState, ComposeFailed, Unverified
from valence_sched.lifecycle.guard import GuardedComposer
from valence_sched.model.claim import ComposedNode, CompositionRequest, composition_request
from valence_sched.model.diagnostic import RECONCILE_HINT
from valence_sched.model.inventory import to_json
from valence_sched.store import tables


class TestComposing(unittest.TestCase):
    """Compositions without faults."""

    def test_a_claim_becomes_a_node_and_is_counted_once(self):
        with site() as here:
            claim = here.claim(request())
            node = here.composer.compose(claim)
            self.assertEqual([node.name], here.node_names())
            self.assertEqual("COMPOSED", here.store.claims.show(claim.id).state)
            here.read_again()
            self.assertEqual("SETTLED", here.store.claims.show(claim.id).state)

    def test_a_node_that_is_removed_frees_its_blocks_and_its_claim(self):
        with site() as here:
            free = here.free_blocks()
            claim = here.claim(request())
            here.composer.remove(here.composer.compose(claim))
            self.assertEqual((free, []), (here.free_blocks(), here.node_names()))
            self.assertEqual("RELEASED", here.store.claims.show(claim.id).state)
            self.assertEqual([], here.store.nodes.list())

    def test_what_is_composed_is_not_decided_on_again(self):
        with site() as here:
            nodes = [here.composer.compose(here.claim(request())) for _ in range(4)]
            blocks = [(node.podm, uri) for node in nodes for uri in node.blocks]
            self.assertEqual(len(blocks), len(set(blocks)))

    def test_the_intent_is_there_before_the_effect(self):
        with site() as here:
            here.composer.compose(here.claim(request()))
            order = ["held", "intent", "checked", "reserved", "composing (specific)", "answered",
                     "read back", "confirmed"]  # fmt: skip
            self.assertEqual(order, here.points)

    def test_several_nodes_are_made_of_blocks_of_their_own(self):
        with site() as here:
            done = here.provisioner.provision(request(count=4))
            self.assertEqual(4, len(done.nodes), done)
            self.assertEqual(sorted(node.name for node in done.nodes), here.node_names())
            here.read_again()
            states = {claim.state for claim in here.store.claims.list()}
            self.assertEqual({"SETTLED"}, states)

    def test_the_same_key_twice_is_the_same_nodes(self):
        with site() as here:
            first = here.provisioner.provision(request(count=2), key="job-7")
            again = here.provisioner.provision(request(count=2), key="job-7")
            self.assertEqual(sorted(n.id for n in first.nodes), sorted(n.id for n in again.nodes))
            self.assertEqual(2, len(here.node_names()))


class TestComposeFaults(unittest.TestCase):
    """Pod managers that refuse, lie, or die during the composition."""

    def test_one_pod_manager_that_refuses_is_passed_over_for_the_next(self):
        with site() as here:
            podm = here.claimer.claim(request()).claim.parts[0].podm
            here.store.claims.release(here.store.claims.list()[0].id)
        with site(f"status:500:POST:/redfish/v1/Systems@{podm}") as here:
            done = here.provisioner.provision(request())
            (node,) = done.nodes
            self.assertNotEqual(podm, node.podm)
            self.assertRegex(done.notes[0], f"{podm}: HTTP 500.*: tried {node.podm} instead")

    def test_a_create_that_composes_nothing_leaves_nothing_held(self):
        with site("empty-create") as here:  # other such faults are in the proofs
            free = here.free_blocks()
            done = here.provisioner.provision(request())
            self.assertEqual((), done.nodes)
            self.assertEqual((free, []), (here.free_blocks(), here.node_names()))
            self.assertTrue(done.failures)
            self.assertEqual([], here.store.claims.list())

    def test_a_lost_reply_is_a_node(self):
        with site("drop-reply:POST:/redfish/v1/Systems") as here:
            (node,) = here.provisioner.provision(request()).nodes
            self.assertEqual([node.name], here.node_names())

    def test_a_task_is_waited_for(self):
        with site("async") as here:
            self.assertEqual(1, len(here.provisioner.provision(request()).nodes))

    def test_a_pod_manager_that_dies_half_way_leaves_the_claim_to_be_reaped(self):
        with site("die-after:1") as here:
            done = here.provisioner.provision(request())
            (error,) = done.unverified
            self.assertRegex(str(error), "stays COMPOSING: .*could not be read back")
            (claim,) = here.store.claims.list()
            self.assertEqual("COMPOSING", claim.state)

    def test_too_few_nodes_are_taken_apart_again(self):
        with site() as here:
            free = here.free_blocks()
            podm = here.claimer.claim(request()).claim.parts[0].podm
            (claim,) = here.store.claims.list()
            here.store.claims.release(claim.id)
        with site(f"status:500:POST:/redfish/v1/Systems:1@{podm}") as here:
            done = here.provisioner.provision(request(count=3, podms=[podm]))
            self.assertEqual((), done.nodes)
            self.assertEqual((free, []), (here.free_blocks(), here.node_names()))


class TestComposed(ComposeCase):
    """A composed node."""

    def test_each_step_is_marked_and_each_state_told(self):
        scripted = Watched()
        node = self.composer(scripted).compose(self.claim)
        self.assertEqual((["reserve", "compose"], "COMPOSED"), (scripted.calls, self.state()))
        self.assertEqual(["held", "intent", "checked", "reserved", "specific", "read back",
                          "confirmed"], self.points)  # fmt: skip
        subject = f"node vs-{self.claim.id} on p"
        self.assertEqual([(subject, "checking"), (subject, "specific")], self.states)
        self.assertEqual([node], [replace(one, created_at=0.0) for one in self.store.nodes.list()])
        name = f"vs-{self.claim.id}"
        self.assertEqual((name, name, "p", URI, ("c0",)),
                         (node.id, node.name, node.podm, node.uri, node.blocks))  # fmt: skip
        self.assertEqual([f"node {name} is composed on p: {URI}, claim {self.claim.id}"],
                         self.lines())  # fmt: skip

    def test_without_a_reservation_that_is_marked(self):
        self.composer(Watched(reserve=False)).compose(self.claim)
        self.assertEqual("not reserved", self.points[3])

    def test_every_question_is_about_the_very_node(self):
        known = self.store.load_podms()["p"]
        wanted = composition_request(self.claim, self.claim.parts[0].shares[0], known)
        self.assertTrue(wanted.devices.processors)
        scripted = Watched(compose=PART)
        self.error(ComposeFailed, scripted)
        verbs = ["refusal", "conflicts", "reserve", "compose", "remove", "unreserve"]
        self.assertEqual([(verb, wanted) for verb in verbs], scripted.requests)
        self.assertEqual([(wanted, None), (wanted, URI), (wanted, None)], scripted.checks)
        subject = f"node vs-{self.claim.id} on p"
        told = [(subject, "checking"), (subject, "specific"), (subject, "removing it")]
        self.assertEqual(told, self.states)
        self.assertEqual("taken back", self.points[-1])

    def test_after_an_error_the_very_node_is_read_back(self):
        for error in (DOWN, ValueError("a bug")):
            self.setUp()
            scripted = Watched(compose=error, read_node=COMPOSED)
            self.assertEqual(URI, self.composer(scripted).compose(self.claim).uri)
            requests = dict(scripted.requests)
            self.assertEqual(requests["compose"], requests["read_node"])
            self.assertEqual(["reserve", "compose", "read_node"], scripted.calls)
            self.assertEqual("COMPOSED", self.state())

    def test_what_happens_is_in_the_history(self):
        self.composer(Watched()).compose(self.claim)
        kinds = [one.kind for one in self.store.events(self.claim.id)]
        self.assertEqual(["held", "composing", "reserving", "composed"], kinds)

    def test_the_intent_lasts_as_long_as_the_composer_says(self):
        def compose(_request, _watch):
            claim = self.store.claims.show(self.claim.id)
            self.assertAlmostEqual(77.0, claim.expires_at - claim.created_at, delta=5.0)
            line = f"claim {claim.id} is COMPOSING as vs-{claim.id} on p: {RECONCILE_HINT}"
            self.assertEqual([line], self.lines())
            return COMPOSED

        scripted = Watched()
        scripted.compose = compose
        self.composer(scripted, ttl_s=77.0).compose(self.claim)

    def test_what_is_not_held_is_not_begun(self):
        expire(self, self.claim)
        self.error(ClaimState, Watched())
        self.assertEqual(["held"], self.points)


class TestNotBegun(ComposeCase):
    """A claim without a write to the pod manager is abandoned, and the note has the reason."""

    def check(self, kind, scripted, line, note, points):
        error = self.error(kind, scripted)
        self.assertEqual((line, "p"), (str(error), error.podm))
        self.assertEqual(("FAILED", note), self.ended())
        self.assertEqual(points, self.points)
        self.assertEqual([], self.lines())

    def test_it_refuses(self):
        self.check(ComposeFailed, Watched(refusal="none of these"), "p: none of these",
                   "not started: none of these", ["held", "intent", "checked"])  # fmt: skip

    def test_it_does_not_answer(self):
        for scripted in (DOWN, Watched(refusal=DOWN), Watched(conflicts=DOWN)):
            self.setUp()
            self.check(ComposeFailed, scripted, "p: connection refused",
                       "not started: connection refused", ["held", "intent"])  # fmt: skip

    def test_a_refusal_is_enough(self):
        scripted = Watched(refusal="no", conflicts=DOWN)
        self.check(
            ComposeFailed, scripted, "p: no", "not started: no", ["held", "intent", "checked"]
        )

    def test_a_block_is_in_use_by_now(self):
        for conflicts, more in ((("c0: found Composed",), ""),
                                (("c0: found Composed", "c1"), ", and 1 more"),
                                (("c0: found Composed", "c1", "c2"), ", and 2 more")):  # fmt: skip
            self.setUp()
            line = f"p: c0: found Composed{more}, expected a free block"
            note = "no longer free: c0: found Composed"
            points = ["held", "intent", "checked"]
            self.check(ClaimLost, Watched(conflicts=conflicts), line, note, points)

    def test_another_was_faster_to_reserve(self):
        self.check(ClaimLost, Watched(reserve=ClaimLost("c0: found reserved")),
                   "p: c0: found reserved, expected a free block",
                   "no longer free: c0: found reserved", ["held", "intent", "checked"])  # fmt: skip

    def test_long_reasons_are_cut_in_the_note(self):
        self.error(ComposeFailed, Watched(refusal=LONG))
        self.assertEqual(200, len(self.ended()[1]))

    def test_what_cannot_be_given_up_is_said(self):
        lost = ClaimLost("taken")
        for scripted, point, why in (
            (Watched(refusal="no"), "checked", "not started: no"),
            (DOWN, "intent", "not started: connection refused"),
            (Watched(conflicts=("taken",)), "checked", "no longer free: taken"),
            (Watched(compose=lost), "reserved", "no longer free: taken"),
            (Watched(compose=ABSENT), "read back", "nothing is there"),
        ):
            with self.subTest(why, point=point):
                self.setUp()
                error = self.error(Unverified, scripted, checkpoint=self.break_at(point))
                start = "p: no node was composed, but the result could not be stored: "
                self.assertTrue(str(error).startswith(f"{start}{self.store.address}: "), error)
                end = f": claim {self.claim.id} stays COMPOSING ({RECONCILE_HINT}): {why}"
                self.assertTrue(str(error).endswith(end), error)
                self.assertEqual("COMPOSING", self.state())


POINTS = (
    "held",
    "intent",
    "checked",
    "reserved",
    "composing (specific)",
    "answered",
    "read back",
    "confirmed",
)
PODM = "gpu-east"
MOST_PAGES = 1 << 30


@partial(on_each_engine, base=ServerCase, engines=SERVERS)
class TestRestarted:
    """All connections are cut during a composition, and new ones work."""

    def test_the_node_is_composed_and_noted_once(self):
        documents = tree(PODM)
        for point in POINTS:
            with self.subTest(point), site(
                source=None, documents={PODM: {**documents}}, url=self.named()
            ) as here:  # fmt: skip
                self.cut_at(here, point)
                done = here.provisioner.provision(request())
                self.assertEqual(((), ()), (done.failures, done.unverified))
                (node,) = done.nodes
                self.assertEqual([node.name], here.node_names())
                self.assertEqual("COMPOSED", here.store.claims.show(node.claim).state)
                here.composer.remove(node)

    def cut_at(self, here: Site, point: str) -> None:
        seen = here.points.append

        def mark(now: str) -> None:
            seen(now)
            if now == point:
                self.cut()

        object.__setattr__(here.composer, "checkpoint", mark)


class TestFull(StoreCase):
    """No space for the row of an existing node."""

    def test_the_node_is_said_to_be_there_and_noted_once_there_is_room(self):
        with site(source=None, documents={PODM: tree(PODM)}, url=self.url, ttl_s=0.01) as here:
            limit = [MOST_PAGES]

            def limited(connection, _record, _proxy):
                connection.execute(f"PRAGMA max_page_count = {limit[0]}")

            def mark(now: str) -> None:
                if now == "read back":
                    limit[0] = self.fill()

            sa.event.listen(here.store._database.writer, "checkout", limited)
            object.__setattr__(here.composer, "checkpoint", mark)
            (error,) = here.provisioner.provision(request()).unverified
            self.assertNotIn("\n", str(error))
            there = (
                f"^{PODM}: /redfish/v1/Systems/.* is composed, but the result could not be stored: "
            )
            self.assertRegex(str(error), f"{there}.*disk is full .free space.*podm claim reap")
            self.execute(sa.delete(tables.nodes))
            self.assertEqual(["COMPOSING"], [one.state for one in here.store.claims.list()])
            limit[0] = MOST_PAGES
            self.assertRegex(here.reconcile()[0], "composed: found /redfish/v1/Systems/")
            (node,) = here.store.nodes.list()
            self.assertEqual([node.name], here.node_names())

    def fill(self) -> int:
        """Fill the table of nodes, and return its number of pages."""
        filler = ComposedNode(id="f", podm="f", uri="f", claim="f")
        engine = sa.create_engine(self.url, poolclass=sa.StaticPool)
        with engine.connect() as connection:
            pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar() or 0)
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            for number in range(100_000):
                row = {"id": f"f{number:06}", "podm_key": "f", "claim_id": "f",
                       "document": to_json(filler)}  # fmt: skip
                try:
                    connection.execute(sa.insert(tables.nodes), row)
                    connection.commit()
                except sa.exc.OperationalError:
                    connection.rollback()
                    break
        engine.dispose()
        return pages


class TestAgain(unittest.TestCase):
    """Changes whose commit succeeded although its answer was lost."""

    def test_noting_the_same_nodes_again_changes_nothing(self):
        with site(source=None, documents={PODM: tree(PODM)}) as here:
            node = here.composer.compose(here.claim(request()))
            here.store.claims.finish_composing(node.claim, [node])
            self.assertEqual([node.id], [one.id for one in here.store.nodes.list()])

    def test_splitting_again_gives_the_same_claims(self):
        with site(source=None, documents={PODM: tree(PODM)}) as here:
            claim = here.claim(request(count=2))
            first = [one.id for one in here.store.claims.split(claim.id)]
            self.assertEqual(first, [one.id for one in here.store.claims.split(claim.id)])


SYSTEMS = "/redfish/v1/Systems"
BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
POST, DELETE = f"POST:{SYSTEMS}", f"DELETE:{SYSTEMS}*"


class Case(NamedTuple):
    """A fault of all pod managers: whether a node exists at once, and the line with the reason.

    ``left`` belongs to an error that exits 7: a node or a reservation may exist.
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
    Case("empty-create", node=False, line="found Unused|composed no node"),
    Case("lie:" + POST, node=False, line="HTTP 200: "),
    Case("task-exception", node=False, line="HTTP 500: |the task ended in state Exception"),
    Case("status:500:" + POST, node=False, line="HTTP 500: "),
    Case("status:503:" + POST, node=False, line="HTTP 503: "),
    Case("status:409:" + POST, node=False, line="HTTP 409: "),
    Case("html:" + POST, node=False, line="a page of HTML or XML"),
    Case("status:500:PATCH:*", node=True),
    Case(f"status:500:GET:{BLOCKS}/*:1", node=False, line="expected a document"),
    Case(
        "die-after:0",
        node=False,
        line="COMPOSING: may still be reserved: [^;]*; could not be read back: [^;/]*$",
        left=True,
    ),
    Case("failed-node", node=False, line="is Failed"),
)


class TestEachFault(unittest.TestCase):
    """One node, and pod managers that all have the same fault."""

    cases = COMPOSING[::8]  # more in the proofs

    def test_nothing_leaks_nothing_is_sold_twice_and_a_line_says_why(self):
        """A failure during the composition leaves no part attached."""
        for case in self.cases:
            early, late = ("", case.rule) if ":GET:" in case.rule else (case.rule, "")
            with self.subTest(case.rule), site(*filter(None, [early]), ttl_s=0.01) as here:
                here.add_faults(*filter(None, [late]))  # they also break readings
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
    """Check the state after everything is reconciled."""
    names = sorted(node.name for node in here.store.nodes.list())
    test.assertEqual(names, here.node_names())
    test.assertEqual([], here.blocks_used_twice())
    test.assertEqual(0, here.leak_count())
    test.assertEqual([], here.store.claims.list(("PREPARED", "HELD", "COMPOSING")))


class TestOthers(unittest.TestCase):
    """Another client composes at the same time."""

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
            done = here.provisioner._compose_node(claim, another)
            (node,), notes = done.nodes, done.notes
            self.assertRegex(notes[0], "found Composed.*, expected a free block")
            after = here.podms[part.podm].requests
            if node.podm != part.podm:
                self.assertEqual(writes, len([it for it in after if it.method != "GET"]))
            self.assertEqual("FAILED", here.store.claims.show(claim.id).state)
            lost = {(part.podm, uri) for uri in part.shares[0].blocks}
            self.assertEqual(set(), lost & {(node.podm, uri) for uri in node.blocks})

    def test_a_busy_block_that_is_accepted_again_is_given_back(self):
        """The second node is decomposed, and the first one is unchanged."""
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
    f"status:503:{DELETE}": "still exists: HTTP 503",
    f"lie:{DELETE}": "still exists: HTTP 200",
    "ghost": "still exists: the service reported its deletion",
    "if-match": None,
    "stale-tags": None,
    f"status:412:{DELETE}:1": None,
    f"busy:0:{DELETE}:2": None,
    "die-after:9": None,
}


class TestRemoving(unittest.TestCase):
    """A node that is not removed correctly."""

    step = 8  # fewer are skipped in the proofs

    def test_what_stays_is_said_and_stays_in_the_list(self):
        for rule, line in [*REMOVING.items()][:: self.step]:
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

    def test_an_interrupt_names_the_node_only_after_its_reading(self):
        for owner, name in ((RedfishComposer, "read_node"), (Connection, "write")):
            with self.subTest(name), site() as here:
                node = here.composer.compose(here.claim(request()))
                here.store.effects.clear()
                stopped = mock.patch.object(owner, name, side_effect=KeyboardInterrupt)
                with stopped, self.assertRaises(KeyboardInterrupt):
                    here.composer.remove(node)
                lines = [f"node {node.id} of {node.podm} may be gone: {RECONCILE_HINT}"]
                self.assertEqual(lines * (name == "write"), here.store.effects.unnamed_lines())


def wanted_blocks(blocks):
    return CompositionRequest(name="somebody", blocks=tuple(blocks))


def stolen(hands: GuardedComposer, blocks) -> None:
    wanted = wanted_blocks(blocks)
    outcome = hands.may_change(wanted).compose(wanted, lambda _state: None)
    assert outcome.state == "composed", outcome
