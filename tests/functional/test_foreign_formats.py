# SPDX-License-Identifier: Apache-2.0
"""Requests in the formats of other projects, from the command line to the rows."""

import json
import unittest

from tests.functional.programs import ROOT, SITE, Case, asked, run

EXAMPLES = ROOT / "doc" / "source" / "examples"
HERE = ("--inventory", SITE)


class TestFiles(Case):
    """Files of every format, in place of a flavor name."""

    def chosen(self, *words: str) -> list[str]:
        done = asked("valence-sched", "podm", "schedule", *HERE, *words, "-f", "json")
        self.assertEqual(0, done.code, done.err)
        return [row["Podm"] for row in done.data if row["Rank"] == 1]

    def test_each_form_is_placed(self):
        for name, podm in (
            ("rsd-allocate", "general-1"),
            ("valence-node", "general-1"),
            ("nova-flavor", "gpu-east"),
        ):
            with self.subTest(name):
                self.assertEqual([podm], self.chosen("--flavor", f"{EXAMPLES}/form-{name}.json"))

    def test_standard_input_is_read_in_every_form(self):
        text = (EXAMPLES / "form-rsd-allocate.json").read_bytes()
        words = ("podm", "schedule", *HERE, "--flavor", "-", "-f", "json")
        done = run("valence-sched", *words, stdin=text)
        self.assertEqual((0, "general-1"), (done.code, done.data[0]["Podm"]), done.err)

    def test_a_body_finds_its_flavor_by_uuid_in_the_files_beside(self):
        body = str(EXAMPLES / "form-valence-via-flavor.json")
        beside = ("--flavor-file", str(EXAMPLES / "form-valence-list.json"))
        self.assertEqual(["gpu-east"], self.chosen("--flavor", body, *beside))
        done = run("valence-sched", "podm", "flavor", "validate", body, *beside, "-f", "json")
        self.assertEqual((0, True), (done.code, done.data[0]["Valid"]))
        done = run("valence-sched", "podm", "flavor", "validate", body, "-f", "json")
        self.assertEqual((1, False), (done.code, done.data[0]["Valid"]))
        self.assertIn("$.flavor_id: no flavor named", done.data[0]["Error"])

    def test_a_flavor_is_known_by_its_uuid_too(self):
        beside = ("--flavor-file", str(EXAMPLES / "form-valence-list.json"))
        word = "5d9a7f14-22c8-4e0b-a1f6-93c07d58be41"
        self.assertEqual(["gpu-east"], self.chosen("--flavor", word, *beside))

    def test_all_forms_may_stand_in_one_file(self):
        names = ("rsd-allocate", "nova-flavor", "valence-node")
        texts = [json.loads((EXAMPLES / f"form-{name}.json").read_bytes()) for name in names]
        file = self.write("all.json", json.dumps({"flavors": texts}))
        words = ("podm", "flavor", "list", "--flavor-file", file, "-f", "json")
        listed = {row["Name"] for row in asked("valence-sched", *words).data}
        self.assertLessEqual({"render-7", "g2.large", "web-17"}, listed)

    def test_show_says_what_it_compiles_to_and_a_remark_what_nobody_looks_at(self):
        file = str(EXAMPLES / "form-rsd-allocate.json")
        done = run("valence-sched", "podm", "flavor", "show", file)
        self.assertEqual(0, done.code)
        self.assertIn("2 CPU Xeon of 16 cores or more", done.out)
        self.assertEqual(4, done.err.count("remark: "), done.err)
        self.assertIn(f"remark: {file}: $.RemoteDrives[0].Protocol: not used", done.err)

    def test_an_unsupported_restriction_is_refused(self):
        file = self.write("one.json", '{"LocalDrives": [{"SerialNumber": "K1"}]}')
        done = run("valence-sched", "podm", "schedule", *HERE, "--flavor", file)
        self.assertEqual((1, ""), (done.code, done.out))
        text = "found a restriction that valence-sched does not support"
        start = f"{file}: $.LocalDrives[0].SerialNumber: {text}"
        self.assertTrue(done.err.startswith(start), done.err)


