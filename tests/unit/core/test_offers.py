# SPDX-License-Identifier: Apache-2.0
"""Offers: the nodes that the podms of one zone offer to a tree of zones, and taken candidates."""

import unittest
from random import Random

import msgspec
from msgspec.structs import replace

from tests.unit.core.deciders import built_in, cpu, cpus, engine_of, gpu
from tests.unit.core.fit.covers import FAMILIES, podm, properties
from tests.unit.core.sites import sized
from tests.unit.core.test_decision import WithoutOptimiser, asked, decider
from valence_sched.errors import RequestError, StaleOffer
from valence_sched.model.decision import BlockRef, PoolRef
from valence_sched.model.request import GroupState
from valence_sched.model.zone import OfferQuery
from valence_sched.planning.succession import verify
from valence_sched.testing import request
from valence_sched.testing.generate import podms

CORES = {"processor": {"total_cores": 8}}
DISK = {"stocks": [{"resource": "gib", "amount": 4}]}
APART = {"name": "web", "anti_affinity": ["podm"]}


def site():
    """Return pod managers whose names are not in the order of their choice."""
    return [
        {"id": "c", "zone": "az1", "facts": {"rack": "r1"}, "blocks": cpus(2, 64)},
        {"id": "a", "zone": "az2", "facts": {"rack": "r1"}, "blocks": cpus(2)},
        {"id": "b", "zone": "az2", "facts": {"rack": "r2"}, "blocks": cpus(1)},
    ]


def query(properties=CORES, limit=0, per_podm=False, turn=0, group_state=None, closed=(), **words):
    order = "lot" if words.get("policy") == "chance" else "cost"
    return OfferQuery(
        request=request(properties, **words), order=order, limit=limit, per_podm=per_podm,
        turn=turn, group_state=group_state, closed=closed,
    )  # fmt: skip


def candidates(offers):
    return [one.candidate for one in offers]


class TestNodes(unittest.TestCase):
    def test_they_are_those_that_a_decision_places(self):
        decider = engine_of(*site())
        for policy in ("default", "pack", "chance"):
            with self.subTest(policy):
                words = {"count": 4, "min_count": 0, "policy": policy}
                placed = decider.select_destinations(request(CORES, **words)).placements
                found = decider.offers(query(**words), ()).nodes
                self.assertEqual([one.chosen for one in placed], candidates(found))
                self.assertEqual(4, len(found))

    def test_as_many_as_fit_are_offered_where_all_do_not(self):
        self.assertEqual(5, len(engine_of(*site()).offers(query(count=9), ()).nodes))
        self.assertEqual((), engine_of({"id": "a"}).offers(query(), ()).nodes)

    def test_a_later_turn_draws_lots_anew(self):
        decider = engine_of(*({"id": f"p{n}", "blocks": cpus(9)} for n in range(9)))
        placed = decider.select_destinations(request(CORES, count=6, policy="chance")).placements
        drawn = [
            decider.offers(query(policy="chance", turn=turn, limit=9, per_podm=True), ())
            for turn in range(6)
        ]
        expected = [one.chosen.podm for one in placed]
        self.assertEqual(expected, [one.nodes[0].candidate.podm for one in drawn])
        self.assertEqual(expected, [one.ranking[0].candidate.podm for one in drawn])
        self.assertGreater(len(set(expected)), 1)

    def test_the_place_of_a_node_of_a_group_is_told(self):
        group = {"name": "web", "affinity": ["zone", "aggregate"], "anti_affinity": ["podm"]}
        decider = engine_of({**site()[0], "aggregates": ["z", "y"]})
        found = decider.offers(query(group=group, limit=1), ())
        name = found.nodes[0].candidate.podm
        expected = {"podm": (name,), "zone": ("az1",), "location": (), "aggregate": ("y", "z")}
        places = [one.place for one in (*found.nodes, *found.ranking)]
        self.assertEqual([expected, expected], places)
        (offer,) = decider.offers(query(), ()).nodes
        self.assertEqual({}, offer.place)


