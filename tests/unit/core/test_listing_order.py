# SPDX-License-Identifier: Apache-2.0
"""The order in which pod managers list blocks and stocks changes no decision."""

import random
import unittest

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.deciders import built_in, engine
from tests.unit.core.sites import quietly
from valence_sched.core.explain.report import decision_report
from valence_sched.model.inventory import to_json
from valence_sched.testing import request, view
from valence_sched.testing.random_podms import podms
from valence_sched.view.digest import inventory_digest

NODES = (
    {"processor": {"total_cores": 16}},
    {"processor": {"total_cores": 8}, "accelerators": [{}]},
    {"processor": {"total_cores": 8}, "drives": [{"count": 2}], "memory": {"capacity_mib": 4096}},
)
POLICIES = tuple(policy.name for policy in built_in())


def shuffled(podm: dict, draw: random.Random) -> dict:
    lists = {name: podm.get(name, []) for name in ("blocks", "stocks")}
    return podm | {name: draw.sample(found, len(found)) for name, found in lists.items()}


class TestListingOrder(unittest.TestCase):
    """Blocks are taken by what they are."""

    @quietly(40)
    @given(st.integers(0, 999), st.integers(0, 999), st.sampled_from(NODES),
           st.sampled_from(POLICIES), st.integers(1, 4))  # fmt: skip
    def test_shuffled_lists_give_the_same_bytes(self, seed, order, node, policy, count):
        draw = random.Random(order)
        site = [msgspec.json.decode(text) for text in podms(3, 14, seed, pools=3, stocks=2)]
        stocks = [stock["resource"] for stock in site[0]["stocks"]][:1]
        node = node | {"stocks": [{"resource": name, "amount": 1} for name in stocks]}
        asked = request(node, policy=policy, count=count, min_count=0, alternates=1)
        listed, other = view(*site), view(*(shuffled(podm, draw) for podm in site))
        self.assertEqual(inventory_digest(listed), inventory_digest(other))
        reports = (
            decision_report(engine(one).select_destinations(asked)) for one in (listed, other)
        )
        first, second = map(to_json, reports)
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()
