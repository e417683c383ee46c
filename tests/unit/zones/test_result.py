# SPDX-License-Identifier: Apache-2.0
"""Decisions over zones as reports, with the reasons of all zones."""

import unittest
from datetime import UTC, datetime

from msgspec.structs import replace

from tests.unit.core.deciders import cpus, engine_of
from tests.unit.zones.test_selection import offer
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import InventoryIncomplete, ServiceError, UnknownName
from valence_sched.model.capacity import Capacity, PodmCapacity, ProvenMost
from valence_sched.model.decision import (
    Explanation,
    FitCounts,
    FunnelStep,
    InventorySummary,
    PlacementZone,
    PoolRef,
    SilentZone,
)
from valence_sched.model.hardware import PodmOverview, PodmSummary, StatsReport
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.lifecycle import Event, UnverifiedNode
from valence_sched.model.policy import Pick, Policy
from valence_sched.model.request import Group, Request
from valence_sched.model.zone import OtherNode, SealedRequest, ZoneSettings
from valence_sched.model.zone_registry import ZoneAmounts, ZoneInfo, info_properties
from valence_sched.testing import request
from valence_sched.zones import paths
from valence_sched.zones.report import zone_info, zone_node
from valence_sched.zones.result import (
    MIX_NOTE,
    added_capacities,
    added_fit_counts,
    drop_conflicting_alternates,
    taken_by,
    with_reasons_below,
    zoned_result,
    zoned_results,
)
from valence_sched.zones.selection import OtherOffer, PlacedOffer, Selected

NOTHING_OWN = InventorySummary(digest="", podms=0, pools=0, blocks=0, skipped=())
OWN = replace(NOTHING_OWN, digest="d", podms=2)
EAST, WEST = (SilentZone(zone=name, reason=f"{name} is away") for name in ("east", "west"))


def sealed(count: int = 1, inventory: InventorySummary = OWN, **words: object) -> SealedRequest:
    asked = Request(id="r", count=count, seed=5, **words)
    policy = Policy(name="default")
    return SealedRequest(request=asked, policy=policy, most_cost=9, inventory=inventory)


def node(podm: str, *alternates: str, zone: str = "", choice: int = 1) -> PlacedOffer:
    others = tuple(replace(offer(other, 2), zone=zone) for other in alternates)
    return PlacedOffer(choice, replace(offer(podm, 1), zone=zone), others)


def decided(placed: int, count: int = 1, **words: object):
    selected = Selected(nodes=[node(f"p{number}") for number in range(placed)], **words)
    return zoned_result(sealed(count), selected).report


