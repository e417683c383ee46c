# SPDX-License-Identifier: Apache-2.0
"""Declared resources: the amounts of each pod manager (S25)."""

import unittest

from msgspec.structs import replace

from tests.unit.core.deciders import cpu, cpus, engine, lean
from valence_sched.config import parsers
from valence_sched.core.explain.report import decision_warnings
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import InputError
from valence_sched.model.codec import decode
from valence_sched.model.custom_resource import CustomResource, DeclaredResources, with_declared
from valence_sched.model.inventory import FullPodm, Stock, to_json
from valence_sched.planning.fit_counts import count_fits
from valence_sched.testing import request
from valence_sched.view.builder import ViewBuilder

POWER = CustomResource(name="power_w", unit="W", total=1000.0)


def stocks(podm: dict, *resources: CustomResource) -> list[Stock]:
    return list(DeclaredResources(resources).all_stocks(lean(podm)))


class TestDeclared(unittest.TestCase):
    """The stocks of a pod manager."""

    def test_by_name_goes_before_the_fact_and_the_fact_before_the_total(self):
        power = CustomResource(name="power_w", total=1.0, fact="w", podms={"a": 3.0, "Bee": 4.0})
        for podm, total in (
            ({"id": "a", "facts": {"w": 2}}, 3.0),
            ({"id": "b", "name": "Bee"}, 4.0),
            ({"id": "c", "facts": {"w": 2}}, 2.0),
            ({"id": "d"}, 1.0),
        ):
            self.assertEqual([total], [stock.total for stock in stocks(podm, power)])

    def test_one_of_which_nothing_is_told_has_none(self):
        self.assertEqual([], stocks({"id": "z"}, CustomResource(name="power_w", podms={"a": 3.0})))

    def test_a_stock_stands_in_all_pools_or_each_pool_has_its_own(self):
        podm = {"id": "a", "pools": [{"id": "p"}, {"id": "q"}]}
        (one,) = stocks(podm, POWER)
        self.assertEqual(("declared:power_w", ("p", "q")), (one.uri, one.pools))
        each = stocks(podm, CustomResource(name="ports", total=4.0, per="pool"))
        self.assertEqual([("declared:ports#p", ("p",)), ("declared:ports#q", ("q",))],
                         [(stock.uri, stock.pools) for stock in each])  # fmt: skip

    def test_a_fact_tells_what_is_in_use(self):
        power = CustomResource(
            name="power_w", total=100.0, used_fact="drawn", min=5, max=50, step=5
        )
        (stock,) = stocks({"id": "a", "facts": {"drawn": 30}}, power)
        self.assertEqual((30.0, 5.0, 50.0, 5.0), (stock.used, stock.min, stock.max, stock.step))

    def test_a_fact_that_is_no_amount_is_remarked_and_counts_as_not_told(self):
        for value in ("much", -1, ["5"]):
            declared = DeclaredResources([CustomResource(name="power_w", total=7.0, fact="w")])
            (stock,) = declared.all_stocks(lean({"id": "a", "facts": {"w": value}}))
            self.assertEqual(7.0, stock.total)
            self.assertRegex(declared.remarks[0], "pod manager 'a': fact 'w' is .*, expected")

    def test_what_a_pod_manager_reports_itself_stays_and_a_remark_says_so(self):
        own = {"uri": "s", "resource": "power_w", "total": 5}
        declared = DeclaredResources([POWER])
        self.assertEqual(
            ["s"], [s.uri for s in declared.all_stocks(lean({"id": "a", "stocks": [own]}))]
        )
        line = "pod manager 'a': reports 'power_w' itself: its declaration is ignored"
        self.assertEqual([line], declared.remarks)

    def test_a_later_declaration_takes_the_place_of_an_earlier_one(self):
        pools = [{"id": "p"}]
        old = [{"uri": "declared:power_w#p", "resource": "power_w", "total": 5, "pools": ["p"]}]
        declared = DeclaredResources([POWER])
        (stock,) = declared.all_stocks(lean({"id": "a", "pools": pools, "stocks": old}))
        self.assertEqual((1000.0, []), (stock.total, declared.remarks))

    def test_a_pod_manager_that_is_not_there_is_remarked_with_the_nearest(self):
        declared = DeclaredResources(
            [CustomResource(name="power_w", podms={"pod-1": 1.0, "pod-9x": 1.0})]
        )
        for name in ("pod-1", "pod-9"):
            declared.all_stocks(lean({"id": name}))
        line = "resource 'power_w': no pod manager named 'pod-9x' (did you mean 'pod-9'?)"
        self.assertEqual([line], list(declared.unmatched_remarks()))


class TestFile(unittest.TestCase):
    def test_what_is_no_resource_is_refused_with_the_place(self):
        for text, words in (
            ("name: p", "at least one of total, fact, podms"),
            ("{name: p, total: -1}", "$.total"),
            ("{name: cores, total: 1}", "a name other than cores, memory_mib"),
            ("{name: p, total: 1, per: rack}", "'rack'"),
            ("{name: p, total: 1, unitt: W}", "did you mean 'unit'?"),
            ("{name: p, total: 1, per: pool, used_fact: w}", "used_fact only with per: podm"),
            ("{name: p, total: 1, min: 3, max: 2}", "max to be at least min"),
            ("{name: p, total: 1, of: U250}", "'of' only with per: processor"),
            ("{name: p, total: 1, per: drive, unit: W}", "and podms only with per: drive"),
            ("{name: p, total: 1.5, per: drive}", "whole numbers with per: drive"),
            ("{name: p, podms: {a: 0.5}, per: drive}", "whole numbers with per: drive"),
            ("resources: [{name: p, total: 1}, {name: p, total: 2}]", "'p' again"),
        ):
            with self.subTest(text), self.assertRaises(InputError) as caught:
                parsers.parse_resources(text.encode(), "r.yaml")
            self.assertIn(words, str(caught.exception))
            self.assertTrue(str(caught.exception).startswith("r.yaml: $"))


