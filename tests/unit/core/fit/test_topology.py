# SPDX-License-Identifier: Apache-2.0
"""Devices that share a place or are apart: the fit agrees with brute force."""

import unittest
from collections import Counter
from random import Random
from unittest import mock

import msgspec
from hypothesis import given, strategies as st

from tests.unit.core.deciders import built_in, engine
from tests.unit.core.fit import brute
from tests.unit.core.fit.covers import leave_open
from tests.unit.core.fit.topologies import TOPOLOGIES, site
from tests.unit.core.sites import A100, GPU, X86, need, quietly, sized
from valence_sched.core.explain.report import BUDGET_SHARE, decision_report
from valence_sched.core.fit.fit import Fit, Fitter, Spending, Undecided
from valence_sched.core.fit.optimiser import PropagationSearch
from valence_sched.core.fit.set_cover import price_of_needs
from valence_sched.core.fit.topology import block_offer
from valence_sched.errors import RequestError
from valence_sched.model.inventory import Devices
from valence_sched.model.need import Need, TopologyConstraint
from valence_sched.model.policy import DEFAULT_BUDGET, Budget
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.block_kinds import price
from valence_sched.view.view import View

PLACES = ("root", "rack")


def bound_site(random: Random) -> tuple[dict, tuple[Need, ...], tuple[TopologyConstraint, ...]]:
    """Return a podm of one pool whose blocks report places; also needs and their constraints."""
    some = random.choice
    makes = {
        "accelerators": lambda: {"kind": "GPU", "model": some(["A100", "A40"]),
                                 "count": some([1, 1, 2])},
        "nics": lambda: {"speed_mbps": some([10, 25]), "count": some([1, 1, 2])},
        "processors": lambda: {"cores": some([4, 6]), "architecture": some(["x86", "ARM"])},
    }  # fmt: skip
    kinds = []
    for _ in range(random.randint(2, 4)):
        names = random.sample(sorted(makes), some([1, 1, 2, 3]))
        devices = {name: [makes[name]() for _ in range(some([1, 1, 1, 2]))] for name in names}
        kinds.append({"type": [some(["Compute", "Expansion"])], "devices": devices})
    reported = some([0.0, 0.15])
    blocks = []
    for number in range(random.randint(3, 7)):
        where = {p: some("abc") for p in PLACES if random.random() >= reported}
        where |= {"rack": where["root"] * 2} if some([0, 1]) and "root" in where else {}
        blocks.append({**some(kinds), "uri": f"b{number}", **({"places": where} if where else {})})
    limit = some([{}, {}, {"Compute": {"max": 2}}, {"Expansion": {"min": 1, "max": 3}}])
    needs = []
    for name in random.sample(["gpu", "fast", "any", "nic", "cpu"], random.randint(1, 3)):
        needs.append(msgspec.structs.replace({
            "gpu": lambda: need("accelerator", "devices", some([1, 2, 2]), GPU, A100),
            "any": lambda: need("accelerator", "devices", some([1, 2])),
            "fast": lambda: need("nic", "devices", 1),
            "nic": lambda: need("nic", "devices", some([1, 2, 3])),
            "cpu": lambda: need("processor", "cores", some([4, 8, 10]), *some([(), (X86,)])),
        }[name](), name=name))  # fmt: skip
    names = [one.name for one in needs]
    constraints = []
    for _ in range(some([1, 1, 2, 3])):
        of = tuple(random.sample(names, random.randint(1, len(names))))
        relation = some(["same", "apart"])
        if relation == "apart" and of == ("cpu",):
            relation = "same"
        constraints.append(TopologyConstraint(relation, some(PLACES), of))
    unknown = some(["reject", "reject", "allow"])
    asked = tuple(msgspec.structs.replace(one, unknown=unknown) for one in needs)
    blocks = [{**block, "pools": ["p"]} for block in blocks]
    podm = {"id": "a", "pools": [{"id": "p", "limits": limit}], "blocks": blocks}
    return podm, asked, tuple(constraints)