class TestOne(unittest.TestCase):
    """The decision on one request."""

    def test_nodes_are_placed_with_their_zones_and_those_of_their_alternates(self):
        nodes = [node("a", "b", "c", zone="east"), node("d", choice=2)]
        report = zoned_result(sealed(2), Selected(nodes=nodes, rounds=3, answered=4)).report
        self.assertEqual(("placed", 2, 2, 2, 5), (
            report.outcome, report.requested, report.placed, report.fitting, report.seed,
        ))  # fmt: skip
        first, second = report.placements
        self.assertEqual((1, 1, "a", ["b", "c"]), (
            first.node, first.choice, first.chosen.podm, [one.podm for one in first.alternates],
        ))  # fmt: skip
        self.assertEqual(
            (2, 2, "d", ()), (second.node, second.choice, second.chosen.podm, second.alternates)
        )
        self.assertEqual(
            (PlacementZone(node=1, zone="east", alternates=("east", "east")),
             PlacementZone(node=2, zone="")),
            report.zones.placements,
        )  # fmt: skip
        self.assertEqual((3, 4), (report.zones.rounds, report.zones.answered))
        self.assertEqual((OWN, (), ()), (report.inventory, report.podms, report.funnel))

    def test_too_few_nodes_are_none_and_enough_of_them_are_a_part(self):
        report = decided(1, count=2)
        self.assertEqual(("nothing_fits", 0, 1, ()), (
            report.outcome, report.placed, report.fitting, report.placements,
        ))  # fmt: skip
        selected = Selected(nodes=[node("a")])
        report = zoned_result(sealed(2, min_count=1), selected).report
        self.assertEqual(("placed_in_part", 1), (report.outcome, report.placed))

    def test_where_a_pool_is_open_nothing_placed_is_undecided(self):
        pool = PoolRef(podm="a", pool="p")
        open_pools = {("a", "p"): pool}
        report = decided(0, undecided=open_pools)
        self.assertEqual(("undecided", (pool,)), (report.outcome, report.undecided))
        self.assertEqual("placed", decided(1, undecided=open_pools).outcome)

    def test_zones_without_a_part_are_named_in_order(self):
        zones = {one.zone: one for one in (WEST, EAST)}
        report = decided(1, silent=zones, excluded=zones, uncounted=zones)
        self.assertEqual((EAST, WEST), report.zones.silent)
        self.assertEqual((EAST, WEST), report.zones.excluded)
        self.assertEqual(
            tuple(f"zone {one} is not counted in the scarcity of the mix: {one} is away"
                  for one in ("east", "west")),
            report.warnings,
        )  # fmt: skip

    def test_a_router_whose_zones_are_all_silent_has_no_answer(self):
        silent = Selected(silent={"west": WEST, "east": EAST})
        with self.assertRaises(InventoryIncomplete) as caught:
            zoned_result(sealed(inventory=NOTHING_OWN), silent)
        self.assertEqual("no zone answered: east: east is away; west: west is away",
                         str(caught.exception))  # fmt: skip

    def test_any_answer_makes_it_a_decision(self):
        for selected, inventory in (
            (Selected(silent={"west": WEST}), OWN),
            (Selected(silent={"west": WEST}, answered=2), NOTHING_OWN),
            (Selected(), NOTHING_OWN),
        ):
            with self.subTest(selected, podms=inventory.podms):
                report = zoned_result(sealed(inventory=inventory), selected).report
                self.assertEqual("nothing_fits", report.outcome)

    def test_the_request_is_the_one_that_the_zones_were_asked(self):
        asked = Request(id="completed", count=1, seed=7)
        report = zoned_result(sealed(), Selected(nodes=[node("a")], request=asked)).report
        self.assertEqual((asked, 7), (report.request, report.seed))

    def test_reasons_of_an_engine_are_taken_over_and_its_placements_are_not(self):
        huge = request({"processor": {"total_cores": 10_000}})
        site = engine_of({"id": "x", "blocks": cpus(1)}).select_destinations(huge)
        reasons = replace(decision_report(site), warnings=("it is old",))
        uncounted = {"east": EAST}
        report = zoned_result(sealed(), Selected(uncounted=uncounted), reasons).report
        self.assertEqual(
            (reasons.inventory, reasons.podms, reasons.funnel, reasons.explanation),
            (report.inventory, report.podms, report.funnel, report.explanation),
        )
        self.assertEqual("it is old", report.warnings[0])
        self.assertIn("zone east is not counted", report.warnings[1])
        self.assertEqual("r", report.request.id)

    def test_equal_policies_have_equal_digests(self):
        one, other = decided(1), decided(0)
        self.assertEqual(one.policy_digest, other.policy_digest)
        self.assertRegex(one.policy_digest, "^[0-9a-f]{32}$")
        renamed = replace(sealed(), policy=Policy(name="pack"))
        changed = zoned_result(renamed, Selected(nodes=[node("a")])).report
        self.assertNotEqual(one.policy_digest, changed.policy_digest)


class TestSeveral(unittest.TestCase):
    """The decisions on several requests."""

    REQUESTS = (Request(id="a", count=1), Request(id="b", count=2))

    def test_all_that_is_placed_is_added_up(self):
        reports = replace(decided(1), warnings=("w", "v")), replace(decided(2, 2), warnings=("w",))
        result = zoned_results(self.REQUESTS, reports)
        self.assertEqual(("placed", 3, 3, ("w", "v")), (
            result.report.outcome, result.report.requested, result.report.placed,
            result.report.warnings,
        ))  # fmt: skip
        self.assertEqual(reports, result.report.decisions)
        self.assertEqual((OWN, (None, None)), (result.report.inventory, result.details))

    def test_where_one_fails_nothing_is_placed(self):
        earlier = zoned_result(sealed(), Selected(nodes=[node("a", zone="east")])).report
        step = FunnelStep(filter="fit", came_in=3, went_on=1)
        earlier = replace(earlier, funnel=(step,), explanation=Explanation())
        report = zoned_results(self.REQUESTS, (earlier, decided(1, 2))).report
        self.assertEqual(("nothing_fits", 3, 0), (report.outcome, report.requested, report.placed))
        first = report.decisions[0]
        self.assertEqual(("nothing_fits", 0, 1, (), ()), (
            first.outcome, first.placed, first.fitting, first.placements, first.zones.placements,
        ))  # fmt: skip
        self.assertEqual(((), None), (first.funnel, first.explanation))
        self.assertEqual(earlier.zones.answered, first.zones.answered)

    def test_only_the_one_that_failed_may_leave_it_undecided(self):
        open_pools = {("a", "p"): PoolRef(podm="a", pool="p")}
        failed, open_failed = decided(0), decided(0, undecided=open_pools)
        open_placed = decided(1, undecided=open_pools)
        for reports, outcome in (
            ((open_placed, failed), "nothing_fits"),
            ((decided(1), open_failed), "undecided"),
        ):
            with self.subTest(outcome):
                self.assertEqual(outcome, zoned_results(self.REQUESTS, reports).report.outcome)

    def test_fewer_nodes_than_asked_for_are_a_part(self):
        part = zoned_result(sealed(2, min_count=1), Selected(nodes=[node("a")])).report
        report = zoned_results(self.REQUESTS, (decided(1), part)).report
        self.assertEqual(("placed_in_part", 2), (report.outcome, report.placed))


