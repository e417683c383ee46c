# SPDX-License-Identifier: Apache-2.0
"""Plans in both programs: saved, applied unchanged, or refused after a change of the site."""

import json
from pathlib import Path

from tests.functional.programs import PROGRAMS, SITE, run
from tests.functional.test_canary import CANARY, FORMS
from tests.functional.test_live import Live
from valence_sched.model.registration import Registration
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.store.store import Store

SMALL = ("schedule", "--flavor", "small")
RECORDED = ("--inventory", SITE)


class Plans(Live):
    """A test case with its own plan for each test."""

    def setUp(self):
        super().setUp()
        self.plan = self.folder / f"{self.id().rpartition('.')[2][:60]}.json"

    def planned(self, *words: str, program: str = PROGRAMS[0]) -> dict:
        self.podm(*SMALL, *words, "--plan", str(self.plan), program=program)
        return json.loads(self.plan.read_bytes())

    def apply(self, *words: str, **more):
        return self.podm("apply", str(self.plan), *words, "-f", "json", **more)

    def blocks(self, plan: dict) -> list[list[str]]:
        return [[block["uri"] for block in one["chosen"]["blocks"]]
                for one in plan["decision"]["placements"]]  # fmt: skip


class Registered(Plans):
    """The example site, served and registered."""

    def setUp(self):
        super().setUp()
        self.found = self.serve()
        with Store(f"sqlite:///{self.state}") as store:
            for name, one in self.found.items():
                store.register(Registration(name=name, url=one.url))


