# SPDX-License-Identifier: Apache-2.0
"""Fragmentation compared with its definition, computed in plain Python on small pools."""

import unittest

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.deciders import cpu, engine, gpu
from tests.unit.core.sites import quietly
from valence_sched.core.evaluation import evaluate
from valence_sched.core.evaluation_cache import Ledger
from valence_sched.core.policy import bind
from valence_sched.errors import RequestError
from valence_sched.model.need import NameRequirements
from valence_sched.model.policy import FilterUse, Policy, WeigherUse
from valence_sched.model.request import FlavorShare, Mix, sealed
from valence_sched.testing import check_weigher, request, view
from valence_sched.view.fragmentation import protection
from valence_sched.weighers.fragmentation import fragmentation, mix_supplies, with_scarcity

CARD = 1000


def completed(site, mix, **options):
    """Return a mix with its scarcity on a site."""
    return with_scarcity(mix, mix_supplies(site, mix, **options), **options)


def stocks(cores, cards):
    return [{"uri": "c", "resource": "cores", "total": cores}] + [
        {"uri": f"g{number}", "resource": "milli", "total": CARD, "used": CARD - left}
        for number, left in enumerate(cards)
    ]


def needs(cores, milli, count):
    """Return the needs of a node of this number of cores and parts of cards."""
    asked = [{"resource": "cores", "amount": cores}]
    return [*asked, {"resource": "milli", "amount": milli, "count": count}] if count else asked


