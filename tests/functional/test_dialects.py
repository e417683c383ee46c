# SPDX-License-Identifier: Apache-2.0
"""A third-party dialect: built, installed beside the project, reading and composing."""

import json
import tempfile
import unittest
from pathlib import Path

from tests.functional.packages import build, copy_source, installed
from tests.functional.programs import ROOT
from tests.recipes.lease_server import RECORDED, lease_server

RECIPE = ROOT / "tests" / "recipes" / "sled_lease"
FLAVOR = "name: sled\nproperties: {processor: {total_cores: 16}, memory: {capacity_mib: 1024}}\n"


class TestDialect(unittest.TestCase):
    """The wheel of the recipe, in the environment of the project's wheel."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.installed = installed()
        (wheel,) = build(copy_source(RECIPE, self.folder / "copy"), "--wheel").glob("*.whl")
        self.installed.pip("install", "--quiet", "--no-deps", wheel)
        self.addCleanup(self.installed.pip, "uninstall", "--quiet", "sled-lease")
        self.state = f"sqlite:///{self.folder}/state.sqlite"

    def podm(self, *words):
        done = self.installed.program("podm", *words)
        self.assertEqual(0, done.code, done.err)
        return done.out

    def rows(self, *words):
        return json.loads(self.podm(*words, "-f", "json"))

    def test_it_reads_a_recorded_tree_reads_live_and_composes(self):
        columns = ("Podm", "Total Blocks", "Free Blocks", "Free Cores")
        (recorded,) = self.rows("list", "--long", "--inventory", str(RECORDED))
        self.assertEqual(["rack-9", 3, 2, 96], [recorded[name] for name in columns])
        flavor = self.folder / "sled.yaml"
        flavor.write_text(FLAVOR)
        state = ("--state", self.state)
        with lease_server() as server:
            self.podm("create", "rack-9", server.url, *state)
            (live,) = self.rows("list", "--long", *state)
            self.assertEqual([recorded[name] for name in columns], [live[name] for name in columns])
            self.podm("schedule", "--flavor", str(flavor), "--compose", *state)
            (node,) = self.rows("node", "list", *state)
            (live,) = self.rows("list", "--long", *state)
            self.assertEqual(1, live["Free Blocks"])
            self.podm("node", "delete", node["Node"], *state)
            (live,) = self.rows("list", "--long", *state)
            self.assertEqual(2, live["Free Blocks"])
