# SPDX-License-Identifier: Apache-2.0
"""The command of the recipe."""

import io
import json
import tempfile
import unittest
from pathlib import Path

from valence_sched_cli.shell import Shell

from .aggregate import ListAggregate

SITE = {
    "schema": "valence-sched/inventory",
    "podms": [
        {"id": "east", "aggregates": ["gold", "ssd"]},
        {"id": "west", "aggregates": ["gold"]},
    ],
}


class TestListAggregate(unittest.TestCase):
    """``podm aggregate list``."""

    def run_command(self, *words):
        shell = Shell()
        shell.stdout = io.StringIO()
        shell.command_manager.add_command("podm aggregate list", ListAggregate)
        with tempfile.TemporaryDirectory() as folder:
            inventory = Path(folder, "site.json")
            inventory.write_text(json.dumps(SITE))
            line = ["podm", "aggregate", "list", "--inventory", str(inventory), *words]
            return shell.run(line), shell.stdout.getvalue()

    def test_each_aggregate_has_its_pod_managers(self):
        code, text = self.run_command("-f", "json")
        self.assertEqual(0, code)
        self.assertEqual(
            [
                {"Name": "gold", "Count": 2, "Pod Managers": ["east", "west"]},
                {"Name": "ssd", "Count": 1, "Pod Managers": ["east"]},
            ],
            json.loads(text),
        )

    def test_a_person_sees_names_with_commas_between_them(self):
        _, text = self.run_command("-f", "markdown")
        self.assertIn("| east, west", text)

    def test_what_its_help_offers_counts(self):
        code, _ = self.run_command("--max-age", "1d")
        self.assertEqual(5, code)
        code, _ = self.run_command("--resource-file", "nobody-wrote-it.yaml")
        self.assertEqual(1, code)
