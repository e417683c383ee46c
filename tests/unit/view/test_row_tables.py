# SPDX-License-Identifier: Apache-2.0
"""Values per row are remembered, and made again for the rows of podms that changed."""

import unittest

import numpy as np

from valence_sched.model.need import Need
from valence_sched.testing import view
from valence_sched.view.overlay import Overlay
from valence_sched.view.row_tables import RowTables

GIB = Need(kind="stock", measure="amount", amount=1, resource="gib")


def site(podms: int = 4) -> Overlay:
    """Return an overlay of podms with a stock of 9 in each of two pools."""
    overlay = Overlay(view(*(
        {"id": str(number), "pools": [{"id": "x"}, {"id": "y"}],
         "stocks": [{"uri": one, "resource": "gib", "total": 9, "pools": [one]} for one in "xy"]}
        for number in range(podms)
    )))  # fmt: skip
    overlay.remember_tables()
    return overlay


class TestRowTables(unittest.TestCase):
    """What is read of a View that changes."""

    def setUp(self):
        self.rows: list[int] = []

    def make(self, part):
        self.rows.append(len(part))
        return (part.free(GIB)[None] * 2.0, np.ones((3, len(part))))

    def read(self, overlay, *keys):
        return overlay.whole_window().row_tables(keys or ("free", "ones"), self.make)

    def test_only_the_rows_of_podms_that_changed_are_made_again(self):
        overlay = site()
        self.read(overlay)
        overlay.allocate(2, (), [(0, 4.0)])
        self.assertEqual([18, 18, 10, 18, 18, 18, 18, 18], self.read(overlay)[0][0].tolist())
        self.read(overlay)
        self.assertEqual([8, 2], self.rows)

    def test_a_table_that_is_read_less_often_catches_up(self):
        overlay = site()
        self.read(overlay)
        overlay.allocate(0, (), [(0, 1.0)])
        self.read(overlay, "free", "other")  # a new one: of all rows
        overlay.allocate(2, (), [(0, 2.0)])
        self.read(overlay, "free", "other")
        free, _ = self.read(overlay)
        self.assertEqual([16, 18, 14, 18], free[0, :4].tolist())
        self.assertEqual([8, 8, 2, 4], self.rows)

    def test_fewer_free_blocks_count_as_a_change_of_every_row(self):
        overlay = site()
        self.read(overlay)
        overlay.reduce_counts(np.array([0]), np.array([0]))
        self.read(overlay)
        self.assertEqual([8, 8], self.rows)

    def test_other_views_remember_nothing(self):
        overlay = site()
        for part in (overlay.view, overlay.take(np.arange(8)), overlay.window(0, 4)):
            self.assertFalse(part.has_tables)
            part.row_tables(("free", "ones"), self.make)
            part.row_tables(("free", "ones"), self.make)
        self.assertFalse(Overlay(overlay.view).whole_window().has_tables)
        self.assertEqual([8, 8, 8, 8, 4, 4], self.rows)

    def test_the_tables_that_were_read_last_stay(self):
        tables, whole = RowTables(np.arange(4), most_bytes=3 * 4 * 8), site().view
        for keys in (("a",), ("b",), ("c",), ("a",), ("d",), ("a",), ("b",)):
            tables.read(keys, whole, lambda _: self.rows.append(4) or [np.zeros((1, 4))])
        self.assertEqual(5, len(self.rows))  # a, b, c, d, and b again