class TestClaimed(Registered):
    """Plans that are claimed."""

    def test_the_very_blocks_are_claimed_once(self):
        for program in PROGRAMS:
            with self.subTest(program):
                plan = self.planned("--count", "2", program=program)
                done = self.apply("--claim", program=program)
                self.assertEqual(self.blocks(plan), [row["Blocks"] for row in done.data])
                claim = done.data[0]["Claim"]
                again = self.apply("--claim", program=program, code=6)
                self.assertEqual("", again.out)
                self.assertIn(f"is in use by claim {claim}, which is HELD", again.err)
                (row,) = self.podm("claim", "list", "-f", "json").data
                self.assertEqual((claim, 2), (row["ID"], row["Nodes"]))
                self.podm("claim", "release", claim)

    def test_a_key_gives_the_same_claim_and_no_other_plan(self):
        self.planned()
        words = ("--claim", "--key", "k")
        first, again = self.apply(*words).data, self.apply(*words).data
        self.assertEqual(first, again)
        self.planned("--exclude-podm", first[0]["Podm"])
        done = self.apply(*words, code=1)
        self.assertIn("key 'k' belongs to claim", done.err)
        self.assertEqual(1, len(self.podm("claim", "list", "-f", "json").data))

    def test_what_moved_is_named_and_nothing_is_held(self):
        plan = self.planned()
        name = plan["decision"]["placements"][0]["chosen"]["podm"]
        uri = self.blocks(plan)[0][0]
        documents = self.found[name].documents
        taken = {**documents.get(uri)["CompositionStatus"], "CompositionState": "Composed"}
        documents.put(uri, {**documents.get(uri), "CompositionStatus": taken})
        self.podm("set", name, "--fact", "paint=red")
        done = self.apply("--claim", code=6)
        self.assertIn(f"pod manager '{name}': facts.paint was not set, is red", done.err)
        self.assertIn(f"block {uri}: state was Unused, is Composed", done.err)
        lines = [line for line in done.err.splitlines() if "on the inventory:" not in line]
        self.assertEqual(1, len(lines), done.err)
        self.podm("delete", name)
        done = self.apply("--claim", code=6)
        self.assertIn(f"no pod manager '{name}' is registered", done.err)
        self.assertEqual([], self.podm("claim", "list", "--all", "-f", "json").data)

    def test_when_it_was_read_is_no_difference_nor_are_other_pod_managers(self):
        plan = self.planned()
        name = plan["decision"]["placements"][0]["chosen"]["podm"]
        for other in self.found.keys() - {name}:
            self.podm("set", other, "--fact", "paint=red")
        self.assertEqual(1, len(self.apply("--claim").data))

    def test_a_refresh_shows_what_is_decided_now_and_changes_nothing(self):
        plan = self.planned("--count", "2")
        words = ("--refresh", "--detailed-exitcode")
        self.assertEqual([False, False], [row["Differs"] for row in self.apply(*words).data])
        self.apply("--claim")
        done = self.apply(*words, code=10)
        self.assertEqual([True, True], [row["Differs"] for row in done.data])
        self.assertEqual(self.blocks(plan), [row["Old Blocks"] for row in done.data])
        for row in done.data:
            self.assertNotEqual(row["Old Blocks"], row["New Blocks"])
        self.assertIn("2 of 2 nodes would differ now", done.err)
        self.apply("--refresh")  # without the option this is not a failure
        self.assertEqual(1, len(self.podm("claim", "list", "--all", "-f", "json").data))

    def test_a_plan_that_was_changed_or_is_too_new_is_refused(self):
        self.planned()
        text = self.plan.read_text()
        for change, line in (
            (text.replace('"placed": 1', '"placed": 2'), "the plan was changed"),
            (text.replace('"version": "1.2"', '"version": "2.0"', 1), "found 2.0, expected at"),
            (
                text.replace("valence-sched/plan", "valence-sched/decision"),
                "found a decision, expected a plan",
            ),
            (text[: len(text) // 2], "expected JSON"),
            ("[]", "expected object"),
        ):
            self.assertNotEqual(text, change)
            self.plan.write_text(change)
            done = self.apply("--claim", code=1)
            self.assertEqual(1, done.err.count("\n"), done.err)
            self.assertIn(line, done.err)
        self.assertEqual([], self.podm("claim", "list", "--all", "-f", "json").data)

    def test_a_plan_is_read_from_standard_input(self):
        self.planned()
        done = self.podm("apply", "-", "--claim", stdin=self.plan.read_bytes())
        self.assertRegex(done.err, r"(?m)^claim \w+ holds \d blocks? on \S+ until \d\d:\d\d:\d\dZ$")

    def test_no_plan_is_written_where_nothing_fits_or_something_else_is_done(self):
        done = self.podm(*SMALL, "--count", "999", "--plan", str(self.plan), code=3)
        self.assertIn("nothing fits: no plan was written", done.err)
        for words in (("--claim",), ("--compose",), ("--dispatch", "webhook=http://h")):
            self.podm(*SMALL, *words, "--plan", str(self.plan), code=2)
        self.assertFalse(self.plan.exists())
        self.podm(*SMALL, "--plan", str(self.folder / "none" / "plan.json"), code=1)

    def test_what_an_operator_declared_is_held_no_further_than_it_goes(self):
        power = self.write("power.yaml", "resources: [{name: power, unit: W, total: 500}]\n")
        words = ("--resource-file", power)
        self.planned(*words, "--resource", "power=300")
        self.apply(*words, "--claim")
        self.assertEqual(1, len(self.podm("claim", "list", "-f", "json").data))


class TestLive(Registered):
    """Plans that are composed on live pod managers."""

    def test_the_very_blocks_are_composed_once(self):
        plan = self.planned("--count", "2")
        reads = {name: len(one.requests) for name, one in self.found.items()}
        rows = self.apply().data
        self.assertEqual(sorted(map(sorted, self.blocks(plan))),
                         sorted(sorted(row["Blocks"]) for row in rows))  # fmt: skip
        chosen = {row["Podm"] for row in rows}
        idle = {name for name, one in self.found.items() if len(one.requests) == reads[name]}
        self.assertEqual(self.found.keys() - chosen, idle, "only those of the plan are asked")
        done = self.apply(code=6)
        self.assertRegex(done.err, r"is in use by node vs-\S+ \(claim \S+\)$")
        nodes = self.podm("node", "list", "--live", "-f", "json").data
        self.assertEqual(2, sum(node["State"] == "COMPOSED" for node in nodes))

    def test_a_key_gives_the_same_nodes(self):
        self.planned("--count", "2")
        first, again = self.apply("--key", "k").data, self.apply("--key", "k").data
        self.assertEqual({row["Node"] for row in first}, {row["Node"] for row in again})
        self.planned()
        self.assertIn("key 'k", self.apply("--key", "k", code=1).err)
        self.assertEqual(2, len(self.podm("node", "list", "-f", "json").data))

    def test_what_somebody_else_took_meanwhile_is_named(self):
        plan = self.planned()
        name = plan["decision"]["placements"][0]["chosen"]["podm"]
        uri = self.blocks(plan)[0][0]
        documents = self.found[name].documents
        before = documents.get(uri)
        taken = {**before["CompositionStatus"], "CompositionState": "Composed"}
        documents.put(uri, {**before, "CompositionStatus": taken})
        done = self.apply(code=6)
        self.assertIn(f"block {uri}: state was Unused, is Composed", done.err)
        self.assertEqual([], self.podm("claim", "list", "--all", "-f", "json").data)

    def test_one_that_is_silent_or_forgotten_is_refused(self):
        plan = self.planned()
        name = plan["decision"]["placements"][0]["chosen"]["podm"]
        self.stop()
        done = self.apply("--request-timeout", "3", code=5)
        self.assertIn("the plan cannot be compared with the inventory", done.err)
        self.podm("delete", name)
        self.assertIn(f"no pod manager '{name}' is registered", self.apply(code=6).err)

    def test_one_that_was_composed_and_deleted_can_be_done_again(self):
        self.planned()
        for _ in range(2):
            (row,) = self.apply().data
            self.podm("node", "delete", row["Node"])


class TestSecrets(Plans):
    """A plan contains no credentials."""

    def test_no_password_is_in_a_plan(self):
        found = self.serve(settings=SimulatorSettings(login=Account("op", CANARY)))
        for name in ("gpu-east", "gpu-west"):
            url = found[name].url
            self.podm("create", name, url, "--username", "op", "--password-env", "CANARY",
                      CANARY=CANARY)  # fmt: skip
        self.podm(*SMALL, "--plan", str(self.plan), CANARY=CANARY)
        done = run(PROGRAMS[0], "podm", "apply", self.plan, VALENCE_SCHED_STATE=str(self.state),
                   CANARY=CANARY)  # fmt: skip
        self.assertEqual(0, done.code, done.err)
        for form in FORMS:
            self.assertNotIn(form, self.plan.read_bytes())
            self.assertNotIn(form, (done.out + done.err).encode())
        with Store(f"sqlite:///{self.state}") as store:
            self.assertEqual(1, len(store.nodes.list()))


class TestRecordings(Plans):
    """A recording can be decided on and planned on, but not changed."""

    def test_a_recording_is_not_claimed_or_composed_on_however_it_is_named(self):
        self.planned(*RECORDED)
        plan = str(self.plan)
        for program in PROGRAMS:
            for words, more in (
                ((*SMALL, *RECORDED, "--claim"), {}),
                ((*SMALL, *RECORDED, "--compose"), {}),
                ((*SMALL, *RECORDED, "--dry-run=server"), {}),
                ((*SMALL, "--claim"), {"VALENCE_SCHED_INVENTORY": SITE}),
                (("apply", plan, *RECORDED), {}),
                (("apply", plan, *RECORDED, "--claim"), {}),
                (("apply", plan, "--claim"), {"VALENCE_SCHED_INVENTORY": SITE}),
            ):
                with self.subTest(words, program=program):
                    done = self.podm(*words, program=program, code=2, **more)
                    self.assertEqual("", done.out)
                    self.assertRegex(done.err, r"\Aa recorded inventory cannot be .*: .*podm "
                                     r"create NAME URL.*--plan FILE.*apply FILE.*\n\Z")  # fmt: skip
        self.assertFalse(self.state.exists())

    def test_a_plan_on_a_capture_is_done_where_everything_agrees(self):
        found = self.serve()
        file = str(self.folder / "capture.json")
        self.podm("create", "a", found["gpu-east"].url)
        self.podm("capture", "--all", "-o", file)
        identity = json.loads(Path(file).read_bytes())["podms"][0]["identity"]
        self.assertEqual(identity, self.podm("show", "a", "-f", "json").data["Identity"])
        plan = self.planned("--inventory", file)
        (basis,) = plan["podms"]
        self.assertEqual((identity, True), (basis["podm"]["identity"], basis["recorded"]))
        (row,) = self.apply("--claim").data
        self.podm("claim", "release", row["Claim"])
        documents, uri = found["gpu-east"].documents, self.blocks(plan)[0][0]
        before = documents.get(uri)
        taken = {**before["CompositionStatus"], "CompositionState": "Composed"}
        documents.put(uri, {**before, "CompositionStatus": taken})
        self.assertIn(f"block {uri}: state was Unused", self.apply("--claim", code=6).err)
        documents.put(uri, before)
        self.podm("delete", "a")
        self.podm("create", "a", found["gpu-west"].url)
        line = self.apply("--claim", code=6).err
        self.assertRegex(line, rf"pod manager 'a': identity was {identity}, is uuid:")
        self.assertEqual([], self.podm("claim", "list", "-f", "json").data)

    def test_a_plan_on_a_recording_without_an_identity_is_never_done(self):
        found = self.serve()
        self.podm("create", "gpu-east", found["gpu-east"].url)
        self.planned(*RECORDED, "--podm", "gpu-east")
        line = self.apply("--claim", code=6).err
        self.assertIn("does not identify the service of pod manager 'gpu-east' (no", line)
