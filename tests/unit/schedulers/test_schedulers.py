# SPDX-License-Identifier: Apache-2.0
"""Rules of every scheduler (S18), and the choices of filter, chance and joint."""

import unittest
from collections import Counter

from hypothesis import given, strategies as st

from tests.benchmarks.instances import FLAVORS, generated_view
from tests.unit.chi_square import chi_square
from tests.unit.core.deciders import cpu, cpus, engine, engine_of, gpu
from tests.unit.core.sites import quietly
from tests.unit.planning.test_batches import node_count
from valence_sched.core import plugins
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_report
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.policy import bind
from valence_sched.errors import InputError
from valence_sched.model.inventory import to_json
from valence_sched.model.policy import FilterUse, Pick, Policy, WeigherUse
from valence_sched.planning.batches import decide_all
from valence_sched.testing import request, view

CORES = {"processor": {"total_cores": 8}}


def picks(found, draws: int, **words) -> Counter:
    return Counter(
        found.select_destinations(request(CORES, id=f"r{n}", **words)).placements[0].chosen.podm
        for n in range(draws)
    )


class TestChance(unittest.TestCase):
    """Random choices."""

    def test_a_podm_of_many_pools_is_no_better_a_chance_than_one_of_one(self):
        many = {
            "id": "many",
            "pools": [{"id": str(n)} for n in range(9)],
            "blocks": [{**block, "pools": [str(n)]} for n, block in enumerate(cpus(9))],
        }
        found = engine_of(many, {"id": "one", "blocks": cpus(1)}, {"id": "two", "blocks": cpus(2)})
        counts = picks(found, 1500, policy="chance")
        self.assertLess(chi_square(counts, 3), 9.21, counts)  # p = 0.01

    def test_the_pools_of_a_podm_are_equal_chances_too(self):
        pools = [{"id": str(n)} for n in range(4)]
        blocks = [{**block, "pools": [str(n)]} for n, block in enumerate(cpus(4))]
        found = engine_of({"id": "a", "pools": pools, "blocks": blocks})
        counts = Counter(
            found.select_destinations(request(CORES, id=f"r{n}", policy="chance"))
            .placements[0]
            .chosen.pool
            for n in range(1500)
        )
        self.assertLess(chi_square(counts, 4), 11.34, counts)  # p = 0.01

    def test_nodes_of_one_request_are_draws_of_their_own(self):
        found = engine_of(*({"id": str(n), "blocks": cpus(100)} for n in range(4)))
        asked = request(CORES, policy="chance", count=200, min_count=0)
        counts = Counter(p.chosen.podm for p in found.select_destinations(asked).placements)
        self.assertEqual(4, len(counts))
        self.assertLess(chi_square(counts, 4), 11.34, counts)

    def test_their_pools_are_draws_of_their_own_too(self):
        pools = [{"id": str(n)} for n in range(4)]
        blocks = [{**block, "pools": [str(n // 100)]} for n, block in enumerate(cpus(400))]
        found = engine_of({"id": "a", "pools": pools, "blocks": blocks})
        asked = request(CORES, policy="chance", count=80, min_count=0)
        counts = Counter(p.chosen.pool for p in found.select_destinations(asked).placements)
        self.assertEqual(4, len(counts))
        self.assertLess(chi_square(counts, 4), 11.34, counts)  # p = 0.01

    def test_the_best_score_does_not_matter(self):
        site = view({"id": "full", "blocks": cpus(1)}, {"id": "roomy", "blocks": cpus(50)})
        policy = Policy(name="mine", scheduler="chance", weighers=(WeigherUse("room"),))
        counts = picks(engine(site, policy), 800, policy="mine")
        self.assertLess(chi_square(counts, 2), 6.63, counts)  # p = 0.01


class TestFilter(unittest.TestCase):
    """The best pool."""

    SITE = view(*({"id": str(n), "blocks": cpus(n + 1)} for n in range(6)))

    def test_the_best_is_always_taken(self):
        self.assertEqual({"5": 50}, picks(engine(self.SITE), 50))
        self.assertEqual({"0": 50}, picks(engine(self.SITE), 50, policy="pack"))

    def test_a_better_pool_without_a_set_of_blocks_is_passed_over(self):
        pools = [{"id": "tight", "limits": {"Compute": {"max": 1}}}]
        blocks = [{**block, "pools": ["tight"]} for block in cpus(9, 4)]
        site = view({"id": "roomy", "pools": pools, "blocks": blocks},
                    {"id": "full", "blocks": cpus(1)})  # fmt: skip
        self.assertEqual({"full": 20}, picks(engine(site), 20))

    def test_best_of_k_draws_among_the_best_k_that_fit(self):
        """As with host_subset_size of Nova."""
        policy = Policy(
            name="mine", filters=(FilterUse("capacity"),), weighers=(WeigherUse("room"),),
            pick=Pick(3),
        )  # fmt: skip
        counts = picks(engine(self.SITE, policy), 1500, policy="mine")
        self.assertEqual({"3", "4", "5"}, set(counts))
        self.assertLess(chi_square(counts, 3), 9.21, counts)  # p = 0.01

    def test_best_of_more_than_there_are_draws_among_all(self):
        policy = Policy(name="mine", pick=Pick(100))
        self.assertEqual(6, len(picks(engine(self.SITE, policy), 200, policy="mine")))


LARGE = {"processor": {"total_cores": 16}}


def joint(site, *goals, weigher="room"):
    policy = Policy(name="mine", scheduler="joint", weighers=(WeigherUse(weigher),), goals=goals)
    return engine(site, policy)


def asked(node=CORES, **words):
    return request(node, policy="mine", **words)


def podms_of(decision):
    return [one.chosen.podm for one in decision.placements]


class TestJoint(unittest.TestCase):
    """The nodes of one request, and of several."""

    def test_without_goals_what_the_filter_scheduler_places_whole_is_its_answer(self):
        site = view(*({"id": str(n), "blocks": cpus(4)} for n in range(4)))
        plain = Policy(name="plain", weighers=(WeigherUse("room"),))
        found = joint(site).select_destinations(asked(count=5))
        expected = engine(site, plain).select_destinations(request(CORES, policy="plain", count=5))
        self.assertEqual(expected.placements, found.placements)
        self.assertIsNone(found.batch.bound)

    def test_fewest_podms(self):
        site = view(*({"id": str(n), "blocks": cpus(4)} for n in range(4)))
        decision = joint(site, "fewest-podms").select_destinations(asked(count=8))
        self.assertEqual(2, len(set(podms_of(decision))))
        self.assertEqual(8, decision.batch.bound)

    def test_spread(self):
        site = view(*({"id": str(n), "blocks": cpus(n + 3)} for n in range(4)))
        decision = joint(site, "spread", weigher="pack").select_destinations(asked(count=8))
        names = podms_of(decision)
        self.assertEqual([2, 2, 2, 2], [names.count(str(n)) for n in range(4)])

    def test_least_cost_is_that_of_the_weighers_before_anything_is_placed(self):
        site = view({"id": "roomy", "blocks": cpus(9)}, {"id": "small", "blocks": cpus(7)})
        decision = joint(site, "least-cost").select_destinations(asked(count=6))
        self.assertEqual({"roomy"}, set(podms_of(decision)))

    def test_least_fragmentation_takes_the_blocks_that_fit(self):
        """The pod manager with most room has blocks twice as large as the node."""
        site = view({"id": "large", "blocks": cpus(9, 16)}, {"id": "tight", "blocks": cpus(2)})
        decision = joint(site, "least-fragmentation").select_destinations(asked(count=2))
        self.assertEqual(["tight", "tight"], podms_of(decision))

    def test_a_later_goal_decides_among_placements_that_are_equal_by_the_first(self):
        site = view({"id": "a", "blocks": cpus(4, 16)}, {"id": "b", "blocks": cpus(4)},
                    {"id": "c", "blocks": cpus(3)})  # fmt: skip
        goals = "fewest-podms", "least-fragmentation"
        decision = joint(site, *goals).select_destinations(asked(count=4))
        self.assertEqual({"b"}, set(podms_of(decision)))

    def test_nodes_that_are_missing_are_stated_with_the_bound(self):
        site = view({"id": "a", "blocks": cpus(3)})
        decision = joint(site).select_destinations(asked(count=5, min_count=0))
        self.assertEqual(3, decision.batch.bound)
        warnings = decision_report(decision).warnings
        self.assertIn("no placement has more than 3 of the 5 nodes", warnings)

    @quietly(30)
    @given(
        st.lists(
            st.lists(st.sampled_from([cpu("c", 8), cpu("c", 16), gpu("g")]), max_size=5),
            min_size=1,
            max_size=3,
        ),
        st.integers(0, 4),
        st.integers(0, 3),
    )
    def test_several_requests_get_the_most_nodes_there_are(self, podms, small, large):
        site = view(*(
            {"id": str(number), "blocks": [{**one, "uri": f"b{n}"} for n, one in enumerate(blocks)]}
            for number, blocks in enumerate(podms)
        ))  # fmt: skip
        requests = [asked(CORES, id="s", count=small + 1, min_count=0),
                    asked(LARGE, id="l", count=large + 1, min_count=0)]  # fmt: skip
        found = decide_all(joint(site), requests)
        eights = [sum(8 in _cores(one) for one in blocks) for blocks in podms]
        sixteens = [sum(16 in _cores(one) for one in blocks) for blocks in podms]
        most = max(
            _most_small(eights, sixteens, number, small + 1) + number for number in range(large + 2)
            if number <= sum(sixteens) + sum(one // 2 for one in eights)
        )  # fmt: skip
        self.assertEqual(most, node_count(found)[1])
        self.assertGreaterEqual(found.bound, most)

    def test_a_generated_site_is_filled_to_the_last_node(self):
        site = generated_view(2, 20, seed=0)
        counts = {"small": 9, "large": 3, "gpu": 5, "gpu-large": 3, "data": 1}
        requests = [asked(FLAVORS[name], flavor=name, count=n) for name, n in counts.items()]
        found = decide_all(joint(site), requests)
        self.assertEqual(("placed", 21), node_count(found))
        again = decide_all(joint(site), requests)
        self.assertEqual(to_json(found.report()), to_json(again.report()))

    def test_goals_of_another_scheduler_are_refused(self):
        with self.assertRaises(InputError) as caught:
            bind(Policy(name="mine", goals=("spread",)))
        self.assertIn(
            "found spread, expected no goals with scheduler 'filter'", str(caught.exception)
        )


def _cores(block):
    return [one.get("cores") for one in block["devices"].get("processors", [])]


def _most_small(eights, sixteens, large, small):
    """Return the most nodes of 8 cores beside these nodes of 16, which use pairs of blocks last."""
    pairs = max(0, large - sum(sixteens))
    left = sum(eights) - 2 * pairs + max(0, sum(sixteens) - large)
    return min(small, left)


NAMES = tuple(plugins.load(plugins.SCHEDULERS).by_name)
FILTERS = tuple(FilterUse(name) for name in ("enabled", "spread", "capacity", "devices"))


def engines(*podms: dict) -> dict[str, Decider]:
    """Return an engine for each scheduler; its policy is called mine."""
    site = view(*podms)
    return {
        name: engine(site, Policy(name="mine", scheduler=name, filters=FILTERS,
                                  weighers=(WeigherUse("room"),)))
        for name in NAMES
    }  # fmt: skip


class TestConformance(unittest.TestCase):
    """S18: one suite behind one interface."""

    SITE = (
        {"id": "fits", "blocks": cpus(3)},
        {"id": "small", "blocks": cpus(3, 2)},
        {"id": "empty", "pools": [{"id": "1"}, {"id": "2"}]},
        {"id": "off", "enabled": False, "blocks": cpus(9)},
    )

    def every(self, *podms, **words):
        """Yield the decision of each scheduler."""
        for name, found in engines(*podms).items():
            with self.subTest(name):
                yield found.select_destinations(request(CORES, policy="mine", **words))

    def test_filter_and_chance_are_installed(self):
        self.assertLessEqual({"filter", "chance"}, set(NAMES))

    def test_it_places_only_where_blocks_make_the_node_and_no_more_than_there_are(self):
        for decision in self.every(*self.SITE, count=9, min_count=0):
            self.assertEqual(["fits"] * 3, [p.chosen.podm for p in decision.placements])
            uris = [b.uri for p in decision.placements for b in p.chosen.blocks]
            self.assertEqual(["c0", "c1", "c2"], sorted(uris))
            self.assertEqual("placed_in_part", decision.outcome)

    def test_it_honours_the_filters_of_its_policy(self):
        for decision in self.every(self.SITE[3]):
            self.assertEqual("nothing_fits", decision.outcome)
            (verdict,) = Verdicts(decision).podm_verdicts()
            self.assertEqual("enabled", verdict.reason.filter)

    def test_all_or_nothing_is_all_or_nothing(self):
        for decision in self.every(*self.SITE, count=4):
            self.assertEqual(("nothing_fits", 3), (decision.outcome, decision.fit_count))
            self.assertEqual((), decision.placements)

    def test_the_same_question_gets_the_same_bytes(self):
        podms = [{"id": str(n), "blocks": cpus(4)} for n in range(5)]
        for seed in range(3):
            words = {"count": 6, "alternates": 2, "seed": seed}
            one, other = (
                [to_json(decision_report(decision)) for decision in self.every(*podms, **words)]
                for _ in range(2)
            )
            self.assertEqual(one, other)

    def test_alternates_are_other_podms(self):
        podms = [{"id": str(n), "blocks": cpus(4)} for n in range(4)]
        for decision in self.every(*podms, count=3, alternates=9):
            taken = {placed.chosen.podm for placed in decision.placements}
            for placed in decision.placements:
                names = [other.podm for other in placed.alternates]
                self.assertEqual(sorted({"0", "1", "2", "3"} - taken), sorted(names))

    def test_a_group_stays_apart(self):
        podms = [{"id": str(n), "blocks": cpus(4), "nodes": [{"uri": "n", "group": "g"}] * (not n)}
                 for n in range(4)]  # fmt: skip
        group = {"name": "g", "anti_affinity": ["podm"]}
        for decision in self.every(*podms, count=9, min_count=0, group=group):
            names = sorted(placed.chosen.podm for placed in decision.placements)
            self.assertEqual(["1", "2", "3"], names)

    @quietly(40)
    @given(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 9)), min_size=1,
                 max_size=5),
        st.integers(1, 12),
        st.integers(0, 9),
    )  # fmt: skip
    def test_virtual_depletion_never_exceeds_what_there_is(self, sizes, count, seed):
        """S35: blocks by number, stocks by amount, with every scheduler."""
        podms = [
            {"id": str(n), "blocks": [*cpus(cores), *(gpu(f"g{i}") for i in range(cards))],
             "stocks": [{"uri": "s", "resource": "gib", "total": total}]}
            for n, (cores, cards, total) in enumerate(sizes)
        ]  # fmt: skip
        node = {**CORES, "stocks": [{"resource": "gib", "amount": 2}]}
        words = {"count": count, "min_count": 0, "policy": "mine", "seed": seed}
        asked = request(node, first_of=[{"accelerators": [{}]}, {}], **words)
        for name, found in engines(*podms).items():
            with self.subTest(name):
                taken: Counter = Counter()
                for placed in found.select_destinations(asked).placements:
                    taken.update((placed.chosen.podm, b.uri) for b in placed.chosen.blocks)
                    for grant in placed.chosen.grants:
                        taken[placed.chosen.podm, grant.uri] += grant.amount
                for (podm, uri), amount in taken.items():
                    self.assertLessEqual(amount, sizes[int(podm)][2] if uri == "s" else 1)