class TestRanking(unittest.TestCase):
    """The best candidates for the first node."""

    def test_they_are_the_best_of_a_ranking_and_no_more_than_the_limit(self):
        decider = engine_of(*site(), {"id": "small", "blocks": cpus(1, 4)})
        for limit in (0, 1, 2, 9):
            with self.subTest(limit):
                best = decider.rank(request(CORES), limit).candidates
                found = decider.offers(query(limit=limit), ()).ranking
                self.assertEqual(list(best), candidates(found))
                self.assertEqual(min(limit, 3), len(found))

    def test_a_pod_manager_stands_in_it_once_where_that_is_asked(self):
        blocks = [cpu(f"{pool}{n}", 8, pools=[pool]) for pool in "pq" for n in range(2)]
        twice = {"id": "twice", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks}
        full = {"id": "full", "pools": [{"id": "p"}, {"id": "q"}],
                "blocks": [cpu("low", 4, pools=["p"]), cpu("high", 8, pools=["q"])]}  # fmt: skip
        decider = engine_of(twice, full)
        every = decider.offers(query(limit=9), ()).ranking
        self.assertEqual(3, len(every))
        once = decider.offers(query(limit=9, per_podm=True), ()).ranking
        first = {one.candidate.podm: one for one in reversed(every)}
        self.assertEqual([one for one in every if one in first.values()], list(once))
        self.assertEqual({"twice", "full"}, {one.candidate.podm for one in once})

    def test_by_lot_it_is_in_the_order_of_the_lots(self):
        podms = [{"id": f"p{n}", "blocks": cpus(1)} for n in range(12)]
        orders = {
            order: [one.podm for one in candidates(
                engine_of(*podms).offers(query(limit=12, policy=order), ()).ranking)]
            for order in ("default", "chance")
        }  # fmt: skip
        self.assertEqual({f"p{n}" for n in range(12)}, set(orders["chance"]))
        self.assertNotEqual(orders["default"], orders["chance"])


