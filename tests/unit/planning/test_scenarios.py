# SPDX-License-Identifier: Apache-2.0
"""Scenarios: what extends what, and what each decides by."""

import tempfile
import unittest
from pathlib import Path

from tests.unit.planning.sites import free, racks
from valence_sched.config.settings import Configuration
from valence_sched.errors import SchedulerError
from valence_sched.planning.scenarios import scenario_sites

TWO = """
scenarios:
- name: less
  edits: [{remove: west}]
- name: least
  extends: less
  edits: [{fail: c1@east}]
  policy: pack
  weights: {pack: 3, room: 2}
  policies: [{name: own, weighers: [room]}]
  flavors: [{name: web, properties: {processor: {total_cores: 8}}}]
templates: [{name: sled}]
"""


class TestScenarios(unittest.TestCase):
    """Files in a folder of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.base = racks()

    def write(self, name, text):
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(text)

    def sites(self, *references):
        paths = [str(self.folder / reference) for reference in references]
        return scenario_sites(self.base, paths, Configuration({}))

    def problem(self, reference):
        with self.assertRaises(SchedulerError) as caught:
            self.sites(reference)
        return str(caught.exception).replace(f"{self.folder}/", "")

    def test_a_scenario_begins_with_what_it_extends(self):
        self.write("two.yaml", TWO)
        less, least = self.sites("two.yaml")
        self.assertEqual(["less", "least"], [less.name, least.name])
        self.assertEqual([["east"], ["east"]], [[p.id for p in s.podms] for s in (less, least)])
        self.assertEqual(1, free(less, "east")["c2"])
        self.assertNotIn("c1", free(least, "east"))
        self.assertEqual(["remove west", "fail c1@east"], [one.edit for one in least.effects])
        self.assertEqual((), self.base.effects)

    def test_a_scenario_says_what_it_decides_by(self):
        self.write("two.yaml", TWO)
        less, least = self.sites("two.yaml")
        self.assertEqual(("default", "pack"), (less.policy, least.policy))
        weights = {use.name: use.weight for use in least.policies["pack"].weighers}
        self.assertEqual((3.0, 2.0), (weights["pack"], weights["room"]))
        self.assertNotEqual(self.base.policies["pack"], least.policies["pack"])
        self.assertEqual(self.base.policies["pack"], less.policies["pack"])
        self.assertIn("own", least.policies)
        self.assertEqual(["web"], list(least.flavors))
        self.assertEqual(1, len(least.mix().shares))
        self.assertEqual(["sled"], list(less.templates))

    def test_one_of_a_file_can_be_named_and_extended_from_another_file(self):
        self.write("two.yaml", TWO)
        self.write(
            "sub/more.yaml", "{name: more, extends: ../two.yaml#least, edits: [{drain: '*'}]}"
        )
        self.write("last.yaml", "{name: less, extends: sub/more.yaml, edits: [{clone: east}]}")
        self.assertEqual(["least"], [one.name for one in self.sites("two.yaml#least")])
        (last,) = self.sites("last.yaml")
        self.assertEqual(["east", "east-2"], [podm.id for podm in last.podms])
        self.assertEqual([False, True], [podm.enabled for podm in last.podms])
        self.assertEqual("pack", last.policy)
        names = [one.name.rpartition("/")[2] for one in self.sites("two.yaml#less", "last.yaml")]
        self.assertEqual(["two.yaml#less", "last.yaml#less"], names)

    def test_a_cycle_is_one_line_with_all_that_are_in_it(self):
        self.write("a.yaml", "scenarios: [{name: x, extends: y}, {name: y, extends: z}, "
                             "{name: z, extends: y}]")  # fmt: skip
        self.assertEqual("a.yaml: $.scenarios[2].extends: found a cycle: y extends z extends y, "
                         "expected a scenario that ends it", self.problem("a.yaml"))  # fmt: skip
        self.write("b.yaml", "{name: b, extends: c.yaml}")
        self.write("c.yaml", "{name: c, extends: b.yaml#b}")
        cycle = "b.yaml#b extends c.yaml#c extends b.yaml#b"
        self.assertEqual(f"c.yaml: $.extends: found a cycle: {cycle}, expected a scenario that "
                         "ends it", self.problem("b.yaml"))  # fmt: skip
        self.write("d.yaml", "{name: d, extends: d}")
        self.assertIn("$.extends: found a cycle: d extends d", self.problem("d.yaml"))

    def test_a_row_of_scenarios_has_an_end(self):
        rows = ", ".join(f"{{name: s{n}, extends: s{n + 1}}}" for n in range(150))
        self.write("a.yaml", f"scenarios: [{rows}, {{name: s150}}]")
        self.assertEqual("a.yaml: $.scenarios[99].extends: found more than 100 scenarios in a row, "
                         "expected fewer", self.problem("a.yaml"))  # fmt: skip

    def test_what_a_scenario_names_must_be_there(self):
        self.write("two.yaml", TWO)
        for text, message in (
            ("extends: les", "$.extends: no scenario named 'les' (known: a)"),
            ("extends: two.yaml#les",
             "$.extends: no scenario named 'les' (did you mean 'less'?)"),
            ("extends: two.yaml", "$.extends: found 2 scenarios in two.yaml, expected one of them, "
                                  "as in two.yaml#less"),
            ("extends: none.yaml",
             "$.extends: none.yaml: found no such file or directory, expected a readable file"),
            ("policy: pac", "$.policy: no policy named 'pac' (did you mean 'pack'?)"),
            ("weights: {rom: 1}",
             "$.weights: policy 'default': no weigher named 'rom' (did you mean 'room'?)"),
            ("edits: [{drain: east}, {fail: eats}]",
             "$.edits[1]: no pod manager named 'eats' (did you mean 'east'?)"),
        ):  # fmt: skip
            with self.subTest(text):
                self.write("a.yaml", f"{{name: a, {text}}}")
                self.assertEqual(f"a.yaml: {message}", self.problem("a.yaml"))
        self.assertEqual("two.yaml: no scenario named 'x' (known: least, less)",
                         self.problem("two.yaml#x"))  # fmt: skip
