# SPDX-License-Identifier: Apache-2.0
"""The import cost of our plug-ins for every ``openstack`` command.

OpenStackClient loads each command module of each plug-in at each start, and cliff loads each
formatter.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

# Modules that are loaded only for the work of a command of ours.
HEAVY = (
    "httptools",
    "msgspec",
    "jinja2",
    "numpy",
    "pygal",
    "requests",
    "rich",
    "sqlalchemy",
    "sushy",
    "tabulate",
    "yaml",
    "zstandard",
    "valence_sched.app",
    "valence_sched.config",
    "valence_sched.core",
    "valence_sched.drivers",
    "valence_sched.engine",
    "valence_sched.filters",
    "valence_sched.integrations",
    "valence_sched.inventory",
    "valence_sched.lifecycle",
    "valence_sched.model",
    "valence_sched.pages",
    "valence_sched.schedulers",
    "valence_sched.simulator",
    "valence_sched.store",
    "valence_sched.testing",
    "valence_sched.view",
    "valence_sched.weighers",
)

# Modules of cliff and osc-lib do not count: they are loaded before the count.
PROBE = """
import importlib, json, sys
from importlib import metadata
import cliff.app, cliff.columns, cliff.formatters.base, cliff.lister, cliff.show
import osc_lib.command.command, osc_lib.cli.format_columns, osc_lib.utils
before = set(sys.modules)
loaded = 0
for group in ("openstack.cli.extension", "openstack.podm.v1",
              "valence_sched.formatter.list", "valence_sched.formatter.show"):
    for point in metadata.entry_points(group=group):
        if point.module.startswith("valence_sched_cli"):
            point.load()
            loaded += 1
json.dump({"loaded": loaded, "new": sorted(set(sys.modules) - before)}, sys.stdout)
"""


class TestImportWeight(unittest.TestCase):
    """A new interpreter with all entry points of both programs loaded."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        run = subprocess.run(
            [sys.executable, "-c", PROBE], capture_output=True, text=True, check=False
        )
        if run.returncode:
            raise AssertionError(run.stderr)
        cls.modules = json.loads(run.stdout)

    def test_there_was_something_to_load(self):
        self.assertGreater(self.modules["loaded"], 20)

    def test_no_heavy_module_is_loaded(self):
        heavy = [
            name
            for name in self.modules["new"]
            if any(name == word or name.startswith(f"{word}.") for word in HEAVY)
        ]
        self.assertEqual([], heavy)

    def test_no_library_beside_those_of_the_programs_is_loaded(self):
        ours = ("valence_sched", "valence_sched_cli")
        libraries = {name.partition(".")[0] for name in self.modules["new"]}
        self.assertEqual(set(), libraries - set(ours) - set(sys.stdlib_module_names))


# Libraries that only a live pod manager, the state, or a served pod manager needs.
ELSEWHERE = ("aiohttp", "alembic", "jinja2", "pygal", "requests", "sqlalchemy", "sushy", "urllib3")
#: Modules that no decision on a recorded inventory for one node needs, each for another task.
OTHER_JOBS = (
    "valence_sched.config.foreign.nova",
    "valence_sched.core.explain.sensitivity",
    "valence_sched.core.fit.optimiser",
    "valence_sched.core.fit.pool_covers",
    "valence_sched.core.fit.topology",
    "valence_sched.core.offers",
    "valence_sched.drivers.composer",
    "valence_sched.drivers.dialect",
    "valence_sched.drivers.fields",
    "valence_sched.inventory.registry",
    "valence_sched.inventory.view_cache",
    "valence_sched.model.plan",
    "valence_sched.model.redact",
    "valence_sched.planning.batches",
    "valence_sched.planning.fit_counts",
    "valence_sched.planning.optimise.model",
    "valence_sched.planning.succession",
)
MOST_MODULES = 190  # modules of both packages; each costs a third of a millisecond
ONE_JOB = """
import json, sys
from valence_sched_cli.shell import main
code = main(sys.argv[1:])
json.dump({"code": code, "loaded": sorted(sys.modules)}, sys.stderr)
"""


class TestRecorded(unittest.TestCase):
    """A command that decides on a file loads no network and no database library."""

    def loaded(self, *words: str) -> set[str]:
        """Return the packages that a command loads."""
        return {name.partition(".")[0] for name in self.modules(*words)}

    def modules(self, *words: str) -> set[str]:
        run = subprocess.run(
            [sys.executable, "-c", ONE_JOB, *words], capture_output=True, text=True, check=True
        )
        result = json.loads(run.stderr[run.stderr.index('{"code"') :])
        self.assertEqual(0, result["code"], run.stderr)
        return set(result["loaded"])

    def test_a_recorded_inventory_is_read_without_the_libraries_of_live_ones(self):
        site = str(Path(__file__).parents[2] / "examples" / "site.json")
        for words in (("list",), ("schedule", "--flavor", "gpu-large")):
            found = self.loaded("podm", *words, "--inventory", site)
            self.assertIn("numpy", found)
            self.assertEqual(set(), found & set(ELSEWHERE))

    def test_a_decision_loads_no_module_of_another_job(self):
        site = str(Path(__file__).parents[2] / "examples" / "site.json")
        found = self.modules("podm", "schedule", "--flavor", "gpu-large", "--inventory", site)
        self.assertEqual(set(), found & set(OTHER_JOBS))
        for name in OTHER_JOBS:
            self.assertIsNotNone(importlib.util.find_spec(name), name)
        ours = {name for name in found if name.startswith("valence_sched")}
        self.assertLessEqual(len(ours), MOST_MODULES)

    def test_a_live_pod_manager_is_read_without_what_only_composing_needs(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "podms.yaml")
            file.write_text("podms: {gone: {url: 'http://127.0.0.1:9'}}")
            found = self.loaded("podm", "list", "--podm-file", str(file), "--request-timeout", "1")
        self.assertIn("http", found)
        self.assertEqual(set(), found & set(ELSEWHERE))

    def test_python_collects_nothing_of_a_program_that_ends(self):
        words = (
            "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0));"
            "from valence_sched_cli.main import main; main(['podm', 'list', '--help'])"
        )
        run = subprocess.run(
            [sys.executable, "-c", words], capture_output=True, text=True, check=False
        )
        self.assertEqual("True", run.stdout.splitlines()[-1], run.stderr)
