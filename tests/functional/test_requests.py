# SPDX-License-Identifier: Apache-2.0
"""Files of requests: all are placed or none, and the exit code shows which."""

import json
import unittest

from tests.functional.programs import SITE, Case, asked, run

WORDS = ("podm", "schedule", "--inventory", SITE, "--request-file")
WHAT = (
    "no flavor or resources given: name --flavor, --cores, --memory, --gpu, --drive, --resource or "
    "--request-file\n"
)
INLINE = ("--cores", "32", "--memory", "256GiB", "--gpu", "2xA100", "--drive", "1TB")
SAME = """
properties:
  processor: {total_cores: 32}
  memory: {capacity_mib: 262144}
  accelerators: [{kind: GPU, model: A100, count: 2}]
  drives: [{capacity_gib: 1TB}]
"""
TWO = """
requests:
- {id: train, flavor: gpu-large, count: 2}
- flavor: small
  count: 3
  alternates: 1
"""
CHOICES = """
properties: {processor: {total_cores: 4}}
first_of:
- accelerators: [{model: H200}]
- drives: [{media: SSD}]
"""


class TestInline(Case):
    """Needs on the command line, without a flavor and with one."""

    def asked(self, code, *words):
        done = run("valence-sched", "podm", "schedule", "--inventory", SITE, "-f", "json", *words)
        self.assertEqual(code, done.code, done)
        return done

    def test_they_decide_as_a_file_that_says_the_same(self):
        (found,) = self.asked(0, *INLINE, "--request-id", "a").data
        (same,) = self.asked(0, "--request-file", self.write("r.yaml", f"id: a\n{SAME}")).data
        for column in ("Podm", "Pool", "Blocks", "Score"):
            self.assertEqual(same[column], found[column], column)

    def test_beside_a_flavor_they_are_added(self):
        alone = self.asked(0, "--flavor", "small").data[0]["Blocks"]
        more = self.asked(0, "--flavor", "small", "--gpu", "A100", "--drive", "2x1TB").data
        self.assertGreater(len(more[0]["Blocks"]), len(alone))

    def test_fit_counts_them_and_a_number_alone_is_any_gpu(self):
        words = ("podm", "fit", "--inventory", SITE, "-f", "json", "--gpu")
        of_model, any_gpu = (
            run("valence-sched", *words, gpus).data[-1]["Nodes"] for gpus in ("2xA100", "2")
        )
        self.assertLess(0, of_model)
        self.assertLess(of_model, any_gpu)

    def test_what_is_none_of_them_is_refused_with_an_example(self):
        for words, line in (
            (("--gpu", "0"), "'0' is not 2, A100 or 2xA100"),
            (("--gpu", "1.5"), "'1.5' is not 2, A100 or 2xA100"),
            (("--gpu", "2x"), "'2x' is not 2, A100 or 2xA100"),
            (("--gpu", "2x "), "'2x ' is not 2, A100 or 2xA100"),
            (("--gpu", ""), "'' is not 2, A100 or 2xA100"),
            (("--drive", "0x1TB"), "'0x1TB' is not 1TB or 2x1TB"),
            (("--drive", "12"), "'12', expected a number with a unit, such as 256GiB, 1.5TB"),
            (("--drive", "0TB"), "must be above 0, got '0TB'"),
            (("--memory", "2GHz"), "'2GHz' in hertz, expected bytes"),
            (("--cores", "0"), "must be 1 to 1,000,000, got '0'"),
            (("--cores", "8", "--cores", "9"), "argument --cores: given twice"),
        ):
            with self.subTest(words):
                self.assertIn(line, self.asked(2, *words).err)


