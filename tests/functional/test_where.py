# SPDX-License-Identifier: Apache-2.0
"""Placement constraints: expressions, locations, names, and the policy of a flavor."""

import json
import textwrap
from typing import Any

from tests.functional.programs import ROOT, SITE, Case, asked, run

SMALL = ("--inventory", SITE, "--flavor", "small")
PLACES = str(ROOT / "doc" / "source" / "examples" / "inventory-locations.json")
FULL = """
    flavors:
    - name: full
      policy: tight
      properties:
        processor: {total_cores: 8}
        drives: [{name: data, count: 2, apart: chassis}]
      first_of:
      - accelerators: [{model: A100, name: gpu}]
        topology: [{of: [gpu, data], same: pcie_root}]
      - accelerators: [{model: L40S, count: 2}]
      locations: [dc1, dc2/row-1]
      aggregates: {required: [gold], forbidden: [lab], any_of: [[a, b], [c]]}
      traits: {required: [R], forbidden: [F], any_of: [[X, Y]]}
      where: [and, ['>=', $facts.year, 2022], [not, [in, $zone, north-1]]]
    - name: plain
      properties: {processor: {total_cores: 8}}
"""
POLICIES = """
    policies:
    - name: tight
      filters: [enabled, alive, json, capacity]
      weighers: [pack]
"""


class WhereCase(Case):
    """A test case that shows decisions by pod manager."""

    def verdicts(self, code: int, *words: str) -> dict[str, tuple[str, str]]:
        done = asked("valence-sched", "podm", "schedule", *words, "--report", "-")
        self.assertEqual(code, done.code, done.err)
        return {row["Podm"]: (row["Outcome"], row["Reason"]) for row in done.verdicts}

    def kept(self, *words: str) -> set[str]:
        found = self.verdicts(0, "--inventory", SITE, *words)
        return {podm for podm, (outcome, _) in found.items() if outcome != "rejected"}

    def refuses(self, code: int, line: str, *words: str) -> None:
        with self.subTest(words[-1][:60]):
            done = run("valence-sched", "podm", "schedule", *words)
            self.assertEqual((code, ""), (done.code, done.out))
            self.assertEqual(f"{line}\n", done.err)

    def yaml(self, name: str, text: str) -> str:
        return self.write(name, textwrap.dedent(text))


