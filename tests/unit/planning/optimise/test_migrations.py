# SPDX-License-Identifier: Apache-2.0
"""Defragmentation: plans reach the share step by step; brute force finds no shorter plan."""

import itertools
import unittest
from collections import Counter
from random import Random

from tests.unit.core.deciders import cpu, gpu
from tests.unit.core.sites import sized
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.model.need import NameRequirements
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.planning.optimise.migrations import MigrationPlan, MovableNode, fewest_migrations
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.whatif import defragment
from valence_sched.testing import request, view
from valence_sched.view.fragmentation import FragmentationMeasure, usable_mix
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View

SMALL = request({"processor": {"total_cores": 8}})
LARGE = request({"processor": {"total_cores": 16}, "accelerators": [{"count": 2}]})
CARD = request({"processor": {"total_cores": 8}, "accelerators": [{}]})
REQUESTS = (SMALL, LARGE, CARD)
TYPES = [NodeType.of(one) for one in REQUESTS]


def used_site(random: Random) -> tuple[View, list[MovableNode]]:
    """Return two pod managers with some nodes placed in any order."""
    podms = []
    for name in "ab":
        blocks = [cpu(f"c{n}", random.choice([8, 8, 16])) for n in range(random.randint(2, 3))]
        blocks += [gpu(f"g{n}", random.choice([1, 1, 2])) for n in range(random.randint(1, 3))]
        podms.append({"id": name, "blocks": blocks})
    overlay = Overlay(view(*podms))
    nodes = []
    for _ in range(random.randint(1, 4)):
        node_type = random.choice([0, 0, 2])
        row = random.randrange(2)
        needs = REQUESTS[node_type].needs
        fit = Fitter(needs, overlay.view.kinds).fit(overlay.view, row)
        if isinstance(fit, Fit):
            overlay.allocate(row, fit.blocks, fit.grants)
            name = f"n{len(nodes)}"
            nodes.append(MovableNode(name, node_type, row, fit.blocks, fit.grants, planned=True))
    return overlay.view, nodes


def fits(free: View, asked: Request) -> bool:
    plan = Fitter(asked.needs, free.kinds)
    return any(plan.fit(free, row) for row in range(len(free)))


def one_helps(free: View, nodes: list[MovableNode], asked: Request) -> bool:
    """Return whether one migration makes room, with each set of blocks as its destination."""
    for node in nodes:
        plan = Fitter(REQUESTS[node.node_type].needs, free.kinds)
        for podm, table in enumerate(free.block_tables):
            usable = [block for block, slots in enumerate(table.slots) if slots]
            for size in range(1, len(usable) + 1):
                for chosen in itertools.combinations(usable, size):
                    if not covers(plan, table.kinds, chosen):
                        continue
                    overlay = Overlay(free)
                    overlay.allocate(podm, chosen, ())
                    overlay.deallocate(node.row, node.blocks, node.grants)
                    if fits(overlay.view, asked):
                        return True
    return False


def covers(plan: Fitter, kinds: list[int], chosen: tuple[int, ...]) -> bool:
    given = [
        sum(covered) for covered in zip(*(plan.coverage(kinds[one]) for one in chosen), strict=True)
    ]
    return all(have >= one.amount for have, one in zip(given, plan.demands, strict=True))


def is_fewest(plan: MigrationPlan) -> bool:
    return plan.reached and len(plan.migrations) == plan.least


