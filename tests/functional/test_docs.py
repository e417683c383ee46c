# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows is what the programs do.

After a wanted change: ``python -m tests.functional.renew_golden``, and look at the difference.
"""

import json
import re
import unittest
from pathlib import Path

import yaml

from tests.functional.programs import ROOT, SITE, asked
from tests.functional.renew_golden import EXAMPLES, README, SCREEN, demo, replayed, transcripts

PAGES = sorted((ROOT / "doc" / "source").rglob("*.rst"))
INCLUDED = re.compile(r"literalinclude:: (examples/\S+)")


def named(pattern: str) -> list[Path]:
    return sorted(EXAMPLES.glob(pattern))


class TestExamples(unittest.TestCase):
    """Every file below ``doc/source/examples`` is used."""

    maxDiff = None

    def test_every_transcript_is_what_its_commands_print(self):
        self.assertTrue(transcripts())
        for path in transcripts():
            with self.subTest(path=path.name):
                self.assertEqual(path.read_text(), replayed(path.read_text()))

    def test_the_screen_in_the_readme_is_that_of_make_demo(self):
        (found,) = SCREEN.finditer(README.read_text())
        self.assertEqual(demo(), found[0])

    def test_every_flavor_is_placed_on_the_example_site(self):
        files = named("flavor-*")
        self.assertGreater(len(files), 8)
        for path in files:
            with self.subTest(path=path.name):
                words = ("--inventory", SITE, "--flavor", str(path))
                done = asked("valence-sched", "podm", "schedule", *words, "-f", "json")
                self.assertEqual(0, done.code, done.out)

    def test_every_flavor_of_a_list_is_known_by_name(self):
        for path in named("flavors-*"):
            for flavor in yaml.safe_load(path.read_text())["flavors"]:
                words = (
                    "--inventory",
                    SITE,
                    "--flavor-file",
                    str(path),
                    "--flavor",
                    flavor["name"],
                )
                done = asked("valence-sched", "podm", "schedule", *words)
                self.assertEqual(0, done.code, done.out)

    def test_every_policy_is_valid_and_places_a_node(self):
        for path in named("polic*.yaml"):
            done = asked(
                "valence-sched", "scheduler", "policy", "validate", str(path), "-f", "json"
            )
            self.assertEqual([True], [row["Valid"] for row in done.data])
            document = yaml.safe_load(path.read_text())
            for policy in document.get("policies", [document]):
                with self.subTest(path=path.name, name=policy["name"]):
                    words = ("--policy-file", str(path), "--policy", policy["name"])
                    done = asked("valence-sched", "podm", "schedule", "--inventory", SITE,
                                 "--flavor", "small", *words)  # fmt: skip
                    self.assertEqual(0, done.code, done.err)

    def test_the_inventory_shows_every_field_and_is_read_without_a_remark(self):
        path = EXAMPLES / "inventory-small.json"
        done = asked("valence-sched", "podm", "inventory", "validate", str(path), "--long",
                     "-f", "json")  # fmt: skip
        (row,) = done.data
        self.assertEqual((1, 2, 4), (row["Podms"], row["Pools"], row["Blocks"]))
        self.assertEqual(([], []), (row["Skipped"], row["Remarks"]))
        schema = ROOT / "valence_sched" / "data" / "inventory.schema.json"
        page = (ROOT / "doc" / "source" / "inventory.rst").read_text()
        nouns = json.loads(schema.read_bytes())["$defs"]
        fields = {name for noun in nouns.values() for name in noun.get("properties", {})}
        self.assertEqual([], sorted(name for name in fields if f"``{name}" not in page))
        shown = set(re.findall(r'"(\w+)":', path.read_text()))
        rare = {"active", "client", "reserved", "rpm"}
        self.assertEqual(set(), fields - shown - rare)

    def test_every_field_of_a_flavor_and_of_a_policy_is_on_its_page(self):
        data = ROOT / "valence_sched" / "data"
        for name, page in (("flavor", "flavors.rst"), ("policy", "policies.rst")):
            text = (ROOT / "doc" / "source" / page).read_text()
            text += "".join(path.read_text() for path in named(f"{name[:5]}*"))
            nouns = json.loads((data / f"{name}.schema.json").read_bytes())["$defs"]
            fields = {field for noun in nouns.values() for field in noun.get("properties", {})}
            for field in sorted(fields):
                with self.subTest(page=page, field=field):
                    self.assertRegex(text, rf"\b{field}\b")

    def test_every_example_is_on_a_page_or_in_a_transcript(self):
        shown = {name for page in PAGES for name in INCLUDED.findall(page.read_text())}
        spoken = "".join(path.read_text() for path in transcripts())
        for path in EXAMPLES.iterdir():
            with self.subTest(path=path.name):
                self.assertTrue(f"examples/{path.name}" in shown or path.name in spoken)


if __name__ == "__main__":
    unittest.main()
