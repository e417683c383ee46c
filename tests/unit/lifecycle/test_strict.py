# SPDX-License-Identifier: Apache-2.0
"""A strict selection refuses what the budget of a policy leaves open, whoever decides."""

import tempfile
from pathlib import Path

import msgspec

from tests.unit.core.test_decision import EASY, HARD, NODE, WithoutOptimiser
from valence_sched.app import App
from valence_sched.core.explain.report import decision_report
from valence_sched.errors import DecisionUndecided
from valence_sched.lifecycle.intake import Intake
from valence_sched.lifecycle.plan import Planner
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.store.store import Store
from valence_sched.testing import request

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
        self.asked = request(NODE, policy="tight")

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
