# SPDX-License-Identifier: Apache-2.0
"""A column that is not there is refused before a command does anything."""

import importlib.metadata
import unittest

from cliff.display import DisplayCommandBase

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.output import columns

#: Commands that print and leave all as it was; they may learn their columns while they read.
READ_ONLY = {
    "podm_block_list", "podm_block_show", "podm_check", "podm_claim_list", "podm_claim_show",
    "podm_device_list", "podm_fit", "podm_flavor_list", "podm_flavor_show",
    "podm_flavor_validate", "podm_inventory_diff", "podm_inventory_validate", "podm_list",
    "podm_node_list", "podm_node_show", "podm_pool_list", "podm_show", "podm_stats_show",
    "scheduler_explain", "scheduler_filter_list", "scheduler_policy_list",
    "scheduler_policy_show", "scheduler_policy_validate", "scheduler_weigher_list",
}  # fmt: skip


class TestTitles(unittest.TestCase):
    """Names are compared as the formatters do it."""

    def test_a_column_is_known_in_any_case_and_with_underscores(self):
        columns.check_columns(["id", "created_at", " Created At"], ["ID", "Created At"])

    def test_one_unknown_column_among_known_ones_is_refused_with_the_nearest(self):
        with self.assertRaises(UsageError) as caught:
            columns.check_columns(["ID", "Zonee"], ["ID", "Zone", "Zone"])
        self.assertEqual("--column: no column named 'Zonee' (did you mean 'Zone'?)",
                         str(caught.exception))  # fmt: skip

    def test_one_column_in_common_is_enough_to_print(self):
        self.assertTrue(columns.has_any_column([], []))
        self.assertTrue(columns.has_any_column(["uri", "node"], ["Node"]))
        self.assertFalse(columns.has_any_column(["uri"], ["Node"]))


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
