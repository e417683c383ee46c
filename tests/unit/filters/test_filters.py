# SPDX-License-Identifier: Apache-2.0
"""Each filter on the smallest view that shows its effect."""

import unittest

import numpy as np

from valence_sched import testing
from valence_sched.filters.aggregates import aggregates
from valence_sched.filters.alive import alive
from valence_sched.filters.capabilities import capabilities
from valence_sched.filters.capacity import capacity
from valence_sched.filters.devices import devices
from valence_sched.filters.enabled import enabled
from valence_sched.filters.health import health
from valence_sched.filters.isolation import isolation
from valence_sched.filters.quarantine import quarantine
from valence_sched.filters.spread import spread
from valence_sched.filters.target import target
from valence_sched.filters.traits import traits
from valence_sched.filters.zone import zone
from valence_sched.model.need import NameRequirements
from valence_sched.model.request import Group, GroupState, Request, Spread
from valence_sched.testing import request, view
from valence_sched.view.availability import feasible_rows

CORES = {"processor": {"total_cores": 16}}


def ids(*podms: dict) -> list[dict]:
    return [{"id": f"p{number}", **podm} for number, podm in enumerate(podms)]


def block(**devices: list) -> dict:
    return {"blocks": [{"uri": "b", "devices": devices}]}


class FilterCase(unittest.TestCase):
    """Shows which podms of a list a filter keeps."""

    def keeps(self, verdicts: list[bool], function, asked: Request, podms: list[dict], **options):
        self.assertEqual(verdicts, function(view(*podms), asked, **options).tolist())


class TestPodmFilters(FilterCase):
    """Filters on the reports of a pod manager."""

    def test_enabled_keeps_what_is_not_switched_off(self):
        self.keeps([True, False, True], enabled, Request(),
                   ids({}, {"enabled": False}, {"enabled": True}))  # fmt: skip

    def test_alive_keeps_online_and_with_an_option_unknown(self):
        podms = ids({}, {"status": "Offline"}, {"status": "Unknown"})
        self.keeps([True, False, False], alive, Request(), podms)
        self.keeps([True, False, True], alive, Request(), podms, unknown=True)

    def test_target_keeps_the_named_by_id_or_name_and_drops_the_excluded(self):
        podms = [{"id": "a", "name": "Rack A"}, {"id": "b", "name": "Rack B"}, {"id": "c"}]
        for words, verdicts in (
            ({}, [True, True, True]),
            ({"podms": ("b",)}, [False, True, False]),
            ({"podms": ("Rack A", "c")}, [True, False, True]),
            ({"exclude_podms": ("Rack B",)}, [True, False, True]),
            ({"podms": ("a", "b"), "exclude_podms": ("a",)}, [False, True, False]),
        ):
            with self.subTest(words):
                self.keeps(verdicts, target, Request(**words), podms)

    def test_target_on_no_pod_manager_is_a_mask_too(self):
        found = target(view(), Request(podms=("a",), exclude_podms=("b",)))
        self.assertEqual((bool, 0), (found.dtype, len(found)))

    def test_zone_keeps_the_asked_one_and_a_podm_without_zone_is_in_none(self):
        podms = ids({"zone": "a"}, {"zone": "b"}, {})
        self.keeps([True, False, False], zone, Request(zone="a"), podms)
        self.keeps([True, True, True], zone, Request(), podms)

    def test_aggregates_keeps_members_of_all_that_are_asked(self):
        podms = ids({"aggregates": ["x", "y"]}, {"aggregates": ["x"]}, {})
        self.keeps(
            [True, True, False], aggregates, Request(aggregates=NameRequirements(("x",))), podms
        )
        self.keeps(
            [True, False, False],
            aggregates,
            Request(aggregates=NameRequirements(("y", "x"))),
            podms,
        )
        self.keeps([True, True, True], aggregates, Request(), podms)

    def test_capabilities_keeps_one_value_of_every_key(self):
        podms = ids(
            {"capabilities": {"os": ["linux", "windows"], "hv": ["kvm"]}},
            {"capabilities": {"os": ["windows"]}},
            {"capabilities": {"hv": ["kvm"]}},
            {},
        )
        for asked, verdicts in (
            ({"os": ("linux",)}, [True, False, False, False]),
            ({"os": ("linux", "windows")}, [True, True, False, False]),
            ({"os": ("windows",), "hv": ("kvm", "xen")}, [True, False, False, False]),
            ({"os": ("Linux",)}, [False, False, False, False]),
            ({}, [True, True, True, True]),
        ):
            with self.subTest(asked):
                self.keeps(verdicts, capabilities, Request(capabilities=asked), podms)

    def test_what_zones_state_holds_where_a_pod_manager_states_none_of_the_key(self):
        podms = ids({"capabilities": {"os": ["bsd"]}}, {"capabilities": {"hv": ["kvm"]}}, {})
        asked = Request(capabilities={"os": ("linux",)}, inherited={"os": ("linux", "esxi")})
        self.keeps([False, True, True], capabilities, asked, podms)
        asked = Request(capabilities={"os": ("linux",)}, inherited={"os": ("esxi",)})
        self.keeps([False, False, False], capabilities, asked, podms)

    def test_traits_of_podm_and_pool_are_required_and_forbidden(self):
        podm = {"id": "a", "traits": ["COOLED"],
                "pools": [{"id": "1", "traits": ["CXL"]}, {"id": "2"}]}  # fmt: skip
        for words, verdicts in (
            ({"required": ("COOLED",)}, [True, True]),
            ({"required": ("COOLED", "CXL")}, [True, False]),
            ({"forbidden": ("CXL",)}, [False, True]),
            ({"forbidden": ("COOLED",)}, [False, False]),
            ({"required": ("CXL",), "forbidden": ("COOLED",)}, [False, False]),
        ):
            with self.subTest(words):
                asked = request(CORES, traits=words)
                self.keeps(verdicts, traits, asked, [podm])