class TestMigrations(unittest.TestCase):
    def test_plans_can_be_carried_out_and_agree_with_brute_force(self):
        outcomes: Counter[object] = Counter()
        for seed in range(120):
            free, nodes = used_site(Random(seed))
            plan = fewest_migrations(free, TYPES, 1, nodes)
            with self.subTest(seed=seed):
                self.assertTrue(plan.complete)
                outcomes[len(plan.migrations) if plan.fit else None] += 1
                if plan.fit:
                    self.carry_out(free, nodes, plan)
                    self.assertGreaterEqual(len(plan.migrations), plan.least)
                    self.assertTrue(is_fewest(plan))
                self.assertEqual(plan.least == 0, fits(free, LARGE))
                helps = one_helps(free, nodes, LARGE) if plan.least else True
                self.assertFalse(plan.least > 1 and helps)
                self.assertFalse(plan.fit is not None and len(plan.migrations) == 1 and not helps)
                self.assertFalse(helps and (plan.fit is None or len(plan.migrations) > 1))
        self.assertTrue(all(outcomes[number] > 2 for number in (None, 0, 1, 2)), outcomes)

    def carry_out(self, free: View, nodes: list[MovableNode], plan: MigrationPlan) -> None:
        """Compose each destination while the node still has its blocks, then release those."""
        overlay = Overlay(free)
        places = {number: (node.row, node.blocks, node.grants) for number, node in enumerate(nodes)}
        for migration in plan.migrations:
            fit = migration.fit
            self.take(overlay, fit)
            overlay.deallocate(*places[migration.node])
            places[migration.node] = fit.row, fit.blocks, fit.grants
        assert plan.fit
        self.take(overlay, plan.fit)

    def take(self, overlay: Overlay, fit: Fit) -> None:
        table = overlay.view.block_tables[overlay.view.podm_of[fit.row]]
        self.assertTrue(all(table.slots[block] for block in fit.blocks))
        overlay.allocate(fit.row, fit.blocks, fit.grants)

    def test_a_composed_node_frees_what_its_pod_manager_would_free(self):
        used = {"state": "Composed", "compositions": 1}
        for status, migrations in ((used, 1), ({**used, "reserved": True}, None)):
            blocks = [gpu("a0", 2), cpu("c0", 16, status=status)]
            free = view({"id": "a", "blocks": blocks}, {"id": "b", "blocks": [cpu("c0", 8)]})
            plan = fewest_migrations(free, TYPES, 1, [MovableNode("n", 0, 0, (1,))])
            with self.subTest(migrations=migrations):
                self.assertEqual(migrations, len(plan.migrations) if plan.fit else None)
                self.assertEqual(migrations == 1, is_fewest(plan))

    def test_destinations_are_the_rows_of_the_type(self):
        blocks = [gpu("a0", 2), cpu("c0", 16)]
        base = view({"id": "a", "blocks": blocks}, {"id": "b", "blocks": [cpu("c0", 8)]})
        overlay = Overlay(base)
        overlay.allocate(0, (1,), ())
        nodes = [MovableNode("n", 0, 0, (1,), planned=True)]
        self.assertTrue(fewest_migrations(overlay.view, TYPES, 1, nodes).fit)
        pinned = [NodeType.of(SMALL, rows=base.podm_of == 0), *TYPES[1:]]
        plan = fewest_migrations(overlay.view, pinned, 1, nodes)
        self.assertEqual((None, True), (plan.fit, plan.complete))
        self.assertGreater(plan.least, 3)

    def test_grants_of_stocks_move_as_well(self):
        asked = request({"stocks": [{"resource": "gib", "amount": 6}]})
        held = request({"stocks": [{"resource": "gib", "amount": 5}]})
        stocks = [{"uri": "s", "resource": "gib", "total": 10, "used": 5}]
        free = view({"id": "a", "stocks": stocks}, {"id": "b", "stocks": stocks})
        nodes = [MovableNode("n", 0, 0, (), ((0, 5.0),))]
        plan = fewest_migrations(free, [NodeType.of(held), NodeType.of(asked)], 1, nodes)
        self.assertEqual([(1, ((0, 5.0),))], [(m.fit.row, m.fit.grants) for m in plan.migrations])
        self.assertEqual((0, ((0, 6.0),)), (plan.fit.row, plan.fit.grants))

    def test_two_nodes_change_places_by_way_of_a_spare_one(self):
        # x needs 16 cores beside the card: the node on them needs 8, and only b's other 8 are less
        large = {"state": "Composed", "compositions": 1}
        for spare, moves in (([cpu("s0", 16)], 3), ([], None)):
            free = view(
                {"id": "a", "blocks": [gpu("a0", 2), cpu("c0", 16, status=large)]},
                {"id": "b", "blocks": [cpu("c0", 8, status=large)]},
                {"id": "c", "blocks": spare},
            )
            nodes = [MovableNode("n", 0, 0, (1,)), MovableNode("m", 0, 1, (0,))]
            with self.subTest(moves=moves):
                plan = fewest_migrations(free, TYPES, 1, nodes)
                self.assertEqual(moves and 1, len(plan.migrations) if plan.fit else None)

    def test_the_work_is_bounded(self):
        seed = next(seed for seed in range(99) if self.migrations_of(seed) == 2)
        free, nodes = used_site(Random(seed))
        plan = fewest_migrations(free, TYPES, 1, nodes, fits=1)
        self.assertEqual((None, False), (plan.fit, plan.complete))
        self.assertLessEqual(plan.least, 2)

    def migrations_of(self, seed: int) -> int:
        free, nodes = used_site(Random(seed))
        return len(fewest_migrations(free, TYPES, 1, nodes).migrations)


MIX = Mix(tuple(FlavorShare(one.needs, NameRequirements(), 1.0) for one in REQUESTS))
DEPTH = 3


def share_of(view: View, of: str | None) -> float:
    return FragmentationMeasure(lambda: view, usable_mix(view, MIX, of)).share()


def moved(overlay: Overlay, place: tuple, fit: Fit) -> tuple:
    """Compose a node at its destination, then release its old place; return the new one."""
    table = overlay.view.block_tables[overlay.view.podm_of[fit.row]]
    assert all(table.slots[block] for block in fit.blocks), "over capacity"
    overlay.allocate(fit.row, fit.blocks, fit.grants)
    overlay.deallocate(*place)
    return fit.row, fit.blocks, fit.grants