class TestWhere(WhereCase):
    """Expressions."""

    def test_it_keeps_where_it_holds_and_says_of_the_others_what_they_have(self):
        year = '[">=", "$facts.year", 2022]'
        found = self.verdicts(0, *SMALL, "--where", year)
        self.assertEqual("fits", found["gpu-west"][0])
        self.assertIn("chosen", [verdict for verdict, _ in found.values()])
        reason = "json: needs facts.year >= 2022, has 2020"
        self.assertEqual(("rejected", reason), found["store-1"])

    def test_several_must_all_hold_and_the_flavors_too(self):
        flavor = self.yaml(
            "young.yaml",
            "name: young\nproperties: {processor: {total_cores: 4}}\n"
            "where: ['>=', $facts.year, 2021]\n",
        )
        west = ("--where", '["in", "$zone", "west-1", "east-2"]')
        cheap = ("--where", '["<", "$facts.price", 1]')
        self.assertEqual({"general-1", "gpu-west"}, self.kept("--flavor", flavor, *west))
        self.assertEqual({"general-1"}, self.kept("--flavor", flavor, *west, *cheap))

    def test_fit_counts_only_where_it_holds(self):
        words = ("podm", "fit", *SMALL, "--where", '["=", "$id", "mem-1"]', "-f", "json")
        counts = {row["Podm"]: row["Nodes"] for row in asked("valence-sched", *words).data}
        self.assertEqual({"mem-1", "total"}, {name for name, nodes in counts.items() if nodes})

    def test_what_is_wrong_is_one_line_with_the_place_in_it(self):
        hint = '(quote it for the shell, as in \'["=", "$zone", "east-1"]\')'
        for text, line in (
            ("[", f"1 byte in: found the end of the text, expected JSON {hint}"),
            ("zone=x", f"found text, expected JSON {hint}"),
            ('["=", "$zone", NaN]',
             f"line 1 column 16: found invalid character, expected JSON {hint}"),
            ("[" * 100_000,
             f"$: found too many nested lists and objects, expected JSON with fewer levels {hint}"),
            ('["not"]', "$: found 'not' with 0, expected one expression"),
            ('["and", ["=", "$zne", "x"]]',
             "$[1][1]: found unknown path \"$zne\" (did you mean '$zone'?)"),
            ('["=", "zone", "x"]',
             "$: found no path, expected a text that begins with $ (did you mean '$zone'?)"),
        ):  # fmt: skip
            self.refuses(1, f"--where: {line}", *SMALL, "--where", text)
        many = json.dumps(["or", *[["=", "$id", "x"]] * 5000])
        limit = "found more than 256 parts, expected fewer (operations and arguments together)"
        self.refuses(1, f"--where: $[86]: {limit}", *SMALL, "--where", many)

    def test_the_second_of_several_is_named(self):
        good, bad = '["=", "$zone", "x"]', '["==", "$zone", "x"]'
        line = "--where 2: $[0]: found unknown operator \"==\" (did you mean '='?)"
        self.refuses(1, line, *SMALL, "--where", good, "--where", bad)

    def test_bytes_that_are_no_text_are_refused(self):
        done = run("valence-sched", "podm", "schedule", *SMALL, "--where", '["=","$zone","\udcff"]')
        self.assertEqual((2, ""), (done.code, done.out))
        self.assertIn(
            'argument --where: \'["=","$zone","\\udcff"]\' is not text in UTF-8', done.err
        )

    def test_a_flavor_file_is_refused_with_its_name_and_the_place(self):
        flavor = self.yaml(
            "wrong.yaml",
            "flavors:\n- name: x\n  properties: {processor: {total_cores: 4}}\n"
            "  where: [and, [not, ['>=', $fact.year, .nan]]]\n",
        )
        done = run("valence-sched", "podm", "flavor", "list", "--flavor-file", flavor)
        place = f"{flavor}: $.flavors[0].where[1][1][1]"
        self.assertEqual(1, done.code)
        line = f"{place}: found unknown path \"$fact.year\" (did you mean '$facts'?)\n"
        self.assertEqual(line, done.err)

    def test_a_policy_without_the_filter_refuses_them(self):
        for words, name in (
            (("--where", '["=", "$zone", "x"]'), "json"),
            (("--location", "dc1"), "location"),
        ):
            line = (f"policy 'chance' has no filter {name!r}, which the request needs: add the "
                    "filter or choose another policy")  # fmt: skip
            self.refuses(1, line, *SMALL, "--policy", "chance", *words)