class TestBrute(unittest.TestCase):
    seen: Counter

    @quietly(sized(1500))
    @given(st.integers(0, 10**9))
    def test_a_node_is_found_just_when_there_is_one_and_at_the_least_price(self, seed):
        self.agrees(*bound_site(Random(seed)))

    def test_a_value_at_which_something_is_to_be_together_is_like_no_other(self):
        """Rare sites where devices must be apart at the same places."""
        for seed in (4643, 6388, 9643, 17696, 20864):
            with self.subTest(seed):
                self.agrees(*bound_site(Random(seed)))

    def test_the_sites_are_neither_all_possible_nor_all_impossible(self):
        made = Counter()
        for seed in range(300):
            podm, needs, constraints = bound_site(Random(seed))
            seen = view(podm)
            bound = Fitter(needs, seen.kinds, constraints).fit(seen, 0)
            made[bound is not None, Fitter(needs, seen.kinds).fit(seen, 0) is not None] += 1
        self.assertGreater(made[True, True], 60)
        self.assertGreater(made[False, True], 40, "the constraints forbid too little")

    def test_the_states_of_a_question_are_those_that_were_recorded(self):
        """A policy counts its budget in states."""
        states = waste = found = 0
        for seed in range(150):
            podm, needs, constraints = bound_site(Random(seed))
            seen = view(podm)
            plan = Fitter(needs, seen.kinds, constraints)
            made = plan.fit(seen, 0)
            answers = plan._answers.values()
            self.assertTrue(all(answer.complete for answer in answers))
            states += sum(answer.states for answer in answers)
            waste, found = waste + (made.waste if made else 0), found + (made is not None)
        self.assertEqual((4456, 61, 1564030), (states, found, waste))

    def agrees(
        self, podm: dict, needs: tuple[Need, ...], constraints: tuple[TopologyConstraint, ...]
    ) -> None:
        seen = view(podm)
        plan = Fitter(needs, seen.kinds, constraints)
        free = [self.block(block) for block in podm["blocks"]]
        limits = podm["pools"][0]["limits"]
        least = brute.least_price(needs, limits, free, constraints)
        found = plan.fit(seen, 0)
        self.assertEqual(least is None, found is None, (podm, needs, constraints))
        if found is None:
            label, wanted, had = plan.shortfall(seen, 0)[:3]
            self.assertTrue(label)
            self.assertGreater(wanted, had, label)
            return
        chosen = [free[number] for number in found.blocks]
        self.assertTrue(
            brute.makes_bound(needs, constraints, chosen), (podm, needs, constraints, found)
        )
        self.assertTrue(brute.within(limits, [types for types, _, _ in chosen]))
        self.assertEqual(least, sum(price(devices) for _, devices, _ in chosen))
        self.assertEqual(max(0, least - price_of_needs(plan.needs)), found.waste)

    @staticmethod
    def block(block: dict) -> brute.Block:
        devices = msgspec.convert(block["devices"], Devices)
        return block["type"], devices, block.get("places", {})


def gpus(*roots: str | None, model: str = "A100", **more) -> list[dict]:
    return [
        {"uri": f"{model}{number}", "devices": {"accelerators": [{"kind": "GPU", "model": model}]},
         **({"places": {"pcie_root": root}} if root else {}), **more}
        for number, root in enumerate(roots)
    ]  # fmt: skip


def fit(properties: dict, *blocks: dict, unknown: str = "reject") -> Fit | None:
    asked = request(properties)
    seen = view({"id": "a", "blocks": list(blocks)})
    needs = tuple(msgspec.structs.replace(one, unknown=unknown) for one in asked.needs)
    return Fitter(needs, seen.kinds, asked.topology).fit(seen, 0)


def shortfall(properties: dict, *blocks: dict) -> tuple[str, float, float]:
    asked = request(properties)
    seen = view({"id": "a", "blocks": list(blocks)})
    plan = Fitter(asked.needs, seen.kinds, asked.topology)
    assert plan.fit(seen, 0) is None
    return plan.shortfall(seen, 0)[:3]


TWO = {"accelerators": [{"model": "A100", "count": 2, "same": "pcie_root"}]}
APART = {"accelerators": [{"model": "A100", "count": 2, "apart": "pcie_root"}]}


