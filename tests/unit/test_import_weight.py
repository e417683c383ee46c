# SPDX-License-Identifier: Apache-2.0
"""What every ``openstack`` command of every user pays for having us installed.

OpenStackClient loads each command module of each plugin at each start, and cliff each formatter.
"""

import json
import subprocess
import sys
import unittest

# Loaded only when a command of ours does its work.
HEAVY = (
    "msgspec",
    "numpy",
    "requests",
    "rich",
    "sqlalchemy",
    "sushy",
    "tabulate",
    "yaml",
    "zstandard",
    "valence_sched.core",
    "valence_sched.credentials",
    "valence_sched.drivers",
    "valence_sched.engine",
    "valence_sched.filters",
    "valence_sched.main",
    "valence_sched.model",
    "valence_sched.readings",
    "valence_sched.registry",
    "valence_sched.resolvers",
    "valence_sched.schedulers",
    "valence_sched.store",
    "valence_sched.testing",
    "valence_sched.weighers",
)

# What cliff and osc-lib bring in themselves is not our weight: it is loaded before the count.
PROBE = """
import importlib, json, sys
from importlib import metadata
import cliff.app, cliff.columns, cliff.formatters.base, cliff.lister, cliff.show
import osc_lib.command.command, osc_lib.cli.format_columns, osc_lib.utils
before = set(sys.modules)
loaded = 0
for group in ("openstack.cli.extension", "openstack.podm.v1",
              "cliff.formatter.list", "cliff.formatter.show"):
    for point in metadata.entry_points(group=group):
        if point.module.startswith("valence_sched_cli"):
            point.load()
            loaded += 1
json.dump({"loaded": loaded, "new": sorted(set(sys.modules) - before)}, sys.stdout)
"""


class TestImportWeight(unittest.TestCase):
    """In a fresh interpreter with all our entry points of both programs loaded."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        run = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, check=False
        )
        if run.returncode:
            raise AssertionError(run.stderr)
        cls.seen = json.loads(run.stdout)

    def test_there_was_something_to_load(self):
        self.assertGreater(self.seen["loaded"], 20)

    def test_no_heavy_module_is_loaded(self):
        heavy = [
            name
            for name in self.seen["new"]
            if any(name == word or name.startswith(f"{word}.") for word in HEAVY)
        ]
        self.assertEqual([], heavy)

    def test_no_library_beside_those_of_the_programs_is_loaded(self):
        ours = ("valence_sched", "valence_sched_cli")
        libraries = {name.partition(".")[0] for name in self.seen["new"]}
        self.assertEqual(set(), libraries - set(ours) - set(sys.stdlib_module_names))