class TestNames(WhereCase):
    """Aggregates, traits, capabilities and locations."""

    def test_aggregates(self):
        some = self.kept("--flavor", "small", "--aggregate", "gold")
        self.assertEqual({"gpu-east", "gpu-west"}, some)
        either = self.kept("--flavor", "small", "--aggregate", "liquid-cooled,bulk")
        self.assertEqual({"gpu-east", "store-1"}, either)
        both = ("--aggregate", "gold", "--aggregate", "liquid-cooled")
        self.assertEqual({"gpu-east"}, self.kept("--flavor", "small", *both))
        none = ("--aggregate", "gold", "--exclude-aggregate", "lab,liquid-cooled")
        self.assertEqual({"gpu-west"}, self.kept("--flavor", "small", *none))

    def test_traits(self):
        either = (
            "--trait",
            "HW_CPU_X86_AVX2,HW_NIC_SRIOV",
            "--exclude-trait",
            "HW_CPU_X86_AVX512F",
        )
        self.assertEqual({"gpu-east", "general-1"}, self.kept("--flavor", "small", *either))
        found = self.verdicts(0, *SMALL, *either)
        self.assertEqual(
            ("rejected", "traits: trait: needs HW_CPU_X86_AVX2 or HW_NIC_SRIOV, "
             "has HW_CPU_X86_AVX512F"),
            found["store-1"],
        )  # fmt: skip

    def test_names_of_the_shell_join_the_flavors_and_its_capability_replaces(self):
        flavor = self.yaml(
            "named.yaml",
            "name: named\nproperties: {processor: {total_cores: 4}}\n"
            "aggregates: [gold]\ncapabilities: {os: [esxi], fabric: [ib]}\n",
        )
        words = ("--flavor", flavor, "--capability", "os=linux;windows")
        self.assertEqual({"gpu-east", "gpu-west"}, self.kept(*words))
        self.assertEqual({"gpu-east"}, self.kept(*words, "--exclude-trait", "HW_CPU_X86_AVX512F"))
        self.assertEqual({"gpu-east"}, self.kept(*words, "--aggregate", "liquid-cooled"))

    def test_locations(self):
        words = ("--inventory", PLACES, "--flavor", "small")
        found = self.verdicts(0, *words, "--location", "dc1/row-3", "--location", "dc2")
        kept = {podm for podm, (outcome, _) in found.items() if outcome != "rejected"}
        self.assertEqual({"row-3", "rack-7", "annex"}, kept)
        reason = "location: needs dc1/row-3 or dc2, has dc1/row-33"
        self.assertEqual(("rejected", reason), found["row-33"])
        self.assertEqual("location: needs dc1/row-3 or dc2, has unknown", found["nomad"][1])

    def test_words_that_say_nothing_exit_2(self):
        for words in (
            ("--aggregate", ""), ("--aggregate", "a,,b"), ("--exclude-trait", ","),
            ("--capability", "os"), ("--capability", ""), ("--capability", "os=;"),
            ("--capability", "os=a", "--capability", "os=b"),
        ):  # fmt: skip
            with self.subTest(words):
                done = run("valence-sched", "podm", "schedule", *SMALL, *words)
                self.assertEqual((2, ""), (done.code, done.out))
                self.assertIn(f"{words[0]}: ", done.err)
        line = "a location without a name: expected one such as dc1/row-3"
        self.refuses(1, line, *SMALL, "--location", "")


