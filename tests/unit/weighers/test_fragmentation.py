# SPDX-License-Identifier: Apache-2.0
"""The weigher fragmentation against its definition, worked out in plain Python on small pools."""

import math
import unittest
from unittest import mock

import msgspec
from hypothesis import given, strategies as st

from tests.unit.core.deciders import cpu, engine, gpu, lean
from tests.unit.core.sites import quietly
from valence_sched.core.evaluation import evaluate
from valence_sched.core.evaluation_cache import Ledger
from valence_sched.core.policy import bind
from valence_sched.model.need import NameRequirements
from valence_sched.model.policy import FilterUse, Policy, WeigherUse
from valence_sched.model.request import FlavorShare, Mix, sealed
from valence_sched.testing import check_weigher, request, view
from valence_sched.view import mix_room
from valence_sched.view.builder import ViewBuilder
from valence_sched.weighers.fragmentation import fragmentation, mix_supplies, with_scarcity

SMALL = {"processor": {"total_cores": 8}}
LARGE = {"processor": {"total_cores": 16}, "memory": {"capacity_mib": 64}}
CARD = {**SMALL, "accelerators": [{"kind": "GPU"}]}


def stocks(cores, memory, cards):
    return [{"uri": name, "resource": name, "total": amount}
            for name, amount in (("cores", cores), ("memory", memory))] + [
        {"uri": f"g{number}", "resource": "milli", "total": 1000, "used": 1000 - left}
        for number, left in enumerate(cards)
    ]  # fmt: skip


def needs(cores, memory, milli, count):
    """Return the stocks that a node needs."""
    asked = [("cores", cores, 1), ("memory", memory, 1), ("milli", milli, count)]
    return [{"resource": name, "amount": amount, "count": number}
            for name, amount, number in asked if amount and number]  # fmt: skip


