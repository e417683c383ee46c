# SPDX-License-Identifier: Apache-2.0
"""The scheduler over a tree of zones."""

import contextlib
import re
import unittest
from dataclasses import replace
from pathlib import Path

from tests.unit.lifecycle.site import request
from tests.unit.zones.in_process import InProcessZone, made_nodes, served_tree
from valence_sched.errors import RequestError, ServiceError, UnknownName
from valence_sched.model.inventory import to_json
from valence_sched.model.plan import parse_plan, plan_in
from valence_sched.model.scheduler import Scheduler
from valence_sched.zones.decider import ZoneDecider
from valence_sched.zones.scheduler import ZoneScheduler

APART = {"group": {"name": "web", "anti_affinity": ["podm"]}, "owner": "alice", "count": 2}


class Answers(Scheduler):
    """The verbs of a child zone, which does not answer while it is dead."""

    def __init__(self, zone: InProcessZone) -> None:
        self._zone, self._scheduler = zone, claiming(zone)
        self.hold_offers = zone.hold_offers

    def _call(self, verb, *words, **named):
        self._zone.ask(verb.__name__)
        return getattr(self._scheduler, verb.__name__)(*words, **named)


def claiming(zone: InProcessZone) -> ZoneScheduler:
    """Return the scheduler of a zone, as in its service."""
    children = {child.name: Answers(child) for child in zone.children}
    nodes = replace(zone.nodes_here, claims=replace(zone.claims_here, below=replace(
        zone.claims_here.below, children=children)))  # fmt: skip
    below = nodes.claims.below
    zoned = ZoneDecider(
        zone.engine, zone.tree(), deadline_s=20.0, reports_below=below.reports,
        requests=below.requests,
    )  # fmt: skip
    return ZoneScheduler(zoned, nodes)


