# SPDX-License-Identifier: Apache-2.0
"""Resources that an operator declares in one file, in every command that looks at pod managers."""

from tests.functional.programs import SITE, Case, asked, run

SHORT = "resources:\n- {name: licences, total: 3, podms: {store-1: 0}}\n"
FLAVOR = "name: licensed\nproperties: {processor: {total_cores: 8}, resources: {%s: 1}}\n"


class TestResources(Case):
    """S25: one new YAML file, no code."""

    def setUp(self):
        self.resources = self.write("r.yaml", SHORT)
        self.flavor = self.write("f.yaml", FLAVOR % "licences")
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
        self.assertIn("no more on gpu-west: no licences at once", done.err)

    def test_a_new_kind_of_device_is_counted_and_depleted(self):
        """S25: in one file, devices that consist of parts."""
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
        for more in ((), ("--resource-file", self.resources)):  # again, it is the same one
            words = ("podm", "show", "--inventory", output, *more, "mem-1", "-f", "json")
            done = run("valence-sched", *words)
            self.assertEqual((3, ""), (done.data["Free Stocks"]["licences"], done.err))

    def test_a_persons_own_file_counts_without_an_option(self):
        self.write("valence-sched/resources.yaml", SHORT)
        words = ("podm", "show", "--inventory", SITE, "mem-1", "-f", "json")
        done = run("valence-sched", *words, XDG_CONFIG_HOME=str(self.folder))
        self.assertEqual(3, done.data["Free Stocks"]["licences"])

    def test_a_misspelt_resource_or_pod_manager_is_told_of(self):
        flavor = self.write("typo.yaml", FLAVOR % "licenses")
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