class TestCapacity(FilterCase):
    def test_free_cores_add_up_over_the_blocks_of_the_pool(self):
        cpus = [{"uri": str(n), "devices": {"processors": [{"cores": 8}]}} for n in range(2)]
        used = [{**cpus[0], "status": {"state": "Composed"}}, cpus[1]]
        self.keeps([True, False], capacity, request(CORES), ids({"blocks": cpus}, {"blocks": used}))

    def test_cores_of_another_model_do_not_count(self):
        asked = request({"processor": {"total_cores": 16, "model": "EPYC"}})
        podms = ids(
            block(processors=[{"cores": 16, "model": "AMD EPYC 7313"}]),
            block(processors=[{"cores": 64, "model": "Xeon"}]),
            block(processors=[{"cores": 64}]),
        )
        self.keeps([True, False, False], capacity, asked, podms)

    def test_headroom_asks_that_share_more(self):
        podms = ids(block(processors=[{"cores": 16}]), block(processors=[{"cores": 20}]))
        self.keeps([True, True], capacity, request(CORES), podms)
        self.keeps([False, True], capacity, request(CORES), podms, headroom=0.25)
        self.keeps([False, False], capacity, request(CORES), podms, headroom=0.3)

    def test_devices_are_another_filters_matter(self):
        self.keeps([True], capacity, request({"nics": [{}]}), ids({}))

    def test_an_amount_comes_from_one_stock_and_several_from_all_together(self):
        def stocks(*totals: float) -> dict:
            return {"stocks": [{"uri": str(n), "resource": "gib", "total": t}
                               for n, t in enumerate(totals)]}  # fmt: skip

        podms = ids(stocks(10, 10), stocks(30), stocks(19))
        one = request({"stocks": [{"resource": "gib", "amount": 15}]})
        two = request({"stocks": [{"resource": "gib", "amount": 10, "count": 2}]})
        self.keeps([False, True, True], capacity, one, podms)
        self.keeps([True, True, False], capacity, two, podms)

    def test_what_rounding_costs_is_not_missing(self):
        def stocks(*each: dict) -> dict:
            return {"stocks": [{"uri": str(n), "resource": "gib", **words}
                               for n, words in enumerate(each)]}  # fmt: skip

        for amount, count, podm in (
            (0.1, 3, stocks({"total": 0.3})),
            (0.1, 8, stocks({"total": 0.7}, {"total": 0.1})),
            (1.05, 1, stocks({"total": 1.05, "step": 0.35})),
        ):
            with self.subTest(amount=amount, count=count):
                one = {"resource": "gib", "amount": amount, "count": count}
                asked, site = request({"stocks": [one]}), ids(podm, stocks({"total": 0.09}))
                self.keeps([True, False], capacity, asked, site)
                self.assertEqual([True, False], feasible_rows(view(*site), asked.needs).tolist())
        podms = ids(block(processors=[{"cores": 11}]), block(processors=[{"cores": 10}]))
        ten = request({"processor": {"total_cores": 10}})
        self.keeps([True, False], capacity, ten, podms, headroom=0.1)

    def test_headroom_of_a_stock_is_what_stays_free_not_one_larger_grant(self):
        podms = ids({"stocks": [{"uri": "s", "resource": "gib", "total": 100, "max": 10}]})
        asked = request({"stocks": [{"resource": "gib", "amount": 10}]})
        self.keeps([True], capacity, asked, podms, headroom=1.0)
        self.keeps([False], capacity, asked, podms, headroom=10.0)

    def test_an_untold_amount_counts_only_where_the_unknown_is_allowed(self):
        asked = request(CORES)
        allowed = Request(needs=tuple(
            type(need)(kind=need.kind, measure=need.measure, amount=need.amount, unknown="allow")
            for need in asked.needs
        ))  # fmt: skip
        podms = ids(block(processors=[{}]))
        self.keeps([False], capacity, asked, podms)
        self.keeps([True], capacity, allowed, podms)