class TestTogether(unittest.TestCase):
    """Exchange of facts between requests that are decided together."""

    def test_later_requests_know_of_each_node_its_zone_group_and_owner(self):
        selected = Selected(nodes=[node("a", zone="east"), node("b")])
        asked = Request(owner="me", group=Group(name="web"))
        self.assertEqual(
            [OtherOffer(OtherNode(token="a", group="web", owner="me"), "east"),
             OtherOffer(OtherNode(token="b", group="web", owner="me"), "")],
            [*taken_by(asked, selected)],
        )  # fmt: skip
        (first, _) = taken_by(Request(), selected)
        self.assertEqual((None, None), (first.node.group, first.node.owner))

    def test_an_alternate_that_another_request_takes_nodes_of_is_none(self):
        one = Selected(nodes=[node("a", "b", "c", zone="east")])
        two = Selected(nodes=[node("b", "a", zone="east"), node("d", "b", "e", zone="east")])
        west = Selected(nodes=[node("c", "e", zone="west")])
        drop_conflicting_alternates([one, two, west])
        found = [[alternate.candidate.podm for alternate in each.alternates]
                 for selected in (one, two, west) for each in selected.nodes]  # fmt: skip
        # its own nodes and a pod manager of the same name in another zone are no conflict
        self.assertEqual([["c"], [], ["b", "e"], ["e"]], found)


HUGE = request({"processor": {"total_cores": 10_000}})
SMALL = request({"processor": {"total_cores": 1}})


def refused(*names):
    site = ({"id": name, "blocks": cpus(1)} for name in names)
    return decision_report(engine_of(*site).select_destinations(HUGE))


