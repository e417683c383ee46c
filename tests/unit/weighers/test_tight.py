# SPDX-License-Identifier: Apache-2.0
"""The tight weigher: 1 / (1 + how many nodes' worth of everything is left)."""

import msgspec

from tests.unit.weighers.test_catalogue import gpus
from tests.unit.weighers.test_weighers import USED, WeigherCase, cpu
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.testing import request, view
from valence_sched.weighers.tight import tight


def stock(resource: str, total: int, used: int = 0, **words) -> dict:
    return {"uri": resource, "resource": resource, "total": total, "used": used, **words}


def mixed(asked: Request, *flavors: tuple[dict, float]) -> Request:
    """Return a request with a mix of needs, each with its weight."""
    shares = tuple(FlavorShare(request(each).needs, weight=weight) for each, weight in flavors)
    return msgspec.structs.replace(asked, mix=Mix(shares))


def amounts(**wanted: float) -> dict:
    return {"stocks": [{"resource": name, "amount": amount} for name, amount in wanted.items()]}


class TestTight(WeigherCase):
    """By hand numbers."""

    SITE = (
        {"id": "cards", "blocks": [gpus("g", count=3), gpus("u", status=USED)]},
        {"id": "cores", "blocks": [cpu("c", 500), cpu("d", 500, status=USED)]},
        {"id": "stocks", "stocks": [stock("watts", 900, 400), stock("litres", 70, 10)]},
        {"id": "none"},
    )

    def left(self, expected, asked, *site, **options):
        self.scores([1 / (1 + each) for each in expected], tight, asked, *site, **options)

    def test_what_the_request_needs_counts_by_what_is_free_of_it_in_nodes_of_the_request(self):
        # and of what no node needs, however much there is, 1
        self.left([1, 50, 2, 0], request({"processor": {"total_cores": 10}}), *self.SITE)
        self.left([3, 1, 2, 0], request({"accelerators": [{}]}), *self.SITE)
        self.left([1, 1, 50 + 1, 0], request(amounts(watts=10)), *self.SITE)
        self.left([1, 1, 50 + 2, 0], request(amounts(watts=10, litres=30)), *self.SITE)

    def test_amounts_are_in_nodes_of_the_mix_where_that_takes_any(self):
        asked = mixed(request(amounts(watts=10)), (amounts(watts=40), 3.0),
                      ({**amounts(watts=80), "accelerators": [{}, {}]}, 1.0))  # fmt: skip
        # a node takes 50 watts and half a card; in use or not, cards are not for this request
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

    def test_a_scale_that_is_not_above_0_is_refused(self):
        asked = request({"processor": {"total_cores": 1}})
        for scale in (0.0, -1.0, float("nan")):
            message = f"^the scale of 'cores' must be above 0, not {scale}$"
            with self.subTest(scale), self.assertRaisesRegex(ValueError, message):
                tight(view(*self.SITE), asked, of={"cores": scale})
