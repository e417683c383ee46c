# SPDX-License-Identifier: Apache-2.0
"""Succession: each decision equals one on an inventory with the nodes placed before."""

import copy
import unittest
from unittest import mock

from hypothesis import given, strategies as st

from tests.unit.core.deciders import built_in, cpus, engine, gpu
from tests.unit.core.sites import quietly, sized
from valence_sched.core import plugins
from valence_sched.core.decider import Decider
from valence_sched.core.fit.fit import Spending
from valence_sched.errors import PluginError, RequestError, UnknownName, UsageError
from valence_sched.model.policy import DEFAULT_BUDGET, Budget, Policy, WeigherUse
from valence_sched.planning.succession import MOST_PREPARED, Succession
from valence_sched.testing import request, view

CORES = {"processor": {"total_cores": 8}}
CARD = {**CORES, "accelerators": [{}]}
STOCK = {"stocks": [{"resource": "gib", "amount": 3}]}
WEB = {"name": "web", "anti_affinity": ["podm"]}
REQUESTS = [
    request(CORES, id="cores"),
    request(CARD, id="card", policy="pack"),
    request(STOCK, id="stock"),
    request(CORES, id="web", group=WEB),
    request(CORES, id="mine", owner="me"),
    request(CORES, id="yours", owner="you"),
    request(CORES, id="spread", group={"name": "even", "spread": [{"over": "zone"}]}),
]


def site(sizes):
    return [
        {
            "id": str(number),
            "zone": f"az{number % 2}",
            "blocks": [*cpus(size), gpu("g1"), gpu("g2")],
            "stocks": [{"uri": "s", "resource": "gib", "total": 10}],
        }
        for number, size in enumerate(sizes)
    ]


def succession(*podms):
    return Succession(Decider(view(*podms), built_in()))


def with_node(podms, asked, candidate, name):
    """Write a node into the inventory, as its pod manager would report it."""
    podms = copy.deepcopy(podms)
    podm = next(one for one in podms if one["id"] == candidate.podm)
    uris = [block.uri for block in candidate.blocks]
    for block in podm["blocks"]:
        if block["uri"] in uris:
            block["status"] = {"state": "Composed", "compositions": 1}
    for grant in candidate.grants:
        stock = podm["stocks"][0]
        stock["used"] = stock.get("used", 0) + grant.amount
    node = {"uri": name, "blocks": uris, "owner": asked.owner}
    node["group"] = asked.group.name if asked.group else None
    podm.setdefault("nodes", []).append(node)
    return podms


def placements(decision):
    return [(one.chosen.podm, one.chosen.cost, one.chosen.blocks, one.chosen.grants)
            for one in decision.placements]  # fmt: skip


class TestOwners(unittest.TestCase):
    """Nodes count for their owners, with and without a group."""

    def test_a_node_of_the_inventory_counts_for_its_owner_until_it_leaves(self):
        podms = site([2, 2])
        podms[0]["nodes"] = [{"uri": "n", "blocks": [], "owner": "me"}]
        apart = Policy(name="apart", weighers=(WeigherUse("owner"),))
        one = Succession(Decider(view(*podms), [*built_in(), apart]))
        mine = request(CORES, policy="apart", owner="me")
        self.assertEqual([500_000_000, 0], one.costs(mine).tolist())
        one.remove(0, one.view.podms[0].nodes[0])
        self.assertEqual([0, 0], one.costs(mine).tolist())

    def test_a_group_is_spread_over_the_values_that_are_open_to_it(self):
        podms = site([3, 1, 3])
        podms[2]["zone"], podms[2]["enabled"] = "az9", False
        even = {"name": "even", "spread": [{"over": "zone"}]}
        asked = request(CORES, count=5, min_count=0, group=even)
        decision = succession(*podms).decide(asked)
        self.assertEqual({"zone": ("az0", "az1")}, decision.request.group_state.open)
        fresh = engine(view(*podms)).select_destinations(asked)
        self.assertEqual(placements(fresh), placements(decision))
        self.assertEqual(3, len(decision.placements))


