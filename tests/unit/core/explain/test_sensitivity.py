# SPDX-License-Identifier: Apache-2.0
"""The smallest change of one weight, and of one need, that changes the choice."""

import dataclasses
import unittest
from typing import Any

import msgspec
from hypothesis import given, settings, strategies as st

from tests.unit.core.deciders import cpu, engine, gpu
from tests.unit.core.sites import quietly, sized
from valence_sched.core.batch import Attempt
from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.core.explain import sensitivity
from valence_sched.core.explain.report import explain_decision as explain
from valence_sched.core.explain.sensitivity import AmountSearch, FlatChoices, overtakings
from valence_sched.model.decision import Sensitivity
from valence_sched.model.need import Need
from valence_sched.model.policy import FilterUse, Pick, Policy, WeigherUse, WeightOverrides
from valence_sched.model.request import Request, sealed
from valence_sched.model.zone import Rival
from valence_sched.testing import request, view
from valence_sched.words.decision import runner_up_line, sensitivity_line

FILTERS = (FilterUse("enabled"), FilterUse("capacity"), FilterUse("devices"))
CORES = {"processor": {"total_cores": 8}}


def two_wishes(room: float, liking: float, **words: Any) -> Policy:
    """Return a policy that weighs room against the number of failed compositions."""
    uses = (WeigherUse("room", room), WeigherUse("failures", liking))
    return Policy(name="two", filters=FILTERS, weighers=uses, **words)


def podm(name: str, free: int, used: int, liked: float) -> dict[str, Any]:
    """Return a podm of 8-core blocks, some of them free, with this score of failures, 0..1."""
    composed = {"status": {"state": "Composed"}}
    blocks = [cpu(f"f{n}", 8) for n in range(free)]
    blocks += [cpu(f"u{n}", 8, **composed) for n in range(used)]
    return {"id": name, "blocks": blocks, "facts": {"failures": (1 - liked) / max(liked, 1e-9)}}


def decided(policy: Policy, asked: Request, *podms: dict[str, Any]) -> Decision:
    asked = msgspec.structs.replace(asked, policy=policy.name)
    return engine(view(*podms), policy).select_destinations(asked)


def changes_of(decision: Decision, kind: str) -> list[Sensitivity]:
    return [change for change in explain(decision).flips if change.of == kind]


def with_weight(policy: Policy, name: str, weight: float) -> Policy:
    uses = tuple(WeigherUse(u.name, weight if u.name == name else u.weight, u.options)
                 for u in policy.weighers)  # fmt: skip
    return msgspec.structs.replace(policy, weighers=uses)


def with_amount(asked: Request, label: str, amount: float) -> Request:
    """Return the request with another amount of one need and the same id, and so the same lots."""
    needs: list[Need] = []
    for need in asked.needs:
        if need.label != label:
            needs.append(need)
        elif amount:
            needs.append(msgspec.structs.replace(need, amount=amount))
    return sealed(msgspec.structs.replace(asked, needs=tuple(needs)))


def chosen(decision: Decision) -> tuple[str, str] | None:
    if not decision.placements:
        return None
    first = decision.placements[0].chosen
    return first.podm, first.pool


