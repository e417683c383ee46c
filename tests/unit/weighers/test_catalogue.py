# SPDX-License-Identifier: Apache-2.0
"""The weighers with options for their facts: each formula with numbers by hand."""

import unittest

import msgspec
import numpy as np

from tests.unit.weighers.test_weighers import USED, WeigherCase, cpu
from valence_sched import testing
from valence_sched.core.policy import bind
from valence_sched.errors import InputError
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.testing import request, view
from valence_sched.view.terms import CostRule, FactRule, PreferenceRule, matches
from valence_sched.weighers.cost import cost
from valence_sched.weighers.curve import Point, curve
from valence_sched.weighers.failures import failures
from valence_sched.weighers.level import level
from valence_sched.weighers.preference import preference
from valence_sched.weighers.scarce import scarce
from valence_sched.weighers.tight import tight

ASKED = request({"processor": {"total_cores": 8}})


def policy(weigher: str, **options: object) -> Policy:
    return Policy(name="p", weighers=(WeigherUse(weigher, options=options),))


def answer(weigher: str, *podms: dict, asked=ASKED, **options: object) -> list[float]:
    """Return the answer of a weigher in a policy, with options as users write them."""
    (found,) = bind(policy(weigher, **options)).weighers
    return found.evaluate(view(*podms), asked).tolist()


def gpus(uri: str, model: str | None = "A100", count: int = 1, **words: object) -> dict:
    kind = words.pop("kind", "GPU")
    return {
        "uri": uri,
        "devices": {"accelerators": [{"kind": kind, "model": model, "count": count}]},
        **words,
    }


class TestCurve(WeigherCase):
    """Mean of the curve at the utilisation, as RequestedToCapacityRatio of kube-scheduler."""

    PEAK = (Point(0, 0.2), Point(0.5, 1), Point(1, 0))
    BOTH = request({"processor": {"total_cores": 8}, "memory": {"capacity_mib": 100}})

    def test_by_hand(self):
        half = {"id": "half", "blocks": [cpu("a", 16, 400), cpu("b", 16, 400, status=USED)]}
        # cores (16 + 8) / 32 = 0.75: half way from 1 to 0; memory 500 / 800 = 0.625: a quarter
        self.scores([(0.5 + 0.75) / 2], curve, self.BOTH, half, points=self.PEAK)
        # cores 8 / 32 = 0.25: half way from 0.2 to 1; memory 100 / 800 = 0.125: a quarter
        empty = {"id": "empty", "blocks": [cpu("a", 16, 400), cpu("b", 16, 400)]}
        self.scores([(0.6 + 0.4) / 2], curve, self.BOTH, empty, points=self.PEAK)

    def test_without_points_it_is_the_utilisation(self):
        half = {"id": "half", "blocks": [cpu("a", 16, 400), cpu("b", 16, 400, status=USED)]}
        self.scores([(0.75 + 0.625) / 2], curve, self.BOTH, half)

    def test_the_order_of_the_points_does_not_matter(self):
        podm = {"id": "a", "blocks": [cpu("a", 32)]}
        self.scores([0.6], curve, ASKED, podm, points=self.PEAK[::-1])

    def test_beyond_its_ends_the_curve_is_flat(self):
        points = (Point(0.4, 0.3), Point(0.6, 0.9))
        podms = [{"id": "low", "blocks": [cpu("a", 80)]}, {"id": "high", "blocks": [cpu("a", 10)]}]
        self.scores([0.3, 0.9], curve, ASKED, *podms, points=points)
        self.scores([0.7, 0.7], curve, ASKED, *podms, points=(Point(0.5, 0.7),))

    def test_what_is_not_there_or_too_small_counts_as_fully_used(self):
        points = (Point(0, 1), Point(1, 0.25))
        podms = [{"id": "none"}, {"id": "small", "blocks": [cpu("a", 1)]}]
        self.scores([0.25, 0.25], curve, ASKED, *podms, points=points)

    def test_all_grants_of_a_stock_count(self):
        asked = request({"stocks": [{"resource": "gib", "amount": 10, "count": 3}]})
        podm = {"id": "a", "stocks": [{"uri": "s", "resource": "gib", "total": 100, "used": 20}]}
        self.scores([0.5], curve, asked, podm)

    def test_a_podm_counts_whole_unless_pools_are_asked_for(self):
        pools = {
            "id": "a",
            "pools": [{"id": "1"}, {"id": "2"}],
            "blocks": [cpu("a", 16, pools=["1"]), cpu("b", 48, pools=["2"])],
        }
        self.scores([8 / 64, 8 / 64], curve, ASKED, pools)
        self.scores([8 / 16, 8 / 48], curve, ASKED, pools, by="pool")

    def test_two_points_at_one_utilisation_are_a_step_in_the_order_given(self):
        podms = [{"id": str(n), "blocks": [cpu("a", n)]} for n in (32, 10)]  # at 0.25 and 0.8
        for before, after, scores in ((1, 0, [1, 0]), (0, 1, [0.5, 0.4])):
            points = (Point(0, 1), Point(0.5, before), Point(0.5, after), Point(1, 0))
            self.scores(scores, curve, ASKED, *podms, points=points)

    def test_a_curve_without_points_is_refused(self):
        with self.assertRaisesRegex(ValueError, "^a curve needs at least one point$"):
            curve(view({"id": "a"}), ASKED, points=())


