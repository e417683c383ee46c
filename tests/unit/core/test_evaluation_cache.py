# SPDX-License-Identifier: Apache-2.0
"""Evaluations are cached: only changed rows are evaluated again."""

import json
import unittest

import msgspec
import numpy as np
from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import bound, built_in, cpu, cpus, engine, gpu, lean
from tests.unit.core.sites import AMOUNTS, quietly, sized
from tests.unit.view.test_overlay import composed
from tests.unit.view.test_view import FULL_SITES
from valence_sched.app import App
from valence_sched.core.decider import Decider
from valence_sched.core.evaluation import Evaluation, evaluate
from valence_sched.core.evaluation_cache import (
    MOST_LAG,
    MOST_MIXES,
    EvaluationCache,
    Ledger,
    SplicedSnapshot,
)
from valence_sched.core.explain.report import decision_report
from valence_sched.core.fit.fit import Fit, Fitter, Spending
from valence_sched.core.policy import bind
from valence_sched.errors import PluginError, UsageError
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.need import NameRequirements
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.model.request import FlavorShare, Mix, Request, sealed
from valence_sched.schedulers.filter import FilterScheduler
from valence_sched.testing import contract, request, view
from valence_sched.testing.generate import podms
from valence_sched.view.builder import ViewBuilder, splice

CORES = {"processor": {"total_cores": 8}}


def pod(name: str, blocks: int, pools: int = 1, **words) -> dict:
    return {
        "id": name,
        "pools": [{"id": str(n)} for n in range(pools)],
        "blocks": [{**block, "pools": [str(n % pools)]} for n, block in enumerate(cpus(blocks))],
        **words,
    }


def rows_evaluated(found: Decider) -> int:
    return found._cache.rows_evaluated


class TestWork(unittest.TestCase):
    """Work counted in rows, not in time."""

    def setUp(self):
        self.engine = engine(view(*(pod(f"p{n}", 3, 2) for n in range(100))))

    def work(self, *words: dict, node: dict = CORES) -> int:
        before = rows_evaluated(self.engine)
        for word in words:
            self.engine.select_destinations(request(node, **word))
        return rows_evaluated(self.engine) - before

    def test_the_first_ask_judges_every_row_and_the_second_none(self):
        self.assertEqual(200, self.work({}))
        self.assertEqual(0, self.work({}))

    def test_who_asks_how_many_and_with_what_seed_are_the_same_question(self):
        self.work({})
        same = ({"id": "x"}, {"seed": 4}, {"count": 3}, {"alternates": 2}, {"flavor": "f"})
        self.assertEqual(0, self.work(*same))

    def test_another_need_or_wish_or_policy_is_another_question(self):
        self.work({})
        for words in ({"zone": "z"}, {"podms": ["p1"]}, {"policy": "pack"}):
            self.assertEqual(200, self.work(words), words)
        self.assertEqual(200, self.work({}, node={"processor": {"total_cores": 9}}))

    def test_after_one_podm_was_replaced_only_its_rows_are_judged(self):
        self.work({})
        self.engine.replace(lean(pod("p7", 5, 3)))
        self.assertEqual(3, self.work({}))
        self.assertEqual(0, self.work({}))

    def test_who_lags_far_behind_is_judged_afresh(self):
        self.work({})
        for number in range(MOST_LAG + 1):
            self.engine.replace(lean(pod(f"p{number}", 4, 2)))
        self.assertEqual(200, self.work({}))

    def test_several_changes_are_taken_in_at_once_each_row_once(self):
        self.work({})
        for name in ("p3", "p7", "p3", "new"):
            self.engine.replace(lean(pod(name, 4, 2)))
        self.assertEqual(6, self.work({}))

    def test_each_kept_question_takes_in_the_change_by_itself(self):
        self.work({}, {"zone": "z"})
        self.engine.replace(lean(pod("p7", 5, 2)))
        self.assertEqual(4, self.work({}, {"zone": "z"}))

    def test_only_so_many_questions_are_kept(self):
        for cores in range(1, 70):
            self.work({}, node={"processor": {"total_cores": cores}})
        self.assertEqual(0, self.work({}, node={"processor": {"total_cores": 69}}))
        self.assertEqual(200, self.work({}, node={"processor": {"total_cores": 1}}))


