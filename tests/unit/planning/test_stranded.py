# SPDX-License-Identifier: Apache-2.0
"""Stranded and usable amounts are all that is free, and nothing more fits on what is stranded."""

import unittest

from hypothesis import assume, given

from tests.unit.core.deciders import cpu, cpus, engine, engine_of, gpu
from tests.unit.core.fit import brute
from tests.unit.core.sites import quietly, sites
from tests.unit.planning.optimise.test_bound import cut
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.request import Request
from valence_sched.planning.fit_counts import count_fits
from valence_sched.planning.stranded import Filling, stranded_amounts
from valence_sched.testing import request, view
from valence_sched.view.hardware import device_counts

WEB = request({"processor": {"total_cores": 8}}, id="web", flavor="web")
CARD = request({"processor": {"total_cores": 8}, "accelerators": [{"count": 1}]},
               id="card", flavor="card")  # fmt: skip


def stranded(decider, *requests):
    return stranded_amounts([decider.context(one) for one in requests])


def by_kind(found):
    return {(one.podm, one.kind): (one.usable, one.stranded, dict(one.why)) for one in found}


class TestStranded(unittest.TestCase):
    def test_cards_without_a_processor_in_their_pool_are_stranded(self):
        blocks = [cpu("c1", 8, pools=["p"]), *(gpu(f"p{n}", pools=["p"]) for n in range(3)),
                  *(gpu(f"q{n}", pools=["q"]) for n in range(2))]  # fmt: skip
        podm = {"id": "rack", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks}
        self.assertEqual(
            {("rack", "GPU"): (1, 4, {"no free cores (card)": 4}),
             ("rack", "cores"): (8, 0, {})},
            by_kind(stranded(engine_of(podm), CARD)),
        )  # fmt: skip

    def test_what_a_light_flavor_would_take_first_is_not_stranded_by_it(self):
        decider = engine_of({"id": "rack", "blocks": [*cpus(2), gpu("g1"), gpu("g2")]})
        for order in ((WEB, CARD), (CARD, WEB)):
            self.assertEqual((2, 0, {}), by_kind(stranded(decider, *order))["rack", "GPU"])

    def test_what_no_flavor_asks_for_is_told_as_such(self):
        decider = engine_of({"id": "rack", "blocks": [*cpus(2), gpu("g1")]})
        self.assertEqual((0, 1, {"no flavor asks for it": 1}),
                         by_kind(stranded(decider, WEB))["rack", "GPU"])  # fmt: skip

    def test_all_that_an_offline_pod_manager_has_is_stranded(self):
        decider = engine_of({"id": "rack", "status": "Offline", "blocks": cpus(2)})
        ((usable, left, why),) = by_kind(stranded(decider, WEB)).values()
        self.assertEqual((0, 16), (usable, left))
        self.assertRegex(next(iter(why)), "status Offline")

    def test_too_few_of_a_device_strand_themselves(self):
        pair = request({"accelerators": [{"count": 2}]}, id="pair", flavor="pair")
        decider = engine_of({"id": "rack", "blocks": [gpu(f"g{n}") for n in range(5)]})
        self.assertEqual((4, 1, {"too few GPU (pair)": 1}),
                         by_kind(stranded(decider, pair))["rack", "GPU"])  # fmt: skip

    def test_amounts_of_stocks_are_stranded_as_well(self):
        node = request({"processor": {"total_cores": 8}, "resources": {"gib": 4}}, flavor="node")
        stock = {"uri": "/s", "resource": "gib", "unit": "GiB", "total": 10.0}
        decider = engine_of({"id": "rack", "blocks": cpus(1), "stocks": [stock]})
        self.assertEqual((4, 6, {"no free cores (node)": 6}),
                         by_kind(stranded(decider, node))["rack", "stock"])  # fmt: skip

    def test_a_pod_manager_that_is_left_out_by_name_is_not_listed(self):
        decider = engine_of({"id": "a", "blocks": cpus(1)}, {"id": "b", "blocks": cpus(1)})
        only = request({"processor": {"total_cores": 8}}, podms=("b",))
        self.assertEqual(["b"], [one.podm for one in stranded(decider, only)])

    @quietly(150)
    @given(sites())
    def test_stranded_and_usable_are_what_is_free_and_no_node_fits_any_more(self, drawn):
        podms, needs = drawn
        assume(not brute.makes(needs, []))
        seen = view(*cut(podms))
        decider, asked = engine(seen), Request(id="x", needs=needs)
        found = stranded(decider, asked)
        left = count_fits(engine(Filling([decider.context(asked)]).after), asked, 9).podms
        self.assertEqual({0}, {number for _, number in left})
        free = {"GPU": 0, "NIC": 0, "FPGA": 0}
        for one in device_counts(seen, BlockFilter()):
            if one.kind in free and one.free is not None:
                free[one.kind] += one.free
        for one in found:
            self.assertGreaterEqual(one.usable, 0)
            self.assertEqual(one.free, one.usable + one.stranded)
            self.assertAlmostEqual(one.stranded, sum(amount for _, amount in one.why))
        for kind, number in free.items():
            self.assertEqual(number, sum(one.free for one in found if one.kind == kind))