class TestPlacement(Case):
    """Placement queries, in both programs."""

    def outcomes(self, code: int, *words: str, program: str = "valence-sched") -> dict[str, str]:
        done = asked(program, "podm", "schedule", *HERE, *words, "--report", "-")
        self.assertEqual(code, done.code, done.err)
        return {row["Podm"]: row["Reason"] or row["Outcome"] for row in done.verdicts}

    def test_resources_need_no_flavor(self):
        for program in ("valence-sched", "openstack"):
            with self.subTest(program):
                found = self.outcomes(
                    0, "--resource", "VCPU=8", "--resource", "CUSTOM_STORAGE_GIB=100",
                    program=program,
                )  # fmt: skip
                self.assertIn(found["general-1"], ("chosen", "fits"))
                self.assertIn("storage_gib", found["gpu-east"])

    def test_resources_come_beside_the_flavor(self):
        found = self.outcomes(3, "--flavor", "small", "--resource", "VCPU=1000")
        self.assertIn("cores: needs 1,008,", found["gpu-west"])

    def test_traits_in_each_form(self):
        small = ("--flavor", "small")
        for words, trait, reason in (
            (("--required", "HW_GPU_RTX"), "gpu-east", "needs HW_GPU_RTX"),
            (("--required", "!HW_GPU_NVLINK", "--required", "HW_CPU_X86_AVX2"), "general-1",
             "needs HW_CPU_X86"),
            (("--forbidden", "HW_GPU_RTX"), "gpu-west", "needs not HW_GPU_RTX"),
            (("--required", "in:HW_GPU_RTX,HW_MEMORY_CXL"), "store-1",
             "needs HW_GPU_RTX or HW_MEMORY_CXL"),
        ):  # fmt: skip
            with self.subTest(words):
                self.assertIn(reason, self.outcomes(0, *small, *words)[trait])

    def test_all_that_is_repeated_must_hold(self):
        words = ("--required", "in:HW_GPU_RTX,HW_MEMORY_CXL", "--required", "!HW_GPU_RTX")
        found = self.outcomes(0, "--flavor", "small", *words)
        kept = {name for name, what in found.items() if what == "chosen" or "behind" in what}
        self.assertEqual({"mem-1"}, kept)

    def test_members_of_aggregates_in_each_form(self):
        for words, kept in (
            (("gold",), {"gpu-east", "gpu-west"}),
            (("in:bulk,bronze",), {"store-1", "general-1"}),
            (("!in:gold,silver,bulk",), {"general-1"}),
            (("gold", "!liquid-cooled"), {"gpu-west"}),
        ):
            with self.subTest(words):
                options = [part for word in words for part in ("--member-of", word)]
                found = self.outcomes(0, "--flavor", "small", *options)
                fits = {name for name, what in found.items() if what in ("chosen", "fits")}
                self.assertEqual(kept, fits)

    def test_fit_counts_resources_without_a_flavor(self):
        words = ("podm", "fit", *HERE, "--resource", "PGPU=1", "--resource", "VCPU=1", "-f", "json")
        rows = asked("valence-sched", *words).data
        self.assertEqual({"resources"}, {row["Flavor"] for row in rows})
        self.assertGreater(rows[-1]["Nodes"], 0)

    def test_asking_for_nothing_and_for_what_contradicts_exits_2(self):
        small = ("--flavor", "small")
        for words, line in (
            ((), "no flavor or resources given: name --flavor, --cores, --memory, "),
            (("--required", "A"), "no flavor or resources given: name --flavor, --cores"),
            ((*small, "--required", "A", "--forbidden", "A"),
             "trait 'A' is both required and forbidden\n"),
            ((*small, "--aggregate", "a", "--exclude-aggregate", "a"),
             "aggregate 'a' is both required and forbidden\n"),
            ((*small, "--resource", "VCPUS=1"), "no resource class named 'VCPUS' (did you mean"),
            ((*small, "--member-of", "a,b"), "use in:a,b to require one of them"),
            ((*small, "--required", "A,B"), "use in:a,b to require one of them"),
            ((*small, "--required", "in:A,B", "--required", "!A", "--forbidden", "B"),
             "trait in:A,B: each of them is forbidden\n"),
            ((*small, "--member-of", "in:a,b", "--member-of", "!in:b,a"),
             "aggregate in:a,b: each of them is forbidden\n"),
            ((*small, "--resource", "CUSTOM_a=1"), "upper-case letters, digits or _"),
        ):  # fmt: skip
            with self.subTest(words):
                done = run("valence-sched", "podm", "schedule", *HERE, *words)
                self.assertEqual((2, ""), (done.code, done.out))
                self.assertIn(line, done.err)


if __name__ == "__main__":
    unittest.main()
