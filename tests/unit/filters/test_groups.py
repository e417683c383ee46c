# SPDX-License-Identifier: Apache-2.0
"""The filters about groups, owners and what to keep away from."""

import unittest

import numpy as np

from valence_sched import testing
from valence_sched.filters.health import health
from valence_sched.filters.isolation import isolation
from valence_sched.filters.quarantine import quarantine
from valence_sched.filters.spread import spread
from valence_sched.model.group import Group, GroupState, Spread
from valence_sched.model.request import Request
from valence_sched.testing import view

ZONES = view(*({"id": f"p{n}", "zone": zone} for n, zone in enumerate("aabbc")), {"id": "nowhere"})


def asked(members: dict, open_: tuple = (), **rules) -> Request:
    company = GroupState(members={"zone": members}, open={"zone": open_})
    return Request(group=Group(name="web", **rules), company=company)


class TestSpread(unittest.TestCase):
    """Hard rules of a group."""

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
    """Reserved pod managers."""

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
        for owner, need in ((None, "for nobody"), ("biology", "for biology")):
            (term,) = isolation.terms(self.SITE, Request(owner=owner))
            shown = [term.have.values[code] for code in term.have.codes]
            owners = ["for nobody", "for physics", "for physics, biology", "for nobody"]
            self.assertEqual(("reserved", need, owners), (term.label, term.need, shown))

    def test_where_nothing_is_reserved_there_is_nothing_to_explain(self):
        self.assertEqual([], list(isolation.terms(view({"id": "a"}), Request())))


class TestHealth(unittest.TestCase):
    """In Redfish's words."""

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
    """Put aside by hand, or by its failures."""

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