class TestScarce(WeigherCase):
    """1 / (1 + free accelerators that are not requested)."""

    PODMS = (
        {"id": "none", "blocks": [cpu("c", 8)]},
        {"id": "one", "blocks": [cpu("c", 8), gpus("g")]},
        {"id": "three", "blocks": [cpu("c", 8), gpus("g", count=2), gpus("f", "U50", kind="FPGA")]},
        {"id": "used", "blocks": [cpu("c", 8), gpus("g", count=4, status=USED)]},
    )

    def test_who_asks_for_none_goes_where_none_is_free(self):
        self.scores([1, 1 / 2, 1 / 4, 1], scarce, ASKED, *self.PODMS)

    def test_who_asks_for_a_model_is_not_kept_from_it(self):
        asked = request({"accelerators": [{"model": "A100"}]})
        self.scores([1, 1, 1 / 2, 1], scarce, asked, *self.PODMS)

    def test_who_asks_for_any_of_a_kind_is_kept_from_none_of_that_kind(self):
        self.scores([1, 1, 1 / 2, 1], scarce, request({"accelerators": [{}]}), *self.PODMS)

    def test_requests_on_one_view_are_counted_each_for_itself(self):
        site = view(*self.PODMS)
        for asked, scores in (
            (ASKED, [1, 1 / 2, 1 / 4, 1]),
            (request({"accelerators": [{"model": "A100"}]}), [1, 1, 1 / 2, 1]),
            (request({"accelerators": [{"kind": "FPGA"}]}), [1, 1 / 2, 1 / 3, 1]),
            (ASKED, [1, 1 / 2, 1 / 4, 1]),
        ):
            self.assertEqual(scores, scarce(site, asked).tolist())

    def test_what_two_groups_would_take_is_left_out_once(self):
        big = {"accelerators": [{"kind": "GPU", "model": "H100", "memory_mib": 81920}]}
        both = {"accelerators": [{"kind": "GPU", "model": "A100", "memory_mib": 81920}]}
        podm = {
            "id": "a",
            "blocks": [
                gpus("g", count=3),
                gpus("l", "L4"),
                gpus("f", "U50", kind="FPGA"),
                {"uri": "h", "devices": big},
                {"uri": "b", "devices": both},
            ],
        }
        for groups, spare in (  # of 3 + 1 A100, 1 L4, 1 U50 and 1 H100
            ([{"model": "A100"}], 3),
            ([{"model": "A100"}, {"model": "A100"}], 3),
            ([{}, {"model": "A100"}], 1),
            ([{"model": "L4"}, {"kind": "FPGA"}], 5),
            ([{"model": "A100"}, {"memory_mib": 81920}], 2),
            ([{"model": "A100"}, {"memory_mib": 81920}, {"model": "L4"}], 1),
            ([{"model": "A100"}, {"memory_mib": 81920}, {}, {"kind": "FPGA"}], 0),
        ):
            with self.subTest(groups=groups):
                self.scores([1 / (1 + spare)], scarce, request({"accelerators": groups}), podm)

    def test_a_model_that_nobody_told_is_asked_for_only_where_the_unknown_is_allowed(self):
        podm = {"id": "a", "blocks": [gpus("g", None)]}
        asked = request({"accelerators": [{"model": "A100"}]})
        self.scores([1 / 2], scarce, asked, podm)
        needs = tuple(msgspec.structs.replace(need, unknown="allow") for need in asked.needs)
        self.scores([1], scarce, msgspec.structs.replace(asked, needs=needs), podm)

    def test_all_pools_of_a_podm_count(self):
        podm = {
            "id": "a",
            "pools": [{"id": "1"}, {"id": "2"}],
            "blocks": [cpu("c", 8, pools=["1"]), gpus("g", pools=["2"])],
        }
        self.scores([1 / 2, 1 / 2], scarce, ASKED, podm)


