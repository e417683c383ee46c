# SPDX-License-Identifier: Apache-2.0
"""The most nodes: brute force agrees, and bound >= optimum >= nodes placed one by one."""

import itertools
import os
import subprocess
import sys
import unittest
from collections import Counter
from dataclasses import replace
from random import Random
from unittest import mock

import msgspec
from hypothesis import assume, given, strategies as st

from tests.benchmarks import instances
from tests.unit.core.deciders import built_in, cpu, cpus, engine, gpu
from tests.unit.core.fit import brute
from tests.unit.core.sites import AMOUNTS, POOLS, STOCKS, near_site, need, quietly, sites, sized
from tests.unit.planning.optimise import brute_nodes
from valence_sched.core.evaluation import context_of
from valence_sched.core.fit import optimiser
from valence_sched.core.fit.optimiser import Effort
from valence_sched.core.policy import bind
from valence_sched.errors import RequestError
from valence_sched.model.inventory import Status, Stock
from valence_sched.model.need import Alternative, Need
from valence_sched.planning.fit_counts import count_fits
from valence_sched.planning.optimise import model as count_model
from valence_sched.planning.optimise.bound import Optimum, mix_counts, mix_size, most_nodes
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.testing import request, view
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View

MOST_BLOCKS = 6  # of a podm, by brute force


def node_type(*needs: Need, most: int | None = None, name: str = "x") -> NodeType:
    return NodeType(name, (Alternative(needs=needs),), None, most)


def cut(podms: list[dict]) -> list[dict]:
    return [{**podm, "blocks": podm["blocks"][:MOST_BLOCKS]} for podm in podms]


def is_shared(podms: list[dict]) -> bool:
    """Return whether several more nodes can use a block."""
    statuses = (block.get("status", {}) for podm in podms for block in podm["blocks"])
    return any(brute_nodes.slots_of(msgspec.convert(one, Status)) > 1 for one in statuses)


class SolverCase(unittest.TestCase):
    """Checks results of the solver."""

    def check_nodes(self, seen: View, optimum: Optimum) -> None:
        """Check that the nodes can be placed one after another, each from free blocks."""
        overlay = Overlay(seen)
        for node in optimum.nodes:
            table = overlay.view.block_tables[seen.podm_of[node.fit.row]]
            self.assertTrue(all(table.slots[block] for block in node.fit.blocks))
            overlay.allocate(node.fit.row, node.fit.blocks, node.fit.grants)

    def placed(self, seen: View, optimum: Optimum) -> Counter[str]:
        """Return the number of placed nodes by pod manager."""
        return Counter(seen.podm_ids[seen.podm_of[node.fit.row]] for node in optimum.nodes)