class TestTaken(unittest.TestCase):
    """Candidates that the same decision has already chosen."""

    def test_their_blocks_are_not_offered_again(self):
        decider, taken = engine_of(*site()), []
        for _ in range(5):
            (offer,) = decider.offers(query(limit=9), taken).nodes
            ranked = decider.offers(query(limit=9), taken).ranking
            self.assertEqual(offer, ranked[0])
            taken.append(offer.candidate)
        self.assertEqual(5, len({(one.podm, one.blocks[0].uri) for one in taken}))
        found = decider.offers(query(limit=9), taken)
        self.assertEqual(((), ()), (found.nodes, found.ranking))

    def test_they_are_the_nodes_that_a_decision_places_next(self):
        decider = engine_of(*site())
        placed = decider.select_destinations(request(CORES, count=5, policy="pack")).placements
        for number, one in enumerate(placed):
            earlier = [before.chosen for before in placed[:number]]
            found = decider.offers(query(policy="pack", limit=1), earlier)
            self.assertEqual([one.chosen], candidates(found.nodes))
            self.assertEqual([one.chosen], candidates(found.ranking))

    def test_the_amounts_of_their_stocks_are_not_offered_again(self):
        decider = engine_of({"id": "a", "stocks": [
            {"uri": "s", "resource": "gib", "total": 6},
            {"uri": "t", "resource": "gib", "total": 5},
        ]})  # fmt: skip
        taken = []
        for _ in range(2):
            (offer,) = decider.offers(query(DISK, limit=1), taken).nodes
            self.assertEqual((offer,), decider.offers(query(DISK, limit=1), taken).ranking)
            taken.append(offer.candidate)
        self.assertEqual({"s", "t"}, {grant.uri for one in taken for grant in one.grants})
        found = decider.offers(query(DISK, limit=1), taken)
        self.assertEqual(((), ()), (found.nodes, found.ranking))

    def test_one_that_is_no_longer_free_is_stale(self):
        (offer,) = engine_of(site()[1]).offers(query(), ()).nodes
        (_, other) = cpus(2)
        block = "block c0 is not free in pool 'all'"
        reserved = cpu("c0", 8, status={"reserved": True})
        gone = (
            (site()[0], "this pod manager is not in the inventory"),
            ({**site()[1], "blocks": [other]}, block),
            ({**site()[1], "blocks": [reserved, other]}, block),
            ({**site()[1], "pools": [{"id": "new"}], "blocks": [cpu("c0", 8, pools=["new"])]},
             "no pool 'all'"),
        )  # fmt: skip
        self.assertEqual(["c0"], [block.uri for block in offer.candidate.blocks])
        for now, what in gone:
            with self.subTest(what):
                with self.assertRaises(StaleOffer) as raised:
                    engine_of(now).offers(query(), [offer.candidate])
                self.assertEqual(f"a: {what}", str(raised.exception))

    def test_one_whose_stock_is_gone_is_stale(self):
        stock = {"uri": "s", "resource": "gib", "total": 6}
        (offer,) = engine_of({"id": "a", "stocks": [stock]}).offers(query(DISK), ()).nodes
        now = engine_of({"id": "a", "stocks": [{**stock, "uri": "t"}]})
        with self.assertRaises(StaleOffer):
            now.offers(query(DISK), [offer.candidate])

    def test_the_pool_of_a_candidate_is_found_by_its_name(self):
        """Of two pools with separate blocks, the node is taken from the named one."""
        blocks = [cpu(f"{pool}{n}", 8, pools=[pool]) for pool in "pq" for n in range(2)]
        pools = [{"id": "p"}, {"id": "q"}]
        decider = engine_of({"id": "a", "pools": pools, "blocks": blocks})
        best = decider.offers(query(limit=2), ()).ranking
        for offer in best:
            found = decider.offers(query(count=9), [offer.candidate]).nodes
            left = {block["uri"] for block in blocks} - {offer.candidate.blocks[0].uri}
            self.assertEqual(left, {one.candidate.blocks[0].uri for one in found})


class TestClosed(unittest.TestCase):
    """Places that are closed to the first node of a group."""

    GROUP = {"name": "web", "affinity": ["zone", "facts.rack"]}  # noqa: RUF012

    def first(self, *closed):
        found = engine_of(*site()).offers(query(group=self.GROUP, closed=closed), ()).nodes
        return found[0].candidate.podm if found else None

    def test_the_first_node_is_at_none_of_them(self):
        every = [{"zone": ("az1",), "facts.rack": ("r1",)},
                 {"zone": ("az2",), "facts.rack": ("r1",)},
                 {"zone": ("az2",), "facts.rack": ("r2",)}]  # fmt: skip
        names, closed = set(), []
        for _ in every:
            podm_ = self.first(*closed)
            names.add(podm_)
            closed.append(every["cab".index(podm_)])
        self.assertEqual({"a", "b", "c"}, names)
        self.assertIsNone(self.first(*closed))

    def test_a_place_is_closed_only_where_each_of_its_domains_agrees(self):
        """Another rack of the same zone, or the same rack name in another zone, stays open."""
        closed = [{"zone": zone, "facts.rack": ("r1",)} for zone in (("az2",), ("az1",))]
        self.assertEqual("b", self.first(*closed))
        self.assertEqual("b", self.first(*reversed(closed)))


