# SPDX-License-Identifier: Apache-2.0
"""Plans: made, refreshed, checked, and written."""

import datetime
import io
import tempfile
import unittest
from pathlib import Path

from msgspec.structs import replace

from tests.unit.lifecycle.site import request, site
from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import CORES, claimer, expire, part, podm
from tests.unit.trees import tree
from valence_sched.app import App
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import ClaimLost, InputError, InventoryIncomplete, NameTaken
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.plan import MOST_NAMED, PlanClaimer, Planner, describe_differences
from valence_sched.lifecycle.provision import Provisioner
from valence_sched.model.claim import ComposedNode, Grant
from valence_sched.model.diff import ADDED, REMOVED, Difference
from valence_sched.model.inventory import OTHERS, hidden_uri, to_json
from valence_sched.model.need import NodeRequest
from valence_sched.model.plan import make_plan
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store
from valence_sched.testing import request as node_request
from valence_sched.testing.served import served


def planned(store, decider, what) -> PlanClaimer:
    decision = decider.decider().select_destinations(what)
    plan = make_plan(decision_report(decision), store.load_podms().values())
    return PlanClaimer(store, decider, plan)


@on_each_engine
class TestHolding:
    """A plan holds its exact blocks, or nothing."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember(podm("p", 3))
        self.asked = node_request(CORES, count=2)
        self.planned = planned(self.one, claimer(self.one), self.asked)

    def again(self) -> PlanClaimer:
        return PlanClaimer(self.one, claimer(self.one), self.planned.plan)

    def test_it_is_held_once_and_the_holder_is_named_afterwards(self):
        claim = self.planned.claim(self.asked).claim
        self.assertEqual({"c0": 1, "c1": 1}, dict(claim.parts[0].blocks))
        with self.assertRaisesRegex(ClaimLost, f"block c. and 1 more .* by claim {claim.id}"):
            self.again().claim(self.asked)
        self.one.claims.release(claim.id)
        self.assertNotEqual(claim.id, self.again().claim(self.asked).claim.id)

    def test_a_claim_whose_time_is_over_is_not_in_its_way(self):
        expire(self, self.again().claim(self.asked).claim)
        self.assertIsNotNone(self.planned.claim(self.asked).claim)

    def test_a_key_is_of_one_plan(self):
        claim = self.planned.claim(self.asked, key="k").claim
        self.assertEqual(claim, self.again().claim(self.asked, key="k").claim)
        other = planned(self.one, claimer(self.one), node_request(CORES))
        with self.assertRaisesRegex(NameTaken, "key 'k'"):
            other.claim(node_request(CORES), key="k")

    def test_nothing_is_held_once_something_moved(self):
        """The hardware may change between the decision and the composition."""
        self.one.remember(podm("p", 4, zone="z"))
        line = "^the plan is out of date: .* 'p': zone was not set, is z; .*: block c3 added"
        with self.assertRaisesRegex(ClaimLost, line):
            self.planned.claim(self.asked)
        self.assertEqual([], self.one.claims.list())
        self.assertEqual(2, len(self.planned.differences()))


class TestComposing(unittest.TestCase):
    """Changes between the check of a plan and the write."""

    def test_a_block_that_is_stolen_at_the_last_moment_is_lost_and_nothing_takes_its_place(self):
        with site() as here:
            what = request()
            plan = planned(here.store, here.claimer, what)
            (placement,) = plan.plan.decision.placements
            documents = here.podms[placement.chosen.podm].documents
            uri = placement.chosen.blocks[0].uri

            def steal(point: str) -> None:
                if point == "intent":
                    status = {"CompositionState": "Composed"}
                    documents.put(uri, {**documents.get(uri), "CompositionStatus": status})

            object.__setattr__(here.composer, "checkpoint", steal)
            done = Provisioner(here.store, plan, here.composer, here.read).provision(what)
            self.assertEqual(((), True), (done.nodes, plan.claim_lost))
            self.assertIn(uri, done.failures[0])
            self.assertEqual([], here.node_names())
            self.assertEqual([], here.store.claims.list())

    def test_it_is_composed_as_it_says(self):
        with site() as here:
            what = request(count=2)
            plan = planned(here.store, here.claimer, what)
            done = Provisioner(here.store, plan, here.composer, here.read).provision(what)
            wanted = {(one.chosen.podm, *(block.uri for block in one.chosen.blocks))
                      for one in plan.plan.decision.placements}  # fmt: skip
            self.assertEqual(wanted, {(node.podm, *node.blocks) for node in done.nodes})
            with self.assertRaisesRegex(ClaimLost, "in use by node vs-"):
                PlanClaimer(here.store, here.claimer, plan.plan).claim(what)


HEAD = '{"schema": "valence-sched/inventory", "version": "1.0"}\n'
NAME = "gpu-east"


class PlannerCase(unittest.TestCase):
    """A state, and a file with recorded pod managers."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.state = f"sqlite:///{self.folder}/state.sqlite"
        self.file = self.folder / "inventory.jsonl"

    def record(self, *podms):
        self.file.write_text(HEAD + "".join(f"{to_json(one).decode()}\n" for one in podms))

    def planner(self, *sources, live=None, stdin=None, **words):
        environ = {"XDG_CONFIG_HOME": str(self.folder), "VALENCE_SCHED_STATE": self.state}
        app = App(environ=environ, stdin=stdin)
        live = ReadOptions(**{"state": self.state, "timeout_s": 10, **(live or {})})
        selection = Selection(sources=sources, live=live, **words)
        self.intake = Intake(app.config, app.sources, app.loader, selection)
        return Planner(self.intake)

    def plan(self, *sources, policy_files=(), resource_files=(), live=None, **words):
        planner = self.planner(*sources, policy_files=policy_files, resource_files=resource_files,
                               live=live)  # fmt: skip
        texts = {}
        view = self.intake.view(texts)
        decider = self.intake.decider(view, self.intake.policies())
        what = {"seed": 3, **words}
        decision = decider.select_destinations(request(**what))
        return planner.plan(decision_report(decision), texts)