def number_of(pool, asked, of=""):
    """Return the number of nodes that a pool of stocks can make, by counting each need."""
    cores, memory, cards = pool
    numbers = [cores // asked[0], memory // asked[1] if asked[1] else math.inf]
    if asked[3]:
        by_cards = sum(left // asked[2] for left in cards) // asked[3]
        if of == "milli" and min(*numbers, by_cards) >= 1:
            numbers = [math.floor(2.5 * number) if number < math.inf else number
                       for number in numbers]  # fmt: skip
        numbers.append(by_cards)
    return min(numbers)


def after(pool, asked):
    """Return a pool after one node, with the fullest cards that have room."""
    cores, memory, cards = pool
    cards = list(cards)
    for _ in range(asked[3]):
        tightest = min(left for left in cards if left >= asked[2])
        cards[cards.index(tightest)] -= asked[2]
    return cores - asked[0], memory - asked[1], cards


POOLS = st.lists(
    st.tuples(
        st.integers(1, 64),
        st.integers(1, 64),
        st.lists(st.sampled_from([0, 250, 300, 500, 1000]), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=4,
)
ASKED = st.tuples(
    st.integers(1, 20), st.integers(0, 20), st.sampled_from([250, 500, 1000]), st.integers(0, 2)
)


def shares_of(shares):
    return tuple(
        FlavorShare(request({"stocks": needs(*asked)}).needs, weight=weight)
        for asked, weight in shares
    )


class TestStocks(unittest.TestCase):
    """The nodes of a pool of stocks can be counted exactly."""

    @quietly(40)
    @given(POOLS, st.lists(st.tuples(ASKED, st.sampled_from([1.0, 3.0])), min_size=1, max_size=4),
           ASKED, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(["", "milli"]),
           st.sampled_from([1, 256]))  # fmt: skip
    def test_the_score_is_the_number_of_lost_nodes_by_definition(
        self, pools, shares, asked, power, of, many_rows
    ):
        site = view(*({"id": str(n), "stocks": stocks(*pool)} for n, pool in enumerate(pools)))
        whole = Mix(shares_of(shares))
        supplies = mix_supplies(site, whole, power=power, of=of)
        whole = with_scarcity(whole, supplies, power=power, of=of)
        wanted = request({"stocks": needs(*asked)}, mix=whole)
        with mock.patch.object(mix_room, "MANY_ROWS", many_rows):
            found = fragmentation(site, wanted, power=power, of=of)
        totals = [sum(number_of(pool, one, of) for pool in pools) for one, _ in shares]
        weights = [
            weight * (((max(totals) + 1) / (total + 1)) ** power if total else 1.0)
            for (_, weight), total in zip(shares, totals, strict=True)
        ]
        for pool, score in zip(pools, found.tolist(), strict=True):
            if number_of(pool, asked) < 1:
                continue
            left = after(pool, asked)
            lost = [number_of(pool, one, of) - number_of(left, one, of) for one, _ in shares]
            mean = sum(map(math.prod, zip(weights, lost, strict=True))) / sum(weights)
            self.assertAlmostEqual(1 / (1 + mean), score)

    def test_it_is_a_weigher(self):
        check_weigher(fragmentation)
        check_weigher(fragmentation, power=0.0)
        check_weigher(fragmentation, of="accelerators")


class TestBlocks(unittest.TestCase):
    """Pools of blocks, each of which serves one node."""

    def score(self, asked, shares, *podms, **options):
        site = view(*podms)
        whole = Mix(tuple(FlavorShare(request(one).needs, weight=w) for one, w in shares))
        whole = with_scarcity(whole, mix_supplies(site, whole, **options), **options)
        return fragmentation(site, request(asked, mix=whole), **options).tolist()

    def test_a_block_serves_one_node(self):
        one = {"id": "one", "blocks": [cpu("a", 64), cpu("b", 8)]}
        # 64 cores in one block make one node of 8 or of 16 cores, not 8 and 4
        self.assertEqual([0.5], self.score(SMALL, [(SMALL, 1.0)], one))

    def test_memory_is_kept_for_the_nodes_that_need_it(self):
        poor, rich = cpu("a", 16, 32), cpu("b", 16, 64)
        podms = {"id": "poor", "blocks": [poor]}, {"id": "rich", "blocks": [rich]}
        found = self.score(SMALL, [(SMALL, 1.0), (LARGE, 1.0)], *podms)
        self.assertGreater(found[0], found[1])

    def test_a_pool_of_one_compute_block_per_node_does_not_join_small_ones(self):
        blocks = [cpu("a", 8, pools=["p"]), cpu("b", 8, pools=["p"])]
        pools = {"id": "p"}, {"id": "p", "limits": {"Compute": {"max": 1}}}
        podms = ({"id": f"{n}", "blocks": blocks, "pools": [pools[n]]} for n in range(2))
        shares = [(SMALL, 1.0), ({"processor": {"total_cores": 16}}, 1.0)]
        found = self.score(SMALL, shares, *podms, power=0.0)
        self.assertEqual([1 / 2, 1 / 1.5], found)  # the other loses no room for 16 cores

    def test_cores_beside_accelerators_are_kept_for_the_nodes_that_need_both(self):
        podms = (
            {"id": "with", "blocks": [cpu("a", 8), gpu("g", 1, "A100")]},
            {"id": "without", "blocks": [cpu("a", 8)]},
        )
        found = self.score(SMALL, [(SMALL, 1.0), (CARD, 1.0)], *podms)
        self.assertLess(found[0], found[1])

    def test_accelerators_count_even_where_cores_run_out_first(self):
        """The pool has cores for one node, and counts 2.5 nodes by them: a node loses two cards."""
        found = view({"id": "p", "blocks": [cpu("c1", 8), gpu("g1"), gpu("g2")]})
        self.assertEqual([1 / 2], fragmentation(found, request(CARD)).tolist())
        self.assertEqual([1 / 3], fragmentation(found, request(CARD), of="accelerators").tolist())

    def test_needs_that_take_the_same_blocks_score_alike(self):
        blocks = [cpu("c1", 16), cpu("c2", 32), cpu("c3", 32)]
        found = view({"id": "p", "blocks": blocks}, {"id": "q", "blocks": blocks[1:]})
        large = request({"processor": {"total_cores": 32}})
        mix = Mix((FlavorShare(large.needs), FlavorShare(request(SMALL).needs)))
        few, more, most = (
            fragmentation(found, request({"processor": {"total_cores": cores}}, mix=mix)).tolist()
            for cores in (9, 16, 17)
        )
        self.assertEqual(few, more)
        self.assertGreater(few[0], few[1])  # pool p gives its small block
        self.assertEqual(most[0], most[1])

    def test_a_scarce_flavor_counts_more(self):
        podms = (
            {"id": "last", "blocks": [cpu("a", 16, 64)]},
            *({"id": f"p{n}", "blocks": [cpu("a", 16, 8)]} for n in range(8)),
        )
        shares = [(SMALL, 9.0), (LARGE, 1.0)]
        gaps = []
        for power in (0.0, 0.5, 1.0):
            found = self.score(SMALL, shares, *podms, power=power)
            gaps.append(found[1] - found[0])
        self.assertLess(0.0, gaps[0])
        self.assertEqual(sorted(set(gaps)), gaps)

    def test_a_flavor_counts_where_its_traits_are(self):
        site = view(
            {"id": "fast", "traits": ["HW_FAST"], "blocks": [cpu("a", 8)]},
            {"id": "slow", "blocks": [cpu("a", 8)]},
        )
        fast = NameRequirements(required=("HW_FAST",))
        needs_ = request(SMALL).needs
        whole = Mix((FlavorShare(needs_), FlavorShare(needs_, fast)))
        found = fragmentation(site, request(SMALL, mix=whole), power=0.0).tolist()
        self.assertEqual([1 / 2, 1 / 1.5], found)

    def test_without_a_mix_the_request_is_its_own(self):
        one, two = {"id": "1", "blocks": [cpu("a", 8)]}, {"id": "2", "blocks": [cpu("a", 8)]}
        found = fragmentation(view(one, two), request(SMALL)).tolist()
        self.assertEqual([0.5, 0.5], found)

    def test_the_score_is_the_same_after_another_site_adds_block_kinds(self):
        site = view({"id": "1", "blocks": [cpu("a", 8), cpu("b", 16)]})
        asked = request(SMALL)
        before = fragmentation(site, asked).tolist()
        ViewBuilder(site.kinds).add(lean({"id": "2", "blocks": [cpu("a", 32)]}), "test")
        self.assertEqual(before, fragmentation(site, asked).tolist())

    def test_the_scarcity_of_a_flavor_by_hand(self):
        """The pools can make 17 nodes of the first flavor, 1 of the second, none of the third."""
        mix = Mix(shares_of([((cores, 0, 250, 0), 1.0) for cores in (1, 2, 3)]))
        self.assertEqual((1.0, (17 + 1) / (1 + 1), 1.0), with_scarcity(mix, (17, 1, 0)).scarcity)
        self.assertEqual((1.0, 9**0.5, 1.0), with_scarcity(mix, (17, 1, 0), power=0.5).scarcity)

    def test_all_shares_alike_need_no_supplies(self):
        site = view({"id": "1", "blocks": [cpu("a", 8)]})
        share = FlavorShare(request(SMALL).needs)
        self.assertEqual((), mix_supplies(site, Mix((share,))))
        self.assertEqual((), mix_supplies(site, Mix((share, share)), power=0.0))
        self.assertEqual((), mix_supplies(site, Mix((share, share), (1.0, 2.0))))


class TestPolicy(unittest.TestCase):
    def test_cpu_nodes_go_where_no_accelerator_is_cut_off(self):
        plain = {"id": "plain", "blocks": [cpu("c", 8)]}
        cards = {"id": "cards", "blocks": [cpu("c", 8), gpu("g")]}
        flavors = (request({"processor": {"total_cores": 8}, "accelerators": [{}]}),)
        mix = Mix(tuple(FlavorShare(one.needs) for one in flavors))
        for site in ((plain, cards), (cards, plain)):
            made = engine(view(*site), mix=lambda: mix)
            asked = request({"processor": {"total_cores": 8}}, policy="fragmentation")
            self.assertEqual("plain", made.select_destinations(asked).placements[0].chosen.podm)

    def test_a_node_that_needs_no_trait_leaves_a_scarce_model_free(self):
        node = {"processor": {"total_cores": 8}, "accelerators": [{}]}
        rare = {"id": "rare", "traits": ["RARE"], "blocks": [cpu("c", 8), gpu("g")]}
        common = {"id": "common", "blocks": [cpu(f"c{n}", 8) for n in range(4)]
                  + [gpu(f"g{n}") for n in range(4)]}  # fmt: skip
        names = NameRequirements(required=("RARE",))
        mix = Mix((FlavorShare(request(node).needs), FlavorShare(request(node).needs, names)))
        for site in ((rare, common), (common, rare)):
            made = engine(view(*site), mix=lambda: mix)
            decided = made.select_destinations(request(node, policy="fragmentation"))
            self.assertEqual("common", decided.placements[0].chosen.podm)

    def test_the_mix_is_asked_for_only_when_a_policy_looks_at_it(self):
        def never():
            raise AssertionError("the mix must not be read")

        made = engine(view({"id": "a", "blocks": [cpu("c", 8)]}), mix=never)
        asked = request({"processor": {"total_cores": 8}}, policy="chance")
        self.assertEqual("placed", made.select_destinations(asked).outcome)


class TestLedger(unittest.TestCase):
    """A ledger caches what nodes leave of each pool."""

    def test_with_another_scarcity_scores_are_those_of_a_new_evaluation(self):
        models = [["A"], ["B"], ["A", "B"]]
        cards = [[1000, 250 * (number % 5), 1000][: 1 + number % 3] for number in range(300)]
        podms = [
            {"id": str(n), "traits": models[n % 3], "stocks": stocks(2 + n % 7, 9, cards[n])}
            for n in range(300)
        ]
        use = WeigherUse("fragmentation", 1.0)
        bound = bind(Policy(name="one", filters=(FilterUse("capacity"),), weighers=(use,)))
        kinds = ((1, 0, 500, 1), (2, 1, 1000, 2))
        asked = [request({"stocks": needs(*one)}, policy="one") for one in kinds]
        traits = [NameRequirements(any_of=(tuple(some),)) for some in models[:2]]
        mix = Mix((FlavorShare(asked[0].needs, traits[0]), FlavorShare(asked[1].needs, traits[1])))
        ledger, scarcities = Ledger(view(*podms)), set()
        for turn in range(90):
            one = sealed(msgspec.structs.replace(asked[turn % 2], mix=mix))
            context = ledger.context(one, bound, strict=True)
            scarcities.add(context.request.mix.scarcity)
            every = ledger.view.take(range(len(podms)))
            fresh = evaluate(every, context.request, bound, strict=True)
            self.assertEqual(fresh.scores.tolist(), context.evaluation.scores.tolist())
            self.assertEqual(fresh.cost.tolist(), context.evaluation.cost.tolist())
            row = int(context.evaluation.cost.argmin())
            ledger.take(context.fit(ledger.view, row))
        self.assertGreater(len(scarcities), 2)

    def test_after_nodes_many_pools_of_blocks_score_as_in_a_new_evaluation(self):
        podms = [
            {
                "id": str(n),
                "blocks": [cpu(f"b{block}", 8 + 8 * (block % 2)) for block in range(n % 5)],
            }
            for n in range(300)
        ]
        use = WeigherUse("fragmentation", 1.0)
        bound = bind(Policy(name="one", filters=(FilterUse("capacity"),), weighers=(use,)))
        asked = [request({"processor": {"total_cores": cores}}, policy="one") for cores in (8, 24)]
        shares = tuple(FlavorShare(one.needs) for one in asked)
        ledger = Ledger(view(*podms))
        for turn in range(20):
            mix = Mix(shares, scarcity=(1.0, 1.0 + turn))  # another evaluation of all pools
            one = sealed(msgspec.structs.replace(asked[turn % 2], mix=mix))
            context = ledger.context(one, bound, strict=True)
            fresh = evaluate(ledger.view.take(range(len(podms))), one, bound, strict=True)
            self.assertEqual(fresh.scores.tolist(), context.evaluation.scores.tolist())
            best = context.evaluation.cost.argsort(kind="stable")[:20].tolist()
            for fit in [context.fit(ledger.view, row) for row in best]:
                if fit is not None:
                    ledger.take(fit)
