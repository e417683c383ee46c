# SPDX-License-Identifier: Apache-2.0
"""A claim reads, stores and views each pod manager once; counted, not timed."""

import contextlib
import datetime
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import msgspec

from tests.unit.core.deciders import cpu
from tests.unit.core.test_decision import EASY, HARD, NODE, WithoutOptimiser
from tests.unit.lifecycle.site import request
from tests.unit.store.site import CORES, podm
from tests.unit.trees import tree
from valence_sched.app import App
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import DecisionUndecided, SchedulerError
from valence_sched.lifecycle import intake as intake_module
from valence_sched.lifecycle.claim import ClaimOutcome
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.plan import Planner
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.lifecycle import ClaimResult
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.store import database
from valence_sched.store.database import WorkCounts
from valence_sched.store.store import Store
from valence_sched.testing import generate, request as node_request
from valence_sched.testing.served import served
from valence_sched.view.builder import ViewBuilder

PODMS = 500
EXAMPLE = str(Path(__file__).parents[3] / "examples" / "site.json")


@contextlib.contextmanager
def counted() -> Iterator[tuple[WorkCounts, list[str]]]:
    """Count the work of all stores together, and record each podm that is added to a view."""
    counts, added = WorkCounts(), []
    add = ViewBuilder.add

    def noted(self: ViewBuilder, podm, *place: str, **words) -> None:
        added.append(podm.id)
        add(self, podm, *place, **words)

    with (
        mock.patch.object(database, "WorkCounts", lambda: counts),
        mock.patch.object(ViewBuilder, "add", noted),
    ):
        yield counts, added