def useless(cores, cards, traits, mix):
    """Return F of one pool by the definition of the paper, as far as the cores suffice."""
    shares = [share for share in mix if share[2]]
    weights = sum(share[4] for share in shares)
    found = 0.0
    for asked, milli, count, trait, weight in shares:
        fits = cores >= asked and sum(left // milli for left in cards) >= count
        fits = fits and (trait is None or trait in traits)
        useful = sum(left for left in cards if left >= milli) if fits else 0
        useful = min(useful, 2.5 * cores / asked * count * milli)
        found += weight / weights * (sum(cards) - useful)
    return found


def after(cards, milli, count):
    """Return the cards after these grants, each from the tightest card with room."""
    cards = list(cards)
    for _ in range(count):
        tightest = min(
            (n for n in range(len(cards)) if cards[n] >= milli), key=lambda n: (cards[n], n)
        )
        cards[tightest] -= milli
    return cards


def replaced(asked, mix):
    return msgspec.structs.replace(asked, mix=mix)


def scored(growth):
    return 0.5 - growth / (2 * (abs(growth) + 1))


PARTS = st.sampled_from([200, 250, 500, 750, 1000])
ASKED = st.tuples(st.integers(1, 4), PARTS, st.integers(0, 2), st.sampled_from([None, "A", "B"]),
                  st.integers(1, 5))  # fmt: skip
POOL = st.tuples(
    st.integers(1, 8),
    st.lists(st.sampled_from([0, 200, 250, 450, 500, 700, 800, 1000]), max_size=4),
    st.sampled_from([[], ["A"], ["A", "B"]]),
)


class TestStocks(unittest.TestCase):
    @quietly(200)
    @given(st.lists(POOL, min_size=1, max_size=3), st.lists(ASKED, min_size=1, max_size=4), ASKED)
    def test_the_score_is_the_growth_of_f_by_definition(self, pools, mix, asked):
        cores, milli, count, _, _ = asked
        shares = tuple(
            FlavorShare(
                request({"stocks": needs(*share[:3])}).needs,
                NameRequirements(required=(share[3],)) if share[3] else NameRequirements(),
                share[4],
            )
            for share in mix
        )
        site = view(*({"id": str(n), "traits": traits, "stocks": stocks(free, cards)}
                      for n, (free, cards, traits) in enumerate(pools)))  # fmt: skip
        one = request({"stocks": needs(cores, milli, count)})
        found = fragmentation(site, replaced(one, Mix(shares)), of="milli")
        largest = max((share[1] for share in mix if share[2]), default=None)
        for score, (free, cards, traits) in zip(found, pools, strict=True):
            lacks = free < cores or (count and max(cards, default=0) < milli)
            if largest is None or lacks:
                self.assertEqual(0.5, score)
                continue
            if count and sum(left // milli for left in cards) < count:
                continue  # the filters reject it
            growth = useless(free - cores, after(cards, milli, count), traits, mix)
            growth -= useless(free, cards, traits, mix)
            self.assertAlmostEqual(scored(growth / largest), score, 9)

    def test_another_mix_or_another_scarce_thing_on_the_same_view_is_counted_anew(self):
        pools = ((8, [1000, 450]), (3, [700, 500]))
        podms = [{"id": str(n), "stocks": stocks(*pool)} for n, pool in enumerate(pools)]
        site, one = view(*podms), request({"stocks": needs(1, 250, 1)})
        seen = []
        wide, narrow = needs(2, 750, 1), needs(1, 200, 1)
        for flavor, of in ((narrow, "milli"), (wide, "milli"), (wide, "cores"), (narrow, "milli")):
            share = FlavorShare(request({"stocks": flavor}).needs, NameRequirements(), 1)
            asked = replaced(one, Mix((share,)))
            seen.append(fragmentation(site, asked, of=of).tolist())
            self.assertEqual(fragmentation(view(*podms), asked, of=of).tolist(), seen[-1])
        self.assertEqual(3, len(set(map(tuple, seen))))

    def test_the_only_one_that_is_left_counts_too(self):
        pair = request({"stocks": [{"resource": "cards", "amount": 2}]})
        asked = replaced(request({"stocks": [{"resource": "cards", "amount": 1}]}),
                         Mix((FlavorShare(pair.needs, NameRequirements(), 1),)))  # fmt: skip
        site = view(*({"id": str(n), "stocks": [{"uri": "s", "resource": "cards", "total": n}]}
                      for n in (0, 1)))  # fmt: skip
        # useless for the pair, and used by this node: half of the use of the pair
        expected = [0.5, scored(-0.5)]
        self.assertEqual(expected, fragmentation(site, asked, of="cards").tolist())

    def test_it_is_a_weigher_whatever_is_scarce(self):
        check_weigher(fragmentation)
        check_weigher(fragmentation, step=0.125)
        check_weigher(fragmentation, of="storage_gib")
        check_weigher(fragmentation, of="cxl_memory_mib", step=0.1)


class TestBlocks(unittest.TestCase):
    @quietly(60)
    @given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(0, 3)),
                    min_size=1, max_size=3),
           st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4), st.integers(1, 3)),
                    min_size=1, max_size=3))  # fmt: skip
    def test_the_growth_is_that_of_the_very_blocks_that_the_fit_takes(self, pools, mix):
        def site(sizes):
            return view(*({"id": str(n), "blocks": [
                *[cpu(f"c{i}", 1) for i in range(cores)],
                *[gpu(f"g{i}") for i in range(cards)],
                *[gpu(f"x{i}", model="Other") for i in range(others)]]}
                for n, (cores, cards, others) in enumerate(sizes)))  # fmt: skip

        def wanted(cores, cards):
            cards = [{"model": "A100", "count": cards}] if cards else []
            return request({"processor": {"total_cores": cores}, "accelerators": cards})

        def f(cores, cards, others):
            shares = [share for share in mix if share[1]]
            weights = sum(weight for _, _, weight in shares)
            return sum(
                weight / weights * (cards + others - useful(cores, cards, c, g))
                for c, g, weight in shares
            )

        def useful(cores, cards, c, g):
            return min(cards, 2.5 * g * cores / c) if cores >= c and cards >= g else 0

        shares = Mix(tuple(FlavorShare(wanted(c, g).needs, weight=w) for c, g, w in mix))
        for cores, cards, _ in mix:
            asked = replaced(wanted(cores, cards), shares)
            found = fragmentation(site(pools), asked)
            for row, (c, g, x) in enumerate(pools):
                if not any(share[1] for share in mix) or c < cores or g < cards:
                    self.assertEqual(0.5, found[row])
                else:
                    growth = f(c - cores, g - cards, x) - f(c, g, x)
                    self.assertAlmostEqual(scored(growth), found[row], 9)

    def test_a_block_that_brings_two_things_is_taken_once(self):
        both = cpu("b", 8, 64)
        site = view({"id": "a", "blocks": [both, gpu("g", 2)]})
        asked = request({"processor": {"total_cores": 8}, "memory": {"capacity_mib": 64}})
        mix = Mix((FlavorShare(request({"processor": {"total_cores": 8},
                                    "accelerators": [{"count": 2}]}).needs),))  # fmt: skip
        self.assertAlmostEqual(scored(2.0), fragmentation(site, replaced(asked, mix))[0])

    def test_without_a_mix_the_request_is_its_own(self):
        site = view({"id": "a", "blocks": [cpu("c", 8), gpu("g")]})
        asked = request({"processor": {"total_cores": 8}, "accelerators": [{}]})
        self.assertEqual(0.5, fragmentation(site, asked)[0])  # the node uses everything
        self.assertEqual(0.5, fragmentation(site, request({"processor": {"total_cores": 8}}))[0])

    def test_growths_within_a_step_are_equal(self):
        site = view(
            *({"id": str(n), "stocks": stocks(4, [left])} for n, left in enumerate((560, 590)))
        )
        mix = Mix((FlavorShare(request({"stocks": needs(1, 1000, 1)}).needs),
                   FlavorShare(request({"stocks": needs(1, 90, 1)}).needs)))  # fmt: skip
        asked = replaced(request({"stocks": needs(1, 500, 1)}), mix)
        exact, near = (fragmentation(site, asked, of="milli", step=s) for s in (0.0, 0.25))
        self.assertNotEqual(*exact)
        self.assertEqual(*near)

    def test_a_growth_half_way_between_two_steps_is_no_matter_of_its_last_digit(self):
        site = view({"id": "a", "stocks": stocks(4, [CARD])})
        mix = Mix((FlavorShare(request({"stocks": needs(1, CARD, 1)}).needs),))
        asked = replaced(request({"stocks": needs(1, 700, 1)}), mix)
        # 0.3 of a card is lost: 1.5 steps, although in floats 0.3 / 0.2 is less than 1.5
        found = fragmentation(site, asked, of="milli", step=0.2)
        self.assertAlmostEqual(scored(0.4), found[0])

    def test_cards_count_as_far_as_the_cores_beside_them_go_round(self):
        few, many = ({"id": str(n), "stocks": stocks(n, [CARD] * 4)} for n in (7, 16))
        mix = Mix((FlavorShare(request({"stocks": needs(5, CARD, 1)}).needs),))
        asked = replaced(request({"stocks": needs(1, CARD, 1)}), mix)
        # with 7 cores 3.5 of 4 cards are usable, then 3 of 3; with 16 all 4, then all 3
        found = fragmentation(view(few, many), asked, of="milli")
        self.assertEqual([scored(-0.5), scored(0.0)], found.tolist())

    def test_cores_alone_go_where_they_feed_no_card(self):
        rich, poor = ({"id": str(n), "stocks": stocks(n, [CARD] * 4)} for n in (16, 8))
        mix = Mix((FlavorShare(request({"stocks": needs(5, CARD, 1)}).needs),))
        asked = replaced(request({"stocks": needs(2, 0, 0)}), mix)
        found = fragmentation(view(rich, poor), asked, of="milli")
        self.assertEqual([scored(0.0), scored(1.0)], found.tolist())

    def test_of_hosts_of_any_size_the_one_that_the_fit_takes_goes(self):
        cards = [gpu(f"g{number}") for number in range(4)]
        mix = Mix(
            (FlavorShare(request({"processor": {"total_cores": 16}, "accelerators": [{}]}).needs),)
        )
        # a core of the large host is cheaper, but the small host is sufficient
        site = view({"id": "a", "blocks": [cpu("small", 8), cpu("large", 64), *cards]})
        asked = replaced(request({"processor": {"total_cores": 4}}), mix)
        self.assertEqual([scored(0.0)], fragmentation(site, asked).tolist())


