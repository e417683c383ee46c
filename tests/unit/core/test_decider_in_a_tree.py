# SPDX-License-Identifier: Apache-2.0
"""What a decider tells a tree of zones of what other requests leave, and of the mix of flavors."""

import unittest

from msgspec import UNSET
from msgspec.structs import replace

from tests.unit.core.deciders import cpus, engine_of, gpu
from tests.unit.core.fit.hard_covers import podm, properties
from tests.unit.core.test_offers import APART, CORES, candidates, query, site
from tests.unit.core.test_undecided import HARD, SPLIT, WithoutOptimiser, asked, decider
from valence_sched.errors import DecisionUndecided, StaleOffer
from valence_sched.model.request import FlavorShare, Mix, NameRequirements
from valence_sched.model.zone import OtherCandidate, ZoneSupplies
from valence_sched.testing import request

NODE = {"processor": {"total_cores": 8}, "accelerators": [{}]}
NEEDS = request(NODE).needs
#: A flavor of no scarce thing, one that goes anywhere, and one for few pod managers.
PLAIN = FlavorShare(request(CORES).needs)
SHARES = FlavorShare(NEEDS), FlavorShare(NEEDS, NameRequirements(required=("RARE",)), 0.01)


def pod(name: str, size: int, *traits: str) -> dict:
    blocks = [*cpus(size), *(gpu(f"g{n}") for n in range(size))]
    return {"id": name, "blocks": blocks, "traits": [*traits]}


def others(*nodes, group: str | None = None, owner: str | None = None) -> list[OtherCandidate]:
    return [OtherCandidate(candidate=node, group=group, owner=owner) for node in nodes]


def blocks_of(nodes) -> set[tuple[str, str]]:
    return {(one.podm, block.uri) for one in candidates(nodes) for block in one.blocks}


class TestOthers(WithoutOptimiser):
    """Nodes that decisions on other requests took before."""

    def setUp(self) -> None:
        super().setUp()
        self.decider = engine_of(*site())
        self.every = candidates(self.decider.offers(query(count=9), ()).nodes)

    def test_their_blocks_are_not_offered(self):
        every = blocks_of(self.decider.offers(query(count=9), ()).nodes)
        for number in range(len(self.every)):
            taken = self.every[: number + 1]
            found = self.decider.offers(query(count=9), (), others(*taken)).nodes
            gone = {(one.podm, block.uri) for one in taken for block in one.blocks}
            self.assertEqual(every - gone, blocks_of(found))

    def test_they_and_what_the_decision_took_itself_leave_the_rest(self):
        mine, theirs = self.every[:2], self.every[2:4]
        found = self.decider.offers(query(count=9), mine, others(*theirs)).nodes
        (left,) = candidates(found)
        self.assertEqual(self.every[4].blocks[0].uri, left.blocks[0].uri)
        self.assertEqual(self.every[4].podm, left.podm)

    def test_the_decider_itself_goes_on_as_if_there_were_none(self):
        before = self.decider.offers(query(count=9), ())
        self.decider.offers(query(count=9), (), others(*self.every))
        self.assertEqual(before, self.decider.offers(query(count=9), ()))

    def test_one_of_the_same_group_keeps_the_next_node_off_its_pod_manager(self):
        taken = self.every[0]
        for group, kept_off in (("web", True), ("db", False), (None, False)):
            with self.subTest(group):
                nodes = self.decider.offers(query(group=APART, count=9),
                                            (), others(taken, group=group)).nodes  # fmt: skip
                found = {one.podm for one in candidates(nodes)}
                self.assertEqual({"a", "b", "c"} - ({taken.podm} if kept_off else set()), found)

    def test_they_count_for_their_group_and_their_owner(self):
        one, two = self.every[0], next(o for o in self.every if o.podm != self.every[0].podm)
        taken = [*others(one, group="web", owner="red"), *others(two, group="web", owner="blue")]
        for owner, members, owned in (
            ("red", {one.podm: 1}, {one.podm: 1}),
            ("blue", {two.podm: 1}, {two.podm: 1}),
            (None, {one.podm: 1, two.podm: 1}, {}),
            ("green", {}, {}),
        ):
            with self.subTest(owner):
                asked_ = query(group=APART, owner=owner)
                state = self.decider.group_state(asked_, (), taken)
                self.assertEqual((members, owned), (state.members["podm"], state.owned))
        state = self.decider.group_state(query(group=APART, owner="red"), [two], others(
            one, group="web", owner="red"))  # fmt: skip
        self.assertEqual({one.podm: 1, two.podm: 1}, state.owned)

    def test_one_that_is_no_longer_free_is_stale(self):
        fewer = engine_of(*({**one, "blocks": one["blocks"][1:]} for one in site()))
        for ask in (fewer.offers, fewer.group_state):
            with self.assertRaises(StaleOffer):
                ask(query(group=APART), (), others(*self.every))
        with self.assertRaises(StaleOffer):
            fewer.mix_supplies(query(), others(*self.every))

    def test_the_policies_are_those_of_the_decider(self):
        easy = {"id": "z", "blocks": cpus(1, 10**6)}
        found = decider(easy, *site())
        (node,) = found.offers(query(policy="tight"), ()).nodes
        left = found.offers(query(policy="tight", count=9), (), others(node.candidate)).nodes
        self.assertNotIn((node.candidate.podm, node.candidate.blocks[0].uri), blocks_of(left))
        self.assertEqual(5, len(left))

    def test_a_strict_decider_stays_strict(self):
        hard, node = query(properties(SPLIT), policy="tight", limit=1), query(policy="tight")
        self.assertEqual(asked(), hard.request)
        for strict in (False, True):
            with self.subTest(strict=strict):
                found = decider(HARD, podm("next", SPLIT), pod("small", 1), strict=strict)
                small = next(
                    one
                    for one in candidates(found.offers(replace(node, limit=9), ()).ranking)
                    if one.podm == "small"
                )
                if strict:
                    with self.assertRaises(DecisionUndecided):
                        found.offers(hard, (), others(small))
                else:
                    self.assertEqual(2, len(found.offers(hard, (), others(small)).undecided))