class TestOneType(SolverCase):
    @quietly(sized(300))
    @given(sites())
    def test_it_agrees_with_brute_force(self, drawn):
        podms, needs = drawn
        assume(not brute.makes(needs, []))
        self.agrees(cut(podms), needs)

    @quietly(sized(600))
    @given(st.randoms(use_true_random=True))
    def test_it_agrees_with_brute_force_where_few_nodes_are_possible(self, random):
        podms, needs = near_site(random)
        assume(not brute.makes(needs, []))
        self.agrees(cut(podms), needs)

    def agrees(self, podms: list[dict], needs: tuple[Need, ...]) -> None:
        seen = view(*podms)
        optimum = most_nodes(seen, [node_type(*needs)])
        self.check_nodes(seen, optimum)
        possible = [brute_nodes.possible_counts(podm, [needs]) for podm in podms]
        placed = self.placed(seen, optimum)
        for (podm, bound), counts in zip(optimum.by_podm.items(), possible, strict=True):
            ((most,),) = counts
            self.assertGreaterEqual(bound, most)
            self.assertGreaterEqual(most, placed[podm])
            if optimum.exact_model:
                self.assertEqual((most, most), (placed[podm], bound))
        if not is_shared(podms):
            self.assertTrue(optimum.exact_model)

    def test_few_covers_written_out_leave_a_bound(self):
        gaps = 0
        with mock.patch.object(count_model, "MOST_COVERS", 1):
            for seed in range(sized(150)):
                podms, needs = near_site(Random(seed))
                if brute.makes(needs, []):
                    continue
                seen = view(*cut(podms))
                optimum = most_nodes(seen, [node_type(*needs)])
                self.check_nodes(seen, optimum)
                ((most,),) = brute_nodes.possible_counts(cut(podms)[0], [needs])
                self.assertTrue(optimum.placed <= most <= optimum.bound)
                gaps += not optimum.exact_model
        self.assertGreater(gaps, 5)

    def test_a_sample_of_many_covers_places_most_nodes(self):
        random = Random(5)
        kinds = [(random.choice([8, 16, 24, 32, 48, 64]), 32 * random.choice([1, 2, 3, 4, 6, 8]))
                 for _ in range(8)]  # fmt: skip
        blocks = [cpu(f"c{n}", *random.choice(kinds)) for n in range(60)]
        seen = view({"id": "a", "blocks": blocks})
        types = [
            node_type(need("processor", "cores", cores), need("memory", "capacity_mib", mib))
            for cores, mib in ((97, 301), (60, 801))
        ]  # fmt: skip
        for asked, shares in ((types[:1], None), (types, [1, 1])):
            optimum = most_nodes(seen, asked, shares=shares)
            self.check_nodes(seen, optimum)
            self.assertTrue(0.8 * optimum.bound <= optimum.placed <= optimum.bound)
        with mock.patch.object(count_model, "ALL_STATES", 0):
            self.assertGreaterEqual(most_nodes(seen, types, shares=[1, 1]).bound, optimum.bound)

    @quietly(sized(200))
    @given(STOCKS, AMOUNTS)
    def test_grants_of_stocks_agree_with_brute_force(self, stocks, amounts):
        stocks = [{"uri": f"s{n}", **stock} for n, stock in enumerate(stocks)]
        pools = [{"id": name} for name in POOLS]
        seen = view({"id": "a", "pools": pools, "blocks": [], "stocks": stocks})
        needs = [
            Need(kind="stock", measure="amount", amount=size, count=count, resource=resource)
            for resource, size, count in amounts
        ]
        optimum = most_nodes(seen, [node_type(*needs)])
        self.check_nodes(seen, optimum)
        self.assertTrue(optimum.exact_model)
        self.assertEqual(self.most_granted(stocks, amounts), optimum.bound)
        self.assertEqual(optimum.bound, optimum.placed)

    def most_granted(self, stocks, amounts) -> int:
        """Return the most nodes in both pools, over every assignment of grants to stocks."""
        parsed = [msgspec.convert(stock, Stock) for stock in stocks]

        def can(first: int, second: int) -> bool:
            return all(
                self.grantable(parsed, resource, amounts, first, second)
                for resource in {one[0] for one in amounts}
            )

        most = 0
        while any(can(first, most + 1 - first) for first in range(most + 2)):
            most += 1
        return most

    @staticmethod
    def grantable(stocks, resource, amounts, first: int, second: int) -> bool:
        sizes = [size for name, size, count in amounts if name == resource for _ in range(count)]
        asked = [(pool, size) for pool, times in (("p", first), ("q", second))
                 for _ in range(times) for size in sizes]  # fmt: skip
        seen = set()

        def search(at: int, used: tuple[float, ...]) -> bool:
            if at == len(asked):
                return True
            if (at, used) in seen:
                return False
            seen.add((at, used))
            pool, size = asked[at]
            for number, stock in enumerate(stocks):
                if stock.resource != resource or pool not in stock.pools:
                    continue
                left = msgspec.structs.replace(stock, used=used[number])
                grant = brute.grants_of(left, size)
                if grant is not None:
                    more = (*used[:number], used[number] + grant, *used[number + 1 :])
                    if search(at + 1, more):
                        return True
            return False

        return search(0, tuple(stock.used for stock in stocks))

    def test_one_after_another_never_makes_more_and_sometimes_fewer(self):
        gains = 0
        for seed in range(3):
            seen = instances.generated_view(4, 60, seed)
            for name, properties in instances.FLAVORS.items():
                asked = request(properties, flavor=name)
                counted = dict(count_fits(engine(seen), asked, 1000).podms)
                optimum = most_nodes(seen, [NodeType.of(asked)])
                placed = self.placed(seen, optimum)
                for podm, bound in optimum.by_podm.items():
                    self.assertTrue(counted[podm] <= placed[podm] <= bound)
                    gains += placed[podm] - counted[podm]
        self.assertGreater(gains, 0)

    def test_rows_and_the_number_asked_for_limit_it(self):
        seen = view({"id": "a", "blocks": cpus(3)}, {"id": "b", "blocks": cpus(4)})
        asked = request({"processor": {"total_cores": 8}})
        limited = most_nodes(seen, [NodeType.of(asked, rows=seen.podm_of == 1)])
        self.assertEqual({"a": 0, "b": 4}, limited.by_podm)
        self.assertEqual({"b": 4}, self.placed(seen, limited))
        self.assertEqual(5, most_nodes(seen, [NodeType.of(asked, most=5)]).placed)

    def test_the_filters_of_a_policy_leave_its_rows(self):
        podms = [
            {"id": "a", "blocks": cpus(3)},
            {"id": "b", "blocks": cpus(4), "status": "Offline"},
            {"id": "c", "blocks": []},
        ]
        seen = view(*podms)
        asked = request({"processor": {"total_cores": 8}}, exclude_podms=["nowhere"])
        policy = next(one for one in built_in() if one.name == "default")
        found = NodeType.in_context(context_of(seen, asked, bind(policy)), most=2)
        self.assertEqual([True, False, True], found.rows.tolist())
        self.assertEqual(2, most_nodes(seen, [found]).bound)

    def test_alternatives_add_up(self):
        choices = [{"accelerators": [{"model": "A100", "count": 2}]},
                   {"accelerators": [{"model": "A40"}]}]  # fmt: skip
        asked = request({}, first_of=choices)
        blocks = [gpu("g0"), gpu("g1"), gpu("g2", model="NVIDIA A40")]
        optimum = most_nodes(view({"id": "a", "blocks": blocks}), [NodeType.of(asked)])
        self.assertEqual([0, 1], sorted(node.variant for node in optimum.nodes))

    def test_amounts_too_large_for_the_solver_leave_a_bound(self):
        most = 10**15
        sizes = (most, most // 2, most // 3 + 1, 7, 11)
        blocks = [{"uri": f"m{n}", "devices": {"memory": [{"capacity_mib": size}]}}
                  for n, size in enumerate(sizes)]  # fmt: skip
        seen = view({"id": "a", "blocks": blocks})
        for amount, placed in ((most, 1), (most - 1, 1), (most // 3 + 1, 3), (8, 4)):
            with self.subTest(amount=amount):
                optimum = most_nodes(seen, [node_type(need("memory", "capacity_mib", amount))])
                self.assertEqual(placed, optimum.placed)
                self.assertLessEqual(placed, optimum.bound)
                self.assertLessEqual(optimum.bound, 4)

    def test_a_topology_constraint_leaves_a_bound(self):
        blocks = [gpu(f"g{n}", places={"switch": f"s{n % 3}"}) for n in range(6)]
        asked = request({"accelerators": [{"count": 2, "same": "switch"}]})
        optimum = most_nodes(view({"id": "a", "blocks": blocks}), [NodeType.of(asked)])
        self.assertFalse(optimum.exact_model)
        self.assertEqual((3, 3), (optimum.placed, optimum.bound))
        apart = [gpu(f"g{n}", places={"switch": f"s{n % 4}"}) for n in range(7)]
        optimum = most_nodes(view({"id": "a", "blocks": apart}), [NodeType.of(asked)])
        self.assertEqual((3, 3), (optimum.placed, optimum.bound))  # 7 // 2 pairs
        none = [gpu(f"g{n}", places={"switch": f"s{n}"}) for n in range(6)]
        self.assertEqual(
            0, most_nodes(view({"id": "a", "blocks": none}), [NodeType.of(asked)]).bound
        )

    def test_with_topology_constraints_brute_force_is_between_the_two_numbers(self):
        met = 0
        for seed in range(sized(200)):
            random = Random(seed)
            blocks = [
                gpu(f"g{n}", random.choice([1, 1, 2]), places=random.choice(
                    [{}, {"switch": "s0"}, {"switch": "s1"}, {"switch": "s2"}]))
                for n in range(random.randint(2, 6))
            ]  # fmt: skip
            need = {"count": random.choice([2, 2, 3]), "same": "switch"}
            unknown = random.choice(["reject", "allow"])
            asked = request({"accelerators": [need]})
            needs = tuple(msgspec.structs.replace(one, unknown=unknown) for one in asked.needs)
            alternative = Alternative(needs=needs, topology=asked.topology)
            optimum = most_nodes(
                view({"id": "a", "blocks": blocks}), [NodeType("x", (alternative,))]
            )
            most = self.most_on_switches(blocks, need["count"], unknown == "allow")
            self.assertTrue(optimum.placed <= most <= optimum.bound, (seed, most, optimum))
            met += optimum.placed == optimum.bound
        self.assertGreater(met, sized(150))

    @staticmethod
    def most_on_switches(blocks: list[dict], count: int, anywhere: bool) -> int:
        """Return the most nodes of cards on one switch each, by every choice of blocks."""
        cards = [block["devices"]["accelerators"][0]["count"] for block in blocks]
        switches = [block["places"].get("switch") for block in blocks]

        def search(free: frozenset[int]) -> int:
            best = 0
            for size in range(1, len(free) + 1):
                for chosen in itertools.combinations(sorted(free), size):
                    used = {switches[one] for one in chosen}
                    if None in used and not anywhere:
                        continue
                    if len(used - {None}) <= 1 and sum(cards[one] for one in chosen) >= count:
                        best = max(best, 1 + search(free.difference(chosen)))
            return best

        return search(frozenset(range(len(blocks))))


class TestMix(SolverCase):
    @quietly(sized(150))
    @given(st.randoms(use_true_random=True), st.integers(1, 3), st.integers(1, 3))
    def test_a_mix_agrees_with_brute_force(self, random, first, second):
        (podms, needs), (_, others) = near_site(random), near_site(random)
        assume(not brute.makes(needs, []) and not brute.makes(others, []))
        podms = cut(podms)
        seen, types = view(*podms), [node_type(*needs), node_type(*others)]
        possible = brute_nodes.possible_counts(podms[0], [needs, others])
        shares = (first, second)
        most = max(brute_nodes.largest_mix(counts, shares) for counts in possible)
        self.compare(seen, most_nodes(seen, types, shares=shares), most)
        limits = (first, second)
        types = [node_type(*needs, most=first), node_type(*others, most=second)]
        most = max(sum(map(min, counts, limits)) for counts in possible)
        optimum = most_nodes(seen, types)
        self.compare(seen, optimum, most)
        counts = Counter(node.node_type for node in optimum.nodes)
        self.assertTrue(counts[0] <= first and counts[1] <= second)

    def compare(self, seen: View, optimum: Optimum, most: int) -> None:
        self.check_nodes(seen, optimum)
        self.assertTrue(optimum.placed <= most <= optimum.bound)
        if optimum.exact_model:
            self.assertEqual((most, most), (optimum.placed, optimum.bound))

    def test_a_mix_has_its_shares_rounded_down_or_up(self):
        seen, types = instances.generated_view(4, 30), instances.node_types()
        for shares in ([1] * 5, [5, 1, 1, 1, 2]):
            optimum = most_nodes(seen, types, shares=shares)
            counts = Counter(node.node_type for node in optimum.nodes)
            for number, share in enumerate(shares):
                part = optimum.placed * share / sum(shares)
                self.assertLess(abs(counts[number] - part), 1)

    def test_rounding_a_large_site_comes_close(self):
        seen, types = instances.generated_view(12, 40), instances.node_types()
        whole = most_nodes(seen, types, shares=[1] * 5)
        relaxed = most_nodes(seen, types, shares=[1] * 5, effort=Effort(most_columns=0))
        self.assertEqual(whole.placed, whole.bound)
        self.check_nodes(seen, relaxed)
        self.assertTrue(relaxed.placed <= whole.placed <= relaxed.bound)
        self.assertGreaterEqual(relaxed.placed, 0.97 * whole.placed)

    def test_a_relaxation_that_ends_at_its_limit_leaves_a_bound(self):
        seen, types = instances.generated_view(4, 30), instances.node_types()
        types = [replace(one, most=9) for one in types]
        whole = most_nodes(seen, types)
        with mock.patch.dict(optimiser.RELAXED, ipm_iteration_limit=1):
            ended = most_nodes(seen, types, effort=Effort(most_columns=0))
        self.check_nodes(seen, ended)
        self.assertTrue(0 < ended.placed <= whole.placed < ended.bound)

    def test_the_largest_mix(self):
        for seed in range(sized(300)):
            random = Random(seed)
            counts = tuple(random.randint(0, 9) for _ in range(3))
            shares = [random.randint(1, 5) for _ in range(3)]
            self.assertEqual(brute_nodes.largest_mix(counts, shares),
                             mix_size(counts, shares))  # fmt: skip
            used = mix_counts(counts, shares)
            self.assertEqual(mix_size(counts, shares), sum(used))
            self.assertTrue(all(map(int.__le__, used, counts)))

    def test_shares_and_types_are_checked(self):
        seen = view({"id": "a", "blocks": cpus(1)})
        asked = node_type(*request({"processor": {"total_cores": 1}}).needs)
        for types, shares in (([], None), ([asked], [1, 2]), ([asked], [0])):
            with self.assertRaises(RequestError):
                most_nodes(seen, types, shares=shares)


def mixed_optimum():
    seen, shares = instances.generated_view(6, 30), [1, 2, 3, 1, 1]
    optimum = most_nodes(seen, instances.node_types(), shares=shares)
    return optimum.bound, optimum.nodes


class TestDeterminism(SolverCase):
    def test_equal_sites_get_equal_answers(self):
        program = f"from {__name__} import mixed_optimum; print(mixed_optimum())"
        words = [sys.executable, "-c", program]
        other = {**os.environ, "PYTHONHASHSEED": "1"}
        ran = subprocess.run(words, capture_output=True, check=True, text=True, env=other)
        self.assertEqual(f"{mixed_optimum()}\n", ran.stdout)

    def test_the_view_is_not_changed(self):
        seen = instances.generated_view(2, 20)
        before = seen.block_counts.free.copy(), list(seen.block_tables)
        most_nodes(seen, instances.node_types(), shares=[1] * 5)
        self.assertTrue((before[0] == seen.block_counts.free).all())
        self.assertEqual(before[1], seen.block_tables)