class TestAnswer(WithoutOptimiser):
    """Further facts of an answer to the zone above."""

    def test_a_pool_that_is_not_settled_is_named(self):
        split = FAMILIES["split"](44, Random(4))
        hard = decider(podm("hard", split), podm("hard-2", split))
        node = properties(split)
        expected = {("hard", "p"), ("hard-2", "p")}
        for limit in (0, 9):
            with self.subTest(limit):
                words = OfferQuery(request=asked(), limit=limit)
                self.assertEqual(request(node, policy="tight"), words.request)
                found = hard.offers(words, ())
                self.assertEqual(((), ()), (found.nodes, found.ranking))
                self.assertEqual(expected, {(one.podm, one.pool) for one in found.undecided})
                self.assertIsInstance(found.undecided[0], PoolRef)

    def test_the_worst_cost_is_that_of_a_score_of_nothing(self):
        found = engine_of(*site()).offers(query(limit=9), ())
        for offer in found.ranking:
            one = offer.candidate
            self.assertAlmostEqual(one.score, 1 - one.cost / found.worst_cost, places=6)
            self.assertLess(one.score, 1.0)

    def test_names_of_no_pod_manager_here_are_told(self):
        podms = [{**one, "name": f"{one['id']}-name"} for one in site()]
        found = engine_of(*podms).offers(
            query(podms=["b", "nowhere", "a-name"], exclude_podms=["c-name", "gone"]), ()
        )
        self.assertEqual(("nowhere", "gone"), found.unknown_podms)
        self.assertEqual((), engine_of(*podms).offers(query(podms=["c"]), ()).unknown_podms)

    def test_offers_are_coupled_where_a_node_elsewhere_may_change_them(self):
        """A rule on one pod manager does not affect another; a spread over zones does."""
        decider = engine_of(*site())
        for group, coupled in (
            (None, False),
            (APART, False),
            ({"name": "web", "spread": [{"over": "zone"}]}, True),
            ({"name": "web", "anti_affinity": ["zone"]}, True),
        ):
            with self.subTest(group):
                self.assertIs(coupled, decider.offers(query(group=group), ()).coupled)


class TestCompany(unittest.TestCase):
    """The group state of all zones, with the nodes chosen here."""

    def setUp(self):
        self.decider = engine_of(*site())
        (offer,) = self.decider.offers(query(group=APART), ()).nodes
        self.taken = offer.candidate

    def test_the_group_state_counts_what_was_taken(self):
        asked_ = query(group=APART, owner="red")
        self.assertEqual({}, self.decider.group_state(asked_, ()).owned)
        state = self.decider.group_state(asked_, [self.taken])
        expected = {self.taken.podm: 1}
        self.assertEqual(({"podm": expected}, expected), (state.members, state.owned))

    def test_a_node_taken_here_keeps_the_next_one_elsewhere_with_the_state_of_all_zones(self):
        state = self.decider.group_state(query(group=APART), [self.taken])
        found = self.decider.offers(query(group=APART, group_state=state), [self.taken])
        (offer,) = found.nodes
        self.assertNotEqual(self.taken.podm, offer.candidate.podm)

    def test_a_node_in_another_zone_is_counted_by_the_state_that_is_given(self):
        elsewhere = GroupState(members={"zone": {"az2": 1}})
        group = {"name": "web", "anti_affinity": ["zone"]}
        found = self.decider.offers(query(group=group, group_state=elsewhere, limit=9), ())
        self.assertEqual(["c"], [one.candidate.podm for one in found.nodes])
        self.assertEqual({"c"}, {one.candidate.podm for one in found.ranking})
        every = self.decider.offers(query(group=group, limit=9), ())
        self.assertEqual({"a", "b", "c"}, {one.candidate.podm for one in every.ranking})