class TestFailures(WeigherCase):
    """1 / (1 + failures)."""

    def test_by_hand(self):
        podms = [{"id": str(n), "facts": {"failures": n}} for n in (0, 1, 3, 2**53 - 1)]
        self.scores([1, 1 / 2, 1 / 4, 0], failures, ASKED, *podms)

    def test_unknown_no_number_and_below_0_count_as_none(self):
        podms = [{"id": "a"}, {"id": "b", "facts": {"failures": "many"}}]
        podms += [{"id": "c", "facts": {"failures": -2}}]
        self.scores([1, 1, 1], failures, ASKED, *podms)

    def test_another_fact(self):
        podm = {"id": "a", "facts": {"failures": 9, "lost": 1}}
        self.scores([1 / 2], failures, ASKED, podm, fact="lost")


class TestRules(unittest.TestCase):
    PODMS = (
        {
            "id": "a",
            "zone": "z1",
            "aggregates": ["gold", "lab"],
            "capabilities": {"os": ["linux", "windows"], "nic_gbps": ["25", "100"]},
            "traits": ["FAST"],
            "facts": {"year": 2024, "rack": "7", "labels": ["x", "y"]},
        },
        {"id": "b", "pools": [{"id": "1", "traits": ["FAST"]}, {"id": "2"}]},
    )

    def matched(self, **words: object) -> list[bool]:
        rule = msgspec.convert(words, FactRule, strict=False)
        found = matches(view(*self.PODMS), rule)
        self.assertEqual(np.bool_, found.dtype)
        return found.tolist()

    def test_a_zone_an_aggregate_and_a_trait_match_by_name(self):
        for words in ({"zone": "z1"}, {"aggregate": "gold"}):
            self.assertEqual([True, False, False], self.matched(**words))
        self.assertEqual([True, True, False], self.matched(trait="FAST"))
        for words in ({"zone": "z2"}, {"aggregate": "silver"}, {"trait": "fast"}):
            self.assertEqual([False, False, False], self.matched(**words))

    def test_a_capability_or_fact_matches_by_value_by_number_or_where_it_is_told(self):
        for words, wanted in (
            ({"capability": "os"}, True),
            ({"capability": "os", "equals": "windows"}, True),
            ({"capability": "os", "equals": "Windows"}, False),
            ({"capability": "arch"}, False),
            ({"capability": "nic_gbps", "at_least": 100}, True),
            ({"capability": "nic_gbps", "at_least": 101}, False),
            ({"capability": "nic_gbps", "equals": 25}, True),
            ({"capability": "os", "at_least": 0}, False),
            ({"fact": "year"}, True),
            ({"fact": "year", "equals": 2024}, True),
            ({"fact": "year", "equals": "2024"}, True),
            ({"fact": "year", "at_least": 2024}, True),
            ({"fact": "year", "at_least": 2024.5}, False),
            ({"fact": "rack", "equals": 7}, True),
            ({"fact": "labels", "equals": "y"}, True),
            ({"fact": "labels", "equals": "z"}, False),
            ({"fact": "labels", "at_least": 0}, False),
            ({"fact": "price", "at_least": 0}, False),
        ):
            with self.subTest(words=words):
                self.assertEqual([wanted, False, False], self.matched(**words))