class TestReadOnce(unittest.TestCase):
    """The pod managers of a claim are read, stored and viewed once, in batches."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.state = f"sqlite:///{self.folder}/state.sqlite"

    def claim(self, *sources: str) -> ClaimResult | ClaimOutcome:
        """Claim on live pod managers, or on a recording, which only an intake supports."""
        app = App(environ={"XDG_CONFIG_HOME": str(self.folder)})
        selection = Selection(sources=sources, live=ReadOptions(state=self.state))
        if not sources:
            return app.engine(selection).claim(request())
        with Store(self.state) as store:
            return (
                Intake(app.config, app.sources, app.loader, selection)
                .claimer(store)
                .claim(request())
            )

    def test_recorded_pod_managers_take_few_transactions_and_are_viewed_once(self):
        inventory = str(self.folder / "inventory.jsonl")
        generate.main(["--podms", str(PODMS), "--blocks", "4", "--output", inventory])
        with counted() as (counts, added):
            self.assertIsNotNone(self.claim(inventory).claim)
        self.assertLessEqual(counts.transactions, 20)
        self.assertEqual(PODMS, counts.podms_written)
        self.assertEqual(0, counts.podms_decoded)
        self.assertEqual((PODMS, PODMS), (len(added), len(set(added))))

    def test_unchanged_ones_are_not_written_again(self):
        first = self.claim(EXAMPLE)
        with counted() as (counts, added):
            second = self.claim(EXAMPLE)
        self.assertEqual(0, counts.podms_written)
        self.assertEqual(8, len(added))
        self.assertNotEqual(first.claim.parts[0].blocks, second.claim.parts[0].blocks)

    def test_live_ones_are_stored_once(self):
        with served(EXAMPLE) as podms:
            with Store(self.state) as store:
                for name, podm in podms.items():
                    store.register(Registration(name=name, url=podm.url))
            with counted() as (counts, added):
                self.assertIsNotNone(self.claim().claim)
        self.assertEqual(8, counts.podms_written)
        self.assertEqual((8, 8), (len(added), len(set(added))))

    def test_a_document_that_no_view_takes_is_skipped_and_not_stored(self):
        inventory = self.folder / "inventory.jsonl"
        block = '{"uri": "c", "devices": {"processors": [{"cores": 64}]}}'
        inventory.write_text(
            '{"schema": "valence-sched/inventory", "version": "1.0"}\n'
            f'{{"id": "twice", "blocks": [{block}, {block}]}}\n'
            f'{{"id": "sound", "blocks": [{block}]}}\n'
        )
        self.assertEqual(("sound",), self.claim(str(inventory)).claim.podms)
        with Store(self.state) as store:
            self.assertEqual(["sound"], list(store.load_podms()))


class TestWords(unittest.TestCase):
    """The options of a user reach decisions, with and without a claim."""

    BLOCK = '{"uri": "c0", "devices": {"processors": [{"cores": 8}]}}'

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.state = f"sqlite:///{self.folder}/state.sqlite"
        self.store = self.enterContext(Store(self.state))

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def inventory(self, *podms):
        head = '{"schema": "valence-sched/inventory", "version": "1.0"}\n'
        return self.write("inventory.jsonl", head + "".join(f"{one}\n" for one in podms))

    def podm(self, name, **words):
        more = "".join(f', "{key}": {value}' for key, value in words.items())
        return f'{{"id": "{name}", "blocks": [{self.BLOCK}]{more}}}'

    def intake(self, *sources, **words):
        app = App(environ={"XDG_CONFIG_HOME": str(self.folder)})
        live = words.pop("live", ReadOptions(state=self.state))
        return Intake(app.config, app.sources, app.loader,
                      Selection(sources=sources, live=live, **words))  # fmt: skip

    def test_stocks_that_an_operator_declares_are_claimed_and_not_stored(self):
        resources = self.write("more.yaml", "- {name: power, total: 5}\n")
        source = self.inventory(self.podm("p"))
        asked = request(properties={**CORES, "stocks": [{"resource": "power", "amount": 3}]})
        for files, amounts in (((), None), ((resources,), [3.0])):
            with self.subTest(files):
                intake = self.intake(source, resource_files=files)
                self.assertEqual(bool(files), intake.declared_resources() is not None)
                claim = intake.claimer(self.store).claim(asked).claim
                found = claim and [one.amount for one in claim.parts[0].shares[0].grants]
                self.assertEqual(amounts, found)
                self.assertEqual((), self.store.load_podms()["p"].stocks)
        self.assertIsNone(self.intake(source, resource_files=(resources,))
                          .claimer(self.store).claim(asked).claim)  # fmt: skip

    def test_nothing_is_claimed_of_what_is_stored_and_was_not_read(self):
        self.store.remember(podm("other", 9))
        claimer = self.intake(self.inventory(self.podm("p"))).claimer(self.store)
        self.assertEqual(("p",), claimer.claim(request()).claim.podms)
        self.assertIsNone(claimer.claim(request()).claim)

    def test_what_could_not_be_read_is_told_with_the_decision(self):
        source = self.inventory(self.podm("p"), self.podm("broken", stocks='"x"'))
        file = self.write("podms.yaml", "podms: {silent: {url: 'http://127.0.0.1:1'}}\n")
        live = ReadOptions(state=self.state, podm_files=(file,), timeout_s=5)
        intake = self.intake(source, live=live)
        outcome = intake.claimer(self.store).claim(request())
        self.assertIsNotNone(outcome.claim)
        skipped = decision_report(outcome.decision).inventory.skipped
        self.assertEqual(2, len(skipped), skipped)
        self.assertTrue(skipped[0].startswith("silent: "), skipped)
        self.assertIn("line 3: $.stocks: found", skipped[1])
        intake = self.intake(source, live=live)
        decider = intake.decider(intake.view(), intake.policies())
        report = decision_report(decider.select_destinations(request()))
        self.assertEqual(skipped, report.inventory.skipped)

    def test_nothing_is_claimed_of_one_that_is_dead_by_its_last_reading(self):
        live = ReadOptions(state=self.state, liveness="read:3600")
        now = datetime.datetime.now(datetime.UTC).isoformat()
        for read_at, placed in (("2020-02-02T00:00:00Z", 0), (now, 1)):
            with self.subTest(read_at):
                source = self.inventory(self.podm("p", read_at=f'"{read_at}"'))
                outcome = self.intake(source, live=live).claimer(self.store).claim(request())
                self.assertEqual(placed, len(outcome.decision.placements))

    def test_what_was_wrong_with_another_selection_stays_to_be_told(self):
        text = '{"schema": "valence-sched/inventory", "version": "1.0"}\n{"id": 7}\n'
        other = Selection(sources=(self.write("other.jsonl", text + self.podm("o")),))
        intake = self.intake(self.inventory(self.podm("p")))
        intake.loader.view(other)
        found = intake.sources.diagnostics.lines("skipped")
        self.assertEqual(1, len(found))
        intake.view()
        self.assertEqual(found, intake.sources.diagnostics.lines("skipped"))

    def test_what_was_wrong_is_forgotten_when_it_is_read_again(self):
        source = self.inventory(self.podm("p"), self.podm("broken", stocks='"x"'))
        intake = self.intake(source, strict=False)
        for _ in range(3):
            outcome = intake.claimer(self.store).claim(request())
            self.assertEqual(1, len(decision_report(outcome.decision).inventory.skipped))
        Path(source).write_text(Path(self.inventory(self.podm("p"))).read_text())
        outcome = intake.claimer(self.store).claim(request())
        self.assertEqual((), decision_report(outcome.decision).inventory.skipped)

    def test_a_silent_pod_manager_is_not_stored_over_what_is_known_of_it_and_ends_nothing(self):
        for name in ("a-silent", "c-silent"):
            self.store.register(Registration(name=name, url="http://127.0.0.1:1"))
        known = self.store.remember(podm("a-silent", 3))
        with served(documents={"b": {**tree("gpu-east")}}) as podms:
            self.store.register(Registration(name="b", url=podms["b"].url))
            live_only = Selection(live=ReadOptions(state=self.state, timeout_s=5))
            stored = self.intake().store_podms(self.store, live_only)
        self.assertEqual(["b"], [*stored.read_at])
        self.assertEqual(["b"], [*stored.podms])
        kept = self.store.load_podms(["a-silent"])["a-silent"]
        self.assertEqual((known, 3), (kept.generation, len(kept.blocks)))

    def test_only_those_that_are_named_are_stored(self):
        source = self.inventory(*(self.podm(name) for name in "abcd"))
        intake = self.intake(source)
        stored = intake.store_podms(self.store, intake.selection, ("b", "d"))
        self.assertEqual(["b", "d"], [*stored.read_at])
        self.assertEqual(["b", "d"], sorted(self.store.load_podms()))
        self.assertEqual([], [*intake.store_podms(self.store, intake.selection, ()).read_at])

    def test_what_the_state_has_already_is_decided_on_and_not_stored_again(self):
        self.store.update_stats("self", {"blocks": [cpu("c0", 8)]})
        with served(documents={"b": {**tree("gpu-east")}}) as podms:
            self.store.register(Registration(name="b", url=podms["b"].url))
            for stored in (False, True):
                live = ReadOptions(state=self.state, timeout_s=10, stored=stored)
                intake = self.intake(live=live)
                found = intake.store_podms(self.store, intake.selection)
                self.assertEqual(["b", "self"], [*found.read_at])
                self.assertEqual([] if stored else ["b"], [*found.podms])
        generations = {one.id: one.generation for one in self.store.load_podms().values()}
        self.assertEqual({"b": 1, "self": 1}, generations)

    def test_what_was_read_before_an_error_is_stored(self):
        source = self.inventory(self.podm("a"), self.podm("b"))
        intake = self.intake(source, str(self.folder / "absent.json"))
        with self.assertRaises(SchedulerError):
            intake.store_podms(self.store, intake.selection)
        self.assertEqual(["a", "b"], sorted(self.store.load_podms()))

    def test_many_are_stored_before_all_are_read(self):
        source = self.inventory(*(self.podm(f"p{number}") for number in range(3)))
        intake, sizes = self.intake(source), []
        remember = Store.remember_all

        def noted(store, podms):
            sizes.append(len(podms))
            return remember(store, podms)

        with (
            mock.patch.object(intake_module, "BATCH_SIZE", 2),
            mock.patch.object(Store, "remember_all", noted),
        ):
            stored = intake.store_podms(self.store, intake.selection)
        self.assertEqual([2, 1], sizes)
        self.assertEqual({"p0", "p1", "p2"}, {*stored.podms})

    def test_the_shares_of_all_flavors_are_what_a_policy_may_weigh(self):
        flavors = self.write("f.yaml", "flavors:\n- {name: big, share: 3, properties: "
                             "{processor: {total_cores: 8}}}\n")  # fmt: skip
        source = self.inventory(self.podm("p"))
        scarce = self.write(
            "policy.yaml", "policies:\n- name: default\n  weighers: [fragmentation]\n"
        )
        for files in ((), (flavors,)):
            intake = self.intake(source, flavor_files=files, policy_files=(scarce,))
            mixes = []
            for decision in (
                intake.claimer(self.store).claim(request()).decision,
                intake.decider(intake.view(), intake.policies()).select_destinations(request()),
            ):
                mixes.append([share.weight for share in decision.context.request.mix.shares])
            self.assertEqual(mixes[0], mixes[1])
            self.assertEqual(bool(files), 3.0 in mixes[0], mixes)


POLICIES = "policies:\n- {name: tight, budget: {pool_states: 20000}}\n"


class TestStrict(WithoutOptimiser):
    """One pod manager that may have the node, and one that has it."""

    def setUp(self):
        super().setUp()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.policies, self.file = self.folder / "policies.yaml", self.folder / "site.jsonl"
        self.policies.write_text(POLICIES)
        head = '{"schema": "valence-sched/inventory", "version": "1.0"}\n'
        podms = "".join(f"{to_json(one).decode()}\n" for one in (HARD, EASY))
        self.file.write_text(head + podms)
        self.store = self.enterContext(Store(f"sqlite:///{self.folder}/state.sqlite"))
        self.asked = node_request(NODE, policy="tight")

    def app(self):
        return App(environ={"XDG_CONFIG_HOME": str(self.folder)})

    def selection(self, *, strict, stored=False):
        live = ReadOptions(state=f"sqlite:///{self.folder}/state.sqlite", stored=stored)
        sources = () if stored else (str(self.file),)
        return Selection(sources=sources, strict=strict, live=live,
                         policy_files=(str(self.policies),))  # fmt: skip

    def intake(self, *, strict):
        app = self.app()
        return Intake(app.config, app.sources, app.loader, self.selection(strict=strict))

    def check(self, decide):
        self.assertEqual("easy", decide(strict=False))
        with self.assertRaisesRegex(DecisionUndecided, "hard .p."):
            decide(strict=True)

    def test_on_what_is_read_now(self):
        def decide(*, strict):
            intake = self.intake(strict=strict)
            decider = intake.decider(intake.view(), intake.policies())
            return decider.select_destinations(self.asked).placements[0].chosen.podm

        self.check(decide)

    def test_where_the_choice_is_claimed(self):
        def claim(*, strict):
            return self.intake(strict=strict).claimer(self.store).claim(self.asked).claim.podms[0]

        self.check(claim)
        self.assertEqual(1, len(self.store.claims.list()))

    def test_on_what_the_state_knows(self):
        for one in (HARD, EASY):
            self.store.update_stats(one["id"], {})
            self.store.remember(msgspec.convert(one, FullPodm))

        def decide(*, strict):
            engine = self.app().engine(self.selection(strict=strict, stored=True))
            self.addCleanup(engine.close)
            return engine.select_destinations(self.asked).report.placements[0].chosen.podm

        self.check(decide)

    def test_where_a_plan_is_decided_again(self):
        intake, texts = self.intake(strict=False), {}
        decider = intake.decider(intake.view(texts), intake.policies())
        report = decision_report(decider.select_destinations(self.asked))
        plan = Planner(intake).plan(report, texts)

        def refresh(*, strict):
            report = Planner(self.intake(strict=strict)).refresh(plan).report
            return report.placements[0].chosen.podm

        self.check(refresh)
