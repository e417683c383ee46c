# SPDX-License-Identifier: Apache-2.0
"""The measure of fragmentation: worked examples, and its definition in plain Python."""

import unittest

import numpy as np
from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import cpu, gpu, lean
from tests.unit.core.sites import quietly
from tests.unit.weighers.test_fragmentation import ASKED, POOLS, needs, shares_of, stocks
from valence_sched.errors import UnknownName
from valence_sched.model.custom_resource import CustomResource, DeclaredResources, with_declared
from valence_sched.model.need import measure_name
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.testing import request, view
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.fragmentation import FragmentationMeasure, usable_mix

SMALL = {"processor": {"total_cores": 8}, "memory": {"capacity_mib": 32}}
LARGE = {"processor": {"total_cores": 32}, "memory": {"capacity_mib": 32}}
CARD = {"processor": {"total_cores": 8}, "accelerators": [{}]}
CXL = {"processor": {"total_cores": 8}, "resources": {"cxl_memory_mib": 50}}


def mix(*shares, **fields):
    """Return a mix of properties and their weights."""
    return Mix(tuple(FlavorShare(request(one).needs, weight=w, **fields) for one, w in shares))


def measured(site, mix, of=None):
    """Return the measured resource and the fragmentation."""
    found = usable_mix(site, mix, of)
    share = FragmentationMeasure(lambda: site, found).share()
    return measure_name(found.resource), round(share, 12)


def cxl(name, *free):
    amounts = [{"uri": f"s{n}", "resource": "cxl_memory_mib", "total": 100, "used": 100 - one}
               for n, one in enumerate(free)]  # fmt: skip
    return {"id": name, "stocks": amounts}


class TestExamples(unittest.TestCase):
    CPUS = view(*({"id": name, "blocks": [cpu("c", cores, 64)]}
                  for name, cores in (("a", 16), ("b", 4), ("c", 50))))  # fmt: skip

    def test_a_site_of_processors_is_measured_by_its_scarcest_resource(self):
        # 192 MiB are 6 nodes, 70 cores are 8.75: b lacks cores for a node, so its memory is useless
        self.assertEqual(("memory_mib", round(64 / 192, 12)), measured(self.CPUS, mix((SMALL, 1))))
        # c has memory for 2 nodes; 2.5 times as many nodes have 40 cores, so 10 of 50 are useless
        found = measured(self.CPUS, mix((SMALL, 1)), "cores")
        self.assertEqual(("cores", round((4 + 10) / 70, 12)), found)

    def test_the_useless_share_is_a_weighted_mean_over_the_flavors(self):
        # LARGE fits only on c, where its limit is 160 cores
        useless = 0.75 * (4 + 10) + 0.25 * (16 + 4)
        found = measured(self.CPUS, mix((SMALL, 3), (LARGE, 1)))
        self.assertEqual(("cores", round(useless / 70, 12)), found)

    def test_a_stock_is_useless_if_it_cannot_make_a_grant_or_its_pool_cannot_make_a_node(self):
        site = view(
            cxl("a", 60) | {"blocks": [cpu("c", 64)]},
            cxl("b", 30, 80) | {"blocks": [cpu("c", 64)]},
            cxl("c", 100, 100) | {"blocks": [cpu("c", 4)]},
        )
        # 500 MiB are 10 nodes, 132 cores are 16.5
        found = measured(site, mix((CXL, 1)))
        self.assertEqual(("cxl_memory_mib", round((30 + 200) / 370, 12)), found)

    def test_a_declared_resource_can_be_the_scarcest(self):
        power = CustomResource(name="power_w", unit="W", podms={"a": 500.0, "b": 300.0, "c": 90.0})
        builder = ViewBuilder()
        for name, cores in (("a", 8), ("b", 64), ("c", 64)):
            podm = lean({"id": name, "blocks": [cpu("x", cores)]})
            builder.add(with_declared(podm, DeclaredResources([power])), "test", name)
        asked = {"processor": {"total_cores": 8}, "resources": {"power_w": 100}}
        # a has cores for 1 node, so 250 W are its limit; b uses all; c cannot make a node
        found = measured(builder.view(), mix((asked, 1)))
        self.assertEqual(("power_w", round((250 + 90) / 890, 12)), found)

    def test_drives_and_nics_count_as_well(self):
        devices = {"drives": [{"count": 4}], "nics": [{"count": 2}]}
        blocks = [cpu("c", 16), {"uri": "d", "type": ["Storage"], "devices": devices}]
        site = view({"id": "a", "blocks": blocks}, {"id": "b", "blocks": blocks[1:]})
        asked = {"processor": {"total_cores": 1}, "drives": [{"count": 1}], "nics": [{"count": 1}]}
        for of in (None, "nics", "drives"):
            found = measured(site, mix((asked, 1)), of)
            self.assertEqual((of or "nics", 0.5), found)