class TestCost(WeigherCase):
    """1 / (1 + total / scale)."""

    RULES = (
        CostRule(capability="os", equals="windows", cost=50),
        CostRule(zone="far", cost=25),
        CostRule(fact="price", at_least=2, cost=300),
    )
    PODMS = (
        {"id": "free"},
        {"id": "far", "zone": "far"},
        {"id": "both", "zone": "far", "capabilities": {"os": ["windows"]}},
        {"id": "dear", "facts": {"price": 2}},
    )

    def test_by_hand(self):
        self.scores([1, 0.8, 1 / 1.75, 1 / 4], cost, ASKED, *self.PODMS, rules=self.RULES)

    def test_a_pod_manager_that_costs_the_scale_scores_one_half(self):
        self.scores([1, 1 / 2], cost, ASKED, *self.PODMS[:2], rules=self.RULES, scale=25)

    def test_a_scale_below_1_counts_and_one_not_above_0_is_refused(self):
        self.scores([1, 1 / 51], cost, ASKED, *self.PODMS[:2], rules=self.RULES, scale=0.5)
        for scale in (0.0, -1.0, float("nan")):
            with self.assertRaisesRegex(ValueError, f"^scale must be above 0, not {scale}$"):
                cost(view(*self.PODMS), ASKED, scale=scale)

    def test_without_rules_all_are_free(self):
        self.scores([1, 1, 1, 1], cost, ASKED, *self.PODMS)

    def test_other_rules_on_the_same_view_are_added_up_anew(self):
        site, found = view(*self.PODMS), []
        wishes = (PreferenceRule(zone="far", weight=1),)
        for rules in (self.RULES[:1], self.RULES[1:2], self.RULES[:1], ()):
            found.append(cost(site, ASKED, rules=rules).tolist())
            self.assertEqual([0, 1, 1, 0], preference(site, ASKED, rules=wishes).tolist())
        windows = [1, 1, 1 / 1.5, 1]
        self.assertEqual([windows, [1, 0.8, 0.8, 1], windows, [1, 1, 1, 1]], found)

    def test_a_host_with_what_a_rule_names_is_dearer(self):
        """S34: one with a GPU, a fast network interface, or Windows."""
        for rule, where, dear, cheap in (
            ({"capability": "gpu", "equals": "true"}, "capabilities",
             {"gpu": ["true"]}, {"gpu": ["false"]}),
            ({"capability": "gpu", "equals": "true"}, "capabilities", {"gpu": ["true"]}, {}),
            ({"fact": "nic_speed_mbps", "at_least": 25000}, "facts",
             {"nic_speed_mbps": 100000}, {"nic_speed_mbps": 10000}),
            ({"capability": "nic_gbps", "at_least": 25}, "capabilities",
             {"nic_gbps": ["10", "100"]}, {"nic_gbps": ["10"]}),
            ({"capability": "os", "equals": "windows"}, "capabilities",
             {"os": ["windows"]}, {"os": ["linux"]}),
        ):  # fmt: skip
            with self.subTest(rule=rule, cheap=cheap):
                podms = ({"id": "dear", where: dear}, {"id": "cheap", where: cheap})
                low, high = answer("cost", *podms, rules=[{**rule, "cost": 30}])
                self.assertLess(low, high)
                self.assertEqual(1.0, high)

    def test_a_region_costs(self):
        """S34: Europe costs more than North America, or less."""
        rules = [
            {"fact": "region", "equals": "EU", "cost": 20},
            {"fact": "region", "equals": "NA", "cost": 10},
        ]
        podms = ({"id": "eu", "facts": {"region": "EU"}}, {"id": "na", "facts": {"region": "NA"}})
        self.assertEqual([1 / 1.2, 1 / 1.1], answer("cost", *podms, rules=rules))
        rules[1]["cost"] = 30
        self.assertEqual([1 / 1.2, 1 / 1.3], answer("cost", *podms, rules=rules))

    def test_the_sum_decides(self):
        """S34: the cost of a pod manager is the sum over its properties."""
        rules = [
            {"capability": "gpu", "cost": 100},
            {"capability": "os", "equals": "windows", "cost": 80},
            {"fact": "region", "equals": "EU", "cost": 20},
        ]
        podms = (
            {"id": "a", "capabilities": {"gpu": ["true"], "os": ["windows"]}},
            {"id": "b", "capabilities": {"gpu": ["true"]}, "facts": {"region": "EU"}},
            {"id": "c", "capabilities": {"os": ["linux"]}, "facts": {"region": "EU"}},
        )
        self.assertEqual([1 / 2.8, 1 / 2.2, 1 / 1.2], answer("cost", *podms, rules=rules))