class TestReasons(unittest.TestCase):
    """Verdicts have the path of their pod manager; steps of funnels add up."""

    def test_children_are_named_and_funnels_add_up(self):
        own, east = refused("a"), refused("b", "c")
        found = with_reasons_below(own, {"east": replace(east, warnings=("it is old",))})
        self.assertEqual(["a", "east/b", "east/c"], [one.podm for one in found.podms])
        self.assertTrue(all(one.reason for one in found.podms))
        self.assertEqual([step.filter for step in own.funnel],
                         [step.filter for step in found.funnel])  # fmt: skip
        self.assertEqual(own.funnel[0].came_in + east.funnel[0].came_in, found.funnel[0].came_in)
        self.assertEqual((3, 3), (found.inventory.podms, found.inventory.blocks))
        self.assertNotIn(found.inventory.digest, (own.inventory.digest, east.inventory.digest))
        self.assertEqual((*own.warnings, "zone east: it is old"), found.warnings)

    def test_what_no_zone_tells_is_said_once_and_what_one_tells_is_not(self):
        line = "no pod manager reports 'facts.x' (no name is known)"
        other = "no pod manager reports 'y'"
        hint = "no pod manager reports 'facts.x' (did you mean 'z'?)"
        for own in (replace(refused("a"), warnings=("old", line, other)), None):
            east = replace(refused("b"), warnings=(hint, "old"))
            west = replace(refused("c"), warnings=(line, other))
            found = with_reasons_below(own, {"east": east, "west": west}).warnings
            self.assertEqual([(line if own else hint)], [one for one in found if "reports" in one])
            self.assertIn("zone east: old", found)

    def test_what_only_one_zone_lacks_is_not_said(self):
        here, there = "no pod manager is in the zone 'x' (did you mean 'y'?)", "no pod manager is"
        there += " in the zone 'x' (no name is known)"
        for east, expected in (
            ((), ()),
            ((there,), (here,)),
            (("no pod manager reports 'z'",), ()),
            (("no placement has more than 2",), ("zone east: no placement has more than 2",)),
        ):
            below = {"east": replace(refused("b"), warnings=east)}
            found = with_reasons_below(replace(refused("a"), warnings=(here,)), below)
            self.assertEqual(expected, found.warnings)

    def test_a_device_that_no_zone_has_is_named_once(self):
        line = "no accelerator has the model 'H20' (did you mean 'H200'?)"
        zones = {name: replace(refused(name), warnings=(line,)) for name in ("east", "west")}
        self.assertEqual((line,), with_reasons_below(None, zones).warnings)
        east = {"east": zones["east"], "west": refused("b")}
        self.assertEqual((), with_reasons_below(None, east).warnings)

    def test_what_is_undecided_adds_up_as_well(self):
        own, east = refused("a"), refused("b")
        steps = [FunnelStep(filter="fit", came_in=3, went_on=1, undecided=n) for n in (2, 5)]
        own, east = replace(own, funnel=(steps[0],)), replace(east, funnel=(steps[1],))
        (step,) = with_reasons_below(own, {"east": east}).funnel
        self.assertEqual((6, 2, 7), (step.came_in, step.went_on, step.undecided))

    def test_a_router_says_what_its_children_say(self):
        found = with_reasons_below(None, {"east": refused("b")})
        self.assertEqual(["east/b"], [one.podm for one in found.podms])
        self.assertIsNone(with_reasons_below(None, {}))

    def test_a_child_that_says_nothing_is_named_unless_it_has_nothing_of_it(self):
        below = {"east": ServiceError("it is away"), "west": UnknownName("pod manager", "p", ())}
        found = with_reasons_below(refused("a"), below)
        self.assertEqual(["zone east returned no reasons: it is away"],
                         [line for line in found.warnings if "zone" in line])  # fmt: skip

    def test_no_candidate_is_behind_where_lots_decide(self):
        sites = ({"id": name, "blocks": cpus(1)} for name in ("a", "b"))
        own = decision_report(engine_of(*sites).select_destinations(SMALL))
        drawn = replace(own, policy=replace(own.policy, pick=Pick(best_of=2)))
        chosen = [own.placements[0].chosen]
        found = [with_reasons_below(one, {}, chosen).explanation for one in (own, drawn)]
        self.assertEqual([own.explanation.runner_up, None], [one.runner_up for one in found])
        self.assertIsNotNone(own.explanation.runner_up)


NOTHING = (0, 0)
SETTINGS = ZoneSettings(name="dallas", capabilities="os=linux;windows, arch=x86")


def overview(name, *, status="Online", enabled=True, stocks=None, **amounts):
    """Return a pod manager with only some amounts, each free and in total."""
    names = ("cores", "memory_mib", "gpus", "accelerators", "drives", "nics")
    every = {**dict.fromkeys(names, NOTHING), **amounts}
    summary = PodmSummary(blocks=NOTHING, stocks=stocks or {}, **every)
    podm = LeanPodm(id=name, status=status, enabled=enabled)
    return PodmOverview(podm=podm, amounts=summary, pool_count=1)


def info(*podms, settings=SETTINGS, reports=None, age_s=1.0):
    told = {name: StatsReport(stats=stats, age_s=age_s) for name, stats in (reports or {}).items()}
    return zone_info("1f", settings, podms, told)