def declared_engine(podms: tuple[dict, ...], *resources: CustomResource):
    declared, builder = DeclaredResources(resources), ViewBuilder()
    for podm in podms:
        builder.add(with_declared(lean(podm), declared), "test")
    return engine(builder.view())


class TestUse(unittest.TestCase):
    """S25: a new kind of resource is filtered, weighed and depleted without code."""

    def engine(self, *podms: dict):
        return declared_engine(podms, POWER)

    def test_s25_a_batch_takes_exactly_what_there_is(self):
        asked = request(
            {"processor": {"sockets": 1}, "resources": {"power_w": 450}}, count=9, min_count=0
        )
        decision = self.engine(
            {"id": "a", "blocks": cpus(9)}, {"id": "b", "blocks": cpus(9)}
        ).select_destinations(asked)
        self.assertEqual(["a", "a", "b", "b"], sorted(p.chosen.podm for p in decision.placements))
        reason = Verdicts(decision).stop_reason(0)
        self.assertEqual("capacity: power_w at once: needs 450, has 100", reason.text)

    def test_s25_room_weighs_it(self):
        used = {"uri": "s", "resource": "power_w", "total": 1000, "used": 500}
        decision = self.engine(
            {"id": "a", "blocks": cpus(1), "stocks": [used]}, {"id": "b", "blocks": cpus(1)}
        ).select_destinations(request({"resources": {"power_w": 100}}, alternates=1))
        (placement,) = decision.placements
        self.assertEqual("b", placement.chosen.podm)
        room, other_room = (one.scores["room"] for one in (placement.chosen, *placement.alternates))
        self.assertAlmostEqual(0.5, room - other_room)

    def test_a_resource_that_nobody_has_is_warned_of_with_the_nearest(self):
        site = self.engine({"id": "a", "blocks": cpus(1)})
        asked = request({"processor": {"sockets": 1}, "resources": {"powr_w": 1}})
        line = "no pod manager has a resource named 'powr_w' (did you mean 'power_w'?)"
        self.assertEqual([line], decision_warnings(site.select_destinations(asked)))
        self.assertEqual((line,), count_fits(site, asked, 5).warnings)
        known = request({"processor": {"sockets": 1}, "resources": {"power_w": 1}})
        self.assertEqual([], decision_warnings(site.select_destinations(known)))


class TestDevices(unittest.TestCase):
    """S25: a new kind of device is filtered, counted and depleted without code."""

    CELLS = CustomResource(name="NUMA_CELL", per="processor", of="Xeon*", total=2, podms={"b": 4})

    def engine(self, *podms: dict, resources: tuple[CustomResource, ...] = (CELLS,)):
        return declared_engine(podms, *resources)

    def test_each_device_has_its_parts(self):
        def block(uri, model, **words):
            processors = [{"cores": 16, "count": 2, "model": model, **words}]
            return {"uri": uri, "type": ["Compute"], "devices": {"processors": processors}}

        found = self.engine(
            {"id": "a", "blocks": [block("1", "Xeon 8"), block("2", "EPYC"), block("3", "Xeon 9")]},
            {"id": "b", "blocks": [block("1", "Xeon 8"), block("2", "Xeon 8", health="Critical")]},
            {"id": "c", "blocks": [{"uri": "1"}, {"uri": "2", "devices": {}}]},
        )
        asked = request({"accelerators": [{"kind": "NUMA_CELL", "count": 4}]}, count=9, min_count=0)
        decision = found.select_destinations(asked)
        taken = {
            (placed.chosen.podm, *(block.uri for block in placed.chosen.blocks))
            for placed in decision.placements
        }
        self.assertEqual({("a", "1"), ("a", "3"), ("b", "1")}, taken)
        reasons = {one.podm: one.reason.text for one in Verdicts(decision).podm_verdicts()}
        self.assertEqual("devices: NUMA_CELL: needs 4, has 0", reasons["c"])

    def test_parts_of_parts_are_of_a_kind(self):
        regions = CustomResource(name="REGION", per="accelerator", of="FPGA", total=4)
        cards = [{"kind": "FPGA", "model": "U250"}, {"kind": "GPU", "model": "A100"}]
        podm = {"id": "a", "blocks": [{"uri": "1", "devices": {"accelerators": cards}}]}
        for number, outcome in ((4, "placed"), (5, "nothing_fits")):
            asked = request({"accelerators": [{"kind": "REGION", "count": number}]})
            found = self.engine(podm, resources=(regions,)).select_destinations(asked)
            self.assertEqual(outcome, found.outcome)

    def test_what_is_declared_twice_is_added_once(self):
        declared = DeclaredResources([self.CELLS])
        podm = lean({"id": "a", "blocks": [cpu("1", 16)]})
        once = with_declared(podm, DeclaredResources([replace(self.CELLS, of=None)]))
        self.assertNotEqual(podm, once)
        self.assertEqual(once, with_declared(once, DeclaredResources([self.CELLS])))
        self.assertEqual(podm, with_declared(podm, declared))
        whole = decode(to_json(podm), FullPodm, "test")
        found = with_declared(whole, DeclaredResources([replace(self.CELLS, of=None)]))
        self.assertEqual(found, decode(to_json(once), FullPodm, "test"))