class TestPreference(WeigherCase):
    """(matched - least) / (most - least)."""

    RULES = (
        PreferenceRule(trait="NVME", weight=3),
        PreferenceRule(aggregate="gold", weight=1),
        PreferenceRule(zone="far", weight=-4),
    )

    def test_by_hand(self):
        podms = [
            {"id": "best", "traits": ["NVME"], "aggregates": ["gold"]},
            {"id": "some", "traits": ["NVME"]},
            {"id": "nothing"},
            {"id": "mixed", "traits": ["NVME"], "zone": "far"},
            {"id": "worst", "zone": "far"},
        ]
        self.scores([1, 7 / 8, 4 / 8, 3 / 8, 0], preference, ASKED, *podms, rules=self.RULES)

    def test_what_is_only_unwelcome(self):
        rules = (PreferenceRule(zone="far", weight=-2),)
        podms = [{"id": "near"}, {"id": "far", "zone": "far"}]
        self.scores([1, 0], preference, ASKED, *podms, rules=rules)

    def test_without_rules_or_weights_all_are_alike(self):
        self.scores([0.5, 0.5], preference, ASKED, {"id": "a"}, {"id": "b"})
        rules = (PreferenceRule(zone="far", weight=0),)
        self.scores([0.5], preference, ASKED, {"id": "a", "zone": "far"}, rules=rules)

    def test_a_trait_is_wished_for_pool_by_pool(self):
        podm = {"id": "a", "pools": [{"id": "1", "traits": ["NVME"]}, {"id": "2"}]}
        self.scores(
            [1, 0], preference, ASKED, podm, rules=(PreferenceRule(trait="NVME", weight=2),)
        )


