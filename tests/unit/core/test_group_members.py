# SPDX-License-Identifier: Apache-2.0
"""Nodes that are added to the group state of a request, and taken from it again."""

import unittest

from tests.unit.core.bound import bound
from tests.unit.core.deciders import cpus
from valence_sched.core.decision import substitute_rows
from valence_sched.core.evaluation import context_of
from valence_sched.core.group_state import with_members, without_members
from valence_sched.core.policy import bind
from valence_sched.errors import PluginError
from valence_sched.model.group import Group, GroupState
from valence_sched.model.policy import FilterUse, Policy
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.reads import reads

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
    return Request(group=group, owner=owner, company=GroupState(open=OPEN, **counts))


def state(members: dict, owned: dict) -> GroupState:
    return GroupState(members=members, owned=owned, open=OPEN)


class TestMembers(unittest.TestCase):
    """The counts after some nodes are there, and without them."""

    def test_each_node_counts_at_every_value_of_its_pod_manager_and_for_its_owner(self):
        before = asked("me", members={"podm": {"c": 1}, "zone": {"y": 1}}, owned={"c": 1})
        after = with_members(SITE, before, [A, B, A]).company
        members = {
            "podm": {"a": 2, "b": 1, "c": 1},
            "zone": {"x": 3, "y": 1},
            "aggregate": {"s": 2, "t": 3},
        }
        self.assertEqual(state(members, {"a": 2, "b": 1, "c": 1}), after)
        self.assertEqual({"podm": {"c": 1}, "zone": {"y": 1}}, before.company.members)
        self.assertEqual({"c": 1}, before.company.owned)

    def test_without_them_it_is_as_before_and_who_has_no_node_left_is_not_named(self):
        members = {"podm": {"c": 1}, "zone": {"y": 1}, "aggregate": {}}
        before = asked("me", members=members, owned={"c": 1})
        for rows in ([A], [A, B, A], [C, C], [D, A], []):
            with self.subTest(rows):
                after = with_members(SITE, before, rows)
                self.assertEqual(before, without_members(SITE, after, rows))
        alone = without_members(SITE, before, [C]).company
        self.assertEqual(state({name: {} for name in members}, {}), alone)

    def test_what_is_taken_away_twice_is_never_below_nothing(self):
        before = asked("me", members={"podm": {"a": 1, "c": 2}}, owned={"a": 1, "c": 2})
        after = without_members(SITE, before, [A, A, C]).company
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
                self.assertEqual(state(members, owned), after.company)
                left = state({name: {} for name in members}, {})
                self.assertEqual(left, without_members(SITE, after, [A]).company)


class TestSubstitutes(unittest.TestCase):
    """Rows that keep the rules of a group in place of another."""

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
            if request.company.members:
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
