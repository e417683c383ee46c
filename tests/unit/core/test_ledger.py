# SPDX-License-Identifier: Apache-2.0
"""A ledger decides as a fresh engine does on an inventory in which the same things are in use."""

import json
import unittest

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import built_in, cpu, engine, gpu
from tests.unit.core.sites import AMOUNTS, quietly
from tests.unit.view.test_overlay import composed
from tests.unit.view.test_view import FULL_SITES
from valence_sched.core.evaluation import evaluate
from valence_sched.core.fit.fit import Fit
from valence_sched.core.ledger import Ledger
from valence_sched.core.policy import bind
from valence_sched.errors import UsageError
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.schedulers.filter import FilterScheduler
from valence_sched.testing import contract, request, view

FIVE = [WeigherUse(name) for name in ("room", "balance", "scarce", "known", "fragmentation")]
DEFAULT = next(policy for policy in built_in() if policy.name == "default")
POLICY = msgspec.structs.replace(DEFAULT, name="five", weighers=tuple(FIVE))
ASKED = st.one_of(
    AMOUNTS.map(
        lambda lines: {"stocks": [{"resource": r, "amount": n, "count": c} for r, n, c in lines]}
    ),
    st.builds(lambda n: {"processor": {"sockets": n}}, st.integers(1, 2)),
    st.builds(lambda n: {"accelerators": [{"count": n}]}, st.integers(1, 2)),
)


def decided(ledger: Ledger, asked, policy: Policy = POLICY, bound=None) -> Fit | None:
    placed = FilterScheduler().schedule(ledger.context(asked, bound or bind(policy))).nodes
    return placed[0].chosen if placed else None