class TestDevices(FilterCase):
    def test_enough_of_each_kind_that_pass_the_tests(self):
        gpu = {"kind": "GPU", "model": "NVIDIA A100", "memory_mib": 40960, "count": 2}
        podms = ids(block(accelerators=[gpu]), block(accelerators=[{**gpu, "kind": "FPGA"}]), {})
        for group, verdicts in (
            ({"count": 2}, [True, False, False]),
            ({"count": 3}, [False, False, False]),
            ({"model": "A100"}, [True, False, False]),
            ({"model": "A10"}, [False, False, False]),
            ({"kind": "FPGA"}, [False, True, False]),
            ({"memory_mib": 40961}, [False, False, False]),
        ):
            with self.subTest(group):
                self.keeps(verdicts, devices, request({"accelerators": [group]}), podms)

    def test_drives_and_interfaces_too(self):
        asked = request({"drives": [{"media": "SSD"}], "nics": [{"speed_mbps": 10000}]})
        ssd, nic = {"media": "SSD"}, {"speed_mbps": 25000}
        podms = ids(
            block(drives=[ssd], nics=[nic]),
            block(drives=[{"media": "HDD"}], nics=[nic]),
            block(drives=[ssd], nics=[{"speed_mbps": 1000}]),
            block(drives=[ssd], nics=[{}]),
        )
        self.keeps([True, False, False, False], devices, asked, podms)

    def test_totals_are_another_filters_matter(self):
        self.keeps([True], devices, request(CORES), ids({}))


ZONES = view(*({"id": f"p{n}", "zone": zone} for n, zone in enumerate("aabbc")), {"id": "nowhere"})


def asked(members: dict, open_: tuple = (), **rules) -> Request:
    group_state = GroupState(members={"zone": members}, open={"zone": open_})
    return Request(group=Group(name="web", **rules), group_state=group_state)


class TestSpread(unittest.TestCase):
    def keeps(self, expected: str, request: Request):
        found = spread(ZONES, request).tolist()
        self.assertEqual([letter == "y" for letter in expected], found)

    def test_without_hard_rules_everything_stays(self):
        self.keeps("yyyyyy", Request())
        self.keeps("yyyyyy", asked({"a": 9}, soft_anti_affinity=("zone",)))
        self.keeps("yyyyyy", asked({"a": 9}, spread=(Spread("zone", 1, soft=True),)))

    def test_affinity_founds_a_place_and_then_stays_there(self):
        self.keeps("yyyyyn", asked({}, affinity=("zone",)))
        self.keeps("nnyynn", asked({"b": 2}, affinity=("zone",)))
        self.keeps("nnyynn", asked({"b": 2, "c": 1}, affinity=("zone",)))

    def test_anti_affinity_keeps_where_none_is(self):
        self.keeps("nnyyyn", asked({"a": 1}, anti_affinity=("zone",)))

    def test_at_most_keeps_where_there_are_fewer(self):
        self.keeps("yynnyn", asked({"a": 1, "b": 2}, at_most={"zone": 2}))

    def test_spread_keeps_what_stays_within_the_skew_of_the_emptiest_open_value(self):
        rule = {"spread": (Spread("zone"),)}
        self.keeps("nnyyyn", asked({"a": 1}, ("a", "b", "c"), **rule))
        self.keeps("nnnnyn", asked({"a": 1, "b": 1}, ("a", "b", "c"), **rule))
        self.keeps("yyyyyn", asked({"a": 1, "b": 1}, ("a", "b"), **rule))
        wide = {"spread": (Spread("zone", 3),)}
        self.keeps("yynnyn", asked({"a": 2, "b": 3}, ("a", "b", "c"), **wide))

    def test_a_group_without_any_node_yet_is_kept_from_nowhere_that_tells_the_value(self):
        for rules in ({"anti_affinity": ("zone",)}, {"at_most": {"zone": 1}}):
            self.keeps("yyyyyn", Request(group=Group(name="web", **rules)))

    def test_the_reason_says_rule_need_and_have(self):
        request = asked({"a": 1}, anti_affinity=("zone",))
        (term,) = spread.terms(ZONES, request)
        self.assertEqual("group web: at most 1 per zone", term.label)
        self.assertEqual("fewer than 1", term.need)
        self.assertEqual([1, 1, 0, 0, 0], term.have[:5].tolist())
        self.assertTrue(np.isnan(term.have[5]))


