# SPDX-License-Identifier: Apache-2.0
"""The formula of each weigher, with numbers by hand."""

import unittest

import msgspec

from valence_sched.model.need import Proximity
from valence_sched.model.request import Group, GroupState, Request, Spread
from valence_sched.testing import request, view
from valence_sched.view.terms import podm_fields
from valence_sched.weighers.affinity import affinity
from valence_sched.weighers.balance import balance
from valence_sched.weighers.known import known
from valence_sched.weighers.near import near
from valence_sched.weighers.owner import owner
from valence_sched.weighers.pack import pack
from valence_sched.weighers.room import room

USED = {"state": "Composed"}


def cpu(uri: str, cores: int, mib: int = 0, **words: object) -> dict:
    devices = {"processors": [{"cores": cores}], "memory": [{"capacity_mib": mib}]}
    return {"uri": uri, "devices": devices, **words}


def allowed(asked: Request) -> Request:
    """Return a request that accepts unknown amounts."""
    needs = tuple(msgspec.structs.replace(need, unknown="allow") for need in asked.needs)
    return msgspec.structs.replace(asked, needs=needs)


class WeigherCase(unittest.TestCase):
    """Compares scores with a tolerance of a billionth."""

    def scores(self, expected: list[float], function, asked: Request, *podms: dict, **options):
        found = function(view(*podms), asked, **options).tolist()
        self.assertEqual(len(expected), len(found))
        for want, have in zip(expected, found, strict=True):
            self.assertAlmostEqual(want, have, 9)


class TestRoom(WeigherCase):
    """Mean of (free - requested) / total, as LeastAllocated of kube-scheduler."""

    ASKED = request({"processor": {"total_cores": 8}, "memory": {"capacity_mib": 100}})

    def test_by_hand(self):
        half = {"id": "half", "blocks": [cpu("a", 16, 400), cpu("b", 16, 400, status=USED)]}
        # cores (16 - 8) / 32, memory (400 - 100) / 800
        self.scores([(0.25 + 0.375) / 2], room, self.ASKED, half)

    def test_nothing_left_is_0_and_never_less(self):
        self.scores([0.0], room, self.ASKED, {"id": "small", "blocks": [cpu("a", 8, 100)]})
        self.scores([0.0], room, self.ASKED, {"id": "less", "blocks": [cpu("a", 1, 1)]})
        self.scores([0.0], room, self.ASKED, {"id": "none"})

    def test_all_grants_of_a_stock_count(self):
        asked = request({"stocks": [{"resource": "gib", "amount": 10, "count": 3}]})
        podm = {"id": "a", "stocks": [{"uri": "s", "resource": "gib", "total": 100, "used": 20}]}
        self.scores([0.5], room, asked, podm)

    def test_a_podm_counts_whole_unless_pools_are_asked_for(self):
        pools = {
            "id": "a",
            "pools": [{"id": "1"}, {"id": "2"}],
            "blocks": [cpu("a", 16, pools=["1"]), cpu("b", 48, pools=["2"])],
        }
        asked = request({"processor": {"total_cores": 8}})
        self.scores([56 / 64, 56 / 64], room, asked, pools)
        self.scores([8 / 16, 40 / 48], room, asked, pools, by="pool")


