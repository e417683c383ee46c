# SPDX-License-Identifier: Apache-2.0
"""Summaries: what is known adds up, and what is unknown is never 0."""

from unittest import TestCase

import msgspec

from valence_sched import testing
from valence_sched.model.inventory import (
    Block,
    Devices,
    Drive,
    FullPodm,
    Memory,
    Pool,
    Status,
    Stock,
)
from valence_sched.view.summary import summarise_podms, summarise_pools

UNKNOWN = Block(
    uri="/u", pools=("p",), devices=Devices(memory=(Memory(),), drives=(Drive(count=None),))
)
KNOWN = Block(uri="/k", pools=("p",), devices=Devices(memory=(Memory(capacity_mib=8),)))
USED = Status(state="Composed", compositions=1)


class TestUnknown(TestCase):
    """A pod manager, and its only pool."""

    def summaries(self, *blocks, stocks=()):
        podm = FullPodm(id="a", pools=(Pool(id="p"),), blocks=blocks, stocks=stocks)
        view = testing.view(msgspec.to_builtins(podm))
        return [*summarise_podms(view), *summarise_pools(view, 0).values()]

    def test_an_amount_of_which_nothing_is_known_is_unknown(self):
        for found in self.summaries(UNKNOWN):
            self.assertEqual(((None, None), (None, None), (0, 0)),
                             (found.memory_mib, found.drives, found.cores))  # fmt: skip

    def test_what_is_known_adds_up_beside_what_is_not(self):
        for found in self.summaries(UNKNOWN, KNOWN):
            self.assertEqual((8, 8), found.memory_mib)

    def test_what_is_in_use_is_not_unknown_but_not_free(self):
        used = Block(uri="/u", pools=("p",), devices=UNKNOWN.devices, status=USED)
        for found in self.summaries(used):
            self.assertEqual((0, None), found.memory_mib)

    def test_a_stock_without_a_total_is_unknown_unless_another_tells_one(self):
        unknown = Stock(uri="/s", resource="gib", pools=("p",))
        for found in self.summaries(stocks=(unknown,)):
            self.assertEqual({"gib": (None, None)}, found.stocks)
        known = Stock(uri="/t", resource="gib", pools=("p",), total=5, used=2)
        for found in self.summaries(stocks=(unknown, known)):
            self.assertEqual({"gib": (3.0, 5.0)}, found.stocks)