class TestRecorded(PlannerCase):
    """Plans on a recording."""

    def setUp(self):
        super().setUp()
        self.record(podm("a", 2), podm("b", 0), podm("c", 1, zone="z"))

    def refresh(self, plan, **words):
        return self.planner(str(self.file), **words).refresh(plan)

    def test_it_holds_those_that_take_a_node_and_says_that_they_are_recorded(self):
        plan = self.plan(str(self.file), count=3)
        self.assertEqual(["a", "c"], sorted(basis.podm.id for basis in plan.podms))
        self.assertEqual([True, True], [basis.recorded for basis in plan.podms])
        self.assertEqual(19, len(plan.decided_at.partition("+")[0]))
        self.assertTrue(plan.decided_at.endswith("+00:00"))

    def test_what_has_not_changed_is_decided_the_same(self):
        plan = self.plan(str(self.file), count=2)
        refreshed = self.refresh(plan)
        self.assertEqual((), refreshed.changes)
        self.assertEqual(plan.decision.placements, refreshed.report.placements)
        self.assertEqual(plan.decision.request, refreshed.report.request)

    def test_what_has_changed_is_named_and_decided_anew(self):
        plan = self.plan(str(self.file), count=3)
        self.record(podm("a", 3), podm("b", 1), podm("c", 1, zone="y"))
        refreshed = self.refresh(plan)
        self.assertEqual(
            ("pod manager 'a': block c2 added", "pod manager 'c': zone was z, is y"),
            tuple(sorted(refreshed.changes)),
        )
        self.assertEqual(3, refreshed.report.placed)
        self.record(podm("b", 3))
        refreshed = self.refresh(plan)
        self.assertEqual(2, len(refreshed.changes))
        self.assertEqual({"b"}, {one.chosen.podm for one in refreshed.report.placements})

    def test_one_that_is_invalid_by_now_is_named_with_the_place(self):
        self.record(podm("a", 1), podm("b", 1))
        plan = self.plan(str(self.file), count=2)
        self.file.write_text(self.file.read_text().replace('"cores":8', '"cores":"x"', 1))
        with self.assertRaises(InputError) as caught:
            self.refresh(plan)
        place = "pod manager a: $.blocks[0].devices.processors[0].cores"
        self.assertEqual(f'{place}: found "x", expected int | null', str(caught.exception))

    def test_the_nodes_of_its_group_are_counted_as_they_are_now(self):
        apart = {"name": "g", "anti_affinity": ["podm"]}
        self.record(podm("a", 2, nodes=[{"uri": "/S/1", "group": "g"}]), podm("b", 2))
        plan = self.plan(str(self.file), group=apart)
        self.assertEqual(["b"], [one.chosen.podm for one in plan.decision.placements])
        self.record(podm("a", 2), podm("b", 2, nodes=[{"uri": "/S/1", "group": "g"}]))
        report = self.refresh(plan).report
        self.assertEqual(["a"], [one.chosen.podm for one in report.placements])
        self.assertEqual({"podm": {"b": 1}}, report.request.group_state.members)

    def test_it_is_decided_by_the_policy_of_the_plan_unless_files_are_named(self):
        plan = self.plan(str(self.file))
        self.assertEqual(plan.decision.policy, self.refresh(plan).report.policy)
        other = self.folder / "policies.yaml"
        name = plan.decision.policy.name
        other.write_text(f"policies:\n- name: {name}\n  weighers: [{{name: room}}]\n")
        refreshed = self.refresh(plan, policy_files=(str(other),))
        self.assertNotEqual(plan.decision.policy, refreshed.report.policy)
        plan = self.plan(str(self.file), policy_files=(str(other),))
        self.assertEqual(["room"], [one.name for one in plan.decision.policy.weighers])
        self.assertEqual(plan.decision.policy, self.refresh(plan).report.policy)

    def test_one_that_is_dead_by_its_last_reading_is_offline(self):
        live = {"liveness": "read:3600"}
        self.record(podm("a", 2, read_at=datetime.datetime.now(datetime.UTC).isoformat()))
        plan = self.plan(str(self.file), live=live)
        self.assertEqual(["Online"], [basis.podm.status for basis in plan.podms])
        self.assertEqual((), self.refresh(plan, live=live).changes)
        self.record(podm("a", 2, read_at="2020-02-02T00:00:00Z"))
        refreshed = self.refresh(plan, live=live)
        self.assertEqual(("pod manager 'a': status was Online, is Offline",), refreshed.changes)
        self.assertEqual("nothing_fits", refreshed.report.outcome)
        with Store(self.state) as store:
            store.update_stats("a", {"status": "Online"})
            claimer = self.planner(str(self.file), live=live).claimer(store, plan)
            self.assertEqual({"a": "Offline"}, claimer.statuses)

    def test_an_owner_is_not_told_of_nodes_of_others(self):
        for owner, uri in (("x", hidden_uri("/S/9")), ("o", "/S/9"), (None, "/S/9")):
            self.record(podm("a", 2))
            plan = self.plan(str(self.file), owner=owner)
            self.record(podm("a", 2, nodes=[{"uri": "/S/9", "owner": "o"}]))
            line = f"pod manager 'a': node {uri} added"
            self.assertEqual((line,), self.refresh(plan).changes)

    def test_of_an_inventory_only_its_pod_managers_are_stored_and_none_may_lack(self):
        plan = self.plan(str(self.file))
        (basis,) = plan.podms
        with Store(self.state) as store:
            store.update_stats(basis.podm.id, {"status": "Online"})
            self.planner(str(self.file)).claimer(store, plan)
            self.assertEqual([basis.podm.id], [*store.load_podms()])
            self.record(podm("b", 1))
            with self.assertRaises(ClaimLost) as caught:
                self.planner(str(self.file)).claimer(store, plan)
        line = f"the plan is out of date: no pod manager {basis.podm.id!r} is registered: "
        line += "register it with podm create, or plan again"
        self.assertEqual((line, basis.podm.id), (str(caught.exception), caught.exception.podm))

    def test_blocks_that_claims_hold_by_now_are_not_decided_on(self):
        plan = self.plan(str(self.file), count=3)
        with Store(self.state) as store:
            store.claims.create([part("c", store.remember(podm("c", 1, zone="z")), "c0")])
        for state in (self.state, None):  # also if no state is given
            report = self.refresh(plan, live={"state": state}).report
            self.assertEqual("nothing_fits", report.outcome)


