# SPDX-License-Identifier: Apache-2.0
"""Conditions on attributes, on the command line and in a flavor file."""

import unittest

from tests.functional.programs import SITE, Case, asked, run

SMALL = ("--inventory", SITE, "--flavor", "small")
FLAVOR = "name: young\nproperties: {{processor: {{total_cores: 4}}}}\nattributes: {{{}}}\n"


class TestAttributes(Case):
    """From the shell to the reason."""

    def verdicts(self, code: int, *words: str) -> dict[str, tuple[str, str]]:
        done = asked("valence-sched", "podm", "schedule", *words, "--report", "-")
        self.assertEqual(code, done.code, done.err)
        return {row["Podm"]: (row["Outcome"], row["Reason"]) for row in done.verdicts}

    def test_it_keeps_those_that_fulfil_it_and_says_of_the_others_what_they_have(self):
        found = self.verdicts(0, *SMALL, "--attribute", "facts.year=>= 2024")
        self.assertEqual(("chosen", None), found["gpu-west"])
        self.assertEqual("fits", found["mem-1"][0])
        reason = "attributes: facts.year: needs >= 2024, has 2020"
        self.assertEqual(("rejected", reason), found["store-1"])

    def test_nothing_fits_where_nobody_fulfils_all_of_them(self):
        words = ("--attribute", "year=>= 2024", "--attribute", "capabilities.os=esxi")
        found = self.verdicts(3, *SMALL, *words)
        self.assertEqual({"rejected"}, {outcome for outcome, _ in found.values()})
        reason = "attributes: capabilities.os: needs esxi, has linux, windows"
        self.assertEqual(reason, found["gpu-west"][1])

    def test_the_shell_takes_the_place_of_the_flavors_and_adds_others(self):
        flavor = self.write("young.yaml", FLAVOR.format("year: '>= 2024', zone: <in> west"))
        words = ("--inventory", SITE, "--flavor", flavor)
        kept = {name for name, (what, _) in self.verdicts(0, *words).items() if what != "rejected"}
        self.assertEqual({"gpu-west"}, kept)
        found = self.verdicts(3, *words, "--attribute", "facts.year=<= 2000")
        self.assertIn("facts.year: needs <= 2000, has 2024", found["gpu-west"][1])

    def test_fit_counts_only_where_it_holds(self):
        words = ("podm", "fit", *SMALL, "--attribute", "id=mem-1", "-f", "json")
        counts = {row["Podm"]: row["Nodes"] for row in asked("valence-sched", *words).data}
        self.assertEqual({"mem-1", "total"}, {name for name, nodes in counts.items() if nodes})
        self.assertEqual(3, run("valence-sched", *words[:-3], "id=nobody").code)

    def test_a_flavor_shows_them(self):
        flavor = self.write("shown.yaml", FLAVOR.format("year: '>= 2024'"))
        shown = asked("valence-sched", "podm", "flavor", "show", flavor, "-f", "json").data
        self.assertEqual({"year": ">= 2024"}, shown["Attributes"])
        words = ("podm", "flavor", "list", "--flavor-file", flavor, "--long", "-f", "json")
        rows = {row["Name"]: row["Attributes"] for row in asked("valence-sched", *words).data}
        self.assertEqual(({"year": ">= 2024"}, {}), (rows["young"], rows["small"]))

    def test_what_does_not_exist_is_refused_with_the_nearest(self):
        for word, line in (
            ("fact.x=3", "attribute 'fact.x': no place 'fact' for attributes in 'fact.x' "
             "(did you mean 'facts'?)"),
            ("year==< 3", "attribute 'facts.year': no operator named '=<' (did you mean '<='?)"),
            ("year=>=", "attribute 'facts.year': operator '>=' without a value"),
        ):  # fmt: skip
            with self.subTest(word):
                done = run("valence-sched", "podm", "schedule", *SMALL, "--attribute", word)
                self.assertEqual((1, "", f"{line}\n"), done)

    def test_a_flavor_file_is_refused_with_its_name_and_the_place(self):
        flavor = self.write("wrong.yaml", FLAVOR.format("facts.year: =< 3"))
        done = run("valence-sched", "podm", "schedule", "--inventory", SITE, "--flavor", flavor)
        place = f"{flavor}: $.attributes['facts.year']"
        hint = "no operator named '=<' (did you mean '<='?)"
        self.assertEqual((1, "", f"{place}: found {hint}\n"), done)

    def test_a_word_that_says_no_attribute_or_one_twice_exits_2(self):
        for words in (
            ("--attribute", "year"),
            ("--attribute", "=3"),
            ("--attribute", "year >= 3"),
            ("--attribute", "year=3", "--attribute", "facts.year=4"),
        ):
            with self.subTest(words):
                done = run("valence-sched", "podm", "schedule", *SMALL, *words)
                self.assertEqual((2, ""), (done.code, done.out))
                self.assertIn("--attribute: ", done.err)

    def test_a_policy_without_the_filter_refuses_them(self):
        words = (*SMALL, "--policy", "chance", "--attribute", "zone=east-1")
        done = run("valence-sched", "podm", "schedule", *words)
        self.assertEqual(1, done.code)
        self.assertIn("policy 'chance' has no filter 'attributes'", done.err)


if __name__ == "__main__":
    unittest.main()
