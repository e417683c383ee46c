# SPDX-License-Identifier: Apache-2.0
"""A column that is not there is refused before a command does anything."""

import argparse
import importlib.metadata
import io
import unittest

from cliff.columns import FormattableColumn
from cliff.display import DisplayCommandBase
from stevedore import ExtensionManager

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.output.table import (
    check_columns,
    has_any_column,
    prepare_formatter,
    without_redundant,
)

#: Commands that print and leave all as it was; they may learn their columns while they read.
READ_ONLY = {
    "podm_block_list", "podm_block_show", "podm_check", "podm_claim_list", "podm_claim_show",
    "podm_device_list", "podm_fit", "podm_flavor_list", "podm_flavor_show",
    "podm_flavor_validate", "podm_inventory_diff", "podm_inventory_validate", "podm_list",
    "podm_node_list", "podm_node_show", "podm_pool_list", "podm_show", "podm_stats_show",
    "scheduler_audit_list", "scheduler_explain", "scheduler_filter_list", "scheduler_policy_list",
    "scheduler_policy_show", "scheduler_policy_validate", "scheduler_quota_list",
    "scheduler_quota_show", "scheduler_weigher_list",
    "scheduler_whatif_drain", "scheduler_whatif_fail", "scheduler_whatif_need",
    "scheduler_whatif_rebalance", "scheduler_whatif_run", "scheduler_zone_info",
    "scheduler_zone_list", "scheduler_zone_show", "scheduler_zone_tree",
}  # fmt: skip


class NameColumn(FormattableColumn[str]):
    """A name as people see it."""

    def human_readable(self) -> str:
        return self._value


class TestNarrowStreams(unittest.TestCase):
    """A stream whose encoding lacks characters of the cells."""

    ROWS = (("机架-7", "é", 3), ("rack-b", NameColumn("東京"), None))

    def printed(self, name: str) -> str:
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        formatter = ExtensionManager("cliff.formatter.list", invoke_on_load=True)[name].obj
        options = argparse.Namespace(
            max_width=0,
            fit_width=False,
            print_empty=False,
            noindent=False,
            quote_mode="nonnumeric",
            columns=(),
            print_header=True,
        )
        text = io.StringIO()
        prepare_formatter(formatter, name, stream=stream).emit_list(
            ("Podm", "Zone", "Cores"), self.ROWS, text, options
        )
        return text.getvalue()

    def test_escapes_are_in_the_widths_of_a_table(self):
        lines = self.printed("table").splitlines()
        self.assertEqual(1, len(set(map(len, lines))), lines)
        self.assertTrue("".join(lines).isascii())

    def test_escapes_are_those_of_json(self):
        self.assertEqual(r"\u673a\u67b6-7 \u00e9 3", self.printed("value").splitlines()[0])


class TestTitles(unittest.TestCase):
    """Names are compared as the formatters do it."""

    def test_a_column_is_known_in_any_case_and_with_underscores(self):
        check_columns(["id", "created_at", " Created At"], ["ID", "Created At"])

    def test_one_unknown_column_among_known_ones_is_refused_with_the_nearest(self):
        with self.assertRaises(UsageError) as caught:
            check_columns(["ID", "Zonee"], ["ID", "Zone", "Zone"])
        self.assertEqual("--column: no column named 'Zonee' (did you mean 'Zone'?)",
                         str(caught.exception))  # fmt: skip

    def test_one_column_in_common_is_enough_to_print(self):
        self.assertTrue(has_any_column([], []))
        self.assertTrue(has_any_column(["uri", "node"], ["Node"]))
        self.assertFalse(has_any_column(["uri"], ["Node"]))


class TestRedundant(unittest.TestCase):
    """What tells a person nothing is not in a table, and in every other format."""

    def left(self, rows, formatter="table", **named):
        words = {"columns": [], "sort_columns": []} | named
        args = argparse.Namespace(formatter=formatter, **words)
        names, cells = without_redundant(
            ("Node", "Rank", "URI"), rows, args, {"Rank": "1", "URI": None}
        )
        self.assertTrue(all(len(row) == len(names) for row in cells))
        return tuple(names)

    def test_a_column_goes_where_every_row_says_nothing(self):
        self.assertEqual(("Node",), self.left([(1, 1, "u"), (2, 1, "v")]))
        self.assertEqual(("Node", "Rank"), self.left([(1, 1, "u"), (1, 2, "v")]))

    def test_programs_get_every_column_and_a_person_those_that_are_named(self):
        every = ("Node", "Rank", "URI")
        self.assertEqual(every, self.left([(1, 1, "u")], formatter="json"))
        self.assertEqual(("Node", "URI"), self.left([(1, 1, "u")], columns=["uri"]))
        self.assertEqual(("Node", "Rank"), self.left([(1, 1, "u")], sort_columns=["Rank"]))


class TestCommands(unittest.TestCase):
    """Whatever has an effect and prints columns knows them beforehand."""

    def test_each_that_is_not_read_only_says_its_columns(self):
        printing = {}
        for entry_point in importlib.metadata.entry_points(group="openstack.podm.v1"):
            if issubclass(found := entry_point.load(), DisplayCommandBase):
                printing[entry_point.name] = found
        self.assertLessEqual(READ_ONLY, set(printing))
        for name in sorted(set(printing) - READ_ONLY):
            with self.subTest(name):
                self.assertIsNot(base.PodmCommand.column_names, printing[name].column_names)


if __name__ == "__main__":
    unittest.main()