class TestLive(PlannerCase):
    """Plans on pod managers that answer, or have stopped answering."""

    def setUp(self):
        super().setUp()
        podms = self.enterContext(served(documents={NAME: {**tree(NAME)}, "rack": {**tree(NAME)}}))
        self.store = self.enterContext(Store(self.state))
        self.one = Registration(name=NAME, url=podms[NAME].url)
        self.store.register(self.one)
        self.made = self.plan()

    def test_it_is_live_and_holds_what_it_says(self):
        (basis,) = self.made.podms
        self.assertEqual((NAME, False), (basis.podm.id, bool(basis.recorded)))
        claimer = self.planner().claimer(self.store, self.made)
        self.assertEqual([], claimer.differences())
        claim = claimer.claim(self.made.decision.request).claim
        blocks = {block.uri for block in self.made.decision.placements[0].chosen.blocks}
        self.assertEqual(blocks, {*claim.parts[0].blocks})

    def test_what_is_left_of_declared_stocks_is_held_against(self):
        resources = self.folder / "more.yaml"
        resources.write_text("- {name: power, total: 5}\n")
        files = (str(resources),)
        wanted = {**CORES, "stocks": [{"resource": "power", "amount": 3}]}
        plan = self.plan(resource_files=files, properties=wanted)
        with self.assertRaisesRegex(ClaimLost, "no stock declared:power in pool"):
            self.planner().claimer(self.store, plan).claim(plan.decision.request)
        claimer = self.planner(resource_files=files).claimer(self.store, plan)
        (part_,) = claimer.claim(plan.decision.request).claim.parts
        self.assertEqual((Grant("declared:power", 5.0),), part_.declared_stocks)

    def test_only_its_pod_managers_are_read(self):
        silent = Registration(name="silent", url="http://127.0.0.1:1")
        self.store.register(silent)
        planner = self.planner()
        planner.claimer(self.store, self.made)
        self.assertEqual({NAME}, self.intake.sources.live_ids)

    def test_those_that_standard_input_names_are_read_though_it_is_read_once(self):
        self.store.unregister(NAME)
        stdin = io.BytesIO(f"podms: {{{NAME}: {{url: '{self.one.url}'}}}}\n".encode())
        planner = self.planner(live={"podm_files": ("-",)}, stdin=stdin)
        self.assertEqual([], planner.claimer(self.store, self.made).differences())

    def test_one_that_does_not_answer_is_named_with_the_reason(self):
        self.store.change(Registration(name=NAME, url="http://127.0.0.1:1"))
        with self.assertRaises(InventoryIncomplete) as caught:
            self.planner().claimer(self.store, self.made)
        self.assertRegex(str(caught.exception), "^the plan cannot be compared with the inventory: "
                         f"{NAME}: .*refused")  # fmt: skip

    def test_one_that_is_not_registered_any_more_is_named(self):
        self.store.unregister(NAME)
        self.store.register(Registration(name="other", url="http://127.0.0.1:1"))
        with self.assertRaises(ClaimLost) as caught:
            self.planner().claimer(self.store, self.made)
        line = f"the plan is out of date: no pod manager {NAME!r} is registered: "
        line += "register it with podm create, or plan again"
        self.assertEqual(line, str(caught.exception))
        self.assertEqual(NAME, caught.exception.podm)

    def test_one_that_reports_by_itself_is_known(self):
        self.store.update_stats("self", {"zone": "z"})
        self.record(podm("self", 1))
        plan = self.plan(str(self.file))
        self.assertEqual(["self"], [basis.podm.id for basis in plan.podms])
        claimer = self.planner().claimer(self.store, plan)
        self.assertIn(("c0", "removed"), [(one.name, one.change) for one in claimer.differences()])


