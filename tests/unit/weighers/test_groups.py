# SPDX-License-Identifier: Apache-2.0
"""The weighers about groups and owners, by hand numbers."""

from tests.unit.weighers.test_weighers import WeigherCase
from valence_sched.model.group import Group, GroupState, Spread
from valence_sched.model.request import Request
from valence_sched.weighers.affinity import affinity
from valence_sched.weighers.owner import owner

SITE = ({"id": "a", "zone": "x"}, {"id": "b", "zone": "y"}, {"id": "c"})


def asked(members: dict, open_: tuple = (), **rules) -> Request:
    company = GroupState(members={"zone": members}, open={"zone": open_})
    return Request(group=Group(name="web", **rules), company=company)


class TestOwner(WeigherCase):
    """One divided by one more than the owner's nodes."""

    def test_by_hand(self):
        request = Request(owner="me", company=GroupState(owned={"a": 3, "c": 1}))
        self.scores([1 / 4, 1, 1 / 2], owner, request, *SITE)
        self.scores([1, 1, 1], owner, Request(), *SITE)


class TestAffinity(WeigherCase):
    """The mean over the soft rules."""

    def test_soft_affinity(self):
        self.scores([2 / 3, 0, 0], affinity, asked({"x": 2}, soft_affinity=("zone",)), *SITE)

    def test_soft_anti_affinity_and_an_unknown_value_counts_0(self):
        request = asked({"x": 2}, soft_anti_affinity=("zone",))
        self.scores([1 / 3, 1, 0], affinity, request, *SITE)

    def test_soft_spread_counts_what_exceeds_the_skew(self):
        one = asked({"x": 3, "y": 1}, ("x", "y"), spread=(Spread("zone", 1, True),))
        self.scores([1 / 3, 1, 0], affinity, one, *SITE)
        two = asked({"x": 3, "y": 1}, ("x", "y"), spread=(Spread("zone", 2, True),))
        self.scores([1 / 2, 1, 0], affinity, two, *SITE)
        new = asked({"x": 3, "y": 1}, ("x", "y", "z"), spread=(Spread("zone", 1, True),))
        self.scores([1 / 4, 1 / 2, 0], affinity, new, *SITE)

    def test_the_mean_of_several(self):
        request = asked({"x": 1}, soft_affinity=("zone",), soft_anti_affinity=("podm",))
        self.scores([(1 / 2 + 1) / 2, 1 / 2, 1 / 2], affinity, request, *SITE)

    def test_without_soft_rules_all_are_alike(self):
        self.scores([1, 1, 1], affinity, Request(), *SITE)
        self.scores([1, 1, 1], affinity, asked({"x": 1}, anti_affinity=("zone",)), *SITE)