class TestSealed(unittest.TestCase):
    """A sealed request, before it is sent for offers."""

    def test_the_policies_are_those_of_the_decider_in_their_order(self):
        decider = engine_of(*site())
        names = [one.name for one in decider.policies()]
        self.assertEqual([one.name for one in built_in()], names)

    def test_the_policy_of_a_request_comes_with_the_largest_cost_of_a_pool(self):
        decider = engine_of(*site())
        for name in ("default", "pack"):
            policy, most_cost = decider.policy(decider.seal(request(CORES, policy=name)))
            self.assertEqual(name, policy.name)
            costs = [one.cost for one in decider.rank(request(CORES, policy=name), 9).candidates]
            self.assertTrue(all(0 <= cost <= most_cost for cost in costs), (costs, most_cost))

    def test_a_group_lets_more_weighers_count(self):
        decider = engine_of(*site())
        plain = decider.policy(decider.seal(request(CORES)))[1]
        group = {"name": "web", "soft_affinity": ["zone"]}
        self.assertGreater(decider.policy(decider.seal(request(CORES, group=group)))[1], plain)


class TestCandidates(unittest.TestCase):
    """Earlier chosen candidates, verified before they are held."""

    def offered(self, *podms, **words):
        return candidates(engine_of(*podms).offers(query(count=9, **words), ()).nodes)

    def verify(self, podms, chosen, *, partial=True, **fields):
        wanted = request(CORES, **{"count": 9, "min_count": 1, **fields})
        return verify(engine_of(*podms), wanted, chosen, partial=partial)

    def test_what_is_there_still_passes(self):
        offered = self.offered(*site())
        for partial in (True, False):
            fits = self.verify(site(), offered, partial=partial)
            self.assertEqual([one.waste for one in offered], [fit.waste for fit in fits])

    def test_a_block_that_is_gone_is_stale(self):
        fewer = [{**podm, "blocks": podm["blocks"][1:]} for podm in site()]
        with self.assertRaises(StaleOffer):
            self.verify(fewer, self.offered(*site()))

    def test_a_pool_that_a_filter_rejects_now_is_stale_and_named(self):
        offered = [one for one in self.offered(*site()) if one.podm == "c"]
        switched_off = [{**podm, "enabled": podm["id"] != "c"} for podm in site()]
        for partial, why in ((True, "a filter rejects it now"), (False, "not enabled")):
            with self.assertRaisesRegex(StaleOffer, f"^c: pool 'all': {why}"):
                self.verify(switched_off, offered, partial=partial)
        self.verify(switched_off, [one for one in self.offered(*site()) if one.podm != "c"])

    def test_no_more_and_no_fewer_nodes_are_carried_out_than_were_requested(self):
        offered = self.offered(*site())
        for fields in ({"count": 4, "min_count": 4}, {"count": 9, "min_count": 6}):
            with self.subTest(fields), self.assertRaisesRegex(StaleOffer, "nodes requested, 5 cho"):
                self.verify(site(), offered, partial=False, **fields)

    def test_the_rules_of_a_group_are_kept_among_the_nodes(self):
        apart = {"name": "g", "anti_affinity": ["podm"]}
        one, other = [one for one in self.offered(*site()) if one.podm == "c"]
        self.verify(site(), [one], partial=False, group=apart)
        with self.assertRaisesRegex(StaleOffer, "^c: pool 'all': .*at most 1 per podm"):
            self.verify(site(), [one, other], partial=False, group=apart)
        self.verify(site(), [one, other], group=apart)  # the zone above stores them


