# SPDX-License-Identifier: Apache-2.0
"""Decisions over zones on the command line: from a file, and through a service."""

import contextlib
import json
from pathlib import Path

from tests.functional.programs import ROOT, SITE, Case, Done, run
from tests.service.zone_services import ZoneServices, child_server

ZONES = str(ROOT / "examples" / "zones.yaml")
FLAT = [
    word
    for name in ("east", "hall-1", "hall-2")
    for word in ("--inventory", str(ROOT / "examples" / "zones" / f"{name}.json"))
]
GPU = ("podm", "schedule", "--flavor", "gpu-large", "--warn-age", "never")
OURS = "valence-sched"


class TestZoneFile(Case):
    """A tree of recorded zones decides as one inventory of all pod managers."""

    def test_the_decision_is_that_of_one_inventory_and_names_the_zone(self):
        """S39: alternates, scores and blocks are the same."""
        words = (*GPU, "--count", "2", "--alternates", "1", "-f", "json")
        flat = run(OURS, *words, "--inventory", SITE)
        tree = run(OURS, *words, "--zone-file", ZONES)
        self.assertEqual((0, 0), (flat.code, tree.code))
        rows = tree.data
        zones = [row.pop("Zone") for row in rows]
        self.assertEqual(flat.data, rows)
        self.assertEqual(["east", "west/hall-2"] * 2, zones)
        self.assertEqual(flat.err, tree.err)

    def test_the_report_has_the_zones_and_is_the_flat_one_otherwise(self):
        flat = run(OURS, *GPU, *FLAT, "--report", "-").data
        tree = run(OURS, *GPU, "--zone-file", ZONES, "--report", "-").data
        zones = tree.pop("zones")
        self.assertEqual(
            {
                "answered": 5,
                "rounds": 1,
                "placements": [{"node": 1, "zone": "east", "alternates": []}],
                "silent": [],
                "excluded": [],
            },
            zones,
        )
        self.assertNotIn("zones", flat)
        self.assertEqual(flat["placements"], tree["placements"])
        self.assertEqual(flat["podms"], tree["podms"])
        self.assertEqual(flat["explanation"], tree["explanation"])

    def test_a_zone_that_capabilities_rule_out_is_named(self):
        done = run(OURS, *GPU, "--zone-file", ZONES, "--capability", "cooling=air")
        self.assertEqual(3, done.code)
        self.assertIn("not queried: 1 zone: west/hall-2 (capability cooling: needs "
                      "air, has liquid)", done.err)  # fmt: skip

    def test_a_capability_of_a_zone_holds_for_its_pod_managers(self):
        """The capability applies in all forms of a request, to the choice and to its reasons."""
        for words in (
            ("--capability", "cooling={}"),
            ("--attribute", "capabilities.cooling={}"),
            ("--where", '["=", "$capabilities.cooling", "{}"]'),
        ):
            with self.subTest(words):
                option, text = words
                ask = (*GPU, "--zone-file", ZONES, "--explain", option)
                done = run(OURS, *ask, text.replace("{}", "liquid"))
                self.assertRegex(done.out, r"1 \| west/hall-2 \| gpu-north")
                self.assertRegex(done.out, r"gpu-north +hall-1 .* chosen")
                self.assertRegex(done.out, r"(?m)^ +gpu-east is blocked only by \S+")
                self.assertNotIn("no pod manager reports", done.err)
                done = run(OURS, *ask, text.replace("{}", "air"))
                self.assertEqual(3, done.code)
                self.assertRegex(done.out, r"gpu-north +hall-1: [^;]*\bliquid\b")
                self.assertNotIn("no pod manager reports", done.err)

    def test_what_a_zone_states_holds_for_what_is_below_unless_that_says_otherwise(self):
        file = self.write("tree.yaml", f"""
            schema: valence-sched/zones
            version: "1.0"
            zone:
              name: all
              capabilities: region=eu, cooling=air
              inventories: [{ROOT}/examples/zones/east.json]
              children:
                - name: hall
                  capabilities: cooling=liquid
                  inventories: [{ROOT}/examples/zones/hall-2.json]
            """)  # fmt: skip
        for words, podms in (
            (["region=eu"], ["gpu-east", "gpu-north"]),
            (["cooling=liquid"], ["gpu-north"]),
            (["cooling=air"], ["gpu-east"]),
        ):
            rows = run(OURS, *GPU, "--alternates", "2", "--zone-file", file, "--capability", *words,
                       "-f", "json").data  # fmt: skip
            self.assertEqual(podms, [row["Podm"] for row in rows])

    def test_a_pod_manager_is_named_by_the_path_to_it(self):
        for words, row in (
            (("--podm", "east/gpu-east"), ("east", "gpu-east")),
            (("--podm", "west/hall-2/gpu-north"), ("west/hall-2", "gpu-north")),
            (("--exclude-podm", "east/gpu-east"), ("west/hall-2", "gpu-north")),
        ):
            (found,) = run(OURS, *GPU, "--zone-file", ZONES, *words, "-f", "json").data
            self.assertEqual(row, (found["Zone"], found["Podm"]))
        done = run(OURS, *GPU, "--zone-file", ZONES, "--podm", "west/hall-1/gpu-west")
        self.assertEqual(3, done.code)
        self.assertIn("gpu-west   pod-1: no A100", done.out)
        done = run(OURS, *GPU, "--zone-file", ZONES, "--podm", "west/gpu-east")
        self.assertEqual((1, True), (done.code, "named 'west/gpu-east'" in done.err))

    def test_several_requests_are_placed_over_zones(self):
        file = self.write("requests.yaml", "requests: [{flavor: gpu-large}, {flavor: gpu-large}]")
        done = run(OURS, "podm", "schedule", "--request-file", file, "--zone-file", ZONES,
                   "-f", "json")  # fmt: skip
        self.assertEqual(0, done.code, done.err)
        self.assertEqual(["east", "east"], [row["Zone"] for row in done.data])

    def test_a_report_is_explained_with_its_zones_and_shown_as_a_page(self):
        report, page = self.folder / "d.json", self.folder / "d.html"
        done = run(OURS, *GPU, "--zone-file", ZONES, "--report", report, "--html", page)
        self.assertEqual(0, done.code, done.err)
        self.assertRegex(page.read_text(), r"(?s)Zone of node 1<.{1,40}east<")
        explained = run(OURS, "scheduler", "explain", report)
        self.assertRegex(explained.out, r"\|\s+1 \| east\s+\| gpu-east")

    def test_other_inventories_beside_the_file_are_refused(self):
        done = run(OURS, *GPU, "--zone-file", ZONES, "--inventory", SITE)
        self.assertEqual(2, done.code)
        self.assertIn("--zone-file names all inventories", done.err)

    def test_a_plan_is_of_one_zone(self):
        plan = self.folder / "plan.json"
        done = run(OURS, *GPU, "--zone-file", ZONES, "--plan", plan)
        self.assertEqual((2, False), (done.code, plan.exists()))
        self.assertIn("--plan: a plan covers one zone", done.err)

    def test_a_data_centre_is_lost(self):
        """S70: a zone fails with all zones below it, and all their pod managers."""
        fail = (OURS, "scheduler", "whatif", "fail", "--zone-file", ZONES, "-f", "json")
        whole, halls = run(*fail, "--fail-zone", "west"), run(*fail, "--fail-zone", "west/*")
        self.assertEqual(whole.data, halls.data)
        self.assertEqual({"full-1", "gpu-north", "gpu-west", "store-1"},
                         {row["From"] for row in whole.data})  # fmt: skip
        self.assertIn("nodes of zone west can be re-placed", whole.err)
        named = run(*fail, "gpu-west", "store-1", "full-1", "gpu-north", "dark-1")
        self.assertEqual(whole.data, named.data)

    def test_a_zone_that_is_not_there_is_named_with_the_nearest(self):
        done = run(OURS, "scheduler", "whatif", "fail", "--zone-file", ZONES, "--fail-zone", "wes")
        self.assertEqual(1, done.code)
        self.assertIn("no zone named 'wes' (did you mean 'west'?)", done.err)

    def test_a_file_is_validated_with_the_inventories_that_it_names(self):
        bad = self.write("bad.yaml", "schema: valence-sched/zones\n"
                                     "zone: {name: a, inventories: [nowhere.json]}\n")  # fmt: skip
        done = run(OURS, "podm", "inventory", "validate", ZONES, SITE, bad, "-f", "json")
        tree, flat, wrong = done.data
        self.assertEqual(1, done.code)
        for count in ("Podms", "Pools", "Blocks"):
            self.assertEqual(flat[count], tree[count])
        self.assertEqual([True, False], [tree["Valid"], wrong["Valid"]])
        self.assertRegex(wrong["Error"], r"nowhere\.json: found no such file")

    def test_a_zone_fails_only_of_a_file(self):
        done = run(OURS, "scheduler", "whatif", "fail", "--inventory", SITE, "--fail-zone", "west")
        self.assertEqual(2, done.code)