class TestZoneInfo(unittest.TestCase):
    """Name, static capabilities, and the ranges of pod managers."""

    def test_a_zone_without_pod_managers_tells_its_name_and_its_own_capabilities(self):
        """S51, S46: the static capabilities come from the settings."""
        self.assertEqual(
            {"arch": "x86", "name": "dallas", "os": "linux;windows"}, {**info_properties(info())}
        )

    def test_a_zone_without_settings_has_the_default_name_and_nothing_else(self):
        """S57: the default name."""
        self.assertEqual({"name": "default"}, {**info_properties(info(settings=ZoneSettings()))})

    def test_what_hosts_report_by_service_is_shown_as_least_and_most(self):
        """S50: ``compute_cpu 0.7,0.7`` of two hosts."""
        told = {"compute": {"cpu": 0.7, "disk": 123000, "network": 800}}
        found = info(overview("h1"), overview("h2"), reports={"h1": told, "h2": told})
        self.assertEqual(
            {
                "arch": "x86",
                "compute_cpu": "0.7,0.7",
                "compute_disk": "123000,123000",
                "compute_network": "800,800",
                "name": "dallas",
                "os": "linux;windows",
            },
            {**info_properties(found)},
        )

    def test_the_ranges_of_zones_below_are_merged_with_its_own(self):
        """S77: the least and the most of all hosts below."""
        below = [ZoneInfo(name="a", capabilities={"os": ("bsd",)},
                          services={"compute_cores": (1.0, 4.0), "storage_drives": (2.0, 2.0)}),
                 ZoneInfo(name="b", services={"compute_cores": (3.0, 9.0)})]  # fmt: skip
        found = zone_info("1f", SETTINGS, [overview("h", cores=(5, 8))], {}, below)
        self.assertEqual(
            {"compute_cores": (1.0, 9.0), "storage_drives": (2.0, 2.0)}, found.services
        )
        self.assertEqual(SETTINGS.capability_map, found.capabilities)

    def test_large_numbers_keep_all_their_digits(self):
        found = info(overview("h"), reports={"h": {"compute": {"memory": 12345678.0}}})
        self.assertEqual("12345678,12345678", info_properties(found)["compute_memory"])

    def test_numbers_are_reported_as_facts_as_well_and_words_are_left_out(self):
        told = {"facts": {"volume": {"free": 3, "kind": "ssd", "ready": True}}, "load": 0.5}
        self.assertEqual({"volume_free": (3.0, 3.0)},
                         info(overview("h"), reports={"h": told}).services)  # fmt: skip

    def test_a_report_that_is_older_than_three_intervals_does_not_count(self):
        """S47: a report expires after three intervals."""
        reports = {"h": {"compute": {"cpu": 0.7}}}
        for age_s, expected in ((90.0, {"compute_cpu": (0.7, 0.7)}), (90.1, {})):
            with self.subTest(age_s):
                self.assertEqual(
                    expected, info(overview("h"), reports=reports, age_s=age_s).services
                )

    def test_what_is_free_is_shown_of_those_that_have_any(self):
        podms = (
            overview("a", cores=(8, 64), gpus=(0, 4), stocks={"storage_gib": (5.0, 9.0)}),
            overview("b", cores=(32, 64), nics=(None, 2)),
        )
        self.assertEqual(
            {"compute_cores": (8, 32), "compute_gpus": (0, 0), "storage_storage_gib": (5.0, 5.0)},
            info(*podms).services,
        )

    def test_pod_managers_that_are_away_or_disabled_do_not_count(self):
        podms = (
            overview("a", cores=(1, 64), status="Offline"),
            overview("b", cores=(2, 64), enabled=False),
            overview("c", cores=(3, 64), status="Unknown"),
        )
        reports = {name: {"compute": {"cpu": 1}} for name in ("a", "b", "elsewhere")}
        self.assertEqual({"compute_cores": (3, 3)}, info(*podms, reports=reports).services)

    def test_it_has_the_id_by_which_a_circle_is_seen(self):
        self.assertEqual(ZoneInfo(id="1f", name="default"), info(settings=ZoneSettings()))


class TestOwnAmounts(unittest.TestCase):
    """The sums of a zone."""

    def test_amounts_are_the_sums_and_unknown_where_one_is(self):
        podms = [overview("a", cores=(1, 8)), overview("b", cores=(2, 8), gpus=(None, 4))]
        found = zone_node("z", podms, datetime.now(UTC), ()).own
        self.assertEqual((2, (3, 16), (None, 4)),
                         (found.podms, found.amounts["cores"], found.amounts["gpus"]))  # fmt: skip

    def test_a_zone_without_pod_managers_has_no_amounts(self):
        self.assertEqual(ZoneAmounts(), zone_node("z", [], datetime.now(UTC), ()).own)


AWAY = SilentZone(zone="west", reason="it is away")


def capacity(podm: str, nodes: int = 1, **words: object) -> Capacity:
    return Capacity(name="small", podms=(PodmCapacity(podm=podm, nodes=nodes),), **words)


