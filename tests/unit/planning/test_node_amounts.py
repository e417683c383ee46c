# SPDX-License-Identifier: Apache-2.0
"""The amounts that a living node gets, keeps and gives away."""

import itertools
import random
import unittest

import msgspec

from tests.unit.planning.test_node_change import HOST, decide, gpu, tails
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model.claim import ComposedNode, Grant
from valence_sched.model.inventory import FullPodm, grant_size
from valence_sched.model.need import NodeRequest
from valence_sched.planning.node_change import ChangePlanner, smallest_amounts
from valence_sched.testing import request

CORES = {"processor": {"total_cores": 8}}


def stock(name, free=1000, pools=("a",), **words):
    return {"uri": f"/D/{name}", "resource": "mem", "unit": "MiB", "total": free, "pools": pools,
            **words}  # fmt: skip


def chunk(name, amount, of="1"):
    return Grant(f"/D/{of}/MemoryChunks/{name}", float(amount))


def grant(amount, of="1", resource="mem", unit="MiB"):
    return Grant(f"/D/{of}", float(amount), resource, unit)


def planner(stocks, amounts=(), grants=None, blocks=(), pools=("a",), **words):
    """Return the planner of a node whose host is in pool a."""
    host = {**HOST, "pools": ["a"]}
    podm = {"id": "p", "pools": [{"id": one} for one in pools], "stocks": stocks}
    found = msgspec.convert({**podm, "blocks": [host, *blocks]}, FullPodm)
    if grants is None:
        grants = [grant(one.amount, of=one.uri.split("/")[2]) for one in amounts]
    node = ComposedNode(id="n", podm="p", uri="/S/1", claim="c", blocks=("/B/host-1",),
                        amounts=tuple(amounts), grants=tuple(grants), **words)  # fmt: skip
    return ChangePlanner(found, node, decide)


def wanted(amount=None, properties=None, **fields):
    resources = {} if amount is None else {"resources": {"mem": amount}}
    return request({**(properties or {}), **resources, **fields})


def sizes(grants):
    return sorted(one.amount for one in grants)


class TestAttaching(unittest.TestCase):
    """Amounts of stocks for a node."""

    def test_an_amount_comes_from_a_stock_that_the_host_reaches(self):
        plan = planner([stock("1", pools=["b"]), stock("2")], pools="ab")
        found = plan.attach(wanted(100))
        self.assertEqual(((grant(100, "2"),), ()), (found.grants, found.attach))

    def test_an_amount_is_rounded_up_to_the_step_of_its_stock(self):
        found = planner([stock("1", step=64, min=128)]).attach(wanted(130))
        self.assertEqual((grant(192),), found.grants)

    def test_devices_and_amounts_are_chosen_together(self):
        plan = planner([stock("1")], blocks=[gpu("1", pools=["a"])])
        found = plan.attach(wanted(100, {"accelerators": [{}]}))
        self.assertEqual((["1"], (grant(100),)), (tails(found.attach), found.grants))

    def test_a_stock_beyond_the_reach_is_named(self):
        plan = planner([stock("1", 50), stock("2", pools=["b"])], pools="ab")
        found = plan.attach(wanted(100))
        self.assertFalse(found.fits)
        (line,) = found.decision.report.warnings
        self.assertEqual("p: /D/2 would fit, but the node reaches a only", line)

    def test_a_declared_amount_is_refused_unless_the_node_has_it(self):
        declared = {**stock("1"), "uri": "declared:mem"}
        with self.assertRaisesRegex(RequestError, "mem is an amount that the operator declared"):
            planner([declared]).attach(wanted(100))
        request_ = NodeRequest.of(wanted(100, CORES))
        plan = planner([declared], request=request_)
        self.assertTrue(plan.become(wanted(100, CORES)).fits)
        with self.assertRaisesRegex(RequestError, "cannot be attached to a node or detached"):
            plan.become(wanted(200, CORES))

    def test_named_grants_must_be_of_stocks_in_reach(self):
        plan = planner([stock("1"), stock("2", pools=["b"])], pools="ab")
        plain = Grant("/D/1", 5.0)
        self.assertEqual((grant(5),), plan.grants_named([plain]))
        with self.assertRaisesRegex(RequestError, "node n reaches a, but no stock /D/2 there"):
            plan.grants_named([grant(5, "2")])


class TestDetaching(unittest.TestCase):
    """Memory chunks and volumes that leave a node."""

    def setUp(self):
        request_ = NodeRequest.of(wanted(100, CORES))
        self.amounts = [chunk("x", 100), chunk("y", 300), chunk("x", 500, "2")]
        self.plan = planner([stock("1"), stock("2")], self.amounts, request=request_)

    def test_the_smallest_sufficient_amounts_go(self):
        for wanted_, found in (
            (50, [100]),
            (150, [300]),
            (301, [100, 300]),
            (900, [100, 300, 500]),
        ):
            with self.subTest(wanted_):
                self.assertEqual(found, sizes(self.plan.detach(wanted(wanted_)).amounts))
        text = "node n has 900 MiB of mem, expected 901 or more"
        with self.assertRaisesRegex(RequestError, text):
            self.plan.detach(wanted(901))

    def test_an_amount_is_named_by_the_end_of_its_uri(self):
        (found,) = self.plan.amounts_named(["y"])
        self.assertEqual(("/D/1/MemoryChunks/y", "mem"), (found.uri, found.resource))
        (found,) = self.plan.amounts_named(["2/MemoryChunks/x"])
        self.assertEqual(500.0, found.amount)
        for name in ("x", "z", "unks/y"):
            with self.assertRaisesRegex(UnknownName, "no memory chunk or volume of node n"):
                self.plan.amounts_named([name])

    def test_what_the_request_of_the_node_does_not_need_is_idle(self):
        found = self.plan.without_idle()
        self.assertEqual([300.0, 500.0], sizes(found.amounts))
        self.assertEqual(((), ()), (found.detach, found.grants))

    def test_a_node_with_too_little_keeps_all(self):
        plan = planner([stock("1")], [chunk("x", 50)], request=NodeRequest.of(wanted(100, CORES)))
        self.assertEqual((), plan.without_idle().amounts)