class TestSpending(unittest.TestCase):
    """The budgets of decisions with hard searches, single and in a batch."""

    def setUp(self):
        self.asked = [request(CORES, policy=name) for name in ("few", "many", "some")]
        policies = [Policy(name=name, budget=Budget(decision_states=states))
                    for name, states in (("few", 10), ("many", 1000), ("some", 100))]  # fmt: skip
        self.running = Succession(Decider(view(*site([1])), policies))

    def test_several_requests_have_the_most_that_one_of_their_policies_has(self):
        few, many, some = self.asked
        for requests, most in (([few], 10), ([few, some], 100), ([some, many, few], 1000)):
            self.assertEqual(most, self.running.budget(requests).decision_states)
        self.assertEqual(DEFAULT_BUDGET, self.running.budget([]))

    def test_a_decision_spends_its_own_or_what_it_is_given_as_a_part(self):
        few, *_ = self.asked
        context = self.running.decide(few).context
        self.assertEqual((0, 10), (context.other_nodes, context.spending.left))
        shared = Spending(self.running.budget(self.asked))
        for words, nodes, left in (
            ({"spending": shared}, 0, 1000),
            ({"other_nodes": 3}, 3, 10),
            ({"spending": shared, "other_nodes": 2}, 2, 1000),
        ):
            with self.subTest(words=[*words]):
                context = self.running.decide(few, **words).context
                self.assertEqual((nodes, left), (context.other_nodes, context.spending.left))
                self.assertIs("spending" in words, context.spending is shared)


class TestSuccession(unittest.TestCase):
    @quietly(sized(180))
    @given(
        st.lists(st.integers(0, 3), min_size=1, max_size=3),
        st.lists(st.tuples(st.sampled_from(REQUESTS), st.integers(0, 9)), max_size=10),
    )
    def test_each_decision_is_the_one_on_an_inventory_with_the_nodes_of_the_others(
        self, sizes, asks
    ):
        podms = site(sizes)
        running = succession(*podms)
        nodes = []  # request, fit and candidate of each present one
        for asked, leaves in asks:
            current = podms
            for number, (other, _, candidate) in enumerate(nodes):
                current = with_node(current, other, candidate, f"n{number}")
            decision = running.decide(asked)
            fresh = engine(view(*current)).select_destinations(asked)
            self.assertEqual(placements(fresh), placements(decision))
            for (_, node), placement in zip(
                decision.placed_nodes, decision.placements, strict=True
            ):
                running.take(asked, node.chosen)
                nodes.append((asked, node.chosen, placement.chosen))
            if leaves < len(nodes):
                other, fit, _ = nodes.pop(leaves)
                running.release(other, fit)

    def test_a_node_of_the_inventory_that_leaves_frees_its_blocks_and_its_place_in_the_group(self):
        (podm,) = site([1])
        podm["blocks"][0]["status"] = {"state": "Composed", "compositions": 1}
        podm["nodes"] = [{"uri": "n", "blocks": ["c0", "gone"], "group": "web"}]
        running = succession(podm)
        asked = request(CORES, group=WEB)
        self.assertEqual([], placements(running.decide(asked)))
        (node,) = running.view.podms[0].nodes
        running.remove(0, node)
        ((_, _, (block,), _),) = placements(running.decide(asked))
        self.assertEqual("c0", block.uri)

    def test_what_was_not_taken_cannot_be_given_back(self):
        running = succession(*site([1]))
        asked = request(CORES)
        ((_, node),) = running.decide(asked).placed_nodes
        with self.assertRaises(UsageError):
            running.release(asked, node.chosen)

    def test_deciding_takes_nothing(self):
        running = succession(*site([1]))
        asked = request(CORES)
        self.assertEqual(placements(running.decide(asked)), placements(running.decide(asked)))
        self.assertIs(running.view, running.view)
        self.assertEqual(3.0, running.current_view.block_counts.free.sum())

    def test_more_requests_than_are_remembered_are_decided_alike(self):
        running = succession(*site([2]))
        asked = [request(CORES, id=str(number)) for number in range(MOST_PREPARED + 2)]
        found = {str(placements(running.decide(one))) for one in (*asked, *asked[:2])}
        self.assertEqual(1, len(found))

    def test_a_plugin_that_fails_is_raised_by_a_strict_one_and_else_noted(self):
        def broken(view, request):
            raise ValueError("no answer")

        policy = Policy(name="mine", weighers=(WeigherUse("broken"),))
        asked = request(CORES, policy="mine")
        seen = view(*site([1]))
        with mock.patch.dict(plugins.load(plugins.WEIGHERS).by_name, broken=broken):
            lax = Succession(Decider(seen, [policy])).decide(asked)
            self.assertEqual(1, len(lax.placements))
            self.assertIn("'broken' failed", str(lax.context.evaluation.notes))
            strict = Succession(Decider(seen, [policy], strict=True))
            with self.assertRaisesRegex(PluginError, "'broken' failed"):
                strict.decide(asked)

    def test_a_request_is_refused_as_a_decider_refuses_it(self):
        running = succession(*site([1]))
        for asked, error in (
            (request(CORES, policy="no such"), UnknownName),
            (request(CORES, podms=["no such"]), UnknownName),
            (request(CORES, policy="chance", locations=["az1"]), RequestError),
        ):
            with self.subTest(str(error)), self.assertRaises(error):
                running.decide(asked)
