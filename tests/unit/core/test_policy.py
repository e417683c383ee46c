# SPDX-License-Identifier: Apache-2.0
"""A policy is bound to its plug-ins, or refused with one line."""

import unittest
from typing import Any

from tests.unit.core.deciders import engine
from valence_sched.app import App
from valence_sched.core.evaluation import evaluate, funnel
from valence_sched.core.policy import (
    COST_SCALE,
    REQUIRED_FILTERS,
    bind,
    filter_uses,
    idle_readers,
    missing_readers,
    resolve_needs,
    without_readers,
)
from valence_sched.errors import InputError, SchedulerError, UnknownName
from valence_sched.model.need import NameRequirements, Proximity
from valence_sched.model.policy import FilterUse, Policy, PolicyText, WeigherUse, WeightOverrides
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.testing import request, view

SITE = view({"id": "a", "blocks": [{"uri": "c", "devices": {"processors": [{"cores": 10}]}}]})
CORES = request({"processor": {"total_cores": 8}})


def policy(filters: tuple = (), weighers: tuple = (), **words) -> Policy:
    return Policy(name="mine", filters=filters, weighers=weighers, **words)


class TestBind(unittest.TestCase):
    def refuses(self, kind: type[SchedulerError], found: Policy) -> str:
        with self.assertRaises(kind) as caught:
            bind(found, "policies.yaml")
        text = str(caught.exception)
        self.assertTrue(text.startswith("policies.yaml: policy 'mine': "), text)
        self.assertNotIn("\n", text)
        return text

    def test_a_name_or_an_option_that_is_not_known_or_wrong_is_answered_with_what_is(self):
        for kind, found, words in (
            (UnknownName, policy((FilterUse("capasity"),)),
             "no filter named 'capasity' (did you mean 'capacity'?)"),
            (UnknownName, policy((), (WeigherUse("rooom"),)),
             "no weigher named 'rooom' (did you mean 'room'?)"),
            (UnknownName, policy(scheduler="zzz"),
             "no scheduler named 'zzz' (known: chance, filter"),
            (UnknownName, policy((FilterUse("room"),)), "no filter named 'room'"),
            (InputError, policy((FilterUse("capacity", {"headrom": 1}),)),
             "option 'headrom' of 'capacity'"),
            (InputError, policy((FilterUse("capacity", {"headrom": 1}),)),
             "no such option (did you mean 'headroom'?)"),
            (InputError, policy((FilterUse("zone", {"name": "a"}),)), "no name is known"),
            (InputError, policy((FilterUse("capacity", {"headroom": "much"}),)),
             'found "much", expected float'),
            (InputError, policy((FilterUse("capacity", {"headroom": [1]}),)),
             "found [1], expected float"),
            (InputError, policy((FilterUse("alive", {"unknown": "perhaps"}),)),
             'found "perhaps", expected bool'),
            (InputError, policy((), (WeigherUse("room", 1.0, {"by": "pod"}),)),
             "found 'pod'"),
            (InputError, policy((), (WeigherUse("room", 1.0, {"by": "pod"}),)),
             "did you mean 'podm'?"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertIn(words, self.refuses(kind, found))

    def test_options_reach_the_plugin(self):
        for headroom, verdict, needs in ((0.0, True, []), (0.5, False, [12.0])):
            bound = bind(policy((FilterUse("capacity", {"headroom": headroom}),)))
            self.assertEqual([verdict], bound.filters[-1].evaluate(SITE, CORES).tolist())
            terms = bound.filters[-1].terms(SITE, CORES)
            self.assertEqual(needs, [term.need for term in terms])

    def test_an_option_written_as_text_is_the_number_it_says(self):
        bound = bind(policy((FilterUse("capacity", {"headroom": "0.5"}),)))
        self.assertEqual([False], bound.filters[-1].evaluate(SITE, CORES).tolist())

    def test_a_policy_applies_the_required_filters_that_it_does_not_list(self):
        self.assertEqual(list(REQUIRED_FILTERS), bind(policy()).filter_names)
        own = (FilterUse("capacity"), FilterUse("alive", {"unknown": True}))
        uses = filter_uses(policy(own))
        self.assertEqual([FilterUse(one) for one in REQUIRED_FILTERS if one != "alive"],
                         list(uses[:-2]))  # fmt: skip
        self.assertEqual(own, uses[-2:])

    def test_weights_count_in_thousandths(self):
        bound = bind(policy((), (WeigherUse("room", 1.5), WeigherUse("pack", 0.25))))
        self.assertEqual([1500, 250], [weigher.weight for weigher in bound.weighers])
        self.assertEqual(1750, bound.worst_cost)


class TestUnknown(unittest.TestCase):
    """The meaning of an attribute that is not reported."""

    def test_reject_keeps_the_request_and_allow_and_penalise_change_its_needs(self):
        for unknown, found in (("reject", "reject"), ("allow", "allow"), ("penalise", "allow")):
            asked = resolve_needs(CORES, policy(unknown=unknown))
            self.assertEqual([found], [need.unknown for need in asked.needs])

    def test_a_request_from_a_report_is_read_anew_by_another_policy(self):
        allowed = resolve_needs(CORES, policy(unknown="allow"))
        self.assertEqual(CORES, resolve_needs(allowed, policy()))

    def test_penalise_weighs_what_is_known_heavier_than_all_else_together(self):
        bound = bind(policy((), (WeigherUse("room", 2.0), WeigherUse("pack")), unknown="penalise"))
        weights = {weigher.name: weigher.weight for weigher in bound.weighers}
        self.assertGreater(weights["known"], weights["room"] + weights["pack"])

    def test_penalise_leaves_a_weight_that_the_policy_chose_itself(self):
        bound = bind(policy((), (WeigherUse("known", 0.5),), unknown="penalise"))
        self.assertEqual([("known", 500)], [(w.name, w.weight) for w in bound.weighers])

    def test_penalise_without_any_weigher_still_prefers_what_is_known(self):
        bound = bind(policy(unknown="penalise"))
        self.assertEqual(["known"], [weigher.name for weigher in bound.weighers])


class TestUnread(unittest.TestCase):
    """A request is refused if no plug-in reads one of its fields."""

    def test_wishes_without_their_filter_are_named(self):
        asked = Request(
            podms=("a",),
            zone="z",
            locations=("dc1",),
            aggregates=NameRequirements(("g",)),
            capabilities={"k": ("v",)},
            traits=request({"nics": [{}]}, traits={"forbidden": ["T"]}).traits,
            attributes={"facts.year": "2022"},
            where=0,
            near=(Proximity(thing="volume v", zone="z"),),
        )
        names = ["location", "aggregates", "capabilities", "traits", "attributes", "json", "near"]
        self.assertEqual(names, [reader.name for reader in missing_readers(asked, bind(policy()))])
        with_all = bind(policy(tuple(map(FilterUse, names))))
        self.assertEqual([], missing_readers(asked, with_all))

    def test_no_wish_needs_no_filter(self):
        self.assertEqual([], missing_readers(CORES, bind(policy())))

    def test_a_soft_wish_needs_a_weigher_and_no_filter(self):
        asked = Request(near=(Proximity(thing="volume v", zone="z", soft=True),))
        (reader,) = missing_readers(asked, bind(policy()))
        self.assertEqual(("weigher", "near"), (reader.kind, reader.name))
        self.assertEqual([], missing_readers(asked, bind(policy((), (WeigherUse("near"),)))))
        self.assertEqual([], missing_readers(CORES, bind(policy())))

    def test_a_weigher_without_anything_to_do_takes_no_part(self):
        both = bind(policy((), (WeigherUse("near"), WeigherUse("room"))))
        asked = Request(near=(Proximity(thing="volume v", zone="z", soft=True),))
        must = Request(near=(Proximity(thing="volume v", zone="z"),))
        for request_, names in ((CORES, ["room"]), (must, ["room"]), (asked, ["near", "room"])):
            part = without_readers(both, idle_readers(request_, both))
            self.assertEqual(names, [weigher.name for weigher in part.weighers])
            self.assertEqual(1000 * len(names), part.worst_cost)

    def test_a_filter_without_anything_to_do_is_not_asked_and_stays_in_the_funnel(self):
        uses = (FilterUse("zone"), FilterUse("capacity"), FilterUse("traits"))
        both = bind(policy(uses))
        part = without_readers(both, idle_readers(CORES, both))
        busy = ["enabled", "alive", "isolation", "capacity"]
        self.assertEqual(busy, [filter_.name for filter_ in part.filters])
        names = ["enabled", "alive", "target", "isolation", "zone", "capacity", "traits"]
        self.assertEqual(names, part.filter_names)
        for found in (both, part):
            steps = funnel(found, evaluate(SITE, CORES, found).verdicts, len(SITE))
            self.assertEqual([(name, 1, 1) for name in names], steps)


class TestRange(unittest.TestCase):
    """An option may have a range."""

    def test_an_option_out_of_its_range_is_refused_and_at_its_ends_is_not(self):
        for power, refused in ((0.0, False), (2.0, False), (2.5, True), (-0.1, True)):
            use = WeigherUse("fragmentation", options={"power": power})
            with self.subTest(power):
                if refused:
                    with self.assertRaisesRegex(InputError, "power"):
                        bind(Policy(name="mine", weighers=(use,)))
                else:
                    bind(Policy(name="mine", weighers=(use,)))


class TestTwice(unittest.TestCase):
    """Two plug-ins must not have the same name."""

    def test_a_filter_or_weigher_twice_is_refused(self):
        zone, room = FilterUse("zone"), WeigherUse("room")
        for words, what in (
            ({"filters": (zone, zone)}, "filter 'zone'"),
            ({"weighers": (room, WeigherUse("room", 2.0))}, "weigher 'room'"),
        ):
            with self.assertRaises(InputError) as caught:
                bind(Policy(name="mine", **words), "my.yaml")
            text = str(caught.exception)
            self.assertIn(f"my.yaml: policy 'mine': found {what} twice, expected it once", text)
            self.assertIn("expected it once (remove one of them)", text)


class TestText(unittest.TestCase):
    """A policy as users write it."""

    def test_a_plugin_without_options_is_just_its_name(self):
        text = PolicyText(
            name="mine", filters=("zone", FilterUse("alive")), weighers=("room", WeigherUse("pack"))
        )
        found = text.policy()
        self.assertEqual((FilterUse("zone"), FilterUse("alive")), found.filters)
        self.assertEqual((WeigherUse("room"), WeigherUse("pack")), found.weighers)


class TestOverrides(unittest.TestCase):
    """Other weights by aggregate or zone."""

    SITE = view(
        {"id": "plain", "facts": {"failures": 1}},
        {"id": "zoned", "zone": "z", "facts": {"failures": 1}},
        {"id": "gold", "zone": "z", "aggregates": ["gold"], "facts": {"failures": 1}},
        {"id": "both", "aggregates": ["gold", "slow"], "facts": {"failures": 1}},
        {"id": "mute", "zone": "mute", "facts": {"failures": 1}},
    )
    OVERRIDES = WeightOverrides(aggregate={"gold": 4.0, "slow": 2.0, "later": 0.0}, zone={"z": 3.0})

    def bound(self, *weighers: WeigherUse):
        return bind(policy((), weighers))

    def scores(self, bound) -> list[float]:
        found = evaluate(self.SITE, CORES, bound, strict=True)
        return [round(1 - cost / bound.worst_cost / COST_SCALE, 6) for cost in found.cost.tolist()]

    def test_an_aggregate_goes_before_a_zone_and_the_smallest_of_several_counts(self):
        """As with the multipliers of aggregates of Nova."""
        (weigher,) = self.bound(WeigherUse("failures", 1.0, {}, self.OVERRIDES)).weighers
        found = weigher.weights(self.SITE).tolist()
        self.assertEqual([1000, 3000, 4000, 2000, 1000], found)
        none = WeightOverrides(aggregate={"gold": 0.0}, zone={"mute": 0.0})
        (weigher,) = self.bound(WeigherUse("failures", 1.0, {}, none)).weighers
        self.assertEqual([1000, 1000, 0, 0, 0], weigher.weights(self.SITE).tolist())

    def test_a_score_is_the_weighted_mean_by_the_rows_own_weights(self):
        # failures scores 1/2 everywhere, affinity 1: no soft rules
        bound = self.bound(
            WeigherUse("failures", 1.0, {}, self.OVERRIDES), WeigherUse("affinity", 1.0)
        )
        means = [(w * 0.5 + 1) / (w + 1) for w in (1, 3, 4, 2, 1)]
        for mean, score in zip(means, self.scores(bound), strict=True):
            self.assertAlmostEqual(mean, score, 5)

    def test_equal_weights_by_override_and_without_come_to_the_same(self):
        same = WeightOverrides(aggregate={"gold": 2.0}, zone={"z": 2.0})
        uses = (WeigherUse("affinity", 1.0), WeigherUse("failures", 2.0))
        with_same = (uses[0], WeigherUse("failures", 2.0, {}, same))
        self.assertEqual(self.scores(self.bound(*uses)), self.scores(self.bound(*with_same)))

    def test_where_nothing_weighs_a_pool_is_worst_and_not_best(self):
        """A pool without any weight scores 0, not a neutral value."""
        bound = self.bound(WeigherUse("failures", 1.0, {}, WeightOverrides(zone={"mute": 0.0})))
        self.assertEqual([0.5, 0.5, 0.5, 0.5, 0.0], self.scores(bound))

    def test_a_row_costs_the_same_alone(self):
        bound = self.bound(
            WeigherUse("failures", 1.0, {}, self.OVERRIDES), WeigherUse("affinity", 1.0)
        )
        whole = evaluate(self.SITE, CORES, bound).cost.tolist()
        alone = [evaluate(self.SITE.take([row]), CORES, bound).cost[0] for row in range(5)]
        self.assertEqual(whole, alone)


CONFIG = App(environ={}).config
POLICIES = CONFIG.policies()
SPREADING = ("default", "balanced")
KEEPING = (*SPREADING, "pack")  # all keep accelerators usable
CPU_NODE = {"processor": {"total_cores": 8}}
GPU_NODE = {"processor": {"total_cores": 8}, "accelerators": [{"kind": "GPU", "count": 1}]}
MIX = Mix((FlavorShare(request(CPU_NODE).needs), FlavorShare(request(GPU_NODE).needs)))


def podm(name: str, hosts: int, gpus: int = 0, cores: int = 8, **told: Any) -> dict[str, Any]:
    """Return a podm of one pool with hosts of these numbers of cores, and trays of a GPU each."""
    blocks = [
        {"uri": f"host-{n}", "type": ["Compute"], "devices": {"processors": [{"cores": cores}]}}
        for n in range(hosts)
    ] + [
        {"uri": f"gpu-{n}", "type": ["Expansion"],
         "devices": {"accelerators": [{"kind": "GPU", "count": 1}]}}
        for n in range(gpus)
    ]  # fmt: skip
    return {"id": name, "blocks": blocks, **told}


def chosen(policy: str, podms: list[dict[str, Any]], node: Any, **words: Any) -> list[str]:
    """Return the podms that a policy chooses for nodes, one after another."""
    decider = engine(view(*podms), POLICIES[policy], mix=lambda: MIX)
    decision = decider.select_destinations(request(node, policy=policy, **words))
    return [one.chosen.podm for one in decision.placements]


def rack(**used: int) -> dict[str, Any]:
    """Return a podm with pools of 48 cores and 48 of a custom class, with these amounts in use."""
    stocks = [
        {"uri": f"{pool}/{resource}", "resource": resource, "total": 48, "used": amount,
         "pools": [pool]}
        for pool, amount in used.items() for resource in ("vcpu", "CUSTOM_UNIT")
    ]  # fmt: skip
    return {"id": "rack", "pools": [{"id": pool} for pool in used], "stocks": stocks}


class TestPools(unittest.TestCase):
    """Within a pod manager every policy chooses by the remaining amounts of the request."""

    def test_pools_are_filled_equally_or_the_fullest_with_room_first_whatever_the_seed(self):
        site = view(rack(empty=0, full=40, fuller=46))
        for policy in (*KEEPING, "fragmentation"):
            expected = "full" if policy == "fragmentation" else "empty"
            decider = engine(site, POLICIES[policy])
            for wanted in ({"vcpu": 4}, {"CUSTOM_UNIT": 4}, {"vcpu": 4, "CUSTOM_UNIT": 2}):
                stocks = [{"resource": name, "amount": some} for name, some in wanted.items()]
                for seed in range(6):
                    asked = request({"stocks": stocks}, policy=policy, seed=seed)
                    (placed,) = decider.select_destinations(asked).placements
                    with self.subTest(policy=policy, seed=seed, **wanted):
                        self.assertEqual(expected, placed.chosen.pool)

    def test_pod_managers_of_one_pool_are_chosen_as_without(self):
        every = [rack(one=used) | {"id": str(used)} for used in (8, 24, 40)]
        node = {"stocks": [{"resource": "vcpu", "amount": 4}]}
        self.assertEqual(["8"], chosen("default", every, node))
        self.assertEqual(["40"], chosen("pack", every, node))


class TestAccelerators(unittest.TestCase):
    """Every accelerator keeps the hosts that a node with it needs."""

    def test_a_node_without_one_leaves_the_last_hosts_beside_accelerators(self):
        scarce, plain = podm("scarce", 1, gpus=4, cores=64), podm("plain", 1)
        for policy in KEEPING:
            for site in ([scarce, plain], [plain, scarce]):
                with self.subTest(policy=policy):
                    self.assertEqual(["plain"], chosen(policy, site, CPU_NODE))

    def test_one_that_nobody_could_feed_anyway_keeps_no_node_away(self):
        useless, other = podm("useless", 8, gpus=2), podm("other", 2)
        self.assertEqual(["useless"], chosen("default", [other, useless], CPU_NODE))

    def test_within_a_pod_manager_the_pool_that_fits_best_is_taken(self):
        rows = podm("rows", 4, gpus=2)
        rows["pools"] = [{"id": "with"}, {"id": "without"}]
        for block in rows["blocks"]:
            block["pools"] = ["with" if block["uri"] in ("host-0", "gpu-0", "gpu-1") else "without"]
        for policy in KEEPING:
            with self.subTest(policy=policy):
                decider = engine(view(rows), POLICIES[policy], mix=lambda: MIX)
                for seed in range(8):
                    asked = request(CPU_NODE, policy=policy, count=3, seed=seed)
                    found = decider.select_destinations(asked).placements
                    self.assertEqual(["without"] * 3, [one.chosen.pool for one in found])


class TestSpread(unittest.TestCase):
    """If no accelerator becomes unusable, the policies do what their names say."""

    def test_nodes_spread_over_pod_managers_without_accelerators(self):
        site = [podm(f"p{n}", 4) for n in range(4)]
        for policy in SPREADING:
            with self.subTest(policy=policy):
                self.assertEqual(4, len(set(chosen(policy, site, CPU_NODE, count=4))))

    def test_nodes_with_accelerators_spread_over_pod_managers_that_are_alike(self):
        site = [podm(f"p{n}", 8, gpus=4) for n in range(4)]
        for policy in SPREADING:
            with self.subTest(policy=policy):
                self.assertEqual(4, len(set(chosen(policy, site, GPU_NODE, count=4))))

    def test_pack_fills_one_after_another(self):
        for site, node in (([podm(f"p{n}", 4) for n in range(4)], CPU_NODE),
                           ([podm(f"p{n}", 8, gpus=4) for n in range(4)], GPU_NODE)):  # fmt: skip
            self.assertEqual(1, len(set(chosen("pack", site, node, count=4))))


class TestWishes(unittest.TestCase):
    """Soft requirements of a request outweigh the preferences of the policy."""

    def test_each_wish_weighs_twice_as_much_as_all_accelerators(self):
        for name in KEEPING:
            weights = {use.name: use.weight for use in POLICIES[name].weighers}
            own = sum(weights[one] for one in weights if one not in ("near", "affinity"))
            for wish in ("near", "affinity"):
                self.assertGreater(weights[wish], own, (name, wish))

    def test_nodes_stay_apart_although_an_accelerator_loses_its_use(self):
        site = [podm("scarce", 1, gpus=1), podm("plain", 4)]
        group = {"soft_anti_affinity": ["podm"]}
        for policy in KEEPING:
            with self.subTest(policy=policy):
                found = chosen(policy, site, CPU_NODE, count=2, group={"name": "web", **group})
                self.assertEqual({"scarce", "plain"}, set(found))


class TestWithoutAccelerators(unittest.TestCase):
    """A site without accelerators is decided as without the weigher."""

    def test_the_choice_is_that_of_the_policy_without_the_weigher(self):
        site = view(*(podm(f"p{n}", n % 3 + 2, cores=8 * (n % 2 + 1)) for n in range(9)))
        for name in KEEPING:
            bare = _without_fragmentation(POLICIES[name])
            for seed in range(5):
                with self.subTest(policy=name, seed=seed):
                    decider = engine(site, POLICIES[name], bare, mix=lambda: MIX)
                    ours, theirs = (
                        decider.select_destinations(
                            request(CPU_NODE, policy=policy, count=9, seed=seed)
                        ).chosen_podms()
                        for policy in (name, "bare")
                    )
                    self.assertEqual(list(theirs), list(ours))


def _without_fragmentation(policy: Policy) -> Policy:
    kept = tuple(use for use in policy.weighers if use.name != "fragmentation")
    return Policy(name="bare", filters=policy.filters, weighers=kept)