class TestOptions(unittest.TestCase):
    """Options as users write them: used unchanged, or refused with place and reason."""

    def refuses(self, words: str, weigher: str, **options: object) -> None:
        with self.assertRaises(InputError) as caught:
            bind(policy(weigher, **options), "site.yaml")
        self.assertIn("site.yaml", str(caught.exception))
        self.assertIn(words, str(caught.exception))

    def test_what_is_written_in_a_policy_is_what_the_weigher_gets(self):
        podms = ({"id": "a", "blocks": [cpu("c", 32)]}, {"id": "b", "zone": "far"})
        self.assertEqual([0.75, 0.0], answer("curve", *podms, points=[[0, 1], ["1", 0]]))
        self.assertEqual([1.0, 0.5], answer("cost", *podms, rules=[{"zone": "far", "cost": "100"}]))
        self.assertEqual([0, 1], answer("preference", *podms, rules=[{"zone": "far", "weight": 1}]))

    def test_a_rule_that_cannot_be_is_refused(self):
        for rule, words in (
            ({"zone": "a"}, "field 'cost'"),
            ({"zoen": "a", "cost": 1}, "did you mean 'zone'?"),
            ({"cost": 1}, "exactly one of capability, fact, trait, zone, aggregate"),
            ({"zone": "a", "trait": "T", "cost": 1}, "exactly one of"),
            ({"fact": "a", "equals": 1, "at_least": 1, "cost": 1}, "not both"),
            ({"trait": "a", "equals": "b", "cost": 1}, "trait alone"),
            ({"zone": "a", "at_least": 1, "cost": 1}, "zone alone"),
            ({"fact": "a", "equals": True, "cost": 1}, "rules'"),
            ({"fact": "a", "at_least": "much", "cost": 1}, ".at_least"),
            ({"zone": "a", "cost": -1}, "int >= 0"),
            ({"zone": "a", "cost": 1.5}, "expected int"),
        ):
            with self.subTest(rule=rule):
                self.refuses(words, "cost", rules=[{"zone": "ok", "cost": 1}, rule])
                self.refuses(
                    "option 'rules' of 'cost'[1]", "cost", rules=[{"zone": "ok", "cost": 1}, rule]
                )
        self.refuses("float <= 1000", "preference", rules=[{"zone": "a", "weight": 1001}])
        self.refuses("unknown field 'cost'", "preference", rules=[{"zone": "a", "cost": 1}])

    def test_a_point_off_the_page_is_refused(self):
        for points in ([[0, 2]], [[-1, 0]], [[0]], [[0, 0, 0]], [0, 1], 3, [[float("nan"), 0]]):
            with self.subTest(points=points):
                self.refuses("option 'points' of 'curve'", "curve", points=points)

    def test_the_contract_holds_with_options_too(self):
        rule = {"trait": "CXL"}, {"zone": "az1"}, {"aggregate": "ssd"}
        rule += {"capability": "os", "equals": "linux"}, {"fact": "year", "at_least": 2020}
        costs = [CostRule(**words, cost=7) for words in rule]
        wishes = [PreferenceRule(**words, weight=1 - 0.3 * n) for n, words in enumerate(rule * 2)]
        testing.check_weigher(cost, rules=tuple(costs), scale=3)
        testing.check_weigher(preference, rules=tuple(wishes))
        testing.check_weigher(failures, fact="noise_db")
        points = (Point(0, 0.1), Point(0.3, 1), Point(0.3, 0.4), Point(0.9, 0))
        testing.check_weigher(curve, points=points)
        testing.check_weigher(curve, points=points, by="pool")


def stock(resource: str, total: int, used: int = 0, **words) -> dict:
    return {"uri": resource, "resource": resource, "total": total, "used": used, **words}


def mixed(asked: Request, *flavors: tuple[dict, float]) -> Request:
    """Return a request with a mix of needs, each with its weight."""
    shares = tuple(FlavorShare(request(each).needs, weight=weight) for each, weight in flavors)
    return msgspec.structs.replace(asked, mix=Mix(shares))


def amounts(**wanted: float) -> dict:
    return {"stocks": [{"resource": name, "amount": amount} for name, amount in wanted.items()]}


