# SPDX-License-Identifier: Apache-2.0
"""A tree of zones decides as one flat zone with the same pod managers, block by block."""

import unittest
from collections.abc import Callable
from random import Random

import msgspec
from hypothesis import example, given, strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import built_in, cpu, engine, engine_of, gpu
from tests.unit.core.sites import quietly
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_report
from valence_sched.core.explain.sensitivity import NOTES
from valence_sched.errors import RequestError
from valence_sched.model.decision import Explanation
from valence_sched.model.need import Alternative, Need, Test, Toleration
from valence_sched.model.policy import Pick
from valence_sched.model.request import Group, Request, Spread
from valence_sched.model.zone import OfferQuery
from valence_sched.model.zone_registry import RecordedZone
from valence_sched.testing import request as node_request, view
from valence_sched.zones.decider import ZoneChoices
from valence_sched.zones.selection import ZoneSelection
from valence_sched.zones.tokens import Tokens
from valence_sched.zones.tree import ChildZone, ZoneTree, recorded_tree

MOST_DEPTH = 4
WEIGHED = ["default", "pack", "balanced", "fragmentation", "picky"]
CORES = Need(kind="processor", measure="cores", amount=8)
CARD = Need(kind="accelerator", measure="devices", amount=1, tests=(Test("kind", "equal", "gpu"),))


TAINTS = ["team=physics:NoPlace", "disk:NoPlace"]
PHYSICS = Toleration("team", value="physics")


def podm(number: int, random: Random) -> dict:
    blocks = [cpu(f"c{n}", random.choice([4, 8, 8, 16])) for n in range(random.randint(0, 4))]
    blocks += [gpu(f"g{n}", random.choice([1, 2])) for n in range(random.randint(0, 3))]
    for block in blocks:
        block["pools"] = random.choice([["p"], ["q"], ["p", "q"]])
        block["status"] = random.choice([{}, {}, {}, {}, {"reserved": True}])
    marks = Random(str(blocks))  # apart, since the seeds of examples depend on the other draws
    for block in blocks:
        if not block["status"] and marks.random() < 0.1:
            block["status"] = {"taints": [marks.choice(TAINTS)]}
    rack, owners = random.choice("rst"), random.choice([(), ("alice",), ("bob", "alice")])
    return {
        "id": f"podm-{number}",
        "zone": random.choice(["az1", "az2", "az3"]),
        "facts": {"rack": rack},
        "pools": [{"id": "p"}, {"id": "q"}],
        "blocks": blocks,
        "nodes": [
            {"uri": f"n{n}", "owner": owner, "group": "web"} for n, owner in enumerate(owners)
        ],
    }


def decider(podms: list[dict]) -> Decider:
    """Return a decider that also has a policy which draws one of the best three."""
    default = next(one for one in built_in() if one.name == "default")
    picky = msgspec.structs.replace(default, name="picky", pick=Pick(best_of=3))
    return engine(view(*podms), picky)


def tree(
    podms: list[dict],
    random: Random,
    depth: int = MOST_DEPTH,
    make: Callable[[list[dict]], Decider] = decider,
) -> ZoneTree:
    """Return a tree of zones with the pod managers distributed in it."""
    own, rest = [], list(podms)
    random.shuffle(rest)
    if depth == 1:
        own, rest = rest, []
    elif random.random() < 0.6:
        cut = random.randint(0, len(rest))
        own, rest = rest[:cut], rest[cut:]
    groups: list[list[dict]] = [[] for _ in range(random.randint(1, 3))]
    for one in rest:
        random.choice(groups).append(one)
    children = [
        ChildZone(f"zone-{number}", tree(group, random, depth - 1, make))
        for number, group in enumerate(groups if depth > 1 else ())
    ]
    id_ = str(random.random())
    return ZoneTree(id_, Tokens([id_], id_), make(own) if own else None, children)


GROUPS = [
    None,
    None,
    None,
    Group(name="web", anti_affinity=("podm",)),
    Group(name="web", anti_affinity=("facts.rack",)),
    Group(name="web", at_most={"zone": 2}),
    Group(name="web", spread=(Spread("zone"),)),
    Group(name="web", spread=(Spread("facts.rack", 1, True),)),
    Group(name="new", affinity=("zone",)),
    Group(name="new", affinity=("facts.rack", "zone"), soft_anti_affinity=("podm",)),
]