class TestWeights(unittest.TestCase):
    """By hand: a has room (10 - 1) / 10 = 0.9, b (5 - 1) / 10 = 0.4, and 0.4 more of failures."""

    def setUp(self):
        self.podms = (podm("a", 10, 0, 0.1), podm("b", 5, 5, 0.5))

    def test_the_crossing_is_found_to_the_thousandth(self):
        """0.9 w + 0.1 equals 0.4 w + 0.5 at a weight of room of 0.8."""
        decision = decided(two_wishes(1, 1), request(CORES), *self.podms)
        self.assertEqual("a", decision.placements[0].chosen.podm)
        found = {change.name: change for change in changes_of(decision, "weight")}
        self.assertIn(found["room"].becomes, (0.8, 0.799))  # at 0.8 lots decide
        self.assertIn(found["failures"].becomes, (1.25, 1.251))
        change = found["failures"]
        self.assertEqual(("b", "a"), (change.podm, change.instead_of))
        self.assertRegex(
            sensitivity_line(change),
            r"^b instead, if the weight of failures is 1\.251? instead of 1",
        )

    def test_the_smallest_change_comes_first(self):
        decision = decided(two_wishes(1, 1), request(CORES), *self.podms)
        sizes = [sensitivity.relative_size(change) for change in explain(decision).flips]
        self.assertEqual(sorted(sizes), sizes)

    def test_a_weight_that_counts_for_nothing_may_be_raised_from_0(self):
        decision = decided(two_wishes(1, 0), request(CORES), *self.podms)
        found = {change.name: change for change in changes_of(decision, "weight")}
        self.assertEqual(0, found["failures"].was)
        self.assertIn(found["failures"].becomes, (1.25, 1.251))

    def test_a_pool_that_is_best_in_everything_cannot_be_outweighed(self):
        decision = decided(two_wishes(1, 1), request(CORES),
                           podm("a", 10, 0, 0.9), podm("b", 5, 5, 0.5))  # fmt: skip
        rises = [change for change in changes_of(decision, "weight") if change.becomes]
        self.assertEqual([], rises)

    def test_what_does_not_fit_flips_nothing(self):
        only = podm("b", 5, 5, 0.9)
        only["pools"] = [{"id": "p", "limits": {"Compute": {"max": 0}}}]
        for block in only["blocks"]:
            block["pools"] = ["p"]
        decision = decided(two_wishes(1, 0.1), request(CORES), self.podms[0], only)
        self.assertEqual([], changes_of(decision, "weight"))

    def test_drawn_lots_are_told_and_no_weight_is_blamed(self):
        decision = decided(two_wishes(1, 1, pick=Pick(2)), request(CORES), *self.podms)
        self.assertEqual((), explain(decision).flips)
        self.assertIn("drawn among the best 2", explain(decision).notes[0])
        self.assertIsNone(explain(decision).runner_up)

    def test_chance_says_that_lots_decide(self):
        asked = msgspec.structs.replace(request(CORES), policy="chance")
        explanation = explain(engine(view(*self.podms)).select_destinations(asked))
        self.assertEqual(((), None), (explanation.flips, explanation.runner_up))
        self.assertIn("does not use weights", explanation.notes[0])


class TestRunnerUp(unittest.TestCase):
    """The runner-up, and the weighers that made the difference."""

    def test_the_differences_add_up_to_the_margin(self):
        decision = decided(two_wishes(3, 1), request(CORES), podm("a", 10, 0, 0.1),
                           podm("b", 5, 5, 0.5), podm("c", 2, 8, 0.2))  # fmt: skip
        runner_up = explain(decision).runner_up
        self.assertEqual("b", runner_up.podm)
        by = {one.weigher: one.difference for one in runner_up.differences}
        self.assertEqual({"room": 0.375, "failures": -0.1}, by)
        self.assertEqual(0.275, runner_up.margin)
        self.assertEqual("b (all), 0.275000 behind: room +0.375000, failures -0.100000",
                         runner_up_line(runner_up))  # fmt: skip

    def test_the_parts_of_every_candidate_add_up_to_its_score(self):
        decision = decided(two_wishes(3, 1), request(CORES), podm("a", 10, 0, 0.1),
                           podm("b", 5, 5, 0.5), podm("c", 2, 8, 0.2))  # fmt: skip
        candidates = explain(decision).candidates
        self.assertEqual(["a", "b", "c"], [one.podm for one in candidates])
        for one in candidates:
            self.assertAlmostEqual(one.score, sum(part.part for part in one.parts), 5)
            self.assertEqual(sorted(one.parts, key=lambda part: -part.part), list(one.parts))

    def test_equals_are_said_to_be_equal(self):
        decision = decided(two_wishes(1, 0), request(CORES), podm("a", 2, 0, 0), podm("b", 2, 0, 0))
        self.assertIn("tie, broken by the seed", runner_up_line(explain(decision).runner_up))

    def test_a_single_candidate_has_none(self):
        decision = decided(two_wishes(1, 0), request(CORES), podm("a", 2, 0, 0))
        self.assertIsNone(explain(decision).runner_up)