class TestFlavor(WhereCase):
    """A flavor with all fields, and its policy."""

    def shown(self, *words: str) -> Any:
        flavors = self.yaml("full.yaml", FULL)
        found = asked("valence-sched", "podm", "flavor", *words, "--flavor-file", flavors)
        self.assertEqual(0, found.code, found.err)
        return found

    def test_show_and_list_have_every_field(self):
        shown = self.shown("show", "full", "-f", "json").data
        for title, cell in (
            ("Policy", "tight"),
            ("Locations", ["dc1", "dc2/row-1"]),
            ("Aggregates", ["gold"]),
            ("Forbidden Aggregates", ["lab"]),
            ("Any Aggregates", [["a", "b"], ["c"]]),
            ("Required Traits", ["R"]),
            ("Forbidden Traits", ["F"]),
            ("Any Traits", [["X", "Y"]]),
            ("Where", ["and", [">=", "$facts.year", 2022], ["not", ["in", "$zone", "north-1"]]]),
            ("Topology", [{"relation": "apart", "place": "chassis", "of": ["data"]},
                       {"relation": "same", "place": "pcie_root", "of": ["gpu", "data"]}]),
        ):  # fmt: skip
            with self.subTest(title):
                self.assertEqual(cell, shown[title])
        self.assertEqual(["processor", "drive", "accelerator"], [n["kind"] for n in shown["Needs"]])
        (other,) = shown["Other Alternatives"]
        self.assertEqual([8, 2, 2], [need["amount"] for need in other["needs"]])
        listed = {row["Name"]: row for row in self.shown("list", "--long", "-f", "json").data}
        for title in set(shown) - {"Properties"}:
            self.assertEqual(shown[title], listed["full"][title], title)
        titles = ("Policy", "Where", "Topology", "Other Alternatives")
        plain = [listed["plain"][title] for title in titles]
        self.assertEqual([None, None, [], []], plain)

    def test_people_read_phrases(self):
        lines = self.shown("show", "full").out.splitlines()
        cells = [line.strip("|").split("|")[-1].strip() for line in lines]
        for phrase in (
            "apart chassis: data",
            "same pcie_root: gpu, data",
            "8 cores; 2 drive; 2 GPU L40S; apart chassis: data",
            "a or b",
            "facts.year >= 2022",
            "not (zone in north-1)",
        ):
            self.assertIn(phrase, cells)

    def test_a_flavor_names_its_policy_and_the_shell_another(self):
        flavors, policies = self.yaml("f.yaml", FULL), self.yaml("p.yaml", POLICIES)
        files = ("--flavor-file", flavors, "--policy-file", policies, "--inventory", SITE)
        done = run("valence-sched", "podm", "fit", *files, "--flavor", "plain", "--flavor", "full",
                   "--limit", "2", "-f", "json")  # fmt: skip
        self.assertEqual(1, done.code)  # tight reads no locations
        self.assertIn("policy 'tight' has no filter 'location'", done.err)
        one = self.yaml("one.yaml", "name: one\npolicy: tight\n"
                        "properties: {processor: {total_cores: 4}}\n")  # fmt: skip
        words = ("valence-sched", "podm", "schedule", *files, "--flavor", one)
        self.assertIn("(policy tight, seed 0)", run(*words).err)
        self.assertIn("(policy pack, seed 0)", run(*words, "--policy", "pack").err)

    def test_fit_counts_flavors_of_different_policies(self):
        text = """
            flavors:
            - {name: here, policy: young, properties: {processor: {total_cores: 8}}}
            - {name: there, properties: {processor: {total_cores: 8}}}
        """
        young = """
            name: young
            filters: [enabled, alive, {name: json}, capacity, {name: target}, zone]
            unknown: reject
        """
        flavors, policies = self.yaml("two.yaml", text), self.yaml("young.yaml", young)
        words = ("podm", "fit", "--inventory", SITE, "--flavor-file", flavors, "--policy-file",
                 policies, "--flavor", "here", "--flavor", "there", "--limit", "3")  # fmt: skip
        rows = run("valence-sched", *words, "-f", "json").data
        self.assertEqual({"here", "there"}, {row["Flavor"] for row in rows if row["Nodes"]})
        done = run("valence-sched", *words, "--aggregate", "gold", "-f", "json")
        self.assertIn("policy 'young' has no filter 'aggregates'", done.err)
        both = run("valence-sched", *words, "--aggregate", "gold", "--policy", "default")
        self.assertEqual(0, both.code, both.err)

    def test_a_policy_that_nobody_knows_is_refused_with_the_flavor_and_the_nearest(self):
        one = self.yaml("typo.yaml", "name: one\npolicy: balancd\n"
                        "properties: {processor: {total_cores: 4}}\n")  # fmt: skip
        line = "flavor 'one': no policy named 'balancd' (did you mean 'balanced'?)"
        self.refuses(1, line, "--inventory", SITE, "--flavor", one)
        done = run("valence-sched", "podm", "fit", "--inventory", SITE, "--flavor", one)
        self.assertEqual((1, "", f"{line}\n"), done)
        words = ("podm", "schedule", "--inventory", SITE, "--flavor", one, "--policy")
        self.assertEqual(0, run("valence-sched", *words, "pack").code)
        wrong = run("valence-sched", *words, "pakc")
        self.assertEqual("no policy named 'pakc' (did you mean 'pack'?)\n", wrong.err)