def fewest_by_brute_force(
    free: View, nodes: list[MovableNode], wanted: float, of: str | None
) -> int | None:
    """Return the length of the shortest sequence of moves, None if it exceeds ``DEPTH``."""
    plans = [Fitter(one.needs, free.kinds) for one in REQUESTS]
    start = tuple((node.row, node.blocks, node.grants) for node in nodes)
    states, seen = [start], {start}
    for depth in range(DEPTH + 1):
        following = []
        for places in states:
            overlay = Overlay(free)
            for node in nodes:
                overlay.deallocate(node.row, node.blocks, node.grants)
            for place in places:
                overlay.allocate(*place)
            if share_of(overlay.view, of) < wanted:
                return depth
            for number, node in enumerate(nodes):
                for row in range(len(free)):
                    fit = plans[node.node_type].fit(overlay.view, row)
                    if isinstance(fit, Fit):
                        place = (row, fit.blocks, fit.grants)
                        after = (*places[:number], place, *places[number + 1 :])
                        if after not in seen:
                            seen.add(after)
                            following.append(after)
        states = following
    return None


class TestDefragment(unittest.TestCase):
    def plan(self, free, nodes, wanted, of=None, **more):
        return defragment(free, TYPES, nodes, usable_mix(free, MIX, of), wanted, **more)

    def test_plans_are_the_shortest_and_never_over_capacity(self):
        for of in (None, "cores"):
            self.check_plans(of)

    def check_plans(self, of):
        outcomes: Counter[object] = Counter()
        for seed in range(sized(200)):
            free, nodes = used_site(Random(seed))
            share = share_of(free, of)
            for wanted in (share, share * 0.7, share * 0.4):
                if not wanted:
                    continue
                plan = self.plan(free, nodes, wanted, of, most=DEPTH)
                with self.subTest(seed=seed, wanted=wanted, of=of):
                    fewest = fewest_by_brute_force(free, nodes, wanted, of)
                    outcomes[fewest] += 1
                    self.assertTrue(plan.complete)
                    self.assertEqual(fewest is not None, plan.reached)
                    if plan.reached:
                        self.assertEqual(fewest, len(plan.migrations))
                        self.assertEqual(fewest, plan.least)
                        self.assertLess(self.carry_out(free, nodes, plan, of), wanted)
        self.assertTrue(all(outcomes[number] > 2 for number in (None, 1, 2)), outcomes)

    def carry_out(self, free, nodes, plan, of):
        overlay = Overlay(free)
        places = [(node.row, node.blocks, node.grants) for node in nodes]
        for migration in plan.migrations:
            place = places[migration.node]
            places[migration.node] = moved(overlay, place, migration.fit)
        return share_of(overlay.view, of)

    def test_grants_move_to_stocks_that_are_of_no_other_use(self):
        held, asked = (request({"resources": {"gib": amount}}) for amount in (4, 8))
        sizes = (("a", 10, 4), ("b", 10, 0), ("c", 4, 0))
        free = view(*({"id": name, "stocks": [{"uri": "s", "resource": "gib", "total": total,
                                               "used": used}]}
                      for name, total, used in sizes))  # fmt: skip
        mix = usable_mix(free, Mix((FlavorShare(asked.needs),)))
        nodes = [MovableNode("n", 0, 0, (), ((0, 4.0),))]
        # before, the 6 of a and the 4 of c are useless, of 20; after, c has none left
        plan = defragment(free, [NodeType.of(held)], nodes, mix, 0.3)
        self.assertEqual([(2, ((0, 4.0),))], [(m.fit.row, m.fit.grants) for m in plan.migrations])
        self.assertTrue(is_fewest(plan))

    def test_what_is_below_already_moves_nothing(self):
        free, nodes = used_site(Random(3))
        plan = self.plan(free, nodes, 1.01)
        self.assertEqual(((), True, 0), (plan.migrations, plan.reached, plan.least))

    def test_without_the_exhaustive_search_the_bound_is_stated(self):
        found = 0
        for seed in range(sized(120)):
            free, nodes = used_site(Random(seed))
            wanted = share_of(free, None) * 0.7
            exact = self.plan(free, nodes, wanted, most=DEPTH) if wanted else None
            if exact is None or not exact.reached:
                continue
            found += 1
            bounded = self.plan(free, nodes, wanted, fits=0)
            with self.subTest(seed=seed):
                self.assertLessEqual(bounded.least, len(exact.migrations))
                self.assertGreaterEqual(bounded.least, 1)
                if bounded.reached:
                    self.assertGreaterEqual(len(bounded.migrations), len(exact.migrations))
        self.assertGreater(found, 2)
