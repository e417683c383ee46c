# SPDX-License-Identifier: Apache-2.0
"""Replays: capacity is never exceeded, and means over time are exact."""

import copy
import os
import pickle
import signal
import unittest
from itertools import pairwise

from hypothesis import given, strategies as st

from tests.unit.core.deciders import built_in, cpu, cpus, engine, gpu
from tests.unit.core.sites import quietly, sized
from tests.unit.planning.sites import FLAVORS, entries_of, file_workload
from valence_sched.core.decider import Decider
from valence_sched.errors import InputError, RequestError, UnknownName
from valence_sched.model.inventory import to_json
from valence_sched.model.need import MEASURES
from valence_sched.model.replay import better_direction, measures, parse_seeds
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.model.request_spec import WorkloadEntry
from valence_sched.planning.replay import MOST_BUCKETS, ReplayRun, Timeline
from valence_sched.planning.succession import Succession
from valence_sched.planning.sweep import opened_workers
from valence_sched.planning.workload import PolicyChoice, compile_workload
from valence_sched.testing import request, view

CORES = {"processor": {"total_cores": 8}}
REQUESTS = [
    request(CORES, id="cores", flavor="cores"),
    request({**CORES, "accelerators": [{}]}, id="card", flavor="card", policy="pack"),
    request({"stocks": [{"resource": "gib", "amount": 3}]}, id="stock"),
    request(CORES, id="web", group={"name": "web", "anti_affinity": ["podm"]}),
    request(CORES, id="mine", owner="me", count=2),
    request(CORES, id="some", count=3, min_count=1),
]
WORKLOADS = st.lists(
    st.tuples(
        st.sampled_from((0, 0, 1, 7, 100)),
        st.sampled_from((None, 0, 1, 50, 1000)),
        st.sampled_from(REQUESTS),
    ),
    max_size=25,
)
MIX = Mix((FlavorShare(FLAVORS["card"].needs), FlavorShare(FLAVORS["cores"].needs)))


def site(*sizes):
    return [
        {
            "id": f"p{number}",
            "facts": {"price": number + 1.0},
            "blocks": [*cpus(size), gpu("g1"), shared("s1")],
            "stocks": [{"uri": "s", "resource": "gib", "total": 10, "used": 1}],
        }
        for number, size in enumerate(sizes)
    ]


def shared(uri):
    """Return a block that two nodes can share."""
    return cpu(uri, 8, status={"shareable": True, "max_compositions": 2})


def workload(lines):
    """Return entries with these times between arrivals, and nodes with these lifetimes."""
    entries, now = [], 0.0
    for number, (gap, lifetime, asked) in enumerate(lines, 1):
        now += gap
        departure = None if lifetime is None else now + lifetime
        entries.append(WorkloadEntry(now, departure, asked, number))
    return entries


def succession(*podms):
    return Succession(Decider(view(*podms), built_in()))


def run(podms, entries, mix=MIX, **words):
    return ReplayRun(succession(*podms), mix, **words).run(entries, "base")


