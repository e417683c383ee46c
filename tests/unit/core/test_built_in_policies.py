# SPDX-License-Identifier: Apache-2.0
"""What the policies that ship make of a site with accelerators, and of one without."""

import unittest
from typing import Any

from tests.unit.core.deciders import engine
from valence_sched.app import App
from valence_sched.model.policy import Policy
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.testing import request, view

CONFIG = App(environ={}).config
POLICIES = CONFIG.policies()
SPREADING = ("default", "balanced")
KEEPING = (*SPREADING, "pack")  # all keep accelerators usable
CPU_NODE = {"processor": {"total_cores": 8}}
GPU_NODE = {"processor": {"total_cores": 8}, "accelerators": [{"kind": "GPU", "count": 1}]}
MIX = Mix((FlavorShare(request(CPU_NODE).needs), FlavorShare(request(GPU_NODE).needs)))


def podm(name: str, hosts: int, gpus: int = 0, cores: int = 8, **told: Any) -> dict[str, Any]:
    """Return a podm of one pool with hosts of so many cores, and trays of a GPU each."""
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
    """Return a podm with pools of 48 cores and 48 of a custom class, of which so many are used."""
    stocks = [
        {"uri": f"{pool}/{resource}", "resource": resource, "total": 48, "used": amount,
         "pools": [pool]}
        for pool, amount in used.items() for resource in ("vcpu", "CUSTOM_UNIT")
    ]  # fmt: skip
    return {"id": "rack", "pools": [{"id": pool} for pool in used], "stocks": stocks}


class TestPools(unittest.TestCase):
    """Within a pod manager every policy chooses by what is left, of whatever is asked for."""

    def test_the_fullest_pool_that_has_room_is_chosen_whatever_the_seed(self):
        site = view(rack(empty=0, full=40, fuller=46))
        for policy in (*KEEPING, "fragmentation"):
            decider = engine(site, POLICIES[policy])
            for wanted in ({"vcpu": 4}, {"CUSTOM_UNIT": 4}, {"vcpu": 4, "CUSTOM_UNIT": 2}):
                stocks = [{"resource": name, "amount": some} for name, some in wanted.items()]
                for seed in range(6):
                    asked = request({"stocks": stocks}, policy=policy, seed=seed)
                    (placed,) = decider.select_destinations(asked).placements
                    with self.subTest(policy=policy, seed=seed, **wanted):
                        self.assertEqual("full", placed.chosen.pool)

    def test_pod_managers_of_one_pool_are_chosen_as_without(self):
        every = [rack(one=used) | {"id": str(used)} for used in (8, 24, 40)]
        node = {"stocks": [{"resource": "vcpu", "amount": 4}]}
        self.assertEqual(["8"], chosen("default", every, node))
        self.assertEqual(["40"], chosen("pack", every, node))


class TestAccelerators(unittest.TestCase):
    """No accelerator is left without the hosts that nodes with it need."""

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
    """Where no accelerator loses its use, the policies do what their names say."""

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
    """What a request wishes for outweighs what the policy prefers by itself."""

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
    """A site without accelerators is decided as if the weigher were not there."""

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