class TestExact(unittest.TestCase):
    """A cached evaluation equals a new one."""

    def test_a_plug_in_that_reads_free_amounts_only_of_a_later_podm_is_asked_again(self):
        def racks(*pool_counts):
            return [
                {"id": f"r{number}", "pools": [{"id": str(n)} for n in range(count)],
                 "stocks": [{"uri": f"s{n}", "resource": "gib", "total": 9 + 3 * n,
                             "pools": [str(n)]} for n in range(count)]}
                for number, count in enumerate(pool_counts)
            ]  # fmt: skip

        asked = {"stocks": [{"resource": "gib", "amount": 3}]}
        caching = engine(view(*racks(1, 1)))
        caching.select_destinations(request(asked))
        later = racks(1, 2)
        caching.replace(lean(later[1]))
        found, new = (
            one.select_destinations(request(asked, count=8))
            for one in (caching, engine(view(*later)))
        )
        self.assertEqual(new.placements, found.placements)

    CHANGES = st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(1, 3), st.booleans()),
        max_size=6,
    )

    @quietly(sized(120))
    @given(CHANGES, st.integers(1, 3))
    def test_decisions_after_changes_equal_those_of_a_fresh_engine(self, changes, every):
        podms = {f"p{n}": pod(f"p{n}", n, 1 + n % 2) for n in range(4)}
        caching = engine(view(*podms.values()))
        words = [{"policy": name, "count": 3, "alternates": 1} for name in ("default", "balanced")]
        for turn, (place, blocks, pools, enabled) in enumerate(changes):
            if turn % every == 0:
                for word in words:
                    caching.select_destinations(request(CORES, **word))
            podms[f"p{place}"] = pod(f"p{place}", blocks, pools, enabled=enabled)
            caching.replace(lean(podms[f"p{place}"]))
        fresh = engine(view(*podms.values()))
        for word in words:
            asked = request(CORES, **word)
            here, there = (decision_report(e.select_destinations(asked)) for e in (caching, fresh))
            self.assertEqual(to_json(there), to_json(here))

    def test_an_earlier_decision_stays_what_it_was(self):
        found = engine(view(pod("a", 3), pod("b", 2)))
        first = found.select_destinations(request(CORES, count=2))
        before = to_json(decision_report(first))
        found.select_destinations(request(CORES, count=5, alternates=1))
        found.replace(lean(pod("a", 0)))
        found.replace(lean(pod("c", 9)))
        found.select_destinations(request(CORES))
        self.assertEqual(before, to_json(decision_report(first)))

    def test_a_plugin_that_fails_on_a_new_podm_is_noted_there_and_until_it_is_gone(self):
        def fragile(view, request):
            if np.isnan(view.number("year")).any():
                raise ValueError("no year")
            return view.all_rows

        def evaluation() -> Evaluation:
            return cache.context(asked, policy).evaluation

        def replace_podm(**facts: float) -> None:
            builder = ViewBuilder(snapshot.view.kinds)
            builder.add(lean({"id": "a", "facts": facts}), "test")
            snapshot.replace(*splice(snapshot.view, 0, builder.view()))

        policy, asked = bound(filters=(fragile,)), request(CORES)
        snapshot = SplicedSnapshot(
            view({"id": "a", "facts": {"year": 2020}}, {"id": "b", "facts": {"year": 2021}})
        )
        cache = EvaluationCache(snapshot)
        first = evaluation()
        replace_podm()
        second = evaluation()
        self.assertEqual((0, 1), (len(first.notes), len(second.notes)))
        replace_podm()
        self.assertEqual(1, len(evaluation().notes), "said twice")
        replace_podm(year=2022)
        third = evaluation()
        self.assertEqual(([], [[True, True]]), (third.notes, third.verdicts.tolist()))
        self.assertEqual((0, 1), (len(first.notes), len(second.notes)))

    def test_a_refused_change_changes_nothing(self):
        found = engine(view(pod("a", 3)))
        before = found.snapshot()
        bad = {"id": "a", "blocks": [{"uri": "x", "pools": ["nowhere"]}]}
        with self.assertRaisesRegex(Exception, "nowhere"):
            found.replace(lean(bad))
        self.assertIs(before, found.snapshot())

    def test_policies_that_ship_are_five(self):
        names = [policy.name for policy in built_in()]
        self.assertEqual(["default", "pack", "balanced", "chance", "fragmentation"], names)