def request(random: Random) -> Request:
    other_alternatives = random.choice([(), (), (Alternative((CORES,), ()),)])
    needs = random.choice([(CORES,), (CORES, CARD), (CARD,)])
    asked = Request(
        needs=needs,
        other_alternatives=other_alternatives,
        count=random.choice([1, 1, 2, 3, 5, 9]),
        min_count=0,
        alternates=random.choice([0, 0, 2]),
        exclude_podms=random.choice([(), (), ("podm-0",)]),
        owner=random.choice([None, None, "alice"]),
        group=random.choice(GROUPS),
        policy=random.choice(["default", "pack", "balanced", "chance", "picky"]),
        seed=random.randint(0, 9),
    )
    return msgspec.structs.replace(asked, tolerations=(PHYSICS,) if asked.seed < 4 else ())


class TestTree(unittest.TestCase):
    """The choice does not depend on the boundaries of zones."""

    @quietly(30)
    @given(st.integers(0, 2**32))
    @example(20064)  # a group that stays together starts at another place
    @example(20253)  # a fallback for the last node, after nodes by the first alternative
    @example(20430)  # a fallback, at random
    @example(1512)  # alternates at random
    @example(142)  # alternates that keep the hard rules of a group
    @example(34)  # so do those of a group that stays together
    def test_a_tree_places_what_a_flat_zone_places(self, seed):
        """S39: the best leaf of a tree to depth 4 is the best of all pod managers in one zone."""
        random = Random(seed)
        podms = [podm(number, random) for number in range(random.randint(1, 9))]
        flat = decider(podms)
        asked = request(random)
        try:
            decision = flat.select_destinations(asked)
        except RequestError:
            return
        expected = decision.placements
        sealed = flat.seal(asked)
        policy = next(one for one in flat.policies() if one.name == asked.policy)
        selected = ZoneSelection(tree(podms, random), policy, sealed).nodes()
        found = [(node.choice, node.chosen.candidate) for node in selected.nodes]
        self.assertEqual([(one.choice, one.chosen) for one in expected], found)
        group = asked.group
        if group is None or not (group.soft or group.spread):
            self.assertEqual(
                [one.alternates for one in expected],
                [tuple(other.candidate for other in node.alternates) for node in selected.nodes],
            )
        self.assertEqual({}, selected.silent)

    def test_a_group_leaves_the_smaller_of_two_places_with_equally_many_nodes(self):
        podms = [{"id": f"podm-{size}", "zone": f"z{size}", "blocks": [cpu(f"c{n}", 8)
                  for n in range(size)], "nodes": [{"uri": "n", "group": "web"}]}
                 for size in (1, 3, 2)]  # fmt: skip
        asked = Request(needs=(CORES,), count=3, group=Group(name="web", affinity=("zone",)))
        flat = decider(podms)
        (policy,) = (one for one in flat.policies() if one.name == "default")
        for seed in range(4):
            selection = ZoneSelection(tree(podms, Random(seed)), policy, flat.seal(asked))
            nodes = selection.nodes().nodes
            self.assertEqual(["podm-3"] * 3, [node.chosen.candidate.podm for node in nodes])

    @quietly(24)
    @given(st.integers(0, 2**32))
    def test_the_best_few_of_a_tree_are_those_of_a_flat_zone(self, seed):
        """S74: K candidates are the first K of all, for every K: nothing is lost."""
        random = Random(seed)
        podms = [podm(number, random) for number in range(random.randint(1, 9))]
        flat = decider(podms)
        asked = msgspec.structs.replace(request(random), other_alternatives=())
        try:
            whole = flat.rank(asked, 100).candidates
            sealed = flat.seal(asked)
        except RequestError:
            return
        policy = next(one for one in flat.policies() if one.name == asked.policy)
        zones = tree(podms, random)
        for limit in (1, 2, 3, len(whole), len(whole) + 1, 100):
            offers, selected = ZoneSelection(zones, policy, sealed).ranking(limit)
            self.assertEqual(whole[:limit], tuple(one.candidate for one in offers))
            self.assertEqual({}, selected.silent)

    @quietly(30)
    @given(st.integers(0, 2**32))
    def test_a_tree_tells_the_same_changes_as_a_flat_zone(self, seed):
        random = Random(seed)
        podms = [podm(number, random) for number in range(random.randint(1, 9))]
        flat = decider(podms)
        asked = msgspec.structs.replace(request(random), policy=random.choice(WEIGHED))
        if random.random() < 0.3:
            asked = msgspec.structs.replace(asked, min_count=asked.count)
        try:
            decision = flat.select_destinations(asked)
            sealed = flat.seal(asked)
        except RequestError:
            return
        expected = decision_report(decision).explanation
        policy = next(one for one in flat.policies() if one.name == asked.policy)
        zones = tree(podms, random)
        nodes = ZoneSelection(zones, policy, sealed).nodes().nodes
        placed = len(nodes) >= sealed.required_count
        selection = ZoneSelection(zones, policy, sealed)
        choices = ZoneChoices(selection, sealed, policy, nodes, placed=placed)
        found = choices.explained(Explanation())
        self.assertEqual([flat_names(one) for one in expected.flips],
                         [flat_names(one) for one in found.flips])  # fmt: skip
        told = tuple(note for note in expected.notes if note.startswith(NOTES))
        self.assertEqual(told, found.notes)


