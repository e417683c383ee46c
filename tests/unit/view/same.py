# SPDX-License-Identifier: Apache-2.0
"""Checks that two Views have the same values, independent of how they were built."""

import unittest

import numpy as np

from valence_sched.model.need import Need, Test
from valence_sched.view import stocks
from valence_sched.view.view import View

NEEDS = (
    Need(kind="processor", measure="cores", amount=7),
    Need(kind="processor", measure="cores", amount=7, unknown="allow"),
    Need(
        kind="processor", measure="sockets", amount=1, tests=(Test("architecture", "equal", "x86"),)
    ),
    Need(kind="memory", measure="capacity_mib", amount=9),
    Need(kind="accelerator", measure="devices", amount=1),
    Need(kind="accelerator", measure="devices", amount=1, tests=(Test("model", "words", "A100"),)),
    Need(kind="drive", measure="devices", amount=1),
    Need(kind="nic", measure="devices", amount=1),
    Need(kind="stock", measure="amount", resource="gib", amount=1),
    Need(kind="stock", measure="amount", resource="gib", amount=1, unknown="allow"),
    Need(kind="stock", measure="amount", resource="mib", amount=1),
)
LABELS = ("zone", "status", "aggregates", "capabilities", "traits")


def assert_same_rows(test: unittest.TestCase, one: View, rows: list[int], other: View) -> None:
    """Check that ``rows`` of ``one`` are all the rows of ``other``, in this order."""
    test.assertEqual(len(rows), len(other))
    for need in NEEDS:
        for by in ("pool", "podm"):
            for measure in ("free", "total", "inverse"):
                here = getattr(one, measure)(need, by)[rows]
                np.testing.assert_array_equal(
                    here, getattr(other, measure)(need, by), f"{measure} {need} {by}"
                )
        if need.kind == "stock":
            np.testing.assert_array_equal(one.largest_grant(need)[rows], other.largest_grant(need))
    for name in LABELS:
        here, there = getattr(one, name), getattr(other, name)
        test.assertEqual([here[row] for row in rows], [there[r] for r in range(len(rows))], name)
    np.testing.assert_array_equal(one.enabled[rows], other.enabled)
    np.testing.assert_array_equal(one.lot[rows], other.lot)
    np.testing.assert_array_equal(one.number("year")[rows], other.number("year"))
    test.assertEqual([one.pools[row] for row in rows], list(other.pools))
    test.assertEqual([one.podm(row) for row in rows], [other.podm(r) for r in range(len(rows))])


def assert_same_view(test: unittest.TestCase, one: View, other: View) -> None:
    """Check that two whole Views are equal: every row, every podm, every block."""
    assert_same_rows(test, one, list(range(len(one))), other)
    np.testing.assert_array_equal(one.first_row, other.first_row)
    np.testing.assert_array_equal(one.podm_of, other.podm_of)
    test.assertEqual(list(one.podms), list(other.podms))
    test.assertEqual(one.block_count, other.block_count)
    for here, there in zip(one.block_tables, other.block_tables, strict=True):
        test.assertEqual(here.uris, there.uris)
        test.assertEqual(here.slots, there.slots)
        test.assertEqual(here.pools, there.pools)
        test.assertEqual(here.stocks, there.stocks)
        kinds = [one.kinds.kinds[kind].sort_key for kind in here.kinds]
        test.assertEqual(kinds, [other.kinds.kinds[kind].sort_key for kind in there.kinds])
    for name in {*one.resources, *other.resources}:
        columns = [
            v.resources.get(name, stocks.empty_column(len(v))).arrays() for v in (one, other)
        ]
        for here, there in zip(*columns, strict=True):
            np.testing.assert_array_equal(here, there, name)