IDENTITY = "uuid:11111111-2222-4333-8444-555555555555"


def difference(change="health", before=None, after="OK", kind="block", name="c0"):
    return Difference(podm="p", kind=kind, name=name, change=change, before=before, after=after)


class TestDifferences(unittest.TestCase):
    """The changes since a plan, in one line."""

    def line(self, *words, **more):
        return describe_differences([difference(*words, **more)])

    def test_a_value_was_and_is(self):
        block = "pod manager 'p': block c0: "
        self.assertEqual(f"{block}health was not set, is OK", self.line())
        self.assertEqual(f"{block}cores was 8, is not set", self.line("cores", 8, None))
        self.assertEqual(f'{block}type was ["A"], is ""', self.line("type", ["A"], '""'))
        self.assertEqual("pod manager 'p': zone was a, is b",
                         self.line("zone", "a", "b", kind="podm", name="p"))  # fmt: skip

    def test_what_came_or_went_has_no_values(self):
        for change in (ADDED, REMOVED):
            self.assertEqual(f"pod manager 'p': block c0 {change}", self.line(change))
            self.assertEqual(f"pod manager 'p' {change}", self.line(change, kind="podm", name="p"))

    def test_of_a_record_only_what_differs_is_named_and_not_too_much(self):
        before = {"d": 1, "c": 1, "b": 1, "a": 1, "same": 2}
        after = {"c": 2, "b": 2, "a": 2, "same": 2, "e": 3}
        self.assertEqual(3, MOST_NAMED)
        self.assertEqual("pod manager 'p': block c0: status.a was 1, is 2, status.b was 1, is 2, "
                         "status.c was 1, is 2", self.line("status", before, after))  # fmt: skip
        self.assertEqual("pod manager 'p': block c0: status.e was not set, is 3",
                         self.line("status", {}, {"e": 3}))  # fmt: skip
        self.assertEqual("pod manager 'p': block c0: status was {\"a\":1}, is x",
                         self.line("status", {"a": 1}, "x"))  # fmt: skip

    def test_long_values_are_cut(self):
        line = self.line("v", "x" * 80, "y" * 81)
        self.assertTrue(line.endswith(f"v was {'x' * 80}, is {'y' * 79}…"), line)
        many = {name * 70: name * 80 for name in "abc"}
        self.assertEqual(300, len(self.line("v", many, {})))

    def test_some_are_named_and_the_others_counted(self):
        some = [difference(name=f"c{n}", change=ADDED) for n in range(5)]
        named = "; ".join(f"pod manager 'p': block c{n} {ADDED}" for n in range(3))
        self.assertEqual(named, describe_differences(some[:3]))
        self.assertEqual(f"{named}; and 2 more", describe_differences(some))
        self.assertEqual(f"pod manager 'p': block c0 {ADDED}; and 4 more",
                         describe_differences(some, most=1))  # fmt: skip