class TestLedger(unittest.TestCase):
    """Taking, giving back, and judging again only what moved."""

    @quietly(60)
    @given(FULL_SITES, st.lists(ASKED, min_size=1, max_size=3),
           st.lists(st.integers(0, 9), min_size=1, max_size=8))  # fmt: skip
    def test_it_decides_as_a_fresh_engine_does(self, podms, questions, steps):
        for podm in podms:
            podm["blocks"] = [b for b in podm["blocks"] if counted(b.get("status", {}))]
        site = view(*podms)
        before = contract.fingerprint(site, request({"processor": {"sockets": 1}}))
        ledger, bound = Ledger(site), bind(POLICY)
        asked = [request(question, policy="five") for question in questions]
        taken: list[Fit] = []
        for step in steps:
            if step > 7 and taken:
                ledger.give_back(taken.pop(step % len(taken)))
            now = [json.loads(json.dumps(podm)) for podm in podms]
            for fit in taken:
                podm = int(site.podm_of[fit.row])
                now[podm] = composed(now[podm], list(fit.blocks), list(fit.grants))
            one = asked[step % len(asked)]
            made = engine(view(*now), POLICY).select_destinations(one)
            fresh = made.batch.nodes[0] if made.batch.nodes else None
            context = ledger.context(one, bound, strict=True)
            placed = FilterScheduler().schedule(context).nodes
            self.assertEqual(fresh is None, not placed)
            if fresh is not None:
                self.assertEqual(fresh.chosen, placed[0].chosen)
                self.assertEqual((fresh.cost, fresh.scores), (placed[0].cost, placed[0].scores))
                ledger.take(placed[0].chosen)
                taken.append(placed[0].chosen)
        self.assertEqual(before, contract.fingerprint(site, request({"processor": {"sockets": 1}})))

    def test_only_podms_that_moved_are_judged_again(self):
        asked = request({"processor": {"total_cores": 8}})
        site = view(*({"id": str(n), "blocks": [cpu(f"c{i}", 8) for i in range(3)]}
                      for n in range(9)))  # fmt: skip
        bound, rows = counting_rows()
        ledger = Ledger(site)
        for _ in range(3):
            ledger.take(decided(ledger, asked, bound=bound))
        ledger.context(asked, bound)
        ledger.context(asked, bound)
        self.assertEqual([9, 1, 1, 1], rows)

    def test_verdicts_and_scores_of_a_state_that_it_had_are_those_of_a_new_evaluation(self):
        asked = request({"processor": {"total_cores": 8}})
        ledger, bound = Ledger(view(*({"id": name, "blocks": [cpu("c", 8), cpu("d", 8)]}
                                      for name in "abc"))), bind(POLICY)  # fmt: skip
        fit = decided(ledger, asked, bound=bound)
        other = msgspec.structs.replace(fit, row=(fit.row + 1) % 3)
        for turn in range(3):
            ledger.take(fit)
            ledger.context(asked, bound)
            ledger.take(other)
            ledger.give_back(fit)
            known = ledger.context(asked, bound).evaluation
            new = evaluate(ledger.view, asked, bound)
            self.assertEqual(new.cost.tolist(), known.cost.tolist())
            by_row = [known.scores_of(row) for row in range(3)]
            self.assertEqual([new.scores_of(row) for row in range(3)], by_row)
            table = (lambda one: one.verdicts, lambda one: one.scores)[turn % 2]
            self.assertEqual(table(new).tolist(), table(known).tolist())
            self.assertEqual(new.scores.tolist(), known.scores.tolist())
            ledger.give_back(other)
            ledger.context(asked, bound)

    def test_a_plug_in_that_reads_blocks_one_by_one_is_asked_in_every_state(self):
        asked = request({"processor": {"total_cores": 8}})
        site = view({"id": "a", "blocks": [cpu("c1", 8), cpu("c2", 8)]},
                    {"id": "b", "blocks": [cpu("d", 4)]})  # fmt: skip
        bound = bind(POLICY)
        first = bound.weighers[0]

        def prefers_second(seen, _):
            return np.array([float(table.slots[-1]) for table in seen.block_tables])

        bound = replace(bound, weighers=(replace(first, evaluate=prefers_second),))
        ledger = Ledger(site)
        one = decided(ledger, asked, bound=bound)
        other = msgspec.structs.replace(one, blocks=(1 - one.blocks[0],))
        for fit in (one, other, one):  # alike but for which of two equal blocks is used
            ledger.take(fit)
            score = ledger.context(asked, bound).evaluation.scores[0][0]
            self.assertEqual(float(1 not in fit.blocks), score)
            ledger.give_back(fit)
            ledger.context(asked, bound)

    def test_a_block_given_back_is_free_again_and_can_be_given_back_once(self):
        asked = request({"accelerators": [{}]})
        ledger = Ledger(view({"id": "a", "blocks": [gpu("g")]}))
        fit = decided(ledger, asked)
        with self.assertRaisesRegex(UsageError, "'a': it was not taken"):
            ledger.give_back(fit)
        ledger.take(fit)
        self.assertIsNone(decided(ledger, asked))
        ledger.give_back(fit)
        self.assertEqual(fit, decided(ledger, asked))
        with self.assertRaises(UsageError):
            ledger.give_back(fit)

    def test_what_a_podm_tells_of_its_stocks_is_written_down(self):
        stock = {"uri": "s", "resource": "gib", "total": 9}
        asked = request({"stocks": [{"resource": "gib", "amount": 5}]})
        ledger = Ledger(view({"id": "a", "stocks": [stock]}))
        ledger.correct(0, {0: 6.0})
        self.assertIsNone(decided(ledger, asked))
        ledger.correct(0, {0: 4.0})
        self.assertEqual(((0, 5.0),), decided(ledger, asked).grants)

    def test_the_least_recent_question_is_forgotten(self):
        ledger, bound = Ledger(view({"id": "a", "blocks": [cpu("c", 8)]}), most=2), bind(POLICY)
        asked = [request({"processor": {"total_cores": n}}) for n in (1, 2, 3)]
        evaluations = [ledger.context(one, bound).evaluation for one in asked]
        self.assertIs(evaluations[2], ledger.context(asked[2], bound).evaluation)
        self.assertIsNot(evaluations[0], ledger.context(asked[0], bound).evaluation)


def counting_rows():
    """Return a policy, and the list that gets the number of rows it judges, each time."""
    rows: list[int] = []
    bound = bind(POLICY)
    first = bound.weighers[0]

    def counting(seen, one):
        rows.append(len(seen))
        return first.evaluate(seen, one)

    return replace(bound, weighers=(replace(first, evaluate=counting), *bound.weighers[1:])), rows


def counted(status) -> bool:
    return not status.get("shareable") or "max_compositions" in status