class ZoneCase(unittest.TestCase):
    """A test case with a zone with a pod manager over ``east``, which has another pod manager."""

    def setUp(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder, self.served = stack.enter_context(served_tree("top-p", "east-p"))
        self.east = self.zone("east")
        self.top = self.zone("top", self.east)
        self.scheduler = claiming(self.top)

    def zone(self, name: str, *children: InProcessZone, served: str = "") -> InProcessZone:
        podm = self.served[served or f"{name}-p"]
        zone = InProcessZone(name, self.folder, [podm], children)
        self.addCleanup(zone.store.close)
        return zone

    def held(self) -> list[str]:
        """Return the pod managers that have held blocks."""
        return sorted({*self.top.held_blocks(), *self.east.held_blocks()})


class TestClaims(ZoneCase):
    """Claims in both zones."""

    def test_a_claim_comes_with_its_decision_and_is_found_renewed_and_released(self):
        result = self.scheduler.claim(request(**APART), key="k", ttl_s=300.0)
        self.assertEqual(["east-p", "top-p"], self.held())
        report = result.decision.report
        self.assertEqual("placed", report.outcome)
        self.assertEqual({"", "east"}, {one.zone for one in report.zones.placements})
        claim = result.claim
        for found in (
            self.scheduler.claims(), self.scheduler.claims(owner="alice"),
            self.scheduler.claims(podm="top-p"), [self.scheduler.claim_record(claim.id).claim],
        ):  # fmt: skip
            self.assertEqual([claim.id], [one.id for one in found])
        self.assertEqual([], list(self.scheduler.claims(owner="bob")))
        self.assertEqual([], list(self.scheduler.claims(podm="none")))
        renewed = self.scheduler.renew(claim.id, 9000.0)
        self.assertGreater(renewed.expires_at, claim.expires_at + 5000.0)
        self.assertEqual([], list(self.scheduler.release([claim.id])))
        self.assertEqual([], self.held())
        self.assertEqual([], list(self.scheduler.claims()))
        self.assertEqual(["RELEASED"], [one.state for one in self.scheduler.claims(ended=True)])

    def test_a_key_finds_the_claim_again_without_a_decision(self):
        first = self.scheduler.claim(request(**APART), key="k")
        again = self.scheduler.claim(request(**APART), key="k")
        self.assertEqual(first.claim.id, again.claim.id)
        self.assertIsNone(again.decision)
        other = self.scheduler.claim(request(count=1))
        self.assertNotEqual(first.claim.id, other.claim.id)

    def test_the_time_of_a_claim_is_the_one_that_was_asked_for(self):
        result = self.scheduler.claim(request(**APART), ttl_s=9000.0)
        left_s = result.claim.expires_at - result.claim.created_at
        self.assertTrue(8000.0 < left_s < 9060.0, left_s)

    def test_what_fits_nowhere_is_a_decision_with_reasons_and_no_claim(self):
        huge = {"properties": {"processor": {"total_cores": 4096}}}
        result = self.scheduler.claim(request(**huge), detail="report")
        self.assertIsNone(result.claim)
        report = result.decision.report
        self.assertEqual(("nothing_fits", ["east/east-p", "top-p"]),
                         (report.outcome, [one.podm for one in report.podms]))  # fmt: skip


class TestNodes(ZoneCase):
    """Composition in both zones."""

    def test_nodes_are_composed_with_their_decision_listed_and_deleted(self):
        result = self.scheduler.compose(request(**APART), key="k", wait_s=10.0)
        self.assertEqual("placed", result.decision.report.outcome)
        self.assertEqual(["east/east-p", "top-p"], sorted(one.podm for one in result.nodes))
        ids = sorted(one.id for one in result.nodes)
        for nodes in (self.scheduler.nodes(), self.scheduler.nodes(owner="alice", live=True)):
            self.assertEqual(ids, sorted(one.node.id for one in nodes))
        self.assertEqual([], list(self.scheduler.nodes(owner="bob")))
        top = [one.node.podm for one in self.scheduler.nodes(podm="top-p")]
        self.assertEqual(["top-p"], top)
        self.assertEqual(ids[0], self.scheduler.node_record(ids[0]).node.id)
        again = self.scheduler.compose(request(**APART), key="k", wait_s=10.0)
        self.assertEqual((ids, None), (sorted(one.id for one in again.nodes), again.decision))
        self.assertEqual([], list(self.scheduler.delete_nodes(ids, wait_s=10.0)))
        self.assertEqual([], made_nodes(self.served))

    def test_what_is_taken_is_explained_as_it_was_decided(self):
        one = request(owner="alice")
        expected = self.scheduler.select_destinations(one, detail="report").report
        self.assertEqual(2, len(expected.explanation.candidates))
        for take in (self.scheduler.claim, self.scheduler.compose):
            report = take(one, detail="report").decision.report
            self.assertEqual(expected.explanation, report.explanation)
            self.assertEqual(expected.podms, report.podms)
            self.assertIsNone(take(one).decision.report.explanation)
            for claim in self.scheduler.claims():
                list(self.scheduler.release([claim.id]))
            nodes = [one.node.id for one in self.scheduler.nodes()]
            self.assertEqual([], list(self.scheduler.delete_nodes(nodes, wait_s=10.0)))

    def test_pod_managers_of_all_zones_are_asked_for_what_there_is_live(self):
        self.scheduler.compose(request(**APART), wait_s=10.0)
        seen = {name: len(podm.requests) for name, podm in self.served.items()}
        self.scheduler.nodes()
        self.assertEqual(seen, {name: len(podm.requests) for name, podm in self.served.items()})
        live = self.scheduler.nodes(live=True)
        self.assertEqual({"COMPOSED"}, {one.state for one in live})
        for name, podm in self.served.items():
            self.assertGreater(len(podm.requests), seen[name], name)

    def test_a_claim_is_composed_later(self):
        claim = self.scheduler.claim(request(**APART)).claim
        result = self.scheduler.compose_claim(claim.id, wait_s=10.0)
        self.assertEqual(2, len(result.nodes))
        self.assertEqual(2, len(made_nodes(self.served)))

    def test_it_reconciles_its_own_pod_managers_and_its_claims_below(self):
        self.scheduler.claim(request(**APART))
        self.east.dead = True
        (error,) = self.scheduler.release([self.scheduler.claims()[0].id])
        self.assertIsInstance(error, ServiceError)
        self.east.dead = False
        planned = self.scheduler.reconcile(dry_run=True)
        self.assertEqual(["east-p"], self.held())
        done = self.scheduler.reconcile()
        self.assertEqual([], self.held())
        self.assertEqual(len(planned.actions), len(done.actions))
        self.assertTrue(done.actions)
        self.assertEqual(((), ()), (planned.composing, done.composing))
        self.assertEqual(["FAILED"], [one.state for one in self.scheduler.claims(ended=True)])


class TestPlans(ZoneCase):
    """The zone of the pod manager makes and applies a plan."""

    def plan(self, podm: str):
        return self.scheduler.plan(request(podms=[podm])).plan

    def test_one_of_a_zone_below_is_held_there(self):
        plan = self.plan("east-p")
        report = self.scheduler.refresh(plan).report
        self.assertEqual(["east-p"], [one.chosen.podm for one in report.placements])
        claim = self.scheduler.claim_plan(plan, key="k", ttl_s=9000.0)
        self.assertTrue(claim.id.startswith("east/"), claim.id)
        self.assertEqual((["east/east-p"], ["east-p"]),
                         ([one.podm for one in claim.parts], self.held()))  # fmt: skip
        self.assertEqual(claim.id, self.scheduler.claim_plan(plan, key="k").id)
        self.assertGreater(claim.expires_at - claim.created_at, 8000.0)

    def test_one_is_composed_where_it_was_made(self):
        for podm, zone in (("east-p", "east/"), ("top-p", "")):
            with self.subTest(podm):
                result = self.scheduler.compose_plan(self.plan(podm), wait_s=10.0)
                self.assertEqual([f"{zone}{podm}"], [one.podm for one in result.nodes])
        self.assertEqual(2, len(made_nodes(self.served)))

    def test_a_plan_for_a_pod_manager_named_by_its_path_names_the_zone(self):
        for name in ("east/east-p", "east-p"):
            result = self.scheduler.plan(request(podms=[name], alternates=1))
            self.assertEqual(["east-p"], [one.podm.id for one in result.plan.podms])
            (placement,) = result.decision.report.zones.placements
            self.assertEqual((1, "east"), (placement.node, placement.zone))

    def test_one_names_its_zone_where_others_have_a_pod_manager_of_the_name(self):
        """The zone may be below the child; a plan that names no zone is refused."""
        e1 = InProcessZone("e1", self.folder, [self.served["east-p"]])
        north = InProcessZone("north", self.folder, [], [e1])
        east = self.zone("east2", served="east-p")
        top = self.zone("top2", north, east, served="top-p")
        for zone in (e1, north):
            self.addCleanup(zone.store.close)
        scheduler = claiming(top)
        for name in ("north/e1/east-p", "east2/east-p"):
            zone = name.rpartition("/")[0]
            plan = scheduler.plan(request(podms=[name])).plan
            self.assertEqual((zone, ["east-p"]), (plan.zone, [one.podm.id for one in plan.podms]))
            self.assertEqual(plan, parse_plan(to_json(plan), "p")[0])
            self.assertEqual([], list(scheduler.refresh(plan).changes))
            claim = scheduler.claim_plan(plan)
            self.assertEqual((name,), claim.podms)
            self.assertEqual([], list(scheduler.release([claim.id])))
        made = claiming(east).plan(request()).plan
        self.assertEqual((made, ""), (plan_in(plan_in(made, "a/b"), ""), made.zone))
        claim = claiming(east).claim_plan(plan)  # at its own zone
        self.assertEqual(("east-p",), claim.podms)
        with self.assertRaisesRegex(RequestError, "the plan does not name its zone: .* use "
                                    "north/east-p or east2/east-p in a new plan"):  # fmt: skip
            scheduler.claim_plan(made)

    def test_what_is_in_several_zones_is_no_plan(self):
        with self.assertRaisesRegex(RequestError, "these nodes are in several"):
            self.scheduler.plan(request(**APART))

    def test_what_fits_nowhere_is_a_decision_alone(self):
        huge = {"properties": {"processor": {"total_cores": 4096}}}
        result = self.scheduler.plan(request(**huge))
        self.assertEqual((None, "nothing_fits"), (result.plan, result.decision.report.outcome))


class TestLists(ZoneCase):
    """Claims and nodes of a pod manager, by its name or path."""

    def test_they_are_those_of_the_zone_that_has_it(self):
        claim = self.scheduler.claim(request(podms=["east/east-p"])).claim
        (node,) = self.scheduler.compose(request(podms=["east-p"]), wait_s=10).nodes
        for name in ("east-p", "east/east-p"):
            ids = [one.id for one in self.scheduler.claims(podm=name)]
            self.assertIn(claim.id, ids)
            self.assertEqual([node.id], [one.node.id for one in self.scheduler.nodes(podm=name)])


class TestPodms(ZoneCase):
    """Pod managers by name or path, and their reports."""

    def test_one_is_found_by_its_name_or_path(self):
        self.assertEqual("top-p", self.scheduler.podm("top-p").podm.id)
        for name in ("east-p", "east/east-p"):
            self.assertEqual("east/east-p", self.scheduler.podm(name).podm.id)
        with self.assertRaises(UnknownName):
            self.scheduler.podm("nowhere")

    def test_reports_are_kept_in_the_zone_of_the_pod_manager_until_they_are_forgotten(self):
        stats = {"facts": {"noise_db": 40}}
        for name, zone in (("top-p", self.top), ("east-p", self.east)):
            with self.subTest(name):
                self.scheduler.update_resource_stats(name, stats)
                told = zone.engine.reported_stats(name)
                self.assertEqual(told.stats, self.scheduler.reported_stats(name).stats)
                self.assertIn("noise_db", str(told.stats))
                self.scheduler.forget_report(name)
                with self.assertRaisesRegex(UnknownName, "that reported"):
                    zone.engine.reported_stats(name)


class TestReports(ZoneCase):
    """Counts of fits and held blocks, in both zones."""

    def test_nodes_that_fit_are_counted_by_pod_manager(self):
        found = self.scheduler.count_fits(request(), 9)
        self.assertEqual({"top-p": 2, "east/east-p": 2}, dict(found.podms))
        self.assertEqual(4, self.scheduler.capacity(request(), 9).nodes)

    def test_what_holds_a_block_is_the_claim_that_is_listed(self):
        claims = [self.scheduler.claim(request(podms=[podm])).claim for podm in ("east-p", "top-p")]
        claims += [claiming(self.east).claim(request()).claim]
        held = [*self.scheduler.block_usage("east-p").held.values(),
                *self.scheduler.block_usage("top-p").held.values()]  # fmt: skip
        self.assertCountEqual([claims[0].id, f"east/{claims[2].id}", claims[1].id], held)
        self.assertCountEqual(held, [one.id for one in self.scheduler.claims()])


class TestOtherVerbs(ZoneCase):
    """Verbs that are passed to the own scheduler."""

    def test_reports_and_plans_are_of_all_zones_and_the_rest_is_of_the_own_engine(self):
        self.assertEqual({"top-p", "east/east-p"}, {one.podm.id for one in self.scheduler.podms()})
        self.assertIsNotNone(self.scheduler.plan(request()).plan)
        self.assertEqual(
            [one.name for one in self.top.engine.policies()],
            [one.name for one in self.scheduler.policies()],
        )

    def test_what_is_private_is_no_verb(self):
        for name in ("_store", "__wrapped__"):
            with self.assertRaisesRegex(AttributeError, name):
                getattr(self.scheduler, name)


PAGE = Path(__file__).parents[2] / "doc" / "source" / "howto" / "zones.rst"
PODMS, READ_S, PRESET_S, KIB_A_GIB = 1_000_000, 900, 60, 1 << 20
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def section() -> str:
    """Return the section of the plan."""
    return PAGE.read_text().partition("\nCapacity of a tree\n")[2].partition("\nA tree on one")[0]


def tables(text: str) -> list[list[list[str]]]:
    """Return the rows of each table of a text; a row is a list of cells."""
    found = []
    for table in text.split(".. list-table::")[1:]:
        lines = [line for line in table.splitlines() if line.startswith(("   * - ", "     - "))]
        rows: list[list[str]] = []
        for line in lines:
            if line.startswith("   * "):
                rows.append([])
            rows[-1].append(line[7:])
        found.append(rows)
    return found


def numbers(text: str) -> list[float]:
    return [float(word.replace(",", "")) for word in _NUMBER.findall(text)]


class TestPlan(unittest.TestCase):
    """The derived figures of the page follow from its formulas and constants."""

    maxDiff = None

    def setUp(self):
        constants, plan = tables(section())
        found = {cells[0]: numbers(cells[2]) for cells in constants[1:]}
        ((self.o,), (self.d, self.e), (self.r, self.c)) = (
            found[name] for name in ("``o``", "``d``, ``e``", "``r``, ``c``")
        )
        ((self.p,), (self.l,), (self.m,)) = (found[f"``{name}``"] for name in "plm")
        self.many_bytes, self.one_bytes = found["``b``"][2:4]  # of a zone with one level below
        self.rows = {cells[0]: cells[1:] for cells in plan}
        self.fan_outs = [int(cell) for cell in self.rows["Children of each zone, ``F``"]]

    def check(self, title, *formulas):
        """Compare a row with the result of each formula for the children of a zone, as printed."""
        for fan_out, cell in zip(self.fan_outs, self.rows[title], strict=True):
            shown = _NUMBER.findall(cell)
            self.assertEqual(len(formulas), len(shown), cell)
            for formula, text in zip(formulas, shown, strict=True):
                digits = len(text.partition(".")[2])
                expected = f"{formula(fan_out) + 1e-9:,.{digits}f}"
                self.assertEqual(expected, text, f"{title}, F = {fan_out}: {cell}")

    def podms(self, fan_out):
        return PODMS / fan_out**2

    def lowest_ms(self, fan_out):
        return self.o + self.d + self.e * self.podms(fan_out) / 1000

    def router_ms(self, fan_out):
        return self.r + self.c * fan_out

    def test_zones_and_pod_managers(self):
        self.check("Zones in all", lambda f: 1 + f + f * f)
        self.check("Pod managers of a lowest zone", self.podms)

    def test_times_of_a_decision(self):
        self.check("A lowest zone, for a new request", self.lowest_ms)
        self.check("A router, for a decision", self.router_ms)
        self.check("Time of a decision", lambda f: self.lowest_ms(f) + 2 * self.router_ms(f))
        self.check(
            "Decisions a second of a lowest zone, of a router",
            lambda f: 1000 / self.lowest_ms(f),
            lambda f: 1000 / self.router_ms(f),
        )

    def test_answers(self):
        self.check(
            "Data that the top zone reads for a decision", lambda f: self.one_bytes * f / 1000
        )
        self.check("Data for a decision on 100 nodes", lambda f: self.many_bytes * f / 10_000)

    def test_polls_memory_and_readings(self):
        self.check("Time of a poll of a lowest zone", lambda f: self.podms(f) * self.p / 1000)
        self.check(
            "Additional memory of each process, compared with a router",
            lambda f: self.podms(f) * self.m / KIB_A_GIB,
        )
        self.check(
            "Processors for readings in each lowest zone",
            lambda f: self.podms(f) * self.l / 1000 / READ_S,
        )
        all_s = PODMS * self.l / 1000
        text = (
            f"{all_s / READ_S:.1f} in all with ``T`` of 15 minutes, "
            f"and {all_s / PRESET_S:.0f} with one minute"
        )
        self.assertIn(text, " ".join(section().split()))
