# SPDX-License-Identifier: Apache-2.0
"""The policies and flavors that ship with the package."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import valence_sched
from valence_sched.config import parsers
from valence_sched.model.codec import ShippedJson

DATA = Path(valence_sched.__path__[0]) / "data"
READS_NO_YAML = """
import sys
from valence_sched.app import App
config = App(environ={"HOME": sys.argv[1]}).config
assert "default" in config.policies() and "small" in config.flavors()
sys.exit("yaml" in sys.modules)
"""


class TestShipped(unittest.TestCase):
    """Built-in policies and flavors."""

    def test_what_ships_stands_every_check_of_a_file_of_a_person(self):
        for parse, name in (
            (parsers.parse_policies, "policies"),
            (parsers.parse_flavors, "flavors"),
        ):
            data = (DATA / f"{name}.json").read_bytes()
            written, shipped = parse(data, name), parse(ShippedJson(data), name)
            self.assertEqual(written, shipped)
            self.assertGreater(len(written), 3)

    def test_the_policies_and_flavors_are_read_without_yaml(self):
        with tempfile.TemporaryDirectory() as home:
            words = [sys.executable, "-c", READS_NO_YAML, home]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
