# SPDX-License-Identifier: Apache-2.0
"""The tight weigher: 1 / (1 + the sum of what is free, or there, each by its scale)."""

from tests.unit.weighers.test_catalogue import gpus
from tests.unit.weighers.test_weighers import USED, WeigherCase, cpu
from valence_sched.testing import request, view
from valence_sched.weighers.tight import tight

ASKED = request({"processor": {"total_cores": 1}, "memory": {"capacity_mib": 1},
                 "accelerators": [{}], "stocks": [{"resource": "watts", "amount": 1},
                                                  {"resource": "cores", "amount": 1}]})  # fmt: skip


def stock(resource: str, total: int, used: int = 0) -> dict:
    return {"uri": resource, "resource": resource, "total": total, "used": used}


class TestTight(WeigherCase):
    """By hand numbers."""

    SITE = (
        {"id": "cards", "blocks": [gpus("g", count=3), gpus("u", status=USED)]},
        {"id": "cores", "blocks": [cpu("c", 500, 10**6), cpu("d", 500, status=USED)]},
        {"id": "stocks", "stocks": [stock("watts", 900, 400), stock("cores", 7)],
         "blocks": [cpu("c", 100)]},
        {"id": "none"},
    )  # fmt: skip

    def test_free_by_scale(self):
        for of, free in (
            (None, (3, 500 / 1e3 + 10**6 / 1e7, 100 / 1e3, 0)),
            ({"accelerators": 2.0}, (1.5, 0, 0, 0)),
            ({"memory_mib": 1e6, "accelerators": 1}, (3, 1, 0, 0)),
            ({"watts": 250.0}, (0, 0, 2, 0)),
            ({"watts": 0.5, "accelerators": 1e6}, (3e-6, 0, 1000, 0)),
            ({}, (0, 0, 0, 0)),
        ):
            site, options = self.SITE, {} if of is None else {"of": of}
            if of is None or "cores" in of:  # a stock of this name would go before the measure
                site = (*self.SITE[:2], {"id": "plain", "blocks": [cpu("c", 100)]}, self.SITE[3])
            with self.subTest(of=of):
                expected = [1 / (1 + each) for each in free]
                self.scores(expected, tight, ASKED, *site, **options)

    def test_a_stock_goes_before_a_measure_of_its_name(self):
        self.scores([1, 1, 1 / 8, 1], tight, ASKED, *self.SITE, of={"cores": 1.0})

    def test_of_what_is_not_asked_for_all_that_is_there_counts_in_use_or_not(self):
        for asked, expected in (
            ({"processor": {"total_cores": 1}}, (4, 500, 100, 0)),
            ({"accelerators": [{}]}, (3, 1000, 100, 0)),
            ({"memory": {"capacity_mib": 1}, "accelerators": [{}]}, (3, 1000, 100, 0)),
            ({"drives": [{}]}, (4, 1000, 100, 0)),
        ):
            site = (*self.SITE[:2], {"id": "plain", "blocks": [cpu("c", 100)]}, self.SITE[3])
            with self.subTest(**asked):
                self.scores([1 / (1 + each) for each in expected], tight, request(asked), *site,
                            of={"accelerators": 1.0, "cores": 1.0})  # fmt: skip

    def test_a_stock_that_is_not_asked_for_counts_with_all_of_it(self):
        asked = request({"stocks": [{"resource": "cores", "amount": 1}]})
        self.scores([1, 1, 1 / 901, 1], tight, asked, *self.SITE, of={"watts": 1.0})
        asked = request({"stocks": [{"resource": "watts", "amount": 0.5}]})
        self.scores([1, 1, 1 / 501, 1], tight, asked, *self.SITE, of={"watts": 1.0})

    def test_what_nobody_has_is_nowhere_free(self):
        self.scores([1.0] * 4, tight, ASKED, *self.SITE, of={"litres": 1.0})

    def test_pools_of_one_pod_manager_are_told_apart(self):
        pools = {"id": "a", "pools": [{"id": "1"}, {"id": "2"}],
                 "blocks": [gpus("a", pools=["1"]), gpus("b", count=4, pools=["2"])]}  # fmt: skip
        self.scores([1 / 2, 1 / 5], tight, ASKED, pools)

    def test_a_scale_that_is_not_above_0_is_refused(self):
        for scale in (0.0, -1.0, float("nan")):
            message = f"^the scale of 'cores' must be above 0, not {scale}$"
            with self.subTest(scale), self.assertRaisesRegex(ValueError, message):
                tight(view(*self.SITE), ASKED, of={"cores": scale})