class TestPlaces(unittest.TestCase):
    def test_two_on_one_root(self):
        self.assertEqual((1, 2), fit(TWO, *gpus("x", "y", "y")).blocks)
        self.assertIsNone(fit(TWO, *gpus("x", "y", "z")))

    def test_two_on_roots_of_their_own(self):
        self.assertEqual((0, 2), fit(APART, *gpus("x", "x", "y")).blocks)
        self.assertIsNone(fit(APART, *gpus("x", "x")))

    def test_one_block_is_one_place_even_with_two_devices(self):
        pair = gpus("x")
        pair[0]["devices"]["accelerators"][0]["count"] = 2
        self.assertEqual((0,), fit(TWO, *pair).blocks)
        self.assertIsNone(fit(APART, *pair))
        del pair[0]["places"]
        self.assertIsNone(fit(APART, *pair, unknown="allow"))

    def test_of_blocks_with_two_devices_as_many_as_there_are_devices_may_be_needed(self):
        pair = gpus("x", "y")
        for block in pair:
            block["devices"]["accelerators"][0]["count"] = 2
        self.assertEqual((0, 1), fit(APART, *pair).blocks)

    def test_an_unknown_place_serves_no_constraint_unless_the_unknown_is_allowed(self):
        """If it is allowed, an unknown place may be the shared place or a separate one."""
        for asked in (TWO, APART):
            self.assertIsNone(fit(asked, *gpus("x", None)))
            self.assertEqual((0, 1), fit(asked, *gpus("x", None), unknown="allow").blocks)
            self.assertEqual((0, 1), fit(asked, *gpus(None, None), unknown="allow").blocks)

    def test_a_total_can_share_a_place_with_devices(self):
        asked = {
            "processor": {"total_cores": 8},
            "accelerators": [{"name": "gpu", "count": 1}],
            "topology": [{"of": ["processor", "gpu"], "same": "pcie_root"}],
        }
        cpus = [{"uri": name, "devices": {"processors": [{"cores": 8}]},
                 "places": {"pcie_root": name}} for name in "xy"]  # fmt: skip
        self.assertEqual((0, 2), fit(asked, *cpus, *gpus("y")).blocks)
        self.assertIsNone(fit(asked, *cpus, *gpus("z")))

    def test_equal_groups_add_up(self):
        asked = {
            "accelerators": [{"name": "gpu", "count": 2}, {"name": "gpu", "count": 1}],
            "topology": [{"of": ["gpu"], "same": "pcie_root"}],
        }
        self.assertIsNone(fit(asked, *gpus("x", "x", "y", "y")))
        self.assertEqual((0, 1, 2), fit(asked, *gpus("x", "x", "x", "y")).blocks)

    def test_groups_apart_share_no_value(self):
        asked = {
            "accelerators": [{"name": "one", "model": "A100"}, {"name": "two", "model": "A40"}],
            "topology": [{"of": ["one", "two"], "apart": "pcie_root"}],
        }
        self.assertIsNone(fit(asked, *gpus("x"), *gpus("x", model="A40")))
        self.assertEqual((0, 2), fit(asked, *gpus("x"), *gpus("x", "y", model="A40")).blocks)

    def test_within_the_pool_all_is_together(self):
        asked = {"accelerators": [{"count": 2, "same": "zone"}]}
        self.assertEqual((0, 1), fit(asked, *gpus(None, None)).blocks)

    def test_taking_a_node_leaves_the_next_one_its_own_root(self):
        seen = view({"id": "a", "blocks": gpus("x", "y", "y", "x", "z")})
        asked = request(TWO)
        plan = Fitter(asked.needs, seen.kinds, asked.topology)
        first = plan.fit(seen, 0)
        table = seen.block_tables[0].allocate(first.blocks, ())
        seen.block_tables[0] = table
        second = plan.fit(seen, 0)
        self.assertEqual({0, 1, 2, 3}, {*first.blocks, *second.blocks})
        seen.block_tables[0] = table.allocate(second.blocks, ())
        self.assertIsNone(plan.fit(seen, 0))

    def test_pools_that_differ_in_names_only_share_one_search(self):
        podms = [{"id": str(n), "blocks": gpus(f"x{n}", f"y{n}", f"y{n}")} for n in range(20)]
        seen, asked = view(*podms), request(TWO)
        plan = Fitter(asked.needs, seen.kinds, asked.topology)
        self.assertEqual([(1, 2)] * 20, [plan.fit(seen, row).blocks for row in range(20)])
        self.assertEqual(1, len(plan._answers))

    def test_what_a_short_search_settles_is_a_quick_fit_and_what_it_leaves_open_none(self):
        seen, asked = view({"id": "a", "blocks": gpus("x", "y", "y")}), request(TWO)
        plan = Fitter(asked.needs, seen.kinds, asked.topology)
        self.assertEqual((1, 2), plan.quick_fit(seen, 0).blocks)
        few = Fitter(asked.needs, seen.kinds, asked.topology, Budget(pool_states=1))
        self.assertIsNone(few.quick_fit(seen, 0))
        self.assertEqual(Undecided(1), few.fit(seen, 0))

    def test_more_blocks_than_states_leave_the_pool_undecided(self):
        asked = request(APART)
        seen = view({"id": "a", "blocks": gpus(*(f"r{n % 40}" for n in range(60)))})
        for states, outcome in ((10, Undecided), (1_000, Fit)):
            plan = Fitter(asked.needs, seen.kinds, asked.topology, Budget(pool_states=states))
            self.assertIsInstance(plan.fit(seen, 0), outcome, states)

    def test_what_no_search_settles_leaves_the_pool_undecided(self):
        leave_open(self)
        seen, asked = site("too_few_values", 0)
        plan = Fitter(asked.needs, seen.kinds, asked.topology)
        self.assertEqual(Undecided(DEFAULT_BUDGET.pool_states), plan.fit(seen, 0))

    def test_a_node_that_may_not_be_the_cheapest_is_no_quick_fit_but_better_than_none(self):
        leave_open(self)
        seen, asked = priced_site(Random(0), 30)
        plan = Fitter(asked.needs, seen.kinds, asked.topology)
        self.assertIsNone(plan.quick_fit(seen, 0))
        self.assertIsInstance(plan.fit(seen, 0), Fit)
        self.assertFalse(any(answer.complete for answer in plan._answers.values()))

    def test_a_node_that_may_not_be_the_cheapest_has_no_needless_block(self):
        """The chosen blocks alone make the node again, and the node uses all of them."""
        leave_open(self)
        for seed in range(4):
            seen, asked = priced_site(Random(seed), 30)
            plan = Fitter(asked.needs, seen.kinds, asked.topology)
            found = plan.fit(seen, 0)
            table = seen.block_tables[0]
            others = set(range(len(table.uris))).difference(found.blocks)
            seen.block_tables[0] = table.allocate(others, ())
            self.assertEqual(found.blocks, plan.fit(seen, 0).blocks, seed)

    def test_many_roots_alike_are_tried_once(self):
        """A thousand roots of one card each: two kinds of devices are apart, none together."""
        blocks = gpus(*(f"r{n}" for n in range(1000)))
        self.assertIsNone(fit(TWO, *blocks))
        eight = {"accelerators": [{"count": 8, "apart": "pcie_root"}]}
        self.assertEqual(8, len(fit(eight, *blocks).blocks))
        halves = {
            "accelerators": [{"name": "a", "count": 4}, {"name": "b", "count": 4}],
            "topology": [{"of": ["a", "b"], "apart": "pcie_root"}],
        }
        self.assertEqual(8, len(fit(halves, *blocks).blocks))
        self.assertIsNone(fit(halves, *blocks[:7]))