class TestPack(WeigherCase):
    """Mean of (used + requested) / total, as MostAllocated of kube-scheduler."""

    ASKED = request({"processor": {"total_cores": 8}, "memory": {"capacity_mib": 100}})

    def test_by_hand(self):
        half = {"id": "half", "blocks": [cpu("a", 16, 400), cpu("b", 16, 400, status=USED)]}
        # cores (16 + 8) / 32, memory (400 + 100) / 800
        self.scores([(0.75 + 0.625) / 2], pack, self.ASKED, half)

    def test_full_is_1_and_what_lacks_is_0(self):
        self.scores([1.0], pack, self.ASKED, {"id": "small", "blocks": [cpu("a", 8, 100)]})
        self.scores([0.0], pack, self.ASKED, {"id": "less", "blocks": [cpu("a", 1, 1)]})
        self.scores([0.0], pack, self.ASKED, {"id": "no memory", "blocks": [cpu("a", 8)]})

    def test_of_what_nobody_told_the_amount_nothing_is_used(self):
        asked = request({"processor": {"total_cores": 8}, "memory": {"capacity_mib": 100}})
        unreported = {"processors": [{"cores": 8}], "memory": [{}]}
        podm = {"id": "a", "blocks": [{"uri": "a", "devices": unreported}]}
        self.scores([0.5], pack, allowed(asked), podm)

    def test_a_podm_counts_whole_unless_pools_are_asked_for(self):
        asked = request({"processor": {"total_cores": 8}, "memory": {"capacity_mib": 100}})
        pools = {
            "id": "a",
            "pools": [{"id": "1"}, {"id": "2"}],
            "blocks": [cpu("a", 16, 200, pools=["1"]), cpu("b", 48, 600, pools=["2"])],
        }
        self.scores([0.125, 0.125], pack, asked, pools)
        self.scores([0.5, 1 / 6], pack, asked, pools, by="pool")
        lopsided = {**pools, "blocks": [cpu("a", 16, 800, pools=["1"]), cpu("b", 16, pools=["2"])]}
        self.scores([1 - (8 / 32 - 100 / 800) / 2, 0.0], balance, asked, lopsided)
        self.scores([1 - (8 / 16 - 100 / 800) / 2, 0.0], balance, asked, lopsided, by="pool")

    def test_it_prefers_the_fuller_where_room_prefers_the_emptier(self):
        podms = [
            {"id": "empty", "blocks": [cpu("a", 32), cpu("b", 32)]},
            {"id": "full", "blocks": [cpu("a", 32), cpu("b", 32, status=USED)]},
        ]
        asked = request({"processor": {"total_cores": 16}})
        self.scores([0.25, 0.75], pack, asked, *podms)
        self.scores([0.75, 0.25], room, asked, *podms)


class TestBalance(WeigherCase):
    """1 - standard deviation of the shares, as BalancedAllocation of kube-scheduler."""

    def test_by_hand(self):
        asked = request({"processor": {"total_cores": 16}, "memory": {"capacity_mib": 100}})
        # shares 16/32 and 100/800: half of their difference away from 1
        podm = {"id": "a", "blocks": [cpu("a", 32, 800)]}
        self.scores([1 - abs(0.5 - 0.125) / 2], balance, asked, podm)

    def test_three_needs(self):
        asked = request(
            {"processor": {"total_cores": 16, "sockets": 1}, "memory": {"capacity_mib": 200}}
        )
        podm = {"id": "a", "blocks": [cpu("a", 32, 800)]}
        shares = [0.5, 1.0, 0.25]
        mean = sum(shares) / 3
        deviation = (sum((share - mean) ** 2 for share in shares) / 3) ** 0.5
        self.scores([1 - deviation], balance, asked, podm)

    def test_what_nobody_told_the_amount_of_counts_as_unused(self):
        asked = request({"processor": {"total_cores": 8}, "memory": {"capacity_mib": 100}})
        unreported = {"processors": [{"cores": 16}], "memory": [{}]}
        podms = [{"id": "a", "blocks": [{"uri": "a", "devices": unreported}]},
                 {"id": "b", "blocks": [cpu("b", 32, 400)]}]  # fmt: skip
        # shares 8/16 and 0, and 8/32 and 100/400
        self.scores([0.75, 1.0], balance, allowed(asked), *podms)

    def test_equal_shares_are_in_balance_however_they_are_rounded(self):
        asked = request(
            {"processor": {"total_cores": 1, "sockets": 1}, "memory": {"capacity_mib": 1}}
        )
        for total in range(1, 60):
            devices = {"processors": [{"cores": 1}], "memory": [{"capacity_mib": 1}]}
            blocks = [{"uri": str(n), "devices": devices} for n in range(total)]
            (score,) = balance(view({"id": "a", "blocks": blocks}), asked).tolist()
            self.assertAlmostEqual(1.0, score, 6, total)

    def test_a_single_need_is_always_in_balance(self):
        asked = request({"processor": {"total_cores": 16}})
        self.scores([1.0], balance, asked, {"id": "a", "blocks": [cpu("a", 32)]})

    def test_what_lacks_is_0_however_much_is_asked(self):
        for cores in (64, 10**15):
            asked = request({"processor": {"total_cores": cores}, "memory": {"capacity_mib": 1}})
            self.scores([0.0], balance, asked, {"id": "a", "blocks": [cpu("a", 1, 4)]})