class TestVeryBlocks(unittest.TestCase):
    """A node uses exactly the blocks and amounts that its request needs."""

    def setUp(self):
        stock = {"uri": "s", "resource": "gib", "total": 100, "step": 4, "pools": ["1"]}
        self.podm = {
            "id": "p",
            "pools": [{"id": "1", "limits": {"Storage": {"min": 1}}}, {"id": "2"}],
            "blocks": [
                *(cpu(f"c{number}", 8, pools=["1"]) for number in range(3)),
                gpu("g1", 1, pools=["1"]), gpu("g2", 2, pools=["1"]), gpu("g9", 1, pools=["2"]),
                {"uri": "d", "type": ["Storage"], "pools": ["1"]},
            ],
            "stocks": [stock, {**stock, "uri": "t"}, {**stock, "uri": "u", "pools": ["2"]}],
        }  # fmt: skip
        self.wanted = request({
            **CORES,
            "accelerators": [{"kind": "GPU", "count": 1}],
            "stocks": [{"resource": "gib", "amount": 10}],
        })  # fmt: skip
        self.engine = engine_of(self.podm)
        (placement,) = self.engine.select_destinations(self.wanted).placements
        self.chosen = placement.chosen

    def refused(self, words, **fields):
        blocks = fields.pop("blocks", None)
        if blocks is not None:
            fields["blocks"] = tuple(BlockRef(uri=uri, type=()) for uri in blocks)
        with self.subTest(fields), self.assertRaisesRegex(StaleOffer, words):
            verify(self.engine, self.wanted, [replace(self.chosen, **fields)])

    def test_the_chosen_ones_do(self):
        self.assertEqual({"c0", "g1", "d"}, {one.uri for one in self.chosen.blocks})
        (fit,) = verify(self.engine, self.wanted, [self.chosen])
        self.assertEqual((self.chosen.waste, ((0, 12.0),)), (fit.waste, fit.grants))

    def test_others_do_as_well_and_count_what_they_waste(self):
        other = tuple(BlockRef(uri=uri, type=()) for uri in ("c2", "g2", "d"))
        (fit,) = verify(self.engine, self.wanted, [replace(self.chosen, blocks=other, waste=0)])
        self.assertGreater(fit.waste, self.chosen.waste)

    def test_other_blocks_do_not(self):
        not_made = "do not match a node of the request"
        for uris in (
            "",
            "c0",
            "c0 d",
            "c0 g1",
            "c0 g1 g2 d",
            "c0 c1 g1 d",
            "c0 c0 g1 d",
            "g1 g2 d",
        ):
            self.refused(not_made, blocks=uris.split())
        for blocks in (("c0", "g9", "d"), ("c0", "g1", "d", "gone"), ("c0", "g1", "")):
            self.refused("is not free in pool '1'", blocks=blocks)

    def test_other_amounts_do_not(self):
        (grant,) = self.chosen.grants
        for amount in (0, -4, 8, 11.9, 12.1, 16, 100, 1e308, 2**60):
            self.refused("do not match a node", grants=(replace(grant, amount=amount),))
        self.refused("do not match a node", grants=())
        self.refused("do not match a node", grants=(grant, replace(grant, uri="t")))
        self.refused("no stock u in pool '1'", grants=(replace(grant, uri="u"),))

    def test_another_place_does_not(self):
        self.refused("^p: block c0 is not free in pool '2'", pool="2")
        self.refused("^p: no pool ''", pool="")
        self.refused("^q: this pod manager is not in the inventory", podm="q")

    def test_what_asks_for_nothing_is_refused_as_a_request(self):
        nothing = replace(self.wanted, needs=())
        with self.assertRaisesRegex(RequestError, "has no needs"):
            verify(self.engine, nothing, [replace(self.chosen, blocks=(), grants=())])

    def test_every_node_of_a_random_site_is_what_its_request_takes(self):
        for seed in range(sized(32)):
            found = [msgspec.json.decode(one) for one in podms(3, 25, seed, 2, 2)]
            decider = engine_of(*found)
            for policy, cores, gpus in (("default", 40, 1), ("pack", 8, 0), ("chance", 70, 3)):
                cards = [{"kind": "GPU", "count": gpus}] if gpus else []
                wanted = request(
                    {"processor": {"total_cores": cores}, "accelerators": cards},
                    count=3, min_count=1, policy=policy, seed=seed,
                )  # fmt: skip
                placements = decider.select_destinations(wanted).placements
                chosen = [one.chosen for one in placements]
                if chosen:
                    fits = verify(decider, wanted, chosen)
                    self.assertEqual([one.waste for one in chosen], [fit.waste for fit in fits])