class TestTight(WeigherCase):
    SITE = (
        {"id": "cards", "blocks": [gpus("g", count=3), gpus("u", status=USED)]},
        {"id": "cores", "blocks": [cpu("c", 500), cpu("d", 500, status=USED)]},
        {"id": "stocks", "stocks": [stock("watts", 900, 400), stock("litres", 70, 10)]},
        {"id": "none"},
    )

    def left(self, expected, asked, *site, **options):
        self.scores([1 / (1 + each) for each in expected], tight, asked, *site, **options)

    def test_what_the_request_needs_counts_by_what_is_free_of_it_in_nodes_of_the_request(self):
        # a resource that no node needs scores 1, for any amount
        self.left([1, 50, 2, 0], request({"processor": {"total_cores": 10}}), *self.SITE)
        self.left([3, 1, 2, 0], request({"accelerators": [{}]}), *self.SITE)
        self.left([1, 1, 50 + 1, 0], request(amounts(watts=10)), *self.SITE)
        self.left([1, 1, 50 + 2, 0], request(amounts(watts=10, litres=30)), *self.SITE)

    def test_amounts_are_in_nodes_of_the_mix_where_that_takes_any(self):
        asked = mixed(request(amounts(watts=10)), (amounts(watts=40), 3.0),
                      ({**amounts(watts=80), "accelerators": [{}, {}]}, 1.0))  # fmt: skip
        # a node uses 50 watts and half a card; this request cannot use cards, in use or not
        self.left([4 / 0.5, 1, 10 + 1, 0], asked, *self.SITE)

    def test_a_named_scale_goes_before_the_mix_and_a_stock_before_a_measure_of_its_name(self):
        asked = mixed(request(amounts(watts=10)), (amounts(watts=40), 1.0))
        self.left([1, 1, 100 + 1, 0], asked, *self.SITE, of={"watts": 5.0})
        self.left([4 / 2, 1, 12.5 + 1, 0], asked, *self.SITE, of={"accelerators": 2.0})
        site = (self.SITE[1], {"id": "stock", "stocks": [stock("cores", 7)]})
        self.left([1, 7], request(amounts(cores=1)), *site, of={"cores": 1.0})

    def test_a_scale_of_what_nobody_has_counts_nothing(self):
        asked = request(amounts(watts=10))
        self.left([1, 1, 51, 0], asked, *self.SITE, of={"tons": 1.0})

    def test_pools_of_one_pod_manager_are_told_apart(self):
        pools = {"id": "a", "pools": [{"id": "1"}, {"id": "2"}],
                 "blocks": [gpus("a", pools=["1"]), gpus("b", count=4, pools=["2"])]}  # fmt: skip
        asked = request({"accelerators": [{}]})
        self.scores([1 / 2, 1 / 5], tight, asked, pools)

    def test_within_a_pod_manager_a_pool_counts_against_the_mean_of_all(self):
        pools = {"id": "a", "pools": [{"id": "1"}, {"id": "2"}],
                 "blocks": [gpus("a", pools=["1"]), gpus("b", count=3, pools=["2"])]}  # fmt: skip
        alone = {"id": "b", "blocks": [gpus("c", count=50)]}
        asked = request({"accelerators": [{}]})
        expected = [1 / (1 + 0.5), 1 / (1 + 1.5), 1 / 2]
        self.scores(expected, tight, asked, pools, alone, within="podm")
        site = view(pools, alone)
        for row in range(3):
            found = tight(site.take([row]), asked, within="podm").tolist()
            self.assertEqual(tight(site, asked, within="podm").tolist()[row : row + 1], found)

    def test_another_resource_counts_in_the_pool_that_has_it(self):
        pools = {"id": "a", "pools": [{"id": "1"}, {"id": "2"}],
                 "stocks": [stock("watts", 1, pools=["1"])],
                 "blocks": [cpu("c", 10, pools=["1"]), cpu("d", 30, pools=["2"])]}  # fmt: skip
        site, asked = view(pools), request({"processor": {"total_cores": 10}})
        expected = {  # x is 1 + 1 and 3, of the mean (4 + 1) / 2
            "site": [1 / (1 + 2), 1 / (1 + 3)],
            "podm": [1 / (1 + 2 / 2.5), 1 / (1 + 3 / 2.5)],
        }
        for within, scores in expected.items():
            self.assertEqual(scores, tight(site, asked, within=within).tolist())
            self.assertEqual(scores[1:], tight(site.take([1]), asked, within=within).tolist())

    def test_all_pools_of_a_full_pod_manager_score_alike(self):
        pools = {"id": "a", "pools": [{"id": "1"}, {"id": "2"}],
                 "blocks": [gpus("a", pools=["1"], status=USED)]}  # fmt: skip
        self.scores([0.5, 0.5], tight, request({"accelerators": [{}]}), pools, within="podm")

    def test_each_request_on_one_view_counts_its_own_resources(self):
        site = view(*self.SITE)
        cores, cards = request({"processor": {"total_cores": 10}}), request({"accelerators": [{}]})
        for asked, left in ((cores, [1, 50, 2, 0]), (cards, [3, 1, 2, 0]), (cores, [1, 50, 2, 0])):
            self.assertEqual([1 / (1 + each) for each in left], tight(site, asked).tolist())

    def test_a_scale_that_is_not_above_0_is_refused(self):
        asked = request({"processor": {"total_cores": 1}})
        for scale in (0.0, -1.0, float("nan")):
            message = f"^the scale of 'cores' must be above 0, not {scale}$"
            with self.subTest(scale), self.assertRaisesRegex(ValueError, message):
                tight(view(*self.SITE), asked, of={"cores": scale})