class TestStrict(unittest.TestCase):
    """A plug-in that breaks its contract is an error of a strict decision, at first and later."""

    def test_it_is_raised_when_all_rows_are_evaluated_and_when_some_are_again(self):
        def broken(view, request):
            return np.zeros(len(view), dtype=int) if fails else np.ones(len(view), dtype=bool)

        snapshot = SplicedSnapshot(view(pod("a", 1), pod("b", 1)))
        cache, policy, asked = EvaluationCache(snapshot), bound(filters=(broken,)), request(CORES)
        fails = True
        with self.assertRaisesRegex(PluginError, "broken"):
            cache.context(asked, policy, strict=True)
        self.assertEqual(1, len(cache.context(asked, policy).evaluation.notes))
        fails = False
        self.assertEqual([], cache.context(asked, policy, strict=True).evaluation.notes)
        builder = ViewBuilder(snapshot.view.kinds)
        builder.add(lean(pod("b", 2)), "test")
        snapshot.replace(*splice(snapshot.view, 1, builder.view()))
        fails = True
        with self.assertRaisesRegex(PluginError, "broken"):
            cache.context(asked, policy, strict=True)


class TestMix(unittest.TestCase):
    """Facts of all pools that weighers need for the mix of a request."""

    def setUp(self):
        flavor = {"processor": {"total_cores": 8}, "accelerators": [{}]}
        needs, names = request(flavor).needs, NameRequirements(required=("RARE",))
        rare = FlavorShare(needs, names, 0.001)  # so rare that it is not cached
        self.mix = Mix((FlavorShare(needs), rare))
        self.asked = sealed(replace(request(flavor), mix=self.mix))
        self.site = [self.pod(f"p{n}", 2, traits=["RARE"] if n < 4 else []) for n in range(40)]
        policies = {policy.name: policy for policy in built_in()}
        self.bound = bind(policies["fragmentation"])
        self.ledger = Ledger(view(*self.site))

    @staticmethod
    def pod(name: str, size: int, **words) -> dict:
        return {"id": name, "blocks": [*cpus(size), *(gpu(f"g{n}") for n in range(size))], **words}

    def scarcity(self) -> tuple[float, ...]:
        return self.ledger.context(self.asked, self.bound).request.mix.scarcity

    def take(self, *podms: int) -> None:
        for podm in podms:
            needs = self.asked.needs
            fit = Fitter(needs, self.ledger.view.kinds).fit(self.ledger.view, podm, Spending())
            self.ledger.take(fit)

    def test_the_context_carries_a_request_with_the_scarcity_of_its_snapshot(self):
        self.assertEqual((1.0, 81 / 9), self.scarcity())
        context = self.ledger.context(self.asked, self.bound)
        self.assertEqual(self.asked.id, context.request.id)
        self.assertEqual(self.asked.identity, context.request.identity)
        self.assertNotEqual(self.asked.evaluation_key, context.request.evaluation_key)

    def test_it_is_renewed_after_a_tenth_as_many_changes_as_there_are_pools(self):
        self.ledger = Ledger(view(*self.site, *(self.pod(f"q{n}", 2) for n in range(40))))
        self.assertEqual((1.0, 161 / 9), self.scarcity())
        self.take(*range(7))
        self.assertEqual((1.0, 161 / 9), self.scarcity())
        self.take(7)
        self.assertEqual((1.0, 153 / 5), self.scarcity())  # four of the nodes are on rare hardware

    def test_it_is_renewed_if_more_mixes_than_are_remembered_were_completed_after_it(self):
        self.assertEqual((1.0, 81 / 9), self.scarcity())
        self.take(0)
        self.assertEqual((1.0, 81 / 9), self.scarcity())
        for number in range(MOST_MIXES):
            share = replace(self.mix.shares[1], weight=2.0 + number)
            other = sealed(replace(self.asked, mix=Mix((self.mix.shares[0], share)), id=""))
            self.ledger.context(other, self.bound)
        self.assertEqual((1.0, 80 / 8), self.scarcity())

    def test_one_request_gets_one_request_until_then(self):
        first = self.ledger.context(self.asked, self.bound).request
        self.assertIs(first, self.ledger.context(self.asked, self.bound).request)

    def test_a_request_that_brings_it_is_decided_as_it_was(self):
        carried = self.ledger.context(self.asked, self.bound).request
        before = self.ledger.context(carried, self.bound).evaluation.scores.tolist()
        fresh = Ledger(view(*self.site))
        self.assertEqual(before, fresh.context(carried, self.bound).evaluation.scores.tolist())
        self.take(0, 1, 2, 3, 4)
        self.assertIs(carried, self.ledger.context(carried, self.bound).request)

    def test_a_policy_that_does_not_read_the_mix_leaves_the_request_alone(self):
        bound = bind(Policy(name="room", weighers=(WeigherUse("room"),)))
        self.assertIs(self.asked, self.ledger.context(self.asked, bound).request)

    def test_where_nothing_is_scarce_the_request_stays_as_it_is(self):
        asked = sealed(replace(self.asked, mix=Mix(self.mix.shares[:1]), id=""))
        self.assertIs(asked, self.ledger.context(asked, self.bound).request)


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
    """Blocks are taken and released, and only changed rows are evaluated again."""

    @quietly(sized(180))
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
                ledger.release(taken.pop(step % len(taken)))
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

    def test_scores_of_changed_rows_are_the_bits_of_a_new_evaluation(self):
        builder, flavors_ = ViewBuilder(), App(environ={}).config.flavors()
        for line in podms(40, 30, 1):
            builder.add(msgspec.json.decode(line, type=LeanPodm), "generated")
        site, needs = builder.view(), [flavors_[name].needs for name in ("small", "gpu-large")]
        mix = Mix(tuple(map(FlavorShare, needs)))
        for policy in built_in():
            ledger, bound = Ledger(site), bind(policy)
            for step in range(10):
                context = ledger.context(sealed(Request(needs=needs[step % 2], mix=mix)), bound)
                new = evaluate(ledger.view.without_memo(), context.request, bound)
                self.assertEqual(new.scores.tobytes(), context.evaluation.scores.tobytes())
                for node in FilterScheduler().schedule(context).nodes:
                    ledger.take(node.chosen)

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
            ledger.release(fit)
            known = ledger.context(asked, bound).evaluation
            new = evaluate(ledger.view, asked, bound)
            self.assertEqual(new.cost.tolist(), known.cost.tolist())
            by_row = [known.scores_of(row) for row in range(3)]
            self.assertEqual([new.scores_of(row) for row in range(3)], by_row)
            table = (lambda one: one.verdicts, lambda one: one.scores)[turn % 2]
            self.assertEqual(table(new).tolist(), table(known).tolist())
            self.assertEqual(new.scores.tolist(), known.scores.tolist())
            ledger.release(other)
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
        for fit in (one, other, one):  # they differ only in which of two equal blocks is used
            ledger.take(fit)
            score = ledger.context(asked, bound).evaluation.scores[0][0]
            self.assertEqual(float(1 not in fit.blocks), score)
            ledger.release(fit)
            ledger.context(asked, bound)

    def test_a_block_given_back_is_free_again_and_can_be_given_back_once(self):
        asked = request({"accelerators": [{}]})
        ledger = Ledger(view({"id": "a", "blocks": [gpu("g")]}))
        fit = decided(ledger, asked)
        with self.assertRaisesRegex(UsageError, "'a': it was not taken"):
            ledger.release(fit)
        ledger.take(fit)
        self.assertIsNone(decided(ledger, asked))
        ledger.release(fit)
        self.assertEqual(fit, decided(ledger, asked))
        with self.assertRaises(UsageError):
            ledger.release(fit)

    def test_equal_nodes_of_a_stock_are_given_back_one_by_one(self):
        stock = {"uri": "s", "resource": "gib", "total": 9}
        asked = request({"stocks": [{"resource": "gib", "amount": 3}]})
        ledger = Ledger(view({"id": "a", "stocks": [stock]}))
        fit = decided(ledger, asked)
        for _ in range(3):
            ledger.take(fit)
        self.assertIsNone(decided(ledger, asked))
        for _ in range(3):
            ledger.release(fit)
            self.assertEqual(fit, decided(ledger, asked))
        with self.assertRaises(UsageError):
            ledger.release(fit)

    def test_the_blocks_of_a_removed_node_are_free(self):
        asked = request({"accelerators": [{}]})
        ledger = Ledger(view({"id": "a", "blocks": [gpu("g", status={"state": "Composed"})]}))
        self.assertIsNone(decided(ledger, asked))
        ledger.remove_node(0, [0])
        self.assertEqual((0,), decided(ledger, asked).blocks)

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
    """Return a policy, and a list with the number of rows of each evaluation."""
    rows: list[int] = []
    bound = bind(POLICY)
    first = bound.weighers[0]

    def counting(seen, one):
        rows.append(len(seen))
        return first.evaluate(seen, one)

    return replace(bound, weighers=(replace(first, evaluate=counting), *bound.weighers[1:])), rows


def counted(status) -> bool:
    return not status.get("shareable") or "max_compositions" in status