class TestResource(unittest.TestCase):
    CARDS = view(
        {"id": "a", "blocks": [cpu("c", 8, 64), gpu("g", 4)]}, {"id": "b", "blocks": [gpu("g", 4)]}
    )

    def test_accelerators_are_measured_if_a_flavor_needs_them(self):
        both = mix((CARD, 1), (SMALL, 9))
        # cores for 1 node: at most 2.5 of the cards of a are of use
        self.assertEqual(("accelerators", round(5.5 / 8, 12)), measured(self.CARDS, both))
        self.assertEqual("cores", measured(self.CARDS, mix((SMALL, 1)))[0])
        self.assertEqual("memory_mib", measured(self.CARDS, both, "memory_mib")[0])

    def test_flavors_that_need_what_no_pool_has_do_not_count(self):
        alone = measured(TestExamples.CPUS, mix((SMALL, 1)))
        for other in (CARD, CXL):
            self.assertEqual(alone, measured(TestExamples.CPUS, mix((SMALL, 1), (other, 5))))
            self.assertIsNone(usable_mix(TestExamples.CPUS, mix((other, 1))))
        self.assertIsNone(usable_mix(TestExamples.CPUS, Mix()))
        self.assertIsNone(usable_mix(view(), mix((SMALL, 1))))

    def test_a_need_of_unknown_amounts_excludes_no_flavor(self):
        site = view({"id": "a", "blocks": [cpu("c", None, 64)]})
        asked = request(SMALL)
        lenient = tuple(replace(one, unknown="allow") for one in asked.needs)
        shares = Mix((FlavorShare(lenient),))
        self.assertEqual(("memory_mib", 0.0), measured(site, shares))
        self.assertIsNone(usable_mix(site, mix((SMALL, 1))))

    def test_an_unknown_resource_names_the_nearest(self):
        with self.assertRaisesRegex(UnknownName, "no resource named 'memory'.*memory_mib"):
            usable_mix(TestExamples.CPUS, mix((SMALL, 1)), "memory")


def usable(pool, asked, of):
    """Return the amount of a pool of stocks that nodes can use."""
    cores, memory, cards = pool
    serving = [left for left in cards if left >= asked[2]]
    have = {"cores": cores, "memory": memory, "milli": sum(serving)}
    node = {"cores": asked[0], "memory": asked[1], "milli": asked[2] * asked[3]}
    fits = asked[0] <= cores and asked[1] <= memory
    if not fits or sum(left // asked[2] for left in serving) < asked[3]:
        return 0.0
    others = [have[name] / amount for name, amount in node.items() if amount and name != of]
    return min([have[of], *(2.5 * number * node[of] for number in others)])


class TestDefinition(unittest.TestCase):
    @quietly(60)
    @given(POOLS, st.lists(st.tuples(ASKED, st.sampled_from([1.0, 3.0])), min_size=1, max_size=4))
    def test_each_resource_is_measured_by_one_formula(self, pools, shares):
        site = view(*({"id": str(n), "stocks": stocks(*pool)} for n, pool in enumerate(pools)))
        whole = Mix(shares_of(shares))
        free = {"cores": [pool[0] for pool in pools], "memory": [pool[1] for pool in pools],
                "milli": [sum(pool[2]) for pool in pools]}  # fmt: skip
        for of, place in (("cores", 0), ("memory", 1), ("milli", 3)):
            chosen = [(asked, weight) for asked, weight in shares if asked[place]]
            if not chosen:
                continue
            compiled = usable_mix(site, whole, of)
            useless, found = compiled.useless_and_free(site)
            self.assertEqual(free[of], found.tolist())
            weights = [weight for _, weight in chosen]
            by_share = [[usable(pool, asked, of) for pool in pools] for asked, _ in chosen]
            used = np.average(by_share, axis=0, weights=weights)
            np.testing.assert_allclose(useless, found - used, atol=1e-6)
            rows = (site.take(np.array([number])) for number in range(len(site)))
            alone = [compiled.useless_and_free(row)[0].tolist() for row in rows]
            self.assertEqual([[one] for one in useless.tolist()], alone)

    @quietly(60)
    @given(POOLS, st.lists(st.tuples(ASKED, st.sampled_from([1.0, 3.0])), min_size=1, max_size=4))
    def test_the_resource_with_the_fewest_mean_nodes_is_measured(self, pools, shares):
        site = view(*({"id": str(n), "stocks": stocks(*pool)} for n, pool in enumerate(pools)))
        found = usable_mix(site, Mix(shares_of(shares)))
        total = {"cores": sum(pool[0] for pool in pools), "memory": sum(pool[1] for pool in pools),
                 "milli": sum(1000 * len(pool[2]) for pool in pools)}  # fmt: skip
        nodes = {}
        for name, amount in total.items():
            mean = sum(weight * one["amount"] * one["count"] for asked, weight in shares
                       for one in needs(*asked) if one["resource"] == name)  # fmt: skip
            if mean:
                nodes[name] = amount / mean
        self.assertLessEqual(nodes[measure_name(found.resource)], min(nodes.values()) * (1 + 1e-9))


if __name__ == "__main__":
    unittest.main()