def flat_names(change):
    """Return a change with the pod managers named without their zones.

    Over zones a tie is not reported if two better pools are on one pod manager.
    """
    podm, before = (
        (name or "").rpartition("/")[2] or None for name in (change.podm, change.instead_of)
    )
    return msgspec.structs.replace(change, podm=podm, instead_of=before)


PODMS = {
    "top.json": {"id": "top-podm", "blocks": [cpu("c", 8), cpu("d", 8)]},
    "east.json": {"id": "east-podm", "blocks": [cpu("c", 8), cpu("d", 8)]},
    "deep.json": {"id": "deep-podm", "blocks": [cpu("c", 8), cpu("d", 8)]},
}
DEEP = RecordedZone(name="deep", inventories=("deep.json",))
EAST = RecordedZone(name="east", inventories=("east.json",), children=(DEEP,))
TOP = RecordedZone(name="top", inventories=("top.json",), children=(EAST,))


class TestRecordedTree(unittest.TestCase):
    """The offers of the whole tree for one request."""

    def setUp(self) -> None:
        self.engines = []

    def podms(self, zone: RecordedZone):
        self.engines.append(zone.name)
        return engine_of(*(PODMS[name] for name in zone.inventories))

    def query(self, **words: object) -> OfferQuery:
        asked = node_request({"processor": {"total_cores": 8}}, **words)
        sealed = engine_of(*PODMS.values()).seal(asked)
        return OfferQuery(request=sealed, limit=9)

    def offers(self, zone: RecordedZone, **words: object):
        return recorded_tree(zone, self.podms).offers(self.query(**words))

    def test_every_zone_offers_what_it_has_by_the_way_down_to_it(self):
        answer = self.offers(TOP)
        self.assertEqual(3, answer.answered)
        found = {(one.zone, one.candidate.podm) for one in answer.ranking}
        self.assertEqual(
            {("", "top-podm"), ("east", "east-podm"), ("east/deep", "deep-podm")}, found
        )

    def test_a_zone_without_inventories_is_a_router_that_asks_for_none(self):
        answer = self.offers(replace(TOP, inventories=()))
        self.assertEqual({"east", "east/deep"}, {one.zone for one in answer.ranking})
        self.assertEqual(["deep", "east"], self.engines)

    def test_the_scores_of_a_zone_weigh_as_the_zone_above_says(self):
        plain = {one.zone: one.candidate.score for one in self.offers(TOP).ranking}
        weighted = replace(EAST, weight_scale=0.5, weight_offset=0.125)
        found = self.offers(replace(TOP, children=(weighted,))).ranking
        for one in found:
            expected = plain[one.zone] if not one.zone else 0.125 + 0.5 * plain[one.zone]
            self.assertAlmostEqual(expected, one.candidate.score, 3)
        self.assertNotEqual(plain, {one.zone: one.candidate.score for one in found})

    def test_a_zone_whose_capabilities_rule_a_request_out_is_not_asked(self):
        other = replace(EAST, capabilities="os=linux;bsd")
        asked = {"capabilities": {"os": ["windows"]}}
        answer = self.offers(replace(TOP, children=(other,)), **asked)
        self.assertEqual(["east"], [one.zone for one in answer.excluded])

    def test_tokens_are_of_the_tree_that_gave_them(self):
        query, one = self.query(), recorded_tree(TOP, self.podms)
        chosen = one.offers(query).nodes[0]
        taken = replace(query, taken=(chosen.token,))
        left = next(o for o in one.offers(taken).ranking if o.zone == chosen.zone)
        self.assertNotEqual(chosen.candidate.blocks, left.candidate.blocks)
        with self.assertRaisesRegex(Exception, "offer"):
            recorded_tree(TOP, self.podms).offers(taken)

    def test_zones_of_one_tree_do_not_take_each_other_for_a_circle(self):
        same = replace(EAST, name="east", children=(replace(DEEP, name="east"),))
        answer = self.offers(replace(TOP, children=(same,)))
        self.assertEqual((3, ()), (answer.answered, answer.silent))
