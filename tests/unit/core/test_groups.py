# SPDX-License-Identifier: Apache-2.0
"""Groups: the start of a group that must stay together, and the values that nodes report."""

import unittest
from collections import Counter

from hypothesis import given, strategies as st

from tests.unit.core.deciders import bound, cpus, engine_of, gpu
from tests.unit.core.sites import quietly, sized
from valence_sched.core.batch import MOST_ANCHORS
from valence_sched.core.decision import substitute_rows
from valence_sched.core.evaluation import context_of
from valence_sched.core.group_state import with_members
from valence_sched.core.policy import bind
from valence_sched.errors import PluginError
from valence_sched.model.policy import FilterUse, Policy
from valence_sched.model.request import Group, GroupState, Request
from valence_sched.testing import request, view
from valence_sched.view.terms import reads

CORES = {"processor": {"total_cores": 8}}
ZONE = {"name": "g", "affinity": ["zone"]}


def site(sizes):
    """Return a podm with room for each number of nodes; two neighbours share a zone."""
    return [
        {"id": f"p{n}", "zone": f"z{n // 2}", "facts": {"rack": str(n % 2)}, "blocks": cpus(size)}
        for n, size in enumerate(sizes)
    ]


class TestFounding(unittest.TestCase):
    def test_the_place_that_is_best_for_one_is_left_when_the_others_do_not_fit_there(self):
        podms = site([3, 0, 2, 2])
        podms[0]["blocks"] += [{"uri": "big", "devices": {"processors": [{"cores": 64}]}}]
        alone = engine_of(*podms).select_destinations(request(CORES, group=ZONE))
        self.assertEqual(["p0"], [p.chosen.podm for p in alone.placements])
        podms[0]["blocks"] = podms[0]["blocks"][2:]
        four = engine_of(*podms).select_destinations(request(CORES, group=ZONE, count=4))
        self.assertEqual({"p2", "p3"}, {p.chosen.podm for p in four.placements})

    @quietly(sized(180))
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 7))
    def test_it_is_placed_whole_just_when_one_zone_holds_it(self, sizes, count):
        asked = request(CORES, group=ZONE, count=count)
        decision = engine_of(*site(sizes)).select_destinations(asked)
        zones = [sum(sizes[n : n + 2]) for n in range(0, len(sizes), 2)]
        self.assertEqual("placed" if max(zones) >= count else "nothing_fits", decision.outcome)
        part = engine_of(*site(sizes)).select_destinations(
            request(CORES, group=ZONE, count=count, min_count=0)
        )
        self.assertEqual(min(count, max(zones)), len(part.placements))

    def test_a_place_that_holds_all_by_several_alternatives_is_found(self):
        cards = site([0, 0, 9, 0])
        cards[0]["blocks"] = [gpu("g1"), gpu("g2")]
        cards[2]["blocks"] += [gpu("g1")]
        for first_of, expected in (
            ([{"accelerators": [{}]}, CORES], {"p2": 3}),
            ([{"accelerators": [{"count": 2}]}, CORES], {"p2": 3}),
            ([CORES, {"accelerators": [{}]}], {"p2": 3}),
        ):
            with self.subTest(first_of):
                asked = request({}, first_of=first_of, group=ZONE, count=3)
                decision = engine_of(*cards).select_destinations(asked)
                self.assertEqual(expected, Counter(p.chosen.podm for p in decision.placements))
        two = request({}, first_of=[{"accelerators": [{}]}, CORES], group=ZONE, count=2)
        decision = engine_of(*cards).select_destinations(two)
        self.assertEqual([("p0", 1)] * 2, [(p.chosen.podm, p.choice) for p in decision.placements])

    def test_several_domains_are_left_together(self):
        group = {"name": "g", "affinity": ["zone", "facts.rack"]}
        asked = request(CORES, group=group, count=3)
        decision = engine_of(*site([2, 2, 1, 3])).select_destinations(asked)
        self.assertEqual({"p3"}, {p.chosen.podm for p in decision.placements})

    def test_where_the_group_is_already_it_stays(self):
        podms = site([1, 0, 5, 0])
        podms[0]["nodes"] = [{"uri": "n", "group": "g"}]
        asked = request(CORES, group=ZONE, count=2)
        self.assertEqual("nothing_fits", engine_of(*podms).select_destinations(asked).outcome)

    def test_of_two_places_with_equally_many_nodes_one_that_holds_the_others_is_chosen(self):
        for sizes, place in (([1, 0, 5, 0], "p2"), ([5, 0, 1, 0], "p0"), ([1, 0, 2, 0], None)):
            podms = site([*sizes, 9])
            for number in (0, 2):
                podms[number]["nodes"] = [{"uri": "n", "group": "g"}]
            asked = request(CORES, group=ZONE, count=3)
            placements = engine_of(*podms).select_destinations(asked).placements
            self.assertEqual([place] * 3 if place else [], [one.chosen.podm for one in placements])

    def test_the_tries_are_counted(self):
        most = MOST_ANCHORS
        podms = [{"id": f"p{n:02}", "zone": f"z{n:02}", "blocks": cpus(1)} for n in range(most + 9)]
        asked = request(CORES, group=ZONE, count=2, min_count=1)
        decision = engine_of(*podms).select_destinations(asked)
        self.assertEqual(1, len(decision.placements))


