# SPDX-License-Identifier: Apache-2.0
"""The JSON that the package ships of its own YAML says the same."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import valence_sched
from valence_sched.config import parsers, schemas
from valence_sched.model.codec import ShippedJson, load_yaml

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

    def test_the_json_is_that_of_the_yaml(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in schemas.SHIPPED:
                written = (DATA / f"{name}.yaml").read_bytes()
                Path(folder, f"{name}.yaml").write_bytes(written)
                shipped = (DATA / f"{name}.json").read_bytes()
                found = load_yaml(ShippedJson(shipped), name)
                self.assertEqual(load_yaml(written, name), found, "make the schemas again")
            schemas.write_shipped(Path(folder))
            for name in schemas.SHIPPED:
                again = Path(folder, f"{name}.json").read_bytes()
                self.assertEqual((DATA / f"{name}.json").read_bytes(), again)

    def test_what_ships_stands_every_check_of_a_file_of_a_person(self):
        for parse, name in (
            (parsers.parse_policies, "policies"),
            (parsers.parse_flavors, "flavors"),
        ):
            written = parse((DATA / f"{name}.yaml").read_bytes(), name)
            shipped = parse(ShippedJson((DATA / f"{name}.json").read_bytes()), name)
            self.assertEqual(written, shipped)
            self.assertGreater(len(written), 3)

    def test_the_policies_and_flavors_are_read_without_yaml(self):
        with tempfile.TemporaryDirectory() as home:
            words = [sys.executable, "-c", READS_NO_YAML, home]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
