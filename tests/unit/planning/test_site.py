# SPDX-License-Identifier: Apache-2.0
"""Sites: what a selection is decided on, and the same again from a file or in another process."""

import pickle
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from tests.unit.planning.sites import GPU, WEB, chosen, edit, free, racks
from valence_sched.app import App
from valence_sched.errors import InputError, UnknownName
from valence_sched.lifecycle.decision_result import decision_result
from valence_sched.model.decision import Report
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.model.request_spec import RequestSpec, compile_request
from valence_sched.planning.site import Site
from valence_sched.store.store import Store
from valence_sched.testing.served import served

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
        sites = [*self.app.edited_sites(base, [SCENARIOS]), *self.app.edited_sites(base, (), edits)]
        self.assertEqual(5, len(sites))
        for number, site in enumerate(sites):
            file = str(self.folder / f"{number}.json")
            self.assertEqual(len(site.podms), self.app.write_site(site, file)[0])
            again = replace(self.app.site(Selection(sources=(file,))), policies=site.policies)
            for flavor in ("small", "gpu-small", "gpu-large", "storage-large"):
                for policy in ("default", "pack", "chance"):
                    with self.subTest(site=site.name, flavor=flavor, policy=policy):
                        expected = report(site, flavor, policy)
                        self.assertEqual(expected, report(again, flavor, policy))

    def test_what_is_printed_is_what_is_written(self):
        site = self.app.site(Selection(sources=(SITE,)))
        parts: list[str] = []
        self.app.print_site(site, parts.append)
        self.app.write_site(site, str(self.folder / "s.json"))
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
        (site,) = self.app.edited_sites(base, policy="pack", weights={"pack": 5, "known": 1})
        self.assertEqual("pack", site.policy)
        weights = {use.name: use.weight for use in site.policies["pack"].weighers}
        self.assertEqual((5, 1), (weights["pack"], weights["known"]))
        before = {use.name: use.weight for use in base.policies["pack"].weighers}
        self.assertNotEqual(5, before["pack"])
        with self.assertRaises(UnknownName):
            self.app.edited_sites(base, weights={"pak": 1})
        with self.assertRaises(UnknownName):
            self.app.edited_sites(base, policy="pak")

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