class TestUntold(WeigherCase):
    """Unreported amounts count as free if allowed, and not in the total."""

    MEMORY = request({"memory": {"capacity_mib": 400}})
    BOTH = request({"processor": {"total_cores": 8}, "memory": {"capacity_mib": 400}})

    def podm(self, unreported: int, cores: dict) -> dict:
        memory = [{"uri": f"m{n}", "devices": {"memory": [{}]}} for n in range(unreported)]
        reported = {"processors": [cores], "memory": [{"capacity_mib": 100}]}
        return {"id": f"p{unreported}", "blocks": [{"uri": "c", "devices": reported}, *memory]}

    def test_the_shares_leave_0_to_1_and_the_scores_do_not(self):
        podms = [self.podm(1, {"cores": 8}), self.podm(3, {"cores": 8})]
        # of 100 MiB 100 are left, or 900; of 8 cores none
        for weigher, alone, both in (
            (room, [1.0, 1.0], [0.5, 1.0]),
            (pack, [0.0, 0.0], [0.5, 0.0]),
            (balance, [1.0, 1.0], [0.5, 0.0]),
        ):
            self.scores(alone, weigher, allowed(self.MEMORY), *podms)
            self.scores(both, weigher, allowed(self.BOTH), *podms)

    def test_what_is_not_there_at_all_fills_nothing(self):
        self.scores([0.0], pack, allowed(self.BOTH), self.podm(2, {}))


class TestKnown(WeigherCase):
    """The share of the needs that reported devices satisfy."""

    def test_by_hand(self):
        asked = request({"processor": {"total_cores": 8}, "accelerators": [{"model": "A100"}]})
        gpu = {"uri": "g", "devices": {"accelerators": [{"kind": "GPU"}]}}
        reported = {"uri": "h", "devices": {"accelerators": [{"kind": "GPU", "model": "A100"}]}}
        podms = [
            {"id": "told", "blocks": [cpu("c", 8), reported]},
            {"id": "half", "blocks": [cpu("c", 8), gpu]},
            {"id": "untold", "blocks": [{"uri": "c", "devices": {"processors": [{}]}}, gpu]},
        ]
        self.scores([1.0, 0.5, 0.0], known, allowed(asked), *podms)

    def test_where_nothing_unknown_is_taken_all_are_alike(self):
        unreported = {"uri": "c", "devices": {"processors": [{}]}}
        podms = [{"id": "told", "blocks": [cpu("c", 8)]}, {"id": "untold", "blocks": [unreported]}]
        self.scores([1.0, 1.0], known, request({"processor": {"total_cores": 8}}), *podms)

    def test_a_stock_alone_is_no_device(self):
        asked = request({"stocks": [{"resource": "gib", "amount": 5}]})
        asked = allowed(asked)
        stock = {"uri": "s", "resource": "gib"}
        podms = [
            {"id": "told", "stocks": [{**stock, "total": 5}]},
            {"id": "not", "stocks": [stock]},
        ]
        self.scores([1.0, 1.0], known, asked, *podms)

    def test_a_stock_that_all_have_enough_of_is_known(self):
        asked = request(
            {"accelerators": [{"model": "A100"}], "stocks": [{"resource": "gib", "amount": 5}]}
        )
        stocks = [{"uri": "s", "resource": "gib", "total": 50}]
        podms = [
            {"id": name, "stocks": stocks, "blocks": [{"uri": "g", "devices": {
                "accelerators": [{"kind": "GPU", "model": model}]}}]}
            for name, model in (("told", "A100"), ("untold", None))
        ]  # fmt: skip
        self.scores([1.0, 0.5], known, allowed(asked), *podms)

    def test_an_untold_stock_is_not_known(self):
        asked = request(
            {"processor": {"total_cores": 8}, "stocks": [{"resource": "gib", "amount": 5}]}
        )
        asked = allowed(asked)
        podms = [
            {"id": "told", "stocks": [{"uri": "s", "resource": "gib", "total": 5}]},
            {"id": "untold", "stocks": [{"uri": "s", "resource": "gib"}]},
        ]
        podms = [{"blocks": [cpu("c", 8)], **podm} for podm in podms]
        self.scores([1.0, 0.5], known, asked, *podms)