class TestMixes(unittest.TestCase):
    """The mix of a sealed request, completed by what all pools of a tree supply to it."""

    def setUp(self) -> None:
        rare = [pod(f"r{n}", 2, "RARE") for n in range(4)]
        self.decider = engine_of(*rare, *(pod(f"p{n}", 2) for n in range(36)))

    def sealed(self, *shares: FlavorShare, policy: str = "fragmentation", **words):
        asked_ = replace(request(NODE, policy=policy), mix=Mix(shares, **words))
        return self.decider.seal(asked_)

    def ask(self, asked_, **words):
        return replace(query(), request=asked_, **words)

    def test_it_needs_supplies_just_where_a_weigher_is_to_know_what_is_scarce(self):
        for shares, words, needed in (
            (SHARES, {}, True),
            (SHARES[1:], {}, True),
            ((PLAIN,), {}, False),  # no share names what is scarce
            ((), {}, False),
            (SHARES, {"scarcity": (1.0, 9.0)}, False),
            (SHARES, {"policy": "chance"}, False),  # none of its plug-ins reads the mix
        ):
            with self.subTest(shares=len(shares), **words):
                asked_ = self.sealed(*shares, **words)
                for _ in range(2):  # the second answer is remembered
                    self.assertIs(needed, self.decider.needs_supplies(asked_))

    def test_completed_by_its_own_supplies_it_is_the_mix_of_a_decision(self):
        asked_ = self.sealed(*SHARES)
        supplies = self.decider.mix_supplies(self.ask(asked_))
        self.assertEqual((40, {"fragmentation"}), (supplies.pools, set(supplies.by_weigher)))
        completed = self.decider.complete_mix(asked_, supplies.by_weigher)
        self.assertEqual((1.0, 81 / 9), completed.mix.scarcity)
        self.assertEqual(replace(asked_, mix=completed.mix), completed)
        plain = replace(request(NODE, policy="fragmentation"), mix=Mix(SHARES))
        self.assertEqual(completed.mix, self.decider.select_destinations(plain).request.mix)

    def test_what_other_requests_took_is_not_supplied(self):
        asked_ = self.sealed(*SHARES)
        rare = [one for one in self.decider.rank(request(NODE), 40).candidates
                if one.podm.startswith("r")]  # fmt: skip
        supplies = self.decider.mix_supplies(self.ask(asked_), others(*rare[:2]))
        self.assertEqual(((78.0,), (6.0,), (80.0,), (8.0,)), supplies.by_weigher["fragmentation"])
        every = self.decider.mix_supplies(self.ask(asked_)).by_weigher["fragmentation"]
        self.assertEqual(((80.0,), (8.0,), (80.0,), (8.0,)), every)

    def test_where_nothing_is_to_be_completed_it_bounds_the_nodes_that_the_pools_make(self):
        bound = ZoneSupplies(pools=40, most_nodes=80)
        for asked_ in (self.sealed(PLAIN), self.sealed(*SHARES, scarcity=(1.0, 9.0)),
                       self.sealed(*SHARES, policy="chance")):  # fmt: skip
            self.assertEqual(bound, self.decider.mix_supplies(self.ask(asked_)))
        (one,) = self.decider.rank(request(NODE), 1).candidates
        after = self.decider.mix_supplies(self.ask(self.sealed(PLAIN)), others(one))
        self.assertEqual(ZoneSupplies(pools=40, most_nodes=79), after)
        off = engine_of(pod("on", 3), {**pod("off", 5), "enabled": False})
        self.assertEqual(ZoneSupplies(pools=2, most_nodes=3), off.mix_supplies(query(NODE)))

    def test_the_first_answer_to_a_completed_mix_tells_what_it_would_be_completed_by_now(self):
        asked_ = self.sealed(*SHARES)
        completed = self.decider.complete_mix(
            asked_, self.decider.mix_supplies(self.ask(asked_)).by_weigher
        )
        expected = ZoneSupplies(
            pools=40, by_weigher={"fragmentation": ((80.0,), (8.0,), (80.0,), (8.0,))}
        )
        found = self.decider.offers(self.ask(completed), ())
        self.assertEqual(expected, found.supplies)
        for asked_again in (self.ask(asked_), self.ask(completed, taken=("token",))):
            self.assertIs(UNSET, self.decider.offers(asked_again, ()).supplies)