class TestRequestFiles(Case):
    """``--request-file``."""

    def schedule(self, code, text, *words):
        done = run("valence-sched", *WORDS, self.write("r.yaml", text), *words)
        self.assertEqual(code, done.code, done)
        return done

    def test_every_node_names_its_request(self):
        done = self.schedule(0, TWO, "-f", "json")
        chosen = [row for row in done.data if row["Rank"] == 1]
        self.assertEqual(["1: train"] * 2 + ["2: small"] * 3, [row["Request"] for row in chosen])
        self.assertEqual(3, sum(row["Rank"] > 1 for row in done.data))
        blocks = [(row["Podm"], uri) for row in chosen for uri in row["Blocks"]]
        self.assertEqual(len(blocks), len(set(blocks)))
        self.assertEqual("placed 5 of 5 nodes of 2 requests\n", done.err)

    def test_one_that_fails_fails_all(self):
        done = self.schedule(3, TWO.replace("count: 3", "count: 300"), "-f", "json")
        self.assertEqual([], done.data)
        *_, would, _, failed, last = done.err.splitlines()
        self.assertIn("Not chosen: 8 of 8 pod managers", done.err)
        self.assertRegex(would, r"^2: small: \d+ of 300 nodes would fit, .* min_count: \d+$")
        self.assertEqual("2: small failed, so all 2 requests fail", failed)
        self.assertEqual("placed 0 of 302 nodes of 2 requests", last)

    def test_fewer_are_placed_where_the_file_says_so(self):
        part = TWO.replace("count: 3", "count: 300\n  min_count: 1")
        done = self.schedule(4, part, "-f", "json")
        self.assertRegex(done.err.splitlines()[-1], r"^placed \d+ of 302 nodes of 2 requests$")

    def test_choices_are_tried_in_order(self):
        done = self.schedule(0, CHOICES)
        self.assertIn("alternative 1 of 2 does not fit (filters: 16 pools, ", done.err)
        self.assertIn("1 node with alternative 2", done.err)

    def test_the_report_holds_every_decision(self):
        file = self.folder / "report.json"
        self.schedule(0, TWO, "--report", str(file))
        report = json.loads(file.read_text())
        self.assertEqual("valence-sched/decisions", report["schema"])
        self.assertEqual([2, 3], [len(one["placements"]) for one in report["decisions"]])
        self.schedule(0, TWO, "--report", str(file.with_name("again.json")))
        self.assertEqual(file.read_bytes(), file.with_name("again.json").read_bytes())

    def test_a_request_of_a_report_is_a_file(self):
        """The same request gets the same answer."""
        file = self.folder / "report.json"
        words = ("podm", "schedule", "--inventory", SITE, "--flavor", "gpu-large")
        run("valence-sched", *words, "--report", str(file))
        report = json.loads(file.read_text())
        done = self.schedule(0, json.dumps(report["request"]), "-f", "json")
        (chosen,) = [row for row in done.data if row["Rank"] == 1]
        first = report["placements"][0]["chosen"]
        self.assertEqual((first["podm"], first["score"]), (chosen["Podm"], chosen["Score"]))

    def test_what_belongs_into_the_file_is_refused_beside_it(self):
        for option in (
            ["--zone", "a"], ["--count", "2"], ["--flavor", "small"],
            ["--count", "1"], ["--min-count", "0"], ["--min-count", "1"], ["--alternates", "0"],
            ["--alternates", "1"],
        ):  # fmt: skip
            done = self.schedule(2, TWO, *option)
            self.assertEqual(f"{option[0]}: with --request-file, set it in the file\n", done.err)

    def test_explain_points_to_the_report(self):
        done = self.schedule(2, TWO, "--explain")
        self.assertEqual("", done.out)
        self.assertEqual(
            "--explain: not with --request-file: write --report FILE and read it with scheduler "
            "explain FILE\n",
            done.err,
        )

    def test_declared_resources_are_there(self):
        """S25: a file of requests can use a declared resource."""
        text = "{id: hot, properties: {resources: {watts: 600}}, count: 2}"
        watts = self.write("watts.yaml", "{name: watts, podms: {mem-1: 1300}}")
        done = self.schedule(0, text, "--resource-file", watts, "-f", "json")
        chosen = [row["Podm"] for row in done.data if row["Rank"] == 1]
        self.assertEqual(["mem-1"] * 2, chosen)

    def test_what_is_wrong_with_one_of_several_names_it(self):
        for second, words in (
            ("flavor: small, min_count: 2", "request 2: min_count 2 exceeds count 1"),
            ("flavor: small, policy: defalt", "request 2: no policy named 'defalt'"),
            ("flavor: small, podms: [mem-9]", "request 2: no pod manager named 'mem-9'"),
            ("flavor: small, near: {volume: x}", "$.requests[1]: cannot locate"),
        ):
            with self.subTest(second=second):
                done = self.schedule(1, f"requests: [{{flavor: small}}, {{{second}}}]")
                self.assertIn(words, done.err)
                self.assertRegex(done.err, r"\A\S+/r\.yaml: ")
                self.assertEqual(("", 1), (done.out, len(done.err.splitlines())))

    def test_standard_input_is_read_for_one_thing(self):
        words = ("podm", "schedule", "--inventory", "-", "--request-file", "-")
        done = run("valence-sched", *words, stdin=b"{flavor: small}")
        self.assertEqual(2, done.code)
        self.assertEqual(
            "only one may be standard input (-): --inventory, --request-file\n", done.err
        )
        done = run("valence-sched", *WORDS, "-", stdin=b"{flavor: small}")
        self.assertEqual(0, done.code, done.err)

    def test_an_empty_word_is_no_word(self):
        done = run("valence-sched", *WORDS, "")
        self.assertEqual((2, ""), (done.code, done.out))
        for field in ("zone", "owner", "policy"):
            done = self.schedule(1, f"{{flavor: small, {field}: ''}}")
            self.assertIn(f'$.{field}: found "", expected', done.err)

    def test_the_hash_seed_of_the_program_changes_no_byte(self):
        text = """
        requests:
        - {flavor: small, count: 2, alternates: 2, owner: me, group: {name: g,
           anti_affinity: [podm], spread: [{over: zone, max_skew: 2}]}}
        - {count: 6, min_count: 0, properties: {processor: {total_cores: 8}},
           first_of: [{accelerators: [{model: H200}]}, {accelerators: [{}]}],
           group: {name: g, at_most: {podm: 3}},
           traits: {any_of: [[HW_CPU_X86_AVX2, HW_CPU_X86_AVX512F]]}}
        - {flavor: gpu-large, count: 40, min_count: 1}
        """
        file, found = self.write("all.yaml", text), set()
        for seed in ("0", "1", "2"):
            report = self.folder / f"seed-{seed}.json"
            words = (*WORDS, file, "--report", report, "-f", "json")
            done = run("valence-sched", *words, PYTHONHASHSEED=seed)
            self.assertEqual(4, done.code, done.err)
            found.add((done, report.read_bytes()))
        self.assertEqual(1, len(found))

    def test_a_policy_that_the_file_does_not_name_is_not_said_to_be_in_it(self):
        done = self.schedule(1, TWO, "--policy", "pakc")
        self.assertEqual("no policy named 'pakc' (did you mean 'pack'?)\n", done.err)

    def test_a_group_without_a_name_is_named_after_the_flavor(self):
        for name, text in (
            ("small", "{flavor: small, group: {affinity: [zone]}}"),
            ("mine", "{id: mine, properties: {nics: [{}]}, group: {affinity: [zone]}}"),
        ):
            with self.subTest(name):
                report = self.folder / f"{name}.json"
                self.schedule(0, text, "--report", str(report))
                found = json.loads(report.read_bytes())
                self.assertEqual(name, found["decisions"][0]["request"]["group"]["name"])

    def test_policy_and_seed_count_for_all(self):
        done = self.schedule(0, TWO, "--policy", "pack", "--seed", "4", "-f", "json")
        self.assertEqual(5, sum(row["Rank"] == 1 for row in done.data))

    def test_bad_files_are_one_line(self):
        for text, words in (
            ("requests: []", "$.requests"),
            ("requests: [{flavor: smal}]", "did you mean 'small'?"),
            ("requests: [{flavor: small, count: many}]", "$.requests[0].count"),
            ("nonsense", "r.yaml: found text, expected YAML or JSON"),
            ("{flavor: small, min_count: 2}", "r.yaml: min_count 2 exceeds count 1"),
            ("{flavor: small, policy: nosuch}", "r.yaml: no policy named 'nosuch' ("),
            (
                "{properties: {nics: [{}]}, group: {affinity: [zone]}}",
                "r.yaml: a group without a name",
            ),
        ):
            done = self.schedule(1, text)
            self.assertEqual("", done.out)
            self.assertIn(words, done.err)
            self.assertEqual(1, len(done.err.splitlines()), done.err)

    def test_neither_flavor_nor_file_is_a_usage_error(self):
        done = run("valence-sched", "podm", "schedule", "--inventory", SITE)
        self.assertEqual(2, done.code)
        self.assertEqual(WHAT, done.err)