class TestScarcity(unittest.TestCase):
    """The value of flavors that require traits."""

    def setUp(self):
        one_card = request({"stocks": needs(1, CARD, 1)})
        self.asked = one_card
        self.flexible = FlavorShare(one_card.needs, weight=6)
        self.rare = FlavorShare(one_card.needs, NameRequirements(required=("RARE",)), 4)
        self.mix = Mix((self.flexible, self.rare))
        self.site = view(
            {"id": "common", "stocks": stocks(8, [CARD] * 8)},
            {"id": "rare", "traits": ["RARE"], "stocks": stocks(1, [CARD])},
        )

    def test_it_is_what_the_best_supplied_share_may_take_to_what_the_share_may(self):
        # nine cards for all, one of them for the rare ones, and one card more of both
        found = completed(self.site, self.mix, of="milli")
        self.assertEqual((1.0, 10 / 2), found.scarcity)
        self.assertEqual(self.mix.shares, found.shares)

    def test_a_supply_that_is_used_up_is_worth_most_and_not_without_end(self):
        pools = [{"id": str(n), "stocks": stocks(8, [CARD] * 8)} for n in range(200)]
        found = completed(view(*pools), self.mix, of="milli")
        self.assertEqual((1.0, 1000.0), found.scarcity)

    def test_nothing_is_scarce_where_no_flavor_names_hardware(self):
        mix = Mix((self.flexible,))
        self.assertIs(mix, completed(self.site, mix, of="milli"))

    def test_a_model_of_few_devices_is_scarce(self):
        few = {"id": "few", "blocks": [cpu("c", 8), gpu("g", model="NVIDIA H100")]}
        many = {"id": "many", "blocks": [cpu("c", 8), gpu("g", 4)]}
        node = {"processor": {"total_cores": 8}}
        shares = tuple(FlavorShare(request({**node, "accelerators": [wanted]}).needs)
                       for wanted in ({}, {"model": "A100"}, {"model": "H100"}))  # fmt: skip
        # beside 8 cores at most 2.5 cards are usable: 2.5 + 1 of any model, 2.5 and 1 of each
        found = completed(view(few, many), Mix(shares)).scarcity
        self.assertEqual((1.0, (3.5 + 1) / (2.5 + 1), (3.5 + 1) / (1 + 1)), found)

    def test_flavors_that_all_find_alike_are_not_scarce(self):
        site = view({"id": "a", "blocks": [cpu("c", 8), gpu("g", 2)]})
        shares = tuple(FlavorShare(request({"accelerators": [wanted]}).needs)
                       for wanted in ({}, {"model": "A100"}))  # fmt: skip
        self.assertEqual((), completed(site, Mix(shares)).scarcity)

    def test_nothing_is_scarce_where_no_flavor_needs_the_scarce_thing(self):
        self.assertEqual((), completed(self.site, self.mix, of="drives").scarcity)

    def test_a_flavor_without_the_scarce_thing_has_a_scarcity_of_one(self):
        plain = FlavorShare(request({"stocks": needs(1, 0, 0)}).needs)
        found = completed(self.site, Mix((plain, *self.mix.shares)), of="milli")
        self.assertEqual((1.0, 1.0, 5.0), found.scarcity)

    def test_a_mix_that_has_its_scarcity_keeps_it(self):
        mix = Mix(self.mix.shares, (1.0, 2.0))
        self.assertIs(mix, completed(self.site, mix, of="milli"))

    def test_the_use_of_a_flavor_counts_as_many_times_as_it_is_scarce(self):
        mix = completed(self.site, self.mix, of="milli")
        found = fragmentation(self.site, replaced(self.asked, mix), of="milli")
        # a card less: of the common ones the mix loses 0.6, of the rare ones 0.6 + 5 x 0.4
        self.assertEqual([scored(0.6 - 1), scored(0.6 + 5 * 0.4 - 1)], found.tolist())

    def test_with_protect_a_flavor_that_more_may_ask_for_than_there_is_counts_more(self):
        mix = completed(self.site, self.mix, of="milli", protect=True)
        # one card is used up as late as the nine; 3.6 of nine nodes are expected to name it
        self.assertEqual((1.0, 10 / 2 + 10 * protection(0.4 * 9, 1.0) / 0.4), mix.scarcity)
        found = fragmentation(self.site, replaced(self.asked, mix), of="milli", protect=True)
        # times five, since a node that names it may have any needs
        self.assertAlmostEqual(scored(0.6 + (mix.scarcity[1] + 5) * 0.4 - 1), found[1], 9)

    def test_with_protect_hardware_that_is_used_up_sooner_counts_more(self):
        half = {"id": "rare", "traits": ["RARE"], "stocks": stocks(1, [CARD] * 3)}
        half["stocks"][1]["used"] = half["stocks"][2]["used"] = CARD
        share = FlavorShare(self.rare.needs, self.rare.traits, 1e-6)  # almost never requested
        site = view({"id": "common", "stocks": stocks(8, [CARD] * 8)}, half)
        found = completed(site, Mix((self.flexible, share)), of="milli", protect=True)
        # the site can use 9 of 11 cards, and these requests 1 of 3
        uneven = ((9 + 1) / (11 + 1)) / ((1 + 1) / (3 + 1))
        self.assertAlmostEqual(5 * (1 + 10 * (uneven**2 - 1)), found.scarcity[1], 9)

    def test_with_protect_pools_with_several_free_cards_are_kept(self):
        two = FlavorShare(request({"stocks": needs(1, CARD, 2)}).needs, weight=4)
        mix = Mix((self.flexible, two))
        self.assertIs(mix, completed(self.site, mix, of="milli"))
        found = completed(self.site, mix, of="milli", protect=True)
        self.assertEqual(1.0, found.scarcity[0])
        self.assertGreater(found.scarcity[1], 1.0)

    def test_with_protect_hardware_that_flavors_name_is_kept_for_other_needs(self):
        two = FlavorShare(request({"stocks": needs(1, CARD, 2)}).needs, self.rare.traits, 4)
        pools = ({"id": "common", "stocks": stocks(1, [CARD])},
                 {"id": "rare", "traits": ["RARE"], "stocks": stocks(1, [CARD])})  # fmt: skip
        site = view(*pools)
        asked = replaced(self.asked, Mix((self.flexible, two), (1.0, 3.0)))
        for _ in range(2):  # a cached answer for one is not valid for the other
            for options, more in (({}, 0.0), ({"protect": True}, 5 * 0.6 * 0.4)):
                found = fragmentation(site, asked, of="milli", **options)
                # no pool has two cards; each loses one that 0.6 of the requests need
                self.assertEqual(scored(0.6 - 1), found[0])
                self.assertAlmostEqual(scored(0.6 + more - 1), found[1], 9)

    def test_with_protect_and_nothing_scarce_other_needs_count_nothing(self):
        asked = replaced(self.asked, self.mix)
        plain, protected = (fragmentation(self.site, asked, of="milli", protect=protect).tolist()
                            for protect in (False, True))  # fmt: skip
        self.assertEqual(plain, protected)

    def test_flavors_that_differ_in_traits_alone_are_added_up(self):
        half = FlavorShare(self.rare.needs, self.rare.traits, 2)
        whole, halves = (replaced(self.asked, Mix((self.flexible, *shares)))
                         for shares in ((self.rare,), (half, half)))  # fmt: skip
        self.assertEqual(fragmentation(self.site, whole, of="milli").tolist(),
                         fragmentation(self.site, halves, of="milli").tolist())  # fmt: skip

    def test_a_scarcity_for_each_share_or_none(self):
        with self.assertRaisesRegex(
            RequestError, "a mix of 2 shares with 1 value of scarcity: expected one for each share"
        ):
            sealed(replaced(self.asked, Mix(self.mix.shares, (1.0,))))


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

    def test_nodes_of_the_same_blocks_have_the_growth_that_each_has_by_itself(self):
        site = view(*[{"id": str(number), "blocks": [cpu("c", 8), cpu("d", 24), gpu("g")]}
                      for number in range(3)])  # fmt: skip
        mix = Mix((FlavorShare(request({"accelerators": [{}]}).needs),
                   FlavorShare(request({"processor": {"total_cores": 8},
                                        "accelerators": [{"model": "A100"}]}).needs)))  # fmt: skip
        mix = completed(site, mix)
        for cores in (1, 8, 9, 7, 25, 32, 33):
            asked = {"processor": {"total_cores": cores}, "accelerators": [{"model": "A100"}]}
            one = msgspec.structs.replace(request(asked), mix=mix)
            for _ in range(2):
                fresh = fragmentation(site.without_memo(), one, protect=True)
                self.assertEqual(fresh.tolist(), fragmentation(site, one, protect=True).tolist())

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
        podms = [
            {"id": str(number), "traits": models[number % 3],
             "stocks": stocks(2 + number % 7, [CARD, 250 * (number % 5), CARD][: 1 + number % 3])}
            for number in range(300)
        ]  # fmt: skip
        use = WeigherUse("fragmentation", 1.0, {"of": "milli", "protect": True})
        bound = bind(Policy(name="one", filters=(FilterUse("capacity"),), weighers=(use,)))
        kinds = ((1, 500, 1), (2, CARD, 2))
        asked = [request({"stocks": needs(*one)}, policy="one") for one in kinds]
        traits = [NameRequirements(any_of=(tuple(some),)) for some in models[:2]]
        mix = Mix((FlavorShare(asked[0].needs, traits[0]), FlavorShare(asked[1].needs, traits[1])))
        ledger, scarcities = Ledger(view(*podms)), set()
        for turn in range(90):
            one = sealed(replaced(asked[turn % 2], mix))
            context = ledger.context(one, bound, strict=True)
            scarcities.add(context.request.mix.scarcity)
            every = ledger.view.take(range(len(podms)))
            fresh = evaluate(every, context.request, bound, strict=True)
            self.assertEqual(fresh.scores.tolist(), context.evaluation.scores.tolist())
            self.assertEqual(fresh.cost.tolist(), context.evaluation.cost.tolist())
            row = int(context.evaluation.cost.argmin())
            ledger.take(context.fit(ledger.view, row))
        self.assertGreater(len(scarcities), 2)