PLACES = (
    {"id": "a", "zone": "z1", "aggregates": ["x"], "facts": {"rack": "r1"}},
    {"id": "b", "zone": "z2", "aggregates": ["x", "y"], "facts": {"rack": "r2"}},
    {"id": "c"},
)


def wish(**place: object) -> Proximity:
    return Proximity(thing="volume v", soft=True, **place)


class TestNear(WeigherCase):
    """The share of the place that a pool has in common, as the mean over several resources."""

    def test_each_reported_part_of_the_place_counts_alike(self):
        place = wish(zone="z1", aggregates=("x",), facts={"rack": "r2"})
        self.scores([2 / 3, 2 / 3, 0], near, Request(near=(place,)), *PLACES)

    def test_of_several_things_the_mean_however_many_parts_they_have(self):
        places = wish(zone="z2", aggregates=("y",)), wish(facts={"rack": "r1"})
        self.scores([1 / 2, 1 / 2, 0], near, Request(near=places), *PLACES)
        places = wish(zone="z2", aggregates=("x",)), wish(facts={"rack": "r2"})
        self.scores([1 / 4, 1, 0], near, Request(near=places), *PLACES)

    def test_what_must_be_near_is_no_wish_and_a_wish_without_a_place_counts_for_nothing(self):
        must = Proximity(thing="volume u", zone="z2")
        self.scores([1, 1, 1], near, Request(near=(must,)), *PLACES)
        self.scores([1, 1, 1], near, Request(near=(wish(),)), *PLACES)
        self.scores([1, 0, 0], near, Request(near=(must, wish(), wish(zone="z1"))), *PLACES)


class TestFields(unittest.TestCase):
    """The changes of a pod manager that can change a score."""

    def test_any_request_may_name_any_part_of_a_place(self):
        self.assertEqual(["aggregates", "facts", "zone"], sorted(podm_fields(near, {})))

    def test_a_request_reads_the_parts_of_its_wishes_alone(self):
        must = Proximity(thing="volume u", zone="z2")
        asked = Request(near=(must, wish(aggregates=("x",), facts={"rack": "r1"})))
        self.assertEqual(["aggregates", "facts.rack"], sorted(podm_fields(near, {}, asked)))


SITE = ({"id": "a", "zone": "x"}, {"id": "b", "zone": "y"}, {"id": "c"})


def asked(members: dict, open_: tuple = (), **rules) -> Request:
    group_state = GroupState(members={"zone": members}, open={"zone": open_})
    return Request(group=Group(name="web", **rules), group_state=group_state)


class TestOwner(WeigherCase):
    """1 / (1 + the owner's nodes)."""

    def test_by_hand(self):
        request = Request(owner="me", group_state=GroupState(owned={"a": 3, "c": 1}))
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