class TestIsolation(unittest.TestCase):
    SITE = view(
        {"id": "free"},
        {"id": "one", "capabilities": {"reserved_for": ["physics"]}},
        {"id": "two", "capabilities": {"reserved_for": ["physics", "biology"]}},
        {"id": "other", "capabilities": {"kept": ["physics"]}},
    )

    def test_only_their_owners_come_there_and_owners_go_anywhere_else_too(self):
        for owner, expected in (
            (None, [True, False, False, True]),
            ("physics", [True, True, True, True]),
            ("biology", [True, False, True, True]),
            ("phys", [True, False, False, True]),
        ):
            with self.subTest(owner):
                found = isolation(self.SITE, Request(owner=owner))
                self.assertEqual(expected, found.tolist())

    def test_the_capability_is_an_option(self):
        found = isolation(self.SITE, Request(owner="biology"), key="kept")
        self.assertEqual([True, True, True, False], found.tolist())

    def test_a_reason_names_the_owners_and_who_asked(self):
        for owner, need in ((None, "unreserved"), ("biology", "for biology")):
            (term,) = isolation.terms(self.SITE, Request(owner=owner))
            shown = [term.have.values[code] for code in term.have.codes]
            owners = ["unreserved", "for physics", "for physics, biology", "unreserved"]
            self.assertEqual(("reserved", need, owners), (term.label, term.need, shown))

    def test_where_nothing_is_reserved_there_is_nothing_to_explain(self):
        self.assertEqual([], list(isolation.terms(view({"id": "a"}), Request())))

    def test_a_capability_without_an_owner_reserves_nothing(self):
        site = view(*({"id": str(names), "capabilities": {"reserved_for": names}}
                      for names in ([], [""], ["", "physics"])))  # fmt: skip
        (term,) = isolation.terms(site, Request(owner="biology"))
        self.assertEqual([True, True, False], isolation(site, Request(owner="biology")).tolist())
        shown = [term.have.values[code] for code in term.have.codes]
        self.assertEqual(["unreserved", "unreserved", "for physics"], shown)


class TestHealth(unittest.TestCase):
    """Health values of Redfish."""

    SITE = view(
        *({"id": word, "facts": {"health": word}} for word in ("OK", "Warning", "Critical", "odd")),
        {"id": "silent"},
    )

    def test_no_worse_than_allowed_and_unknown_as_told(self):
        for options, expected in (
            ({}, [True, True, False, True, True]),
            ({"worst": "OK"}, [True, False, False, True, True]),
            ({"worst": "Critical", "unknown": False}, [True, True, True, False, False]),
            ({"unknown": False}, [True, True, False, False, False]),
        ):
            with self.subTest(options):
                self.assertEqual(expected, health(self.SITE, Request(), **options).tolist())
                testing.check_filter(health, **options)

    def test_where_nobody_tells_unknown_is_still_as_told(self):
        site = view({"id": "a"})
        self.assertEqual([True], health(site, Request()).tolist())
        self.assertEqual([False], health(site, Request(), unknown=False).tolist())


class TestQuarantine(unittest.TestCase):
    """Quarantine by an operator, or after failures."""

    def test_any_text_but_a_no(self):
        reported = ["disk smells", "yes", 1.0, 0.0, "", "false", "No", "0", ["a"],
                    ["no", "0"], ["no", "a"]]  # fmt: skip
        site = view(
            *({"id": str(n), "facts": {"quarantine": word}} for n, word in enumerate(reported)),
            {"id": "silent"},
        )
        expected = [False, False, False, True, True, True, True, True, False, True, False,
                    True]  # fmt: skip
        self.assertEqual(expected, quarantine(site, Request()).tolist())
        (term,) = quarantine.terms(site, Request())
        self.assertEqual("disk smells", term.have[0])

    def test_too_many_failures_only_where_the_policy_says_how_many(self):
        site = view(*({"id": str(n), "facts": {"failures": n}} for n in range(4)), {"id": "silent"})
        self.assertTrue(quarantine(site, Request()).all())
        found = quarantine(site, Request(), most=2)
        self.assertEqual([True, True, True, False, True], found.tolist())
        testing.check_filter(quarantine, most=2)