SITE = view(
    {"id": "a", "zone": "x", "aggregates": ["s", "t"], "blocks": cpus(2)},
    {"id": "b", "zone": "x", "aggregates": ["t"], "blocks": cpus(2)},
    {"id": "c", "zone": "y", "blocks": cpus(2)},
    {"id": "d", "zone": "z", "blocks": cpus(2)},
)
A, B, C, D = range(4)
WEB = Group(name="web", anti_affinity=("podm", "zone"), soft_affinity=("aggregate",))
OPEN = {"zone": ("x", "y")}


def asked(owner: str | None = None, group: Group | None = WEB, **counts) -> Request:
    return Request(group=group, owner=owner, group_state=GroupState(open=OPEN, **counts))


def state(members: dict, owned: dict) -> GroupState:
    return GroupState(members=members, owned=owned, open=OPEN)


class TestMembers(unittest.TestCase):
    """The counts with and without some nodes."""

    def test_each_node_counts_at_every_value_of_its_pod_manager_and_for_its_owner(self):
        before = asked("me", members={"podm": {"c": 1}, "zone": {"y": 1}}, owned={"c": 1})
        after = with_members(SITE, before, [A, B, A]).group_state
        members = {
            "podm": {"a": 2, "b": 1, "c": 1},
            "zone": {"x": 3, "y": 1},
            "aggregate": {"s": 2, "t": 3},
        }
        self.assertEqual(state(members, {"a": 2, "b": 1, "c": 1}), after)
        self.assertEqual({"podm": {"c": 1}, "zone": {"y": 1}}, before.group_state.members)
        self.assertEqual({"c": 1}, before.group_state.owned)

    def test_without_them_it_is_as_before_and_who_has_no_node_left_is_not_named(self):
        members = {"podm": {"c": 1}, "zone": {"y": 1}, "aggregate": {}}
        before = asked("me", members=members, owned={"c": 1})
        for rows in ([A], [A, B, A], [C, C], [D, A], []):
            with self.subTest(rows):
                after = with_members(SITE, before, rows)
                self.assertEqual(before, with_members(SITE, after, rows, -1))
        alone = with_members(SITE, before, [C], -1).group_state
        self.assertEqual(state({name: {} for name in members}, {}), alone)

    def test_what_is_taken_away_twice_is_never_below_nothing(self):
        before = asked("me", members={"podm": {"a": 1, "c": 2}}, owned={"a": 1, "c": 2})
        after = with_members(SITE, before, [A, A, C], -1).group_state
        self.assertEqual({"podm": {"c": 1}, "zone": {}, "aggregate": {}}, after.members)
        self.assertEqual({"c": 1}, after.owned)

    def test_without_an_owner_or_a_group_there_is_nothing_to_count_for_it(self):
        for owner, group, members, owned in (
            (None, WEB, {"podm": {"a": 1}, "zone": {"x": 1}, "aggregate": {"s": 1, "t": 1}}, {}),
            ("me", None, {}, {"a": 1}),
            (None, None, {}, {}),
        ):
            with self.subTest(owner=owner, group=group):
                after = with_members(SITE, asked(owner, group), [A])
                self.assertEqual(state(members, owned), after.group_state)
                left = state({name: {} for name in members}, {})
                self.assertEqual(left, with_members(SITE, after, [A], -1).group_state)


class TestSubstitutes(unittest.TestCase):
    """Rows that follow the rules of a group in place of another row."""

    POLICY = Policy(name="p", filters=(FilterUse("capacity"), FilterUse("spread")))

    def context(self, policy=None, strict: bool = False, **words):
        sealed = request({"processor": {"total_cores": 8}}, **words)
        return context_of(SITE, sealed, policy or bind(self.POLICY), strict=strict)

    def test_they_are_those_that_the_other_nodes_allow(self):
        group = {"name": "web", "anti_affinity": ["zone"]}
        context = self.context(group=group)
        counted = with_members(SITE, context.request, [A, C])
        for replaced, rows, allowed in (
            (A, [A, B, C, D], {A, B, D}),
            (C, [A, B, C, D], {C, D}),
            (A, [D, B, D], {B, D}),
            (A, [C], set()),
        ):
            with self.subTest(replaced=replaced, rows=rows):
                self.assertEqual(allowed, substitute_rows(context, counted, replaced, rows))

    def test_the_evaluation_of_the_context_stays_as_it_was(self):
        context = self.context(group={"name": "web", "anti_affinity": ["zone"]})
        before = context.evaluation.copy()
        substitute_rows(context, with_members(SITE, context.request, [A, C]), A, [A, B, C, D])
        self.assertEqual(before.verdicts.tolist(), context.evaluation.verdicts.tolist())
        self.assertEqual(before.cost.tolist(), context.evaluation.cost.tolist())

    def test_a_plugin_that_fails_is_raised_where_the_decider_is_strict_and_else_noted(self):
        @reads("group", counts_by="podm")
        def fickle(view, request):
            if request.group_state.members:
                raise ValueError("too many")
            return view.all_rows

        policy = bound(filters=(fickle,))
        group = {"name": "web", "anti_affinity": ["podm"]}
        counted = [A, C]
        lax = self.context(policy, group=group)
        with_all = with_members(SITE, lax.request, counted)
        self.assertEqual(set(), substitute_rows(lax, with_all, A, [B, D]))
        strict = self.context(policy, strict=True, group=group)
        with self.assertRaisesRegex(PluginError, "fickle.*too many"):
            substitute_rows(strict, with_all, A, [B, D])