def priced_site(random: Random, size: int) -> tuple[View, Request]:
    """Return NICs beside drives of different prices: the cheapest ones are not apart."""
    blocks = [
        {
            "uri": f"n{n}",
            "places": {"root": f"r{n * 4 // size}", "rack": random.choice("abcdefg")},
            "devices": {"nics": [{"speed_mbps": 10}],
                        "drives": [{"capacity_bytes": 2**30 * random.randint(1, 900)}]},
        }
        for n in range(size)
    ]  # fmt: skip
    constraints = [{"of": ["a"], "same": "root"}, {"of": ["a", "b", "c"], "apart": "rack"}]
    groups = [{"name": name, "count": 3} for name in "abc"]
    return view({"id": "a", "blocks": blocks}), request({"nics": groups, "topology": constraints})


class TestHard(unittest.TestCase):
    """Searches with a combinatorial explosion."""

    def test_many_devices_bound_in_many_ways_are_decided_within_a_share_of_the_budget(self):
        outcomes = Counter()
        for name in TOPOLOGIES:
            for seed in range(3):
                seen, asked = site(name, seed)
                with self.subTest(name, seed=seed):
                    plan, spending = Fitter(asked.needs, seen.kinds, asked.topology), Spending()
                    found = plan.fit(seen, 0, spending)
                    self.assertNotIsInstance(found, Undecided)
                    spent = DEFAULT_BUDGET.decision_states - spending.left
                    self.assertLess(spent, DEFAULT_BUDGET.pool_states / 2)
                    outcomes[found is None] += 1
        self.assertGreater(min(outcomes[True], outcomes[False]), 2)

    def test_the_optimiser_alone_agrees_with_brute_force(self):
        """The search with propagation is disabled."""
        patch = mock.patch.object(PropagationSearch, "run", lambda search, bound, states: False)
        patch.start()
        self.addCleanup(patch.stop)
        for seed in range(sized(250)):
            TestBrute.agrees(self, *bound_site(Random(seed)))

    block = staticmethod(TestBrute.block)

    def test_the_search_with_propagation_alone_finds_the_cheapest(self):
        for seed in range(sized(60)):
            seen, asked = priced_site(Random(seed), 12)
            plan = Fitter(asked.needs, seen.kinds, asked.topology)
            prices = []
            for search in (PropagationSearch.run, lambda search, bound, states: False):
                with mock.patch.object(PropagationSearch, "run", search):
                    plan._answers.clear()
                    prices.append(getattr(plan.fit(seen, 0), "waste", None))
            self.assertEqual(*prices, seed)

    def test_many_groups_of_devices_are_assigned_one_by_one(self):
        """Eight groups are 255 demands of a cover; the answers are the same as for fewer groups."""
        speeds = (10, 10, 25, 25, 40, 40, 100, 100)
        asked = request({"nics": [{"name": f"n{n}", "speed_mbps": speed, "count": 1}
                                  for n, speed in enumerate(speeds)]})  # fmt: skip
        for faster, fits in ((8, True), (7, False)):
            rates = [10, 10, 25, 25, 40, 40, 100, 100 if faster == 8 else 40]
            blocks = [{"uri": f"b{n}", "devices": {"nics": [{"speed_mbps": rate}]}}
                      for n, rate in enumerate(rates)]  # fmt: skip
            seen = view({"id": "a", "blocks": blocks})
            found = Fitter(asked.needs, seen.kinds).fit(seen, 0)
            self.assertEqual(tuple(range(8)) if fits else None, found and found.blocks)