class Watched(Succession):
    """Records every decision, and refuses to exceed capacity."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.decisions, self.taken = [], []

    def decide(self, request, **words):
        decision = super().decide(request, **words)
        nodes = [(node.chosen, node.cost) for _, node in decision.placed_nodes]
        self.decisions.append(nodes)
        return decision

    def take(self, request, fit):
        super().take(request, fit)
        for podm, table in enumerate(self.current_view.block_tables):
            assert min(table.slots, default=0) >= 0, (podm, table.slots)
            for stock in table.stocks:
                assert stock.used <= stock.total, stock


def watched(podms):
    return Watched(Decider(view(*podms), built_in()))


class TestReplay(unittest.TestCase):
    @quietly(sized(240))
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=3), WORKLOADS)
    def test_nothing_is_ever_over_capacity_and_every_node_is_counted_once(self, sizes, lines):
        entries = workload(lines)
        result = ReplayRun(watched(site(*sizes)), MIX).run(entries, "base")
        asked = sum(one.request.count for one in entries)
        self.assertEqual(asked, result.requested)
        self.assertEqual(asked, result.placed + result.refused + result.undecided)
        self.assertEqual(result.refused, sum(one.nodes for one in result.refusals))
        self.assertEqual(result.placed, sum(result.spread.placed.values()))
        for name in ("requested", "placed", "refused", "undecided"):
            self.assertEqual(getattr(result, name), sum(getattr(result.series, name)))
            counts = [getattr(one, name) for one in result.by_flavor]
            self.assertEqual(getattr(result, name), sum(counts))

    @quietly(sized(120))
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=3), WORKLOADS)
    def test_the_same_inputs_give_the_same_bytes(self, sizes, lines):
        first, second = (to_json(run(site(*sizes), workload(lines))) for _ in range(2))
        self.assertEqual(first, second)

    @quietly(sized(120))
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=3), WORKLOADS)
    def test_without_departures_it_is_one_decision_after_another(self, sizes, lines):
        entries = workload([(gap, None, asked) for gap, _, asked in lines])
        replayed = watched(site(*sizes))
        ReplayRun(replayed, MIX).run(entries, "base")
        podms = site(*sizes)
        for entry, nodes in zip(entries, replayed.decisions, strict=True):
            decision = engine(view(*podms)).select_destinations(entry.request)
            found = [(node.chosen, node.cost) for _, node in decision.placed_nodes]
            self.assertEqual(found, nodes)
            podms = composed(podms, entry.request, decision.placements)

    @quietly(sized(240))
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=3), WORKLOADS)
    def test_what_is_in_use_at_the_end_is_what_the_site_lacks(self, sizes, lines):
        running = succession(*site(*sizes))
        replay = ReplayRun(running, MIX)
        replay.run(workload(lines), "base")
        levels = dict(zip(replay._occupancy.totals, replay._timeline.levels, strict=False))
        tables = running.current_view.block_tables
        full = [table.kinds[block] for table in tables
                for block, slots in enumerate(table.slots) if not slots]  # fmt: skip
        kinds = running.view.kinds
        for name in ("cores", "accelerators"):
            amounts = kinds.amounts(MEASURES[name])
            self.assertEqual(sum(amounts[kind] for kind in full), levels[name])
        self.assertAlmostEqual(sum(s.used for t in tables for s in t.stocks), levels["gib"], 9)


def composed(podms, asked, placements):
    """Return the inventory with the nodes of a decision in it."""
    podms = copy.deepcopy(podms)
    for placement in placements:
        chosen = placement.chosen
        podm = next(one for one in podms if one["id"] == chosen.podm)
        uris = [block.uri for block in chosen.blocks]
        for block in podm["blocks"]:
            if block["uri"] in uris:
                status = block.setdefault("status", {})
                count = status.get("compositions", 0) + 1
                status.update(state="ComposedAndAvailable", compositions=count)
        for grant in chosen.grants:
            podm["stocks"][0]["used"] += grant.amount
        nodes = podm.setdefault("nodes", [])
        node = {"uri": f"n{len(nodes)}", "blocks": uris, "owner": asked.owner}
        node["group"] = asked.group.name if asked.group else None
        nodes.append(node)
    return podms


class TestEvents(unittest.TestCase):
    def test_what_departs_at_a_moment_departs_before_what_arrives_then(self):
        lines = [(0, 10, REQUESTS[0]), (0, 20, REQUESTS[0]), (10, None, REQUESTS[0])]
        result = run([{"id": "p", "blocks": cpus(2)}], workload(lines))
        self.assertEqual((3, 0, 1, 2), (result.placed, result.refused, result.departed,
                                        result.peak_nodes))  # fmt: skip

    def test_a_node_of_no_time_makes_room_for_the_next_at_the_same_moment(self):
        result = run([{"id": "p", "blocks": cpus(1)}], workload([(0, 0, REQUESTS[0])] * 3))
        self.assertEqual((3, 2), (result.placed, result.departed))

    def test_a_node_without_departure_stays(self):
        lines = [(0, None, REQUESTS[0]), (10**9, None, REQUESTS[0])]
        result = run([{"id": "p", "blocks": cpus(1)}], workload(lines))
        self.assertEqual((1, 1, 0), (result.placed, result.refused, result.departed))

    def test_errors_of_a_request_have_its_line(self):
        asked = request(CORES, podms=["nowhere"])
        with self.assertRaisesRegex(UnknownName, "w.csv: line 7: no pod manager named 'nowhere'"):
            run(site(1), [WorkloadEntry(0.0, None, asked, 7)], place="w.csv: line {}".format)
        asked = request(CORES, locations=["z"], policy="chance")
        with self.assertRaisesRegex(RequestError, "request 1: policy 'chance' has no"):
            run(site(1), workload([(0, None, asked)]))


class TestMemory(unittest.TestCase):
    def test_nothing_is_remembered_of_nodes_that_are_gone(self):
        running = succession(*site(3, 3))
        lines = [(1, 5, request(CORES, owner=f"o{n}", group={"name": f"g{n}"})) for n in range(20)]
        ReplayRun(running, MIX).run(workload([*lines, (99, None, REQUESTS[2])]), "base")
        self.assertEqual(1, len(running._ledger._usage))
        self.assertEqual(({}, {}), (running._counts.by_group, running._counts.by_owner))


class TestMeasures(unittest.TestCase):
    def test_utilisation_is_a_mean_over_the_time_between_the_first_and_the_last_arrival(self):
        lines = [(0, 50, REQUESTS[0]), (100, None, REQUESTS[0])]
        result = run([{"id": "p", "blocks": cpus(2)}], workload(lines))
        cores = result.utilisation["cores"]
        self.assertEqual((16, 0.25, 0.5), (cores.total, cores.mean, cores.peak))
        self.assertEqual(100, result.duration_s)
        self.assertAlmostEqual(0.25, sum(result.series.used["cores"]) / 100, 6)
        self.assertEqual(["cores"], list(result.utilisation))

    def test_spread_and_pod_managers_needed_count_nodes_of_the_inventory_too(self):
        podms = site(2, 2, 2)
        podms[2]["nodes"] = [{"uri": "n", "blocks": []}]
        result = run(podms, workload([(0, None, REQUESTS[0]), (10, None, REQUESTS[0])]))
        self.assertEqual(3, result.podms_needed)
        self.assertEqual((1.0, 1), (result.spread.mean, result.spread.most))
        self.assertEqual({"p0": 1, "p1": 1}, result.spread.placed)

    def test_cost_is_price_times_the_hours_with_nodes_and_absent_without_a_price(self):
        podms = [{"id": "p", "facts": {"price": 3.0}, "blocks": cpus(2)}]
        lines = [(0, 1800, REQUESTS[0]), (7200, 9, REQUESTS[0])]
        self.assertEqual(1.5, run(podms, workload(lines)).cost)
        self.assertIsNone(run(podms, workload(lines[:1])).cost)
        del podms[0]["facts"]
        self.assertIsNone(run(podms, workload(lines)).cost)

    def test_fragmentation_is_what_of_the_free_cards_the_mix_has_no_use_for(self):
        podms = [{"id": "a", "blocks": [*cpus(1), gpu("g")]}, {"id": "b", "blocks": [gpu("h")]}]
        mix = Mix((FlavorShare(FLAVORS["card"].needs),))
        result = run(podms, workload([(0, None, REQUESTS[2])]), mix)
        self.assertEqual(0.5, result.fragmentation.mean)
        self.assertEqual((0.5,), result.series.fragmentation)
        for found in (run(podms, workload([(0, None, REQUESTS[2])]), Mix()),
                      run([{"id": "a", "blocks": cpus(1)}], workload([]), mix)):  # fmt: skip
            self.assertIsNone(found.fragmentation)
            self.assertIsNone(found.series.fragmentation)

    def test_without_accelerators_fragmentation_is_of_the_scarcest_resource(self):
        podms = [{"id": "a", "blocks": cpus(2)}, {"id": "b", "blocks": [cpu("c", 4)]}]
        mix = Mix((FlavorShare(FLAVORS["cores"].needs),))
        result = run(podms, workload([(0, None, REQUESTS[0])]), mix)
        self.assertEqual(("cores", round(4 / 12, 6)),
                         (result.fragmentation.resource, result.fragmentation.mean))  # fmt: skip
        found = measures(result)
        self.assertEqual(result.fragmentation.mean, found["fragmentation.cores"])
        self.assertEqual("lower", better_direction("fragmentation.cores"))
        self.assertNotIn("fragmentation", found)

    def test_fragmentation_is_measured_again_where_nodes_came_and_went(self):
        podms = [{"id": "a", "blocks": [*cpus(1), gpu("g"), gpu("h")]}]
        mix = Mix((FlavorShare(FLAVORS["card"].needs),))
        lines = [(0, 50, REQUESTS[0]), (100, None, REQUESTS[2])]
        found = run(podms, workload(lines), mix)
        self.assertEqual(1.0, found.fragmentation.peak)  # without cores a card cannot be used
        self.assertEqual(found.series.fragmentation[-1], found.series.fragmentation[60])
        self.assertLess(found.series.fragmentation[60], 1.0)

    def test_the_series_is_in_a_bounded_number_of_buckets(self):
        lines = [(gap, 5, REQUESTS[0]) for gap in [1] * 150 + [40_000]]
        podms = [{"id": "p", "blocks": cpus(2)}]
        series = run(podms, workload(lines), lookahead=100).series
        self.assertLessEqual(len(series.nodes), 200)
        self.assertEqual({len(series.nodes)}, {len(series.podms), len(series.placed),
                                               *map(len, series.used.values())})  # fmt: skip


class TestRefusals(unittest.TestCase):
    PODMS = (
        {"id": "off", "status": "Offline", "blocks": cpus(4)},
        {"id": "few", "blocks": [cpu("c", 4), gpu("g")]},
        {"id": "none", "blocks": [cpu("c", 2)]},
    )

    def test_a_refusal_is_counted_where_the_last_pools_went(self):
        lines = [(0, None, one) for one in (REQUESTS[0], REQUESTS[1], REQUESTS[0], REQUESTS[4])]
        lines.append((0, None, request(CORES, flavor="cores", zone="nowhere")))
        result = run(list(self.PODMS), workload(lines))
        found = [(one.flavor, one.step, one.nodes) for one in result.refusals]
        self.assertEqual([("cores", "capacity", 2), (None, "capacity", 2), ("card", "capacity", 1),
                          ("cores", "zone", 1)], found)  # fmt: skip

    def test_blocks_that_do_not_make_the_node_are_the_step_fit(self):
        podm = {"id": "p", "blocks": [gpu("g")]}  # one card, which each of two groups needs
        asked = request({"accelerators": [{"model": "A100"}, {"kind": "GPU"}]})
        (refusal,) = run([podm], workload([(0, None, asked)])).refusals
        self.assertEqual("fit", refusal.step)

    def test_the_first_refusal_of_a_flavor_has_its_reasons_and_its_funnel(self):
        lines = [(100, None, REQUESTS[2]), (0, None, REQUESTS[0]), (5, None, REQUESTS[0])]
        first, *_ = run(list(self.PODMS), workload(lines)).first_refusals
        self.assertEqual(("cores", 2, 0.0), (first.flavor, first.line, first.time_s))
        self.assertEqual([("capacity", 2, "few", 4), ("alive", 1, "off", "Offline")],
                         [(one.reason.filter, one.podms, one.nearest, one.reason.have)
                          for one in first.reasons])  # fmt: skip
        self.assertEqual([3, 0], [first.funnel[0].came_in, first.funnel[-1].went_on])
        for before, after in pairwise(first.funnel):
            self.assertEqual(before.went_on, after.came_in)

    def test_nodes_of_a_request_that_fits_in_part_are_placed_and_refused(self):
        result = run([{"id": "p", "blocks": cpus(2)}], workload([(0, None, REQUESTS[5])]))
        self.assertEqual((3, 2, 1), (result.requested, result.placed, result.refused))
        self.assertEqual(1, len(result.first_refusals))


class TestFiles(unittest.TestCase):
    def test_a_file_is_replayed_from_its_lines(self):
        text = "flavor,arrival,duration\ncores,0,60\ncard,10,60\ncard,20,60\ncores,90,60\n"
        result = run([{"id": "p", "blocks": [*cpus(2), gpu("g")]}], entries_of(text))
        self.assertEqual((4, 3, 1, 2), (result.requested, result.placed, result.refused,
                                        result.departed))  # fmt: skip
        self.assertEqual([("card", 1), ("cores", 2)],
                         [(one.flavor, one.placed) for one in result.by_flavor])  # fmt: skip


CHANGES = st.lists(
    st.tuples(st.sampled_from((0, 1, 7, 0.25, 300, 5000)), st.integers(-3, 5)), max_size=40
)


def timeline_of(changes, width=1.0, start=10.0):
    """Return the timeline of changes with these times between them, and its end."""
    timeline = Timeline(start, width, [2.0], 1)
    moment = start
    for gap, amount in changes:
        moment += gap
        timeline.advance(moment)
        timeline.change(((0, amount),), 1.0, moment)
        timeline.counts[0] += 1
    timeline.finish(moment)
    return timeline, moment


class TestTimeline(unittest.TestCase):
    @quietly(sized(100))
    @given(CHANGES)
    def test_the_mean_is_the_integral_over_the_time(self, changes):
        timeline, end = timeline_of(changes)
        level, integral = 2.0, 0.0
        for gap, amount in changes:
            integral += level * gap
            level += amount
        expected = integral / (end - 10.0) if end > 10.0 else level
        self.assertAlmostEqual(expected, timeline.mean(0), 6)
        self.assertEqual(len(changes), timeline.edges[-1].counts[0])
        self.assertEqual([level], timeline.levels)

    @quietly(sized(100))
    @given(CHANGES)
    def test_there_are_few_buckets_and_they_cover_the_time(self, changes):
        timeline, end = timeline_of(changes)
        buckets = len(timeline.edges) - 1
        self.assertLessEqual(buckets, MOST_BUCKETS)
        covered = timeline.width * buckets
        self.assertGreaterEqual(covered, end - 10.0)
        self.assertLessEqual(covered - timeline.width, end - 10.0)

    def test_each_bucket_has_its_own_mean_and_the_sample_after_the_last_change(self):
        samples = iter(range(10))
        timeline = Timeline(0.0, 2.0, [0.0], 0, lambda: next(samples))
        timeline.change(((0, 4.0),), 1.0, 0.5)
        timeline.advance(5.0)
        timeline.change(((0, 4.0),), -1.0, 5.0)
        timeline.finish(5.5)
        self.assertEqual([3.0, 4.0, 4.0 / 1.5], timeline.means(0))
        self.assertEqual([0, 0, 1], [one.sample for one in timeline.edges[1:]])

    def test_counts_of_the_last_moment_are_in_the_last_bucket(self):
        timeline, _ = timeline_of([(0, 1), (1, 1)])
        self.assertEqual([(2,)], list(timeline.bucket_counts()))


LINES = "flavor,arrival,duration\ncores,0,5\ndisk,1,\ncard,2,7\ncores,3,5\n"


def sent(value):
    return pickle.loads(pickle.dumps(value))


class TestSent(unittest.TestCase):
    def test_requests_keep_their_identity_which_ties_are_broken_by(self):
        workload = compile_workload(file_workload(LINES), FLAVORS)
        here, there = (list(one.entries({})) for one in (workload, sent(workload)))
        self.assertEqual(here, there)
        for one, other in zip(here, there, strict=True):
            self.assertEqual(one.request.identity, other.request.identity)

    def test_a_compiled_workload_says_what_its_file_says(self):
        for choice in (PolicyChoice(), PolicyChoice("balanced"), PolicyChoice(None, "pack")):
            expected = list(file_workload(LINES).entries(FLAVORS, choice))
            workload = compile_workload(file_workload(LINES), FLAVORS)
            self.assertEqual(expected, list(workload.entries({}, choice)))
        self.assertEqual("w.csv: line 3", workload.place(3))

    def test_the_digest_is_about_everything_but_the_seed(self):
        digests = [compile_workload(file_workload(text), FLAVORS).with_seed(seed).digest()
                   for text, seed in ((LINES, 0), (LINES, 7), (LINES.replace("7", "8"), 0),
                                      (LINES.replace("disk", "card"), 0))]  # fmt: skip
        self.assertEqual(digests[0], digests[1])
        self.assertEqual(3, len(set(digests)))

    def test_errors_keep_their_kind_and_their_text(self):
        for error in (InputError("a.json", "$.x", "1", "2"), UnknownName("flavor", "x", ["y"])):
            with self.subTest(type(error)):
                other = sent(error.at("line 3"))
                self.assertEqual((type(error), str(error)), (type(other), str(other)))
                self.assertEqual(vars(error), vars(other))


class TestSeeds(unittest.TestCase):
    def test_seeds_are_sorted_and_each_once(self):
        for text, seeds in (("7", (7,)), ("1..3", (1, 2, 3)), ("9, 1..2,2", (1, 2, 9))):
            self.assertEqual(seeds, parse_seeds(text))

    def test_what_is_no_seed_is_refused(self):
        for text in ("", "-1", "1...2", "3..1", "1..2000000", "x"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse_seeds(text)


def held_signals(_task):
    """Return the process of a run, and whether it leaves Ctrl-C to another process."""
    return os.getpid(), signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


class TestInterrupts(unittest.TestCase):
    """Ctrl-C, which a terminal sends to all processes of a command."""

    def test_it_is_for_the_process_that_asked_alone(self):
        with opened_workers(2) as workers:
            found = set(workers(held_signals, range(4)))
        self.assertTrue(found)
        self.assertNotIn(os.getpid(), {process for process, _ in found})
        self.assertEqual({True}, {held for _, held in found})
        self.assertEqual((os.getpid(), False), held_signals(None))