class TestAmounts(unittest.TestCase):
    """The smallest increase and decrease of a need that change the choice."""

    def test_one_core_more_than_the_chosen_has_goes_elsewhere(self):
        decision = decided(two_wishes(0, 1), request({"processor": {"total_cores": 16}}),
                           podm("a", 2, 0, 0.9), podm("b", 5, 0, 0.1))  # fmt: skip
        texts = [*map(sensitivity_line, changes_of(decision, "need"))]
        self.assertEqual(["b instead, with 17 cores instead of 16"], texts)

    def test_when_nothing_fits_the_least_that_is_given_up_is_named(self):
        decision = decided(two_wishes(1, 1), request({"processor": {"total_cores": 32}}),
                           podm("a", 2, 0, 0.9), podm("b", 3, 1, 0.1))  # fmt: skip
        self.assertEqual("nothing_fits", decision.outcome)
        self.assertEqual(["b fits, with 24 cores instead of 32"],
                         [*map(sensitivity_line, changes_of(decision, "need"))])  # fmt: skip

    def test_a_need_may_have_to_go_altogether(self):
        asked = request({**CORES, "accelerators": [{"kind": "GPU", "count": 2}]})
        decision = decided(two_wishes(1, 1), asked, podm("a", 2, 0, 0.9))
        self.assertEqual(
            ["a fits, without the 2 GPU"], [*map(sensitivity_line, changes_of(decision, "need"))]
        )

    def test_a_need_that_others_are_bound_to_stays(self):
        groups = [{"kind": "GPU", "count": 2, "name": "cards", "same": "switch"}]
        asked = request({**CORES, "accelerators": groups})
        decision = decided(two_wishes(1, 1), asked, podm("a", 2, 0, 0.9))
        self.assertEqual([], changes_of(decision, "need"))

    def test_too_much_for_everybody_is_a_flip_too(self):
        decision = decided(two_wishes(1, 1), request(CORES), podm("a", 2, 0, 0.9))
        self.assertEqual(["nothing fits, with 17 cores instead of 8"],
                         [*map(sensitivity_line, changes_of(decision, "need"))])  # fmt: skip

    def test_devices_are_counted_one_by_one(self):
        rich = {
            "id": "rich",
            "blocks": [cpu("c", 8), gpu("g1"), gpu("g2")],
            "facts": {"failures": 1},
        }
        poor = {"id": "poor", "blocks": [cpu("c", 8), gpu("g1")]}
        asked = request({**CORES, "accelerators": [{"kind": "GPU", "count": 1}]})
        decision = decided(two_wishes(0, 1), asked, rich, poor)
        self.assertIn("rich instead, with 2 GPU instead of 1",
                      [*map(sensitivity_line, changes_of(decision, "need"))])  # fmt: skip

    def test_memory_moves_by_whole_gib(self):
        small = {"id": "small", "blocks": [cpu("c", 8, 4096)]}
        large = {"id": "large", "blocks": [cpu("c", 8, 9000)], "facts": {"failures": 1}}
        asked = request({"memory": {"capacity_mib": 2048}})
        decision = decided(two_wishes(0, 1), asked, small, large)
        self.assertEqual(["large instead, with 5 GiB memory instead of 2 GiB"],
                         [*map(sensitivity_line, changes_of(decision, "need"))])  # fmt: skip

    def test_of_alternatives_all_are_decided_on_again(self):
        card = {
            "uri": "g",
            "devices": {"accelerators": [{"kind": "GPU", "model": "T4", "count": 4}]},
        }
        best = {"uri": "g", "devices": {"accelerators": [{"kind": "GPU", "model": "A100"}]}}
        podms = (
            {"id": "a", "blocks": [cpu("a", 8), best]},
            {"id": "b", "blocks": [cpu("b", 16), card]},
        )
        either = [{"accelerators": [{"model": model}]} for model in ("A100", "T4")]
        for cores, place, expected in (
            # a need of both alternatives: the first is also tried with less of it
            (16, "b", {("cores", 8, "a"), ("cores", 17, None), ("GPU T4", 5, None)}),
            # and if the first no longer fits, the second may
            (8, "a", {("cores", 9, "b"), ("GPU A100", 2, "b")}),
        ):
            asked = request({"processor": {"total_cores": cores}}, first_of=either)
            decision = decided(two_wishes(1, 0), asked, *podms)
            self.assertEqual(place, chosen(decision)[0])
            found = {
                (change.name, change.becomes, change.podm)
                for change in changes_of(decision, "need")
            }
            self.assertEqual(expected, {change for change in found if change[1]})

    def test_where_no_alternative_fits_the_least_that_helps_any_is_named(self):
        podms = ({"id": "a", "blocks": [cpu("a", 8)]}, {"id": "b", "blocks": [cpu("b", 15)]})
        either = [{"nics": [{}]}, {"processor": {"sockets": 1}}]
        asked = request({"processor": {"total_cores": 16}}, first_of=either)
        (change,) = changes_of(decided(two_wishes(1, 0), asked, *podms), "need")
        self.assertEqual(("cores", 15, "b"), (change.name, change.becomes, change.podm))

    def test_where_a_group_that_stays_together_begins_nothing_is_blamed(self):
        podms = ({**podm("a", 0, 0, 0.5), "blocks": [cpu("a1", 64)], "zone": "x"},
                 {**podm("b", 2, 0, 0.4), "zone": "y"})  # fmt: skip
        together, policy = {"name": "g", "affinity": ["zone"]}, two_wishes(1, 1)
        policy = msgspec.structs.replace(policy, filters=(*FILTERS, FilterUse("spread")))
        for count, place, has_changes in ((2, "b", False), (1, "a", True)):
            asked = request({"processor": {"total_cores": 4}}, count=count, group=together)
            decision = decided(policy, asked, *podms)
            self.assertEqual(place, chosen(decision)[0])
            self.assertEqual(has_changes, bool(explain(decision).flips))
            self.assertEqual(
                not has_changes, "the group determines" in str(explain(decision).notes)
            )

    def test_the_tries_are_counted_and_what_is_cut_short_is_not_reported(self):
        decision = decided(two_wishes(1, 1), request(CORES), podm("a", 2, 0, 0.9))
        amounts = AmountSearch(FlatChoices(decision, decision.batch.nodes[0].chosen.row))
        amounts._tries = 10**6
        self.assertEqual(([], True), (list(amounts.changes()), amounts.out_of_tries))

    def test_the_view_forgets_what_was_tried(self):
        decision = decided(two_wishes(1, 1), request(CORES), podm("a", 2, 0, 0.9))
        before = set(decision.view._memo)
        _ = explain(decision)
        self.assertEqual(before, set(decision.view._memo) & before)
        self.assertLess(len(decision.view._memo) - len(before), 4)

    def test_where_all_or_nothing_is_asked_no_need_is_blamed_for_the_number(self):
        decision = decided(two_wishes(1, 1), request(CORES), podm("a", 2, 0, 0.9))
        asked = msgspec.structs.replace(decision.request, count=99)
        many = Attempt(dataclasses.replace(decision.context, request=asked), decision.batch)
        explanation = explain(Decision([many]))
        self.assertEqual((), explanation.flips)
        self.assertIn("one node would fit", explanation.notes[0])