SMALL = ("--inventory", SITE, "--flavor", "small")
FLAVOR = "name: young\nproperties: {{processor: {{total_cores: 4}}}}\nattributes: {{{}}}\n"


class TestAttributes(Case):
    """From the command line to the reason."""

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
            ("fact.x=3", "attribute 'fact.x': no namespace 'fact' of attributes in 'fact.x' "
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


SHORT = "resources:\n- {name: licences, total: 3, podms: {store-1: 0}}\n"
RESOURCE_FLAVOR = "name: licensed\nproperties: {processor: {total_cores: 8}, resources: {%s: 1}}\n"


class TestResources(Case):
    """S25: a new resource needs one YAML file and no code."""

    def setUp(self):
        self.resources = self.write("r.yaml", SHORT)
        self.flavor = self.write("f.yaml", RESOURCE_FLAVOR % "licences")
        self.words = ("--inventory", SITE, "--resource-file", self.resources)

    def test_s25_a_new_kind_is_filtered_on_and_depleted(self):
        words = ("podm", "fit", *self.words, "--flavor", self.flavor, "-f", "json")
        counts = {row["Podm"]: row["Nodes"] for row in asked("valence-sched", *words).data}
        self.assertEqual((3, 0), (counts["gpu-west"], counts["store-1"]))
        self.assertEqual(3, max(n for podm, n in counts.items() if podm != "total"))
        words = (
            "podm",
            "schedule",
            *self.words,
            "--flavor",
            self.flavor,
            "--count",
            "40",
            "--min-count",
            "1",
        )
        done = run("valence-sched", *words, "-f", "json")
        self.assertEqual(4, done.code)
        chosen = [row["Podm"] for row in done.data if row["Rank"] == 1]
        self.assertEqual(3, chosen.count("gpu-west"))
        self.assertEqual(counts["total"], len(chosen))
        self.assertIn("no more nodes on gpu-west: no licences at once", done.err)

    def test_a_new_kind_of_device_is_counted_and_depleted(self):
        """S25: devices that consist of parts, in one file."""
        regions = "{name: REGION, per: accelerator, of: GPU, total: 7}"
        flavor = "name: f\nproperties: {accelerators: [{kind: REGION, count: 7}]}\n"
        words = (
            *("--inventory", SITE, "--resource-file", self.write("d.yaml", regions)),
            *("--flavor", self.write("parts.yaml", flavor), "--podm", "gpu-west"),
        )
        fit = ("podm", "fit", *words, "-f", "json")
        before = run("valence-sched", *fit).data[-1]["Nodes"]
        self.assertGreater(before, 0)
        words = ("podm", "schedule", *words, "--count", str(before + 1), "--min-count", "1")
        done = run("valence-sched", *words)
        self.assertEqual(4, done.code, done.err)
        self.assertIn(f"placed {before} of {before + 1} ", done.err)

    def test_it_shows_in_list_and_show_and_stays_in_what_is_converted(self):
        words = ("podm", "list", *self.words, "--long", "-f", "json")
        free = {row["Podm"]: row["Free Stocks"] for row in asked("valence-sched", *words).data}
        self.assertEqual((3, 0), (free["gpu-west"]["licences"], free["store-1"]["licences"]))
        self.assertIn("storage_gib", free["store-1"])
        shown = run("valence-sched", "podm", "show", *self.words, "mem-1", "-f", "json").data
        self.assertEqual(3, shown["Free Stocks"]["licences"])
        output = str(self.folder / "whole.json")
        run("valence-sched", "podm", "inventory", "convert", *self.words, "-o", output)
        for more in ((), ("--resource-file", self.resources)):  # repeated, it is the same one
            words = ("podm", "show", "--inventory", output, *more, "mem-1", "-f", "json")
            done = run("valence-sched", *words)
            self.assertEqual((3, ""), (done.data["Free Stocks"]["licences"], done.err))

    def test_a_pod_manager_without_blocks_lists_its_stocks(self):
        stock = {"uri": "/d/1", "resource": "cxl_memory_mib", "unit": "MiB", "total": 4096}
        podm = {"id": "a", "pools": [{"id": "all"}], "stocks": [{**stock, "pools": ["all"]}]}
        content = {"schema": "valence-sched/inventory", "version": "1.0", "podms": [podm]}
        path = self.write("stock.json", json.dumps(content))
        words = ("podm", "list", "--inventory", path, "--long", "-f", "json")
        (row,) = run("valence-sched", *words).data
        self.assertEqual({"cxl_memory_mib": 4096.0}, row["Free Stocks"])

    def test_a_persons_own_file_counts_without_an_option(self):
        self.write("valence-sched/resources.yaml", SHORT)
        words = ("podm", "show", "--inventory", SITE, "mem-1", "-f", "json")
        done = run("valence-sched", *words, XDG_CONFIG_HOME=str(self.folder))
        self.assertEqual(3, done.data["Free Stocks"]["licences"])

    def test_a_misspelt_resource_or_pod_manager_is_told_of(self):
        flavor = self.write("typo.yaml", RESOURCE_FLAVOR % "licenses")
        done = run("valence-sched", "podm", "schedule", *self.words, "--flavor", flavor)
        self.assertEqual(3, done.code)
        line = "warning: no pod manager has a resource named 'licenses' (did you mean 'licences'?)"
        self.assertIn(line, done.err)
        wrong = self.write("w.yaml", "{name: licences, total: 3, podms: {store-11: 0}}")
        words = ("--inventory", SITE, "--resource-file", wrong)
        done = run("valence-sched", "podm", "list", *words)
        self.assertIn("1 remark on the inventory", done.err)
        words = ("podm", "inventory", "validate", "--long", SITE, "--resource-file", wrong)
        (row,) = run("valence-sched", *words, "-f", "json").data
        line = "resource 'licences': no pod manager named 'store-11' (did you mean 'store-1'?)"
        self.assertEqual([line], row["Remarks"])

    def test_a_file_that_is_wrong_is_refused_in_one_line(self):
        wrong = self.write("w.yaml", "{name: power_w}")
        done = run("valence-sched", "podm", "list", "--inventory", SITE, "--resource-file", wrong)
        line = f"{wrong}: $: found "
        self.assertEqual((1, ""), (done.code, done.out))
        self.assertTrue(done.err.startswith(line) and done.err.count("\n") == 1, done.err)


if __name__ == "__main__":
    unittest.main()


if __name__ == "__main__":
    unittest.main()