class TestOffer(unittest.TestCase):
    """The groups of blocks for a search."""

    def test_those_without_a_place_come_first_however_they_are_listed(self):
        kinds = view({"id": "a", "blocks": gpus("x")}).kinds
        for free in ({(0, (None,)): 1, (0, ("x",)): 2}, {(0, ("x",)): 2, (0, (None,)): 1}):
            groups, _ = block_offer(free, kinds, lambda kind: 9, 9)
            self.assertEqual([((None,), 1), ((0,), 2)], [group[1:] for group in groups])


class TestWork(unittest.TestCase):
    def test_an_explanation_spends_no_more_than_its_share_and_one_question(self):
        seen, asked = site("three_domains", 2)
        budget = Budget(pool_states=20_000, decision_states=100_000)
        policy = msgspec.structs.replace(built_in()[0], name="tight", budget=budget)
        asked = msgspec.structs.replace(asked, policy="tight")
        decision = engine(seen, policy).select_destinations(asked)
        decision_report(decision)
        left = decision.context.spending.left
        self.assertGreater(left, -2 * budget.pool_states)
        self.assertLess(left, budget.decision_states // BUDGET_SHARE)


class TestShortfall(unittest.TestCase):
    """Reasons why no blocks satisfy a constraint."""

    def test_of_several_constraints_the_one_that_cannot_hold_is_named_with_the_most_there_is(self):
        pair = [*gpus("x", "x"), *gpus("y", "z", model="A40")]
        for asked, blocks, found in (
            ([("A100", 2, {"same": "pcie_root"}), ("A40", 2, {"same": "pcie_root"})], pair,
             ("GPU A40 on one pcie_root", 2, 1)),
            ([("A40", 2, {"apart": "pcie_root"}), ("A100", 2, {"apart": "pcie_root"})], pair,
             ("GPU A100, each on a pcie_root of its own", 2, 1)),
            ([("A40", 4, {"same": "pcie_root"})], gpus("x", "y", "x", "x", "y", model="A40"),
             ("GPU A40 on one pcie_root", 4, 3)),
            ([("A40", 4, {"apart": "pcie_root"})], gpus("x", "y", "x", "z", "y", model="A40"),
             ("GPU A40, each on a pcie_root of its own", 4, 3)),
            ([("A40", 1, {"same": "switch"})], pair,
             ("blocks with GPU A40 that report their switch", 1, 0)),
        ):  # fmt: skip
            with self.subTest(asked):
                groups = [{"model": m, "count": n, **constraint} for m, n, constraint in asked]
                self.assertEqual(found, shortfall({"accelerators": groups}, *blocks))

    def test_a_constraint_between_names_that_cannot_hold_is_named(self):
        for relation, other, found in (
            ("same", "y", "GPU A100 and GPU A40 on one pcie_root"),
            ("apart", "x", "GPU A100 and GPU A40 apart by pcie_root"),
        ):
            with self.subTest(relation):
                asked = {
                    "accelerators": [
                        {"name": "gpu", "model": "A100"},
                        {"name": "old", "model": "A40"},
                    ],
                    "topology": [{"of": ["gpu", "old"], relation: "pcie_root"}],
                }
                blocks = [*gpus("x"), *gpus(other, model="A40")]
                self.assertEqual((found, 1, 0), shortfall(asked, *blocks))

    def test_blocks_that_do_not_tell_their_place_count_where_the_unknown_is_allowed(self):
        for wanted, blocks, found in (
            (TWO, gpus("x", None, None), None),
            ({"accelerators": [{"model": "A100", "count": 4, "same": "pcie_root"}]},
             gpus("x", None, None, "y"), ("GPU A100 on one pcie_root", 4, 3)),
            ({"accelerators": [{"model": "A100", "count": 4, "apart": "pcie_root"}]},
             gpus("x", None, "x", None), ("GPU A100, each on a pcie_root of its own", 4, 3)),
        ):  # fmt: skip
            with self.subTest(wanted):
                asked = request(wanted)
                needs = tuple(msgspec.structs.replace(n, unknown="allow") for n in asked.needs)
                seen = view({"id": "a", "blocks": blocks})
                plan = Fitter(needs, seen.kinds, asked.topology)
                if found is None:
                    self.assertIsNotNone(plan.fit(seen, 0))
                else:
                    self.assertEqual(found, plan.shortfall(seen, 0)[:3])

    def test_constraints_that_hold_alone_and_not_together_are_named_as_one_set_of_blocks(self):
        both = {"accelerators": [{"name": "gpu", "count": 2, "same": "pcie_root"}],
                "topology": [{"of": ["gpu"], "apart": "rack"}]}  # fmt: skip
        blocks = gpus("x", "x", "y")
        for block, rack in zip(blocks, "112", strict=True):
            block["places"]["rack"] = rack
        self.assertEqual(
            ("combination of free blocks for the whole node", 1, 0), shortfall(both, *blocks)
        )


class TestRefused(unittest.TestCase):
    def test_by_what_is_wrong(self):
        cards = [{"name": "gpu"}]
        for properties, words in (
            ({"accelerators": cards, "topology": [{"of": ["gpuu"], "same": "switch"}]},
             "did you mean 'gpu'?"),
            ({"resources": {"gib": 1}, "topology": [{"of": ["stock"], "same": "switch"}]},
             "an amount without a place"),
            ({"accelerators": [{"count": 2, "apart": "zone"}]}, "are in one zone"),
            ({"memory": {"capacity_mib": 1}, "topology": [{"of": ["memory"], "apart": "switch"}]},
             "has no separate devices"),
            ({"accelerators": [{"name": "x", "same": "switch"}], "drives": [{"name": "x"}]},
             "its own name"),
            ({"accelerators": cards,
              "topology": [{"of": ["gpu"], "same": f"p{n}"} for n in range(9)]},
             "9 topology constraints, at most 8"),
        ):  # fmt: skip
            with self.subTest(words):
                with self.assertRaises(RequestError) as caught:
                    request(properties)
                self.assertIn(words, str(caught.exception))
        request({"accelerators": [{"count": 1, "apart": "zone"}]})

    def test_groups_of_alternatives_are_told_apart_by_number(self):
        """Needs in ``first_of`` are not constrained together with the common needs."""
        asked = request(
            {"accelerators": [{"same": "switch"}]},
            first_of=[{"accelerators": [{"model": "A100", "same": "switch"}]}],
        )
        self.assertEqual([("accelerator-1",), ("accelerator-2",)], [b.of for b in asked.topology])
