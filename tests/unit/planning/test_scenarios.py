# SPDX-License-Identifier: Apache-2.0
"""Scenarios: their inheritance, and the settings of their decisions."""

import pickle
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from tests.unit.planning.sites import GPU, WEB, chosen, edit, free, racks
from valence_sched.app import App
from valence_sched.config.settings import Configuration
from valence_sched.core.explain.report import decision_result
from valence_sched.errors import InputError, SchedulerError, UnknownName
from valence_sched.model.decision import Report
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.model.request_spec import RequestSpec, compile_request
from valence_sched.planning.edits import scenario_sites
from valence_sched.planning.site import Site
from valence_sched.store.store import Store
from valence_sched.testing.served import served

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
    """Files in a separate folder."""

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
                         "expected scenarios without a cycle", self.problem("a.yaml"))  # fmt: skip
        self.write("b.yaml", "{name: b, extends: c.yaml}")
        self.write("c.yaml", "{name: c, extends: b.yaml#b}")
        cycle = "b.yaml#b extends c.yaml#c extends b.yaml#b"
        self.assertEqual(f"c.yaml: $.extends: found a cycle: {cycle}, expected scenarios "
                         "without a cycle", self.problem("b.yaml"))  # fmt: skip
        self.write("d.yaml", "{name: d, extends: d}")
        self.assertIn("$.extends: found a cycle: d extends d", self.problem("d.yaml"))

    def test_a_row_of_scenarios_has_an_end(self):
        rows = ", ".join(f"{{name: s{n}, extends: s{n + 1}}}" for n in range(150))
        self.write("a.yaml", f"scenarios: [{rows}, {{name: s150}}]")
        self.assertEqual("a.yaml: $.scenarios[99].extends: found a chain of over 100 scenarios, "
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


SITE = str(Path(__file__).parents[3] / "examples" / "site.json")
SCENARIOS = str(Path(SITE).with_name("scenarios.yaml"))


def report(site: Site, flavor: str, policy: str) -> Report:
    """Return the report of a decision on two nodes."""
    spec = RequestSpec(flavor=flavor, count=2, min_count=1, policy=policy, alternates=2)
    decision = site.decider().select_destinations(compile_request(spec, site.flavors[flavor]))
    return decision_result(decision, "report").report


class TestSite(unittest.TestCase):
    """A site is a value."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.app = App(environ={"XDG_CONFIG_HOME": folder.name, "XDG_STATE_HOME": folder.name})

    def test_a_site_decides_as_the_engine_on_its_selection(self):
        selection = Selection(sources=(SITE,))
        site = self.app.site(selection)
        for flavor in ("gpu-large", "memory-large"):
            spec = RequestSpec(flavor=flavor, count=2, min_count=1, alternates=2)
            request = compile_request(spec, site.flavors[flavor])
            engine = self.app.engine(selection)
            expected = engine.select_destinations(request, detail="report").report
            self.assertEqual(expected, report(site, flavor, "default"))

    def test_the_written_site_decides_the_same(self):
        base = self.app.site(Selection(sources=(SITE,)))
        edits = [edit(fail="Compute-02@gpu-east"), edit(remove="podm=gpu-west,free=no"),
                 edit(set="zone=east-1", facts={"price": 3}, traits=["X"])]  # fmt: skip
        sites = [
            *self.app.whatif.edited_sites(base, [SCENARIOS]),
            *self.app.whatif.edited_sites(base, (), edits),
        ]
        self.assertEqual(5, len(sites))
        for number, site in enumerate(sites):
            file = str(self.folder / f"{number}.json")
            self.assertEqual(len(site.podms), self.app.whatif.write_site(site, file)[0])
            again = replace(self.app.site(Selection(sources=(file,))), policies=site.policies)
            for flavor, policy in (("small", "chance"), ("gpu-large", "default")):
                with self.subTest(site=site.name, flavor=flavor, policy=policy):
                    expected = report(site, flavor, policy)
                    self.assertEqual(expected, report(again, flavor, policy))

    def test_what_is_printed_is_what_is_written(self):
        site = self.app.site(Selection(sources=(SITE,)))
        parts: list[str] = []
        self.app.whatif.print_site(site, parts.append)
        self.app.whatif.write_site(site, str(self.folder / "s.json"))
        self.assertEqual((self.folder / "s.json").read_text(), "".join(parts))

    def test_what_claims_hold_is_subtracted(self):
        state = self.folder / "state.sqlite"
        selection = Selection(live=ReadOptions(state=str(state)))
        with served(SITE) as podms:
            with Store(f"sqlite:///{state}") as store:
                store.register(Registration(name="mem-1", url=podms["mem-1"].url))
            before = self.app.site(selection)
            self.assertTrue(self.app.engine(selection).claim(WEB).claim)
            site = self.app.site(selection)
        self.assertLess(free(site, "mem-1").total(), free(before, "mem-1").total())

    def test_what_could_not_be_read_is_known(self):
        file = self.folder / "i.jsonl"
        file.write_text('{"schema": "valence-sched/inventory"}\n{"id": "a"}\n{"idd": "b"}\n')
        site = self.app.site(Selection(sources=(str(file),)))
        self.assertEqual(1, len(site.podms))
        self.assertRegex(site.skipped[0], "line 3.*unknown field 'idd'")

    def test_the_policy_and_its_weights_can_be_others(self):
        base = self.app.site(Selection(sources=(SITE,)))
        (site,) = self.app.whatif.edited_sites(base, policy="pack", weights={"pack": 5, "known": 1})
        self.assertEqual("pack", site.policy)
        weights = {use.name: use.weight for use in site.policies["pack"].weighers}
        self.assertEqual((5, 1), (weights["pack"], weights["known"]))
        before = {use.name: use.weight for use in base.policies["pack"].weighers}
        self.assertNotEqual(5, before["pack"])
        with self.assertRaises(UnknownName):
            self.app.whatif.edited_sites(base, weights={"pak": 1})
        with self.assertRaises(UnknownName):
            self.app.whatif.edited_sites(base, policy="pak")

    def test_a_site_that_was_pickled_decides_the_same(self):
        site = racks()
        site.view()
        other = pickle.loads(pickle.dumps(site))
        self.assertEqual(site.podms, other.podms)
        self.assertEqual(chosen(site, GPU), chosen(other, GPU))
        self.assertIs(site.view(), site.view())

    def test_an_invalid_pod_manager_is_refused(self):
        site = racks()
        twice = structs.replace(site.podms[0], id="west")
        with self.assertRaisesRegex(InputError, "site base: .*'west' again"):
            Site("base", (site.podms[1], twice), {}, {}).view()