class TestLevel(WeigherCase):
    @staticmethod
    def stock(amount, *pools, used=0):
        found = {"uri": f"s{pools}", "resource": "mem", "total": amount, "used": used}
        return {**found, "pools": pools} if pools else found

    @classmethod
    def pools(cls, *blocks, first=1, second=4, used=0):
        """Return a podm with two pools, each with a stock."""
        stocks = [cls.stock(first, "1", used=used), cls.stock(second, "2", used=used)]
        pools = [{"id": "1"}, {"id": "2"}]
        return {"id": "a", "pools": pools, "blocks": blocks, "stocks": stocks}

    @property
    def site(self):
        return self.pools(), {"id": "b", "stocks": [self.stock(50)]}

    ONE = request({"stocks": [{"resource": "mem", "amount": 1}]})

    def test_the_pool_with_most_left_scores_highest_and_a_single_pool_is_not_compared(self):
        # with two pools, half of the difference to 1 / 2 counts
        expected = [0.5 + (1 / 13 - 0.5) / 2, 0.5 + (4 / 16 - 0.5) / 2, 0.5]
        self.scores(expected, level, self.ONE, *self.site)

    def test_blocks_do_not_count(self):
        blocks = cpu("c", 10, pools=["1"]), cpu("d", 50, pools=["2"])
        cores = {"processor": {"total_cores": 10}}
        asked = request({**cores, "stocks": [{"resource": "mem", "amount": 1}]})
        self.scores([0.5 + (4 / 16 - 0.5) / 2] * 2, level, asked, self.pools(*blocks, first=4))
        self.scores([0.5, 0.5], level, request(cores), self.pools(*blocks))

    def test_amounts_are_in_nodes_of_the_mix(self):
        asked = mixed(self.ONE, ({"stocks": [{"resource": "mem", "amount": 2}]}, 1.0))
        self.scores([0.5 + (0.5 / 12.5 - 0.5) / 2, 0.5 + (2 / 14 - 0.5) / 2],
                    level, asked, self.pools())  # fmt: skip

    def test_within_a_pod_manager_a_pool_counts_against_the_mean_of_all(self):
        mean = 2.5 / 14.5
        expected = [(1 + 1 / 13 - mean) / 2, (1 + 4 / 16 - mean) / 2, 0.5]
        self.scores(expected, level, self.ONE, *self.site, within="podm")

    def test_a_pool_scores_the_same_without_the_other_rows(self):
        site = view(*self.site)
        for within in ("site", "podm"):
            every = level(site, self.ONE, within=within).tolist()
            for row in range(3):
                found = level(site.take([row]), self.ONE, within=within).tolist()
                self.assertEqual(every[row : row + 1], found)

    def test_all_pools_of_a_full_pod_manager_score_alike(self):
        full = self.pools(first=4, second=4, used=4)
        self.scores([0.25, 0.25], level, self.ONE, full)
        self.scores([0.5, 0.5], level, self.ONE, full, within="podm")