@st.composite
def sites(draw: st.DrawFn) -> list[dict[str, Any]]:
    return [
        podm(
            f"p{n}",
            draw(st.integers(0, 5)),
            draw(st.integers(0, 5)),
            draw(st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.9, 1.0])),
        )
        for n in range(draw(st.integers(1, 5)))
    ]


WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0])


class TestRival(unittest.TestCase):
    """A rival comes from another zone, which may send anything."""

    def test_numbers_beyond_those_of_a_weigher_are_refused_or_harmless(self):
        decision = decided(two_wishes(1, 1), request(CORES), podm("a", 2, 0, 0.9))
        for text, is_refused in (
            ('{"cost": 0, "lot": 1208925819614629174706176, "scores": {"room": 1000000}}', False),
            ('{"cost": 0, "lot": 1, "scores": {"another": 3}}', False),
            ('{"cost": 0, "lot": 1, "scores": {"room": 99999999999999}}', True),
            ('{"cost": 99999999999999999999999, "lot": 1, "scores": {}}', True),
            ('{"cost": -1, "lot": 1, "scores": {}}', True),
        ):
            with self.subTest(text):
                if is_refused:
                    self.assertRaises(msgspec.ValidationError, msgspec.json.decode, text,
                                      type=Rival)  # fmt: skip
                else:
                    rival = msgspec.json.decode(text, type=Rival)
                    self.assertIsInstance(overtakings(decision.context, rival), list)


