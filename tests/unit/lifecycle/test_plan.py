# SPDX-License-Identifier: Apache-2.0
"""Plans: made, refreshed, checked, and written."""

import datetime
import io
import tempfile
import unittest
from pathlib import Path

from tests.unit.lifecycle.site import request, site
from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import CORES, claimer, expire, part, podm
from tests.unit.trees import tree
from valence_sched.app import App
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import ClaimLost, InputError, InventoryIncomplete, NameTaken
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.plan import MOST_NAMED, PlanClaimer, Planner, describe_differences
from valence_sched.lifecycle.provision import Provisioner
from valence_sched.model.claim import Grant
from valence_sched.model.inventory import hidden_uri, to_json
from valence_sched.model.plan import make_plan
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store
from valence_sched.testing import request as asked
from valence_sched.testing.served import served


def planned(store, decider, what) -> PlanClaimer:
    decision = decider.decider().select_destinations(what)
    plan = make_plan(decision_report(decision), store.load_podms().values())
    return PlanClaimer(store, decider, plan)


@on_each_engine
class TestHolding:
    """Its very blocks, or nothing."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.remember(podm("p", 3))
        self.asked = asked(CORES, count=2)
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
        other = planned(self.one, claimer(self.one), asked(CORES))
        with self.assertRaisesRegex(NameTaken, "key 'k'"):
            other.claim(asked(CORES), key="k")

    def test_nothing_is_held_once_something_moved(self):
        """semantics.md, trap 5: time passes between the choice and the making."""
        self.one.remember(podm("p", 4, zone="z"))
        with self.assertRaisesRegex(ClaimLost, "zone was not told, is z; .*: block c3 added"):
            self.planned.claim(self.asked)
        self.assertEqual([], self.one.claims.list())
        self.assertEqual(2, len(self.planned.differences()))

    def test_one_that_is_dead_by_now_moved(self):
        dead = PlanClaimer(self.one, claimer(self.one), self.planned.plan, {"p": "Offline"})
        with self.assertRaisesRegex(ClaimLost, "status was Online, is Offline"):
            dead.claim(self.asked)

    def test_there_is_no_other_node_in_place_of_one_of_the_plan(self):
        self.planned.claim(self.asked)
        self.assertIsNone(self.planned.claim(self.asked).claim)
        self.assertTrue(self.planned.claim_lost)

    def test_much_that_moved_is_counted(self):
        self.one.remember(podm("p", 9))
        words = describe_differences(self.planned.differences())
        self.assertIn(f"and {6 - MOST_NAMED} more", words)


class TestComposing(unittest.TestCase):
    """What happens between the look at a plan and the write."""

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
    """A state, and a file that pod managers are recorded in."""

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
        self.assertEqual({"podm": {"b": 1}}, report.request.company.members)

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
        line = f"the plan is out of date: pod manager {basis.podm.id!r} is not here any more"
        self.assertEqual((line, basis.podm.id), (str(caught.exception), caught.exception.podm))

    def test_blocks_that_claims_hold_by_now_are_not_decided_on(self):
        plan = self.plan(str(self.file), count=3)
        with Store(self.state) as store:
            store.claims.create([part("c", store.remember(podm("c", 1, zone="z")), "c0")])
        for state in (self.state, None):  # also where no state is named
            report = self.refresh(plan, live={"state": state}).report
            self.assertEqual("nothing_fits", report.outcome)


class TestLive(PlannerCase):
    """Plans on pod managers that answer, or do not any more."""

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
        self.assertEqual((Grant("declared:power", 5.0),), part_.supplies)

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
        self.assertRegex(str(caught.exception), "^the plan cannot be compared with what is there: "
                         f"{NAME}: .*refused")  # fmt: skip

    def test_one_that_is_not_registered_any_more_is_named(self):
        self.store.unregister(NAME)
        self.store.register(Registration(name="other", url="http://127.0.0.1:1"))
        with self.assertRaises(ClaimLost) as caught:
            self.planner().claimer(self.store, self.made)
        self.assertEqual(f"the plan is out of date: pod manager {NAME!r} is not here any more",
                         str(caught.exception))  # fmt: skip
        self.assertEqual(NAME, caught.exception.podm)

    def test_one_that_reports_by_itself_is_known(self):
        self.store.update_stats("self", {"zone": "z"})
        self.record(podm("self", 1))
        plan = self.plan(str(self.file))
        self.assertEqual(["self"], [basis.podm.id for basis in plan.podms])
        claimer = self.planner().claimer(self.store, plan)
        self.assertIn(("c0", "removed"), [(one.name, one.change) for one in claimer.differences()])