class TestResizing(unittest.TestCase):
    """The amounts of a node that becomes another flavor."""

    def become(self, amount, *has, free=1000, **words):
        amounts = [chunk(str(number), size) for number, size in enumerate(has)]
        return planner([stock("1", free, **words)], amounts).become(wanted(amount, CORES))

    def test_only_what_is_missing_is_attached(self):
        for amount, has, got, gone in (
            (500, [200, 100], [200], []),
            (300, [200, 100], [], []),
            (200, [200, 100], [], [100]),
            (150, [200, 100], [], [100]),
            (None, [200, 100], [], [100, 200]),
            (500, [], [500], []),
        ):
            with self.subTest(amount=amount, has=has):
                found = self.become(amount, *has)
                self.assertEqual((got, gone), (sizes(found.grants), sizes(found.amounts)))

    def test_an_amount_that_a_larger_grant_replaces_goes(self):
        found = self.become(300, 100, step=256)
        self.assertEqual(([256], []), (sizes(found.grants), sizes(found.amounts)))
        found = self.become(200, 100, min=256)
        self.assertEqual(([256], [100]), (sizes(found.grants), sizes(found.amounts)))

    def test_what_no_stock_has_does_not_fit(self):
        self.assertFalse(self.become(500, 100, free=399).fits)
        self.assertTrue(self.become(500, 100, free=400).fits)

    def test_several_amounts_stay_several(self):
        plan = planner([stock("1", max=300)], [chunk("x", 100)])
        found = plan.become(wanted(None, CORES, stocks=[{"resource": "mem", "amount": 300,
                                                         "count": 2}]))  # fmt: skip
        self.assertEqual([250, 250], sizes(found.grants))

    def test_devices_that_suffice_are_kept_while_an_amount_is_attached(self):
        blocks = [gpu(str(number), pools=["a"]) for number in range(3)]
        plan = planner([stock("1")], blocks=blocks)
        found = plan.become(wanted(100, CORES))
        self.assertEqual(((), (), [100]), (found.attach, found.detach, sizes(found.grants)))


class TestChoice(unittest.TestCase):
    """Choices compared with all possible ones."""

    def test_no_smaller_amounts_suffice(self):
        rng = random.Random(11)
        for _ in range(300):
            some = [
                chunk(str(n), rng.choice([1, 2, 2.5, 4, 7, 16])) for n in range(rng.randint(0, 6))
            ]
            least = rng.choice([0.5, 1, 3, 4.5, 9, 20])
            every = [
                (sum(it.amount for it in them), len(them))
                for size in range(1, len(some) + 1)
                for them in itertools.combinations(some, size)
                if sum(it.amount for it in them) >= least
            ]
            found = smallest_amounts(some, least)
            with self.subTest(some=some, least=least):
                best = None if found is None else (sum(it.amount for it in found), len(found))
                self.assertEqual(min(every, default=None), best)

    def test_of_many_amounts_a_small_total_is_found_in_a_bounded_search(self):
        rng = random.Random(3)
        some = [chunk(str(n), round(rng.uniform(10, 1000), 3)) for n in range(40)]
        for share in (0.01, 0.6, 1.0):
            least = share * sum(it.amount for it in some)
            found = sum(it.amount for it in smallest_amounts(some, least))
            self.assertTrue(least <= found + 1e-6 <= 1.05 * least, (share, found, least))
        self.assertIsNone(smallest_amounts(some, 41_000))

    def test_a_resized_node_has_enough_and_nothing_idle_on_random_stocks(self):
        rng = random.Random(5)
        for _ in range(60):
            has = [rng.choice([64, 128, 192]) for _ in range(rng.randint(0, 3))]
            stocks = [
                stock(str(n), rng.choice([64, 200, 600]), rng.choice([["a"], ["b"], ["a", "b"]]),
                      step=rng.choice([0, 64]), min=rng.choice([0, 128]))
                for n in range(1, 4)
            ]  # fmt: skip
            need = rng.choice([0, 64, 100, 300, 500])
            plan = planner(stocks, [chunk(str(n), size) for n, size in enumerate(has)], pools="ab")
            found = plan.become(wanted(need or None, CORES))
            missing = need - sum(has)
            near = [one for one in plan.amounts.stocks if "a" in one.pools]
            fits = missing <= 0 or any(grant_size(one, missing) is not None for one in near)
            with self.subTest(has=has, stocks=stocks, need=need):
                self.assertEqual(fits, found.fits)
                got = sum(sizes(found.grants))
                self.assertEqual(missing > 0 and fits, bool(got))
                kept = list(has)
                for one in found.amounts:
                    kept.remove(one.amount)
                if fits:
                    self.assertGreaterEqual(sum(kept) + got, need)
                    self.assertTrue(all(sum(kept) - size + got < need for size in kept))