class TestEveryFlip(unittest.TestCase):
    """Every reported change changes the choice of a new engine, and no smaller change does."""

    @quietly(sized(200))
    @given(sites(), WEIGHTS, WEIGHTS, st.integers(1, 24), st.integers(0, 3))
    def test_a_fresh_engine_agrees(self, podms, room, liking, cores, seed):
        policy = two_wishes(room, liking)
        asked = request({"processor": {"total_cores": cores}}, seed=seed, policy="two")
        decision = decided(policy, asked, *podms)
        for change in explain(decision).flips:
            if change.of == "weight":
                changed, again = with_weight(policy, change.name, change.becomes), asked
            else:
                changed, again = policy, with_amount(asked, change.name, change.becomes)
            fresh = Decider(view(*podms), [changed]).select_destinations(again)
            here = None if change.podm is None else (change.podm, change.pool)
            self.assertEqual(here, chosen(fresh), change)
            self.assertNotEqual(chosen(decision), chosen(fresh), change)

    @quietly(sized(60))
    @given(sites(), WEIGHTS, WEIGHTS, st.integers(0, 3))
    def test_no_smaller_change_of_a_weight_does_it(self, podms, room, liking, seed):
        """On a grid of 1/20 from 0 to 4, with all other weights unchanged."""
        policy = two_wishes(room, liking)
        asked = request(CORES, seed=seed, policy="two")
        decision = decided(policy, asked, *podms)
        if not decision.placements:
            return
        found = {
            change.name: abs(change.becomes - change.was)
            for change in changes_of(decision, "weight")
        }
        site = view(*podms)
        for use in policy.weighers:
            least = found.get(use.name)
            for step in range(81):
                weight = step / 20
                if least is not None and abs(weight - use.weight) > least - 0.0005:
                    continue
                changed = with_weight(policy, use.name, weight)
                fresh = Decider(site, [changed]).select_destinations(asked)
                self.assertEqual(chosen(decision), chosen(fresh), (use.name, weight, found))

    @quietly(sized(150))
    @given(sites(), st.integers(1, 24))
    def test_a_step_before_a_flip_of_a_need_changes_nothing(self, podms, cores):
        asked = request({"processor": {"total_cores": cores}}, policy="two")
        decision = decided(two_wishes(1, 1), asked, *podms)
        for change in changes_of(decision, "need"):
            before = change.becomes - (1 if change.becomes > change.was else -1)
            fresh = Decider(view(*podms), [two_wishes(1, 1)])
            again = fresh.select_destinations(with_amount(asked, change.name, before))
            self.assertEqual(chosen(decision), chosen(again), change)


class TestOverrides(unittest.TestCase):
    """Weights that differ by aggregate or zone."""

    @settings(max_examples=50)
    @given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["x", "y", None]),
                              st.sampled_from([(), ("gold",), ("gold", "old")])),
                    min_size=1, max_size=5))  # fmt: skip
    def test_the_parts_of_a_score_add_up_to_it(self, drawn):
        """With the weights of the row; so the differences add up to the margin."""
        other = WeightOverrides({"gold": 5.0, "old": 0.0}, {"x": 0.5})
        uses = (WeigherUse("room", 1.0), WeigherUse("failures", 2.0, overrides=other))
        policy = Policy(name="mine", filters=FILTERS, weighers=uses)
        podms = [{**podm(str(n), free, 2, 0.7 / (n + 1)), "zone": zone, "aggregates": aggregates}
                 for n, (free, zone, aggregates) in enumerate(drawn)]  # fmt: skip
        explanation = explain(decided(policy, request(CORES), *podms))
        for one in explanation.candidates:
            self.assertAlmostEqual(one.score, sum(part.part for part in one.parts), 5)
        if explanation.runner_up:
            found = sum(one.difference for one in explanation.runner_up.differences)
            self.assertAlmostEqual(explanation.runner_up.margin, found, 5)

    def test_no_weight_is_tried_and_a_note_says_so(self):
        other = WeightOverrides({"gold": 5.0})
        uses = (WeigherUse("room", 1.0), WeigherUse("failures", 1.0, overrides=other))
        policy = Policy(name="mine", filters=FILTERS, weighers=uses)
        decision = decided(policy, request(CORES), podm("a", 9, 0, 0.1), podm("b", 1, 8, 0.9))
        self.assertEqual([], changes_of(decision, "weight"))
        self.assertIn("sensitivity: weights differ by aggregate or zone: no other weight was tried",
                      explain(decision).notes)  # fmt: skip