class TestClaims(StoreCase):
    """A plan of two of the four blocks of a pod manager."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember(podm(blocks=4))
        self.asked = node_request(CORES, count=2)
        self.planned = self.plan(self.asked)

    def plan(self, asked):
        return planned(self.one, claimer(self.one), asked)

    def again(self, **words):
        return PlanClaimer(self.one, claimer(self.one), self.planned.plan, **words)

    def lost(self, claimer_=None, owner=None):
        made = claimer_ or self.again()
        decision = made.plan.decision
        asked = replace(decision.request, owner=owner)
        made.plan = replace(made.plan, decision=replace(decision, request=asked))
        with self.assertRaises(ClaimLost) as caught:
            made.claim(asked)
        return str(caught.exception)

    def test_it_has_what_the_plan_and_the_caller_say(self):
        asked = node_request(CORES, owner="o", group={"name": "g"}, flavor="small")
        plan = self.plan(asked)
        claim = plan.claim(asked, key="k").claim
        share = claim.parts[0].shares[0]
        self.assertEqual(("o", "g", "small", "k"),
                         (claim.owner, claim.group, share.flavor, claim.key))  # fmt: skip
        self.assertAlmostEqual(TTL_S, claim.expires_at - claim.created_at)
        self.assertEqual(plan.plan.digest, plan.content(self.asked))
        found = self.one.claims.find_by_key("o", "k", plan.plan.digest)
        self.assertEqual(claim, found)
        self.one.claims.release(claim.id)
        again = PlanClaimer(self.one, claimer(self.one), plan.plan)
        other = again.claim(asked, ttl_s=9.0).claim
        self.assertEqual("o", other.owner)
        self.assertAlmostEqual(9.0, other.expires_at - other.created_at)

    def test_what_each_node_was_asked_for_is_kept_with_it(self):
        asked = node_request(CORES, flavor="small", seed=5)
        (held,) = self.plan(asked).claim(asked).claim.parts
        self.assertEqual(NodeRequest.of(asked), held.request)

    def test_the_same_key_gives_the_same_claim_and_of_single_nodes_none(self):
        claim = self.planned.claim(self.asked, key="k").claim
        self.assertEqual(claim, self.again().earlier_claim("k"))
        self.assertIsNone(self.again().earlier_claim(None))
        self.assertIsNone(self.again().earlier_claim("x"))
        self.one.claims.release(claim.id)
        other = self.plan(node_request(CORES, count=2, seed=9)).claim(self.asked, key="k").claim
        self.one.claims.split(other.id)
        with self.assertRaisesRegex(NameTaken, "key 'k#1'"):
            self.again().claim(self.asked, key="k")

    def test_what_uses_its_blocks_is_named(self):
        first = self.one.claims.create([part("p", 1, "c0", "c1", "c3")], owner="o")
        self.assertEqual(f"block c0 and 1 more of pod manager 'p' is in use by claim {first.id} "
                         "of o, which is HELD", self.lost())  # fmt: skip
        self.one.claims.release(first.id)
        second = self.one.claims.create([part("p", 1, "c1", "c2")])
        self.assertEqual(f"block c1 of pod manager 'p' is in use by claim {second.id}, "
                         "which is HELD", self.lost())  # fmt: skip
        self.one.claims.start_composing(second.id)
        node = ComposedNode(id="n", podm="p", uri="/n", claim=second.id, blocks=("c1", "c2"))
        self.one.claims.finish_composing(second.id, [node])
        self.assertEqual("block c1 of pod manager 'p' is in use by node n (claim "
                         f"{second.id}), which is COMPOSED", self.lost())  # fmt: skip

    def test_of_a_claim_on_several_pod_managers_the_node_on_this_one_is_named(self):
        self.one.remember(podm("q"))
        claim = self.one.claims.create([part("p", 1, "c1"), part("q", 1, "c1")])
        self.one.claims.start_composing(claim.id)
        self.one.claims.finish_composing(claim.id, [
            ComposedNode(id=f"n-{name}", podm=name, uri="/n", claim=claim.id, blocks=("c1",))
            for name in ("p", "q")
        ])  # fmt: skip
        self.assertIn(f"is in use by node n-p (claim {claim.id})", self.lost())

    def test_an_owner_is_told_only_of_claims_of_its_own(self):
        claim = self.one.claims.create([part("p", 1, "c1", "c2")], owner="o")
        start = "block c1 of pod manager 'p' is in use by"
        self.assertEqual(f"{start} a claim of {OTHERS}", self.lost(owner="x"))
        self.assertEqual(f"{start} claim {claim.id} of o, which is HELD", self.lost(owner="o"))

    def test_an_owner_is_not_told_of_nodes_of_others(self):
        self.one.remember(podm(blocks=4, nodes=[{"uri": "/S/9", "name": "theirs", "owner": "o"}]))
        start = "the plan is out of date: pod manager 'p': node "
        self.assertEqual(f"{start}{hidden_uri('/S/9')} added", self.lost(owner="x"))
        self.assertEqual(f"{start}/S/9 added", self.lost(owner="o"))
        self.assertEqual(f"{start}/S/9 added", self.lost())

    def test_other_blocks_are_not_in_its_way(self):
        self.one.remember(podm("q", 4))
        self.one.claims.create([part("p", 1, "c2", "c3"), part("q", 1, "c0", "c1")])
        self.assertIsNotNone(self.again().claim(self.asked).claim)

    def test_a_place_of_a_shared_block_is_not_in_its_way(self):
        devices = {"processors": [{"cores": 8}]}
        shared = {"uri": "s", "type": ["Compute"], "devices": devices,
                  "status": {"shareable": True, "max_compositions": 3}}  # fmt: skip
        self.one.remember(podm(blocks=[shared]))
        plan = self.plan(node_request(CORES))
        self.one.claims.create([part("p", 2, "s")])
        self.assertEqual({"s": 1}, dict(plan.claim(node_request(CORES)).claim.parts[0].blocks))

    def test_a_status_that_was_not_read_counts(self):
        self.assertIn(
            "status was Online, is Offline", self.lost(self.again(statuses={"p": "Offline"}))
        )
        (change,) = self.again(statuses={"p": "Offline"}).differences()
        self.assertEqual("status", change.change)

    def test_a_recording_without_identity_is_no_basis(self):
        decision = claimer(self.one).select_destinations(self.asked)
        podms = self.one.load_podms()
        for identity, recorded in ((None, {"p"}), (None, ()), (IDENTITY, {"p"})):
            with self.subTest(identity=identity, recorded=recorded):
                self.one.remember(podm(blocks=4, identity=identity))
                podms = self.one.load_podms()
                plan = make_plan(decision_report(decision), podms.values(), recorded=recorded)
                local = PlanClaimer(self.one, claimer(self.one), plan)
                if identity or not recorded:
                    self.one.claims.release(local.claim(self.asked).claim.id)
                    continue
                with self.assertRaises(ClaimLost) as caught:
                    local.claim(self.asked)
                self.assertEqual(
                    "the plan was made on a recording that does not identify the service of pod "
                    "manager 'p' (no identity): plan on a new capture (podm capture), or "
                    "live", str(caught.exception))  # fmt: skip
                self.assertEqual("p", caught.exception.podm)

    def test_only_a_conflict_counts_as_lost_to_another(self):
        self.planned.claim(self.asked)
        refused = node_request(CORES, count=1, exclude_podms=("p",))
        self.assertEqual((None, None, 0), self.planned.claim(refused))
        self.assertFalse(self.planned.claim_lost)
        self.assertIsNone(self.planned.claim(node_request(CORES)).claim)
        self.assertTrue(self.planned.claim_lost)
        self.planned.claim(refused)
        self.assertTrue(self.planned.claim_lost)

    def test_what_was_declared_is_held_up_to_its_amount(self):
        stock = {"uri": "declared:power", "resource": "power", "total": 5}
        self.one.remember(podm(blocks=4, stocks=[stock]))
        asked = node_request({**CORES, "stocks": [{"resource": "power", "amount": 2}]})
        plan = self.plan(asked)
        (part_,) = plan.claim(asked).claim.parts
        self.assertEqual((Grant("declared:power", 5.0),), part_.declared_stocks)
