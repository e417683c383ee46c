# SPDX-License-Identifier: Apache-2.0
"""Pod managers that report themselves, in both programs."""

import json

from tests.functional.packages_on_path import written
from tests.functional.programs import PROGRAMS
from tests.functional.test_live import RFC_3339, Live

BLOCK = {"type": ["Compute"], "devices": {"processors": [{"cores": 64}],
         "memory": [{"capacity_mib": 262144}]}}  # fmt: skip
NODE = ("schedule", "--flavor", "small", "-f", "json")
OTHERS = '''
def only(signs, argument, now):
    """Knows one name."""
    return {sign.id: sign.id == argument for sign in signs}
'''


class TestStats(Live):
    """Unregistered pod managers, known only from their reports."""

    def report(self, name: str, program=PROGRAMS[0], code=0, **stats):
        said = {"blocks": [{**BLOCK, "uri": "b1"}, {**BLOCK, "uri": "b2"}], **stats}
        words = ("stats", "set", name, "-", "-f", "json")
        return self.podm(*words, stdin=json.dumps(said).encode(), program=program, code=code)

    def chosen(self, *words: str, **more) -> list[str]:
        rows = self.podm(*NODE, *words, **more).data
        return [row["Podm"] for row in rows if row["Rank"] == 1]

    def test_the_very_next_decision_sees_a_report(self):
        """S60, S61: host and node are names in decisions and in reports."""
        for program in PROGRAMS:
            self.assertEqual({"Podm": "host/n1", "Generation": 1},
                             self.report("host/n1", program).data | {"Generation": 1})  # fmt: skip
            (name,) = self.chosen(program=program)
            self.assertEqual("host/n1", name)
            self.report(name, program, status="Offline")
            self.assertEqual([], self.chosen(program=program, code=3))
            self.report(name, program, status="Online")

    def test_words_that_nobody_knows_are_kept(self):
        """S63: unknown statistics are stored."""
        told = {"power_w": 350, "firmware": {"bmc": "2.1"}, "tags": ["a", "b"]}
        self.report("p", **told)
        shown = self.podm("stats", "show", "p", "-f", "json").data
        self.assertRegex(shown["Reported At"], RFC_3339)
        self.assertEqual(told, {word: shown["Stats"][word] for word in told})
        facts = self.podm("show", "p", "-f", "json").data["Facts"]
        self.assertEqual((350, "2.1"), (facts["power_w"], facts["firmware.bmc"]))
        self.assertEqual(["p"], self.chosen("--attribute", "facts.power_w=<= 400"))
        self.chosen("--attribute", "facts.power_w=<= 300", code=3)

    def test_an_empty_file_is_no_report_and_an_empty_object_is_one(self):
        done = self.podm("stats", "set", "a", "-", stdin=b"# nothing\n", code=1)
        self.assertEqual("stdin: $: found an empty document, expected an object\n", done.err)
        self.podm("stats", "set", "a", "-", stdin=b"{}")

    def test_the_zone_comes_with_the_stats_alone(self):
        """S64: the zone is in the statistics."""
        self.report("a", availability_zone="east")
        self.report("b", zone="west")
        self.assertEqual((["a"], ["b"]), (self.chosen("--zone", "east"),
                                          self.chosen("--zone", "west")))  # fmt: skip

    def test_they_stand_beside_those_that_are_read_and_are_not_read(self):
        self.register(found := self.serve())
        self.report("told")
        rows = {row["Podm"]: row for row in self.podm("list", "-f", "json").data}
        self.assertEqual({*found, "told"}, set(rows))
        self.assertRegex(rows["told"]["Read At"], RFC_3339)
        output = self.folder / "all.json"
        self.podm("capture", "--all", "-o", str(output))
        told = {podm["id"] for podm in json.loads(output.read_bytes())["podms"]}
        self.assertEqual({*found, "told"}, told)
        file = self.file(self.urls(found))
        self.assertNotIn("told", self.podm("list", "--podm-file", file).out)

    def test_a_report_overrules_what_is_read(self):
        self.register(found := self.serve())
        name = self.chosen()[0]
        self.report(name, blocks=[], status="Offline")
        self.assertNotEqual([name], self.chosen())
        self.assertIn(name, found)

    def test_one_that_told_too_long_ago_is_not_decided_on(self):
        self.report("p")
        self.assertEqual(["p"], self.chosen("--max-age", "1h"))
        done = self.podm(*NODE, "--max-age", "0s", code=5)
        self.assertRegex(done.err, r"pod manager 'p': read \d+s ago, the maximum age is 0s")

    def test_they_can_be_claimed_of_and_report_on(self):
        self.report("p")
        for _ in range(2):
            self.assertEqual(["p"], self.chosen("--claim"))
        self.chosen("--claim", code=3)
        self.assertEqual(0, self.podm("list", "--long", "-f", "json").data[0]["Free Blocks"])
        self.report("p", power_w=3)
        shown = self.podm("stats", "show", "p", "-f", "json").data
        self.assertRegex(shown["Reported At"], RFC_3339)
        self.assertEqual(0, self.podm("list", "--long", "-f", "json").data[0]["Free Blocks"])

    def test_what_cannot_be_taken_in_is_one_line(self):
        done = self.report("p", code=1, status="Fine")
        self.assertIn("stats of 'p': $.status: found 'Fine'", done.err)
        for text, line in ((b"[1]", "stdin: $: found list, expected an object"),
                           (b"{", "stdin: ")):  # fmt: skip
            done = self.podm("stats", "set", "p", "-", stdin=text, code=1)
            self.assertEqual(1, done.err.count("\n"), done.err)
            self.assertIn(line, done.err)
        for verb in ("show", "unset"):
            done = self.podm("stats", verb, "p", code=1)
            self.assertIn("no pod manager that reported named 'p' (no name is known)", done.err)
        self.report("p")
        self.podm("stats", "unset", "p")
        done = self.podm("stats", "show", "p", code=1)
        self.assertIn("no pod manager that reported named 'p' (no name is known)", done.err)

    def test_others_say_who_is_alive(self):
        """S22: a third-party entry point decides on liveness."""
        self.report("a")
        self.report("b")
        others = written(self.folder / "others", "liveness_of_others", OTHERS,
                         "valence_sched.liveness", "only")  # fmt: skip
        for name in ("a", "b"):
            words = ("--liveness", f"only:{name}")
            self.assertEqual([name], self.chosen(*words, PYTHONPATH=others))
        folder = self.folder / "beats"
        folder.mkdir()
        (folder / "b").touch()
        self.assertEqual(["b"], self.chosen("--liveness", f"file:{folder}"))
        self.assertEqual(["b"], self.chosen(VALENCE_SCHED_LIVENESS=f"file:{folder}"))
        self.assertIn("no liveness named 'x'", self.podm(*NODE, "--liveness", "x", code=1).err)