class TestFitCounts(unittest.TestCase):
    """Nodes of one request."""

    def test_each_zone_adds_its_own_by_their_paths(self):
        found = added_fit_counts({
            "": FitCounts(podms=(("a", 1),), warnings=("old",)),
            "east": FitCounts(podms=(("b", 2), ("deep/c", 3)), warnings=("old", "old"),
                              undecided=("b",), silent=(AWAY,)),
        }, [AWAY])  # fmt: skip
        self.assertEqual((("a", 1), ("east/b", 2), ("east/deep/c", 3)), found.podms)
        self.assertEqual(("old", "zone east: old"), found.warnings)
        self.assertEqual(("east/b",), found.undecided)
        self.assertEqual(["west", "east/west"], [one.zone for one in found.silent])


class TestCapacities(unittest.TestCase):
    """Nodes of one flavor, or of a mix."""

    OWN = capacity("a", 2, podm_sums=3, site_sums=4, proven=ProvenMost(bound=2, found=2),
                   by_flavor={"small": 2}, refused="large", warnings=("old",))  # fmt: skip
    EAST = capacity("b", 5, podm_sums=6, site_sums=9, proven=ProvenMost(bound=8, found=7),
                    by_flavor={"small": 4, "large": 1}, undecided=("b",),
                    silent=(AWAY,))  # fmt: skip

    def test_the_own_pod_managers_alone_are_as_they_are(self):
        self.assertIs(self.OWN, added_capacities("", {"": self.OWN}))
        self.assertEqual((AWAY,), added_capacities("", {"": self.OWN}, [AWAY]).silent)

    def test_several_zones_are_added_up(self):
        found = added_capacities("none", {"": self.OWN, "east": self.EAST}, [AWAY])
        self.assertEqual(("small", 7, 9), (found.name, found.nodes, found.podm_sums))
        self.assertEqual(["a", "east/b"], [one.podm for one in found.podms])
        self.assertEqual(ProvenMost(bound=10, found=9), found.proven)
        self.assertEqual({"small": 6, "large": 1}, found.by_flavor)
        self.assertEqual((13, None), (found.site_sums, found.refused))
        self.assertEqual((("old",), ("east/b",)), (found.warnings, found.undecided))
        self.assertEqual(["west", "east/west"], [one.zone for one in found.silent])

    def test_what_one_zone_does_not_know_is_not_known_of_all(self):
        unknown = capacity("c")
        found = added_capacities("", {"": self.OWN, "east": unknown})
        self.assertEqual((None, None, None), (found.podm_sums, found.site_sums, found.proven))

    def test_a_single_zone_below_keeps_what_it_says_of_itself(self):
        found = added_capacities("", {"east": self.OWN})
        self.assertEqual(("east/a", 4, "large", ("zone east: old",)), (
            found.podms[0].podm, found.site_sums, found.refused, found.warnings,
        ))  # fmt: skip
        self.assertEqual(self.OWN.proven, found.proven)

    def test_a_mix_is_counted_by_each_zone_and_nothing_is_proven(self):
        found = added_capacities("", {"": self.OWN, "east": self.EAST}, mix=True)
        self.assertEqual((None, ("old", MIX_NOTE)), (found.proven, found.warnings))
        alone = added_capacities("", {"east": self.EAST}, mix=True)
        self.assertEqual((None, ()), (alone.proven, alone.warnings))

    def test_without_an_answer_nothing_is_known(self):
        found = added_capacities("small", {}, [AWAY])
        self.assertEqual(("small", 0, None, None, None), (
            found.name, found.nodes, found.site_sums, found.proven, found.refused,
        ))  # fmt: skip


class TestPaths(unittest.TestCase):
    """Paths of unverified nodes, and of the objects of events."""

    def test_events_name_what_they_are_about_by_its_way(self):
        about = Event(at=1.0, kind="held", words="x", claim="c", podm="p")
        named = paths.below("east", about)
        nothing = paths.below("east", replace(about, claim=None, podm=None))
        self.assertEqual(("east/c", "east/p"), (named.claim, named.podm))
        self.assertEqual((None, None), (nothing.claim, nothing.podm))

    def test_one_that_is_still_composing_has_its_way_in_front(self):
        node = UnverifiedNode(message="it composes", still_composing=True, node="n", podm="p",
                              claim="c")  # fmt: skip
        self.assertEqual(
            UnverifiedNode(message="zone east: it composes", still_composing=True, node="east/n",
                           podm="east/p", claim="east/c"),
            paths.unverified_below("east", node),
        )  # fmt: skip
        plain = paths.unverified_below("east", UnverifiedNode(message="it stays"))
        self.assertEqual(UnverifiedNode(message="zone east: it stays"), plain)