def names(done: Done) -> list[str]:
    """Return the pod managers of rows, or else the devices, in order."""
    found = (row.get("Podm") or f"{row['Device']} {row['Model']}" for row in done.data)
    return sorted(name for name in found if name != "total")


class TestThroughService(Case):
    """A service whose children do not answer."""

    def setUp(self):
        super().setUp()
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.zones = ZoneServices(self.stack)

    def schedule(self, url: str, *words: str):
        return run(OURS, *GPU, *words, VALENCE_SCHED_URL=url)

    def test_silence_is_a_warning_and_with_strict_an_error(self):
        """S70: the other zones are used; with --strict this is an error."""
        podms = json.loads(Path(SITE).read_text())["podms"]
        child = self.zones.start("child", podms)
        with child_server(lambda *_: {}) as gone:
            pass
        good = self.zones.start("good", (), {"all": child})
        top = self.zones.start("top", (), {"all": child, "gone": gone})
        done = self.schedule(top)
        self.assertEqual(0, done.code, done.err)
        self.assertRegex(done.out, r"\|\s+1 \| all\s+\| gpu-east")
        self.assertRegex(done.err, r"warning: no answer from 1 zone: gone \(.*does not answer")
        self.assertIn("; 2 zones answered", done.err)
        strict = self.schedule(top, "--strict")
        self.assertEqual((5, ""), (strict.code, strict.out))
        self.assertIn("no answer from 1 zone: gone", strict.err)
        self.assertEqual(0, self.schedule(good, "--strict").code)
        for noun in ("claim", "node"):
            with self.subTest(noun):
                self.check_list(noun, top, good)
        self.check_podms(top, good)
        plain = self.schedule(child, "--strict")
        self.assertEqual(2, plain.code)
        self.assertIn("the service uses its own setting", plain.err)

    def check_podms(self, top: str, good: str) -> None:
        """Check that lists name pod managers by path, and that fits are counted on them."""
        lists = {("podm", "list"): "pod managers", ("podm", "pool", "list"): "pools",
                 ("podm", "block", "list"): "blocks", ("podm", "device", "list"): "devices",
                 ("podm", "fit", "--flavor", "gpu-large"): "nodes",
                 ("podm", "fit", "--flavor", "gpu-large", "--stranded"): "resources"}  # fmt: skip
        for words, noun in lists.items():
            with self.subTest(words):
                why = r"gone \(.*does not answer.*\)"
                line = f"no answer from 1 zone: {why}: the list lacks its {noun}$"
                whole = run(OURS, *words, "--strict", "-f", "json", VALENCE_SCHED_URL=good)
                self.assertEqual(0, whole.code, whole.err)
                self.assertNotIn("no answer", whole.err)
                done = run(OURS, *words, "-f", "json", VALENCE_SCHED_URL=top)
                self.assertEqual((0, names(whole)), (done.code, names(done)))
                self.assertRegex(done.err, f"(?m)^warning: {line}")
                strict = run(OURS, *words, "--strict", "-f", "json", VALENCE_SCHED_URL=top)
                self.assertEqual((5, names(whole)), (strict.code, names(strict)))
                self.assertRegex(strict.err, f"(?m)^{line}")
                if "device" not in words:
                    here = run(OURS, *words, "--inventory", SITE, "-f", "json")
                    expected = [f"all/{name}" for name in names(here)]
                    self.assertEqual(expected, names(whole))
        shown = run(OURS, "podm", "show", "all/gpu-east", "-f", "json", VALENCE_SCHED_URL=top)
        self.assertEqual("all/gpu-east", shown.data["Podm"], shown.err)

    def check_list(self, noun: str, top: str, good: str) -> None:
        """Check that a list warns of a missing zone; with --strict its exit code is an error."""
        words = ("podm", noun, "list", "-f", "json")
        line = (
            rf"no answer from 1 zone: gone \(.*does not answer.*\): the list lacks its {noun}s\n$"
        )
        done = run(OURS, *words, VALENCE_SCHED_URL=top)
        self.assertEqual((0, []), (done.code, done.data))
        self.assertRegex(done.err, f"^warning: {line}")
        strict = run(OURS, *words, "--strict", VALENCE_SCHED_URL=top)
        self.assertEqual((5, []), (strict.code, strict.data))
        self.assertRegex(strict.err, f"^{line}")
        whole = run(OURS, *words, "--strict", VALENCE_SCHED_URL=good)
        self.assertEqual((0, []), (whole.code, whole.data))
        self.assertRegex(whole.err, rf"\Ano {noun}s: [^\n]*\n\Z")
