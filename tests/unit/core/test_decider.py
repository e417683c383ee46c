# SPDX-License-Identifier: Apache-2.0
"""The scheduler in this process: decisions, their reports, and refusals."""

import unittest

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from tests.unit.core.deciders import bound, cpu, cpus, engine, engine_of, gpu, lean
from tests.unit.core.fit.covers import podm, properties
from tests.unit.core.test_decision import HARD, SPLIT, WithoutOptimiser, asked, decider
from tests.unit.core.test_offers import APART, CORES, candidates, query, site
from valence_sched.core.explain.report import decision_report, funnel_steps
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.core.policy import BoundPolicies
from valence_sched.errors import (
    DecisionUndecided,
    PluginError,
    RequestError,
    StaleOffer,
    UnknownName,
)
from valence_sched.model.decision import Report
from valence_sched.model.inventory import to_json
from valence_sched.model.need import NameRequirements
from valence_sched.model.policy import FilterUse, Pick, Policy, WeigherUse
from valence_sched.model.request import FlavorShare, Mix, Request
from valence_sched.model.zone import OtherCandidate, ZoneSupplies
from valence_sched.planning.fit_counts import count_fits
from valence_sched.testing import request, view

EIGHT_CORES = {"processor": {"total_cores": 8}}
TIED = [{"id": f"p{number}", "blocks": cpus(2)} for number in range(8)]


class TestDeterminism(unittest.TestCase):
    """Same request, same seed, same answer, byte for byte."""

    def test_the_same_request_and_seed_give_the_same_bytes(self):
        for policy in ("default", "pack", "balanced", "chance"):
            asked = request(EIGHT_CORES, policy=policy, count=5, alternates=2, seed=7)
            reports = [
                to_json(decision_report(engine_of(*TIED).select_destinations(asked)))
                for _ in range(3)
            ]
            self.assertEqual(1, len(set(reports)), policy)

    def test_other_seeds_choose_otherwise_among_ties(self):
        found = engine_of(*TIED)
        chosen = {
            found.select_destinations(request(EIGHT_CORES, seed=seed)).placements[0].chosen.podm
            for seed in range(100)
        }
        self.assertEqual({podm["id"] for podm in TIED}, chosen)

    def test_a_seed_does_not_choose_the_worse(self):
        site = [*TIED, {"id": "roomy", "blocks": cpus(9)}]
        found = engine_of(*site)
        for seed in range(30):
            decision = found.select_destinations(request(EIGHT_CORES, seed=seed))
            self.assertEqual("roomy", decision.placements[0].chosen.podm)

    def test_the_order_of_the_inventory_does_not_matter(self):
        asked = request(EIGHT_CORES, count=9)
        chosen = [
            [p.chosen for p in engine_of(*site).select_destinations(asked).placements]
            for site in (TIED, TIED[::-1])
        ]
        self.assertEqual(*chosen)

    def test_the_report_makes_the_round_trip(self):
        report = decision_report(
            engine_of(*TIED).select_destinations(request(EIGHT_CORES, alternates=2))
        )
        self.assertEqual(
            to_json(report), to_json(msgspec.json.decode(to_json(report), type=Report))
        )

    def test_the_digest_of_the_inventory_moves_with_anything_that_was_decided_on(self):
        def digest(*podms: dict) -> str:
            decision = engine_of(*podms).select_destinations(request(EIGHT_CORES))
            return decision_report(decision).inventory.digest

        podm = {"id": "a", "blocks": [cpu("c", 8)]}
        used = cpu("c", 8, status={"state": "Composed"})
        others = [
            {**podm, "zone": "z"},
            {**podm, "id": "b"},
            {**podm, "blocks": [cpu("c", 9)]},
            {**podm, "blocks": [cpu("d", 8)]},
            {**podm, "blocks": [used]},
            {**podm, "facts": {"x": 1}},
            {**podm, "stocks": [{"uri": "s", "resource": "r", "total": 1}]},
        ]
        self.assertEqual(digest(podm), digest(dict(podm)))
        self.assertEqual(8, len({digest(podm), *map(digest, others)}))


class TestVerdicts(unittest.TestCase):
    """One verdict for each pod manager, with the reason."""

    SITE = view(
        {"id": "best", "blocks": [*cpus(4), gpu("g")]},
        {"id": "next", "blocks": [*cpus(2), gpu("g")]},
        {"id": "full", "blocks": [cpu("c", 8, status={"state": "Composed"}), gpu("g")]},
        {"id": "offline", "status": "Offline", "blocks": [*cpus(4), gpu("g")]},
        {"id": "plain", "blocks": cpus(9)},
        {
            "id": "tight",
            "pools": [{"id": "p", "limits": {"Compute": {"max": 1}}}],
            "blocks": [{**b, "pools": ["p"]} for b in (*cpus(4, 4), gpu("g"))],
        },
    )
    NODE = {**EIGHT_CORES, "accelerators": [{"model": "A100"}]}  # noqa: RUF012

    def decide(self, **words):
        return engine(self.SITE).select_destinations(request(self.NODE, **words))

    def test_every_podm_has_one_verdict_the_chosen_first(self):
        verdicts = list(Verdicts(self.decide(alternates=1)).podm_verdicts())
        outcomes = {v.podm: v.outcome for v in verdicts}
        self.assertEqual(
            {
                "best": "chosen",
                "next": "alternate",
                "full": "rejected",
                "offline": "rejected",
                "plain": "rejected",
                "tight": "rejected",
            },
            outcomes,
        )
        self.assertEqual(["best", "next"], [v.podm for v in verdicts[:2]])

    def test_a_podm_that_fits_and_was_not_asked_for_says_how_far_behind_it_is(self):
        verdict = next(v for v in Verdicts(self.decide()).podm_verdicts() if v.podm == "next")
        self.assertEqual("fits", verdict.outcome)
        self.assertGreater(verdict.behind, 0)
        self.assertIsNone(verdict.reason)

    def test_the_reason_names_the_filter_what_it_needs_and_what_there_is(self):
        reasons = {v.podm: v.reason for v in Verdicts(self.decide()).podm_verdicts() if v.reason}
        for which, name, need, have in (
            ("full", "capacity", 8, 0),
            ("offline", "alive", "Online", "Offline"),
            ("plain", "devices", 1, 0),
            ("tight", "fit", 8, 4),
        ):
            with self.subTest(which):
                reason = reasons[which]
                self.assertEqual((name, need, have), (reason.filter, reason.need, reason.have))
        self.assertEqual("devices: GPU A100: needs 1, has 0", reasons["plain"].text)

    def test_the_funnel_counts_pools_through_each_filter_in_order(self):
        steps = {step.filter: (step.came_in, step.went_on) for step in funnel_steps(self.decide())}
        self.assertEqual((6, 6), steps["enabled"])
        self.assertEqual((6, 5), steps["alive"])
        self.assertEqual((5, 4), steps["capacity"])
        self.assertEqual((4, 3), steps["devices"])

    def test_a_reason_given_after_the_batch_speaks_of_what_was_left(self):
        decision = self.decide(count=9, min_count=1)
        self.assertEqual("placed_in_part", decision.outcome)
        self.assertEqual(2, len(decision.placements))

    def test_the_score_of_a_candidate_is_what_its_cost_says(self):
        (placed,) = self.decide(policy="balanced").placements
        chosen = placed.chosen
        weights = {"fragmentation": 12, "balance": 0.4, "room": 0.2, "level": 6, "tight": 0.2}
        mean = sum(weights[name] * score for name, score in chosen.scores.items()) / 18.8
        self.assertAlmostEqual(mean, chosen.score, 5)
        self.assertAlmostEqual(1 - chosen.cost / 18_800_000_000, chosen.score, 6)

    def test_ranking_gives_candidates_best_first_and_no_more_than_asked(self):
        found = engine(self.SITE)
        ranking = found.rank(request(self.NODE), 9)
        self.assertEqual(["best", "next"], [c.podm for c in ranking.candidates])
        costs = [c.cost for c in ranking.candidates]
        self.assertEqual(sorted(costs), costs)
        self.assertEqual(1, len(found.rank(request(self.NODE), 1).candidates))
        chosen = self.decide().placements[0].chosen
        self.assertEqual(chosen, ranking.candidates[0])


class TestRefused(unittest.TestCase):
    """Requests that are probably a mistake."""

    def refuses(self, kind, text, asked, *policies):
        with self.assertRaisesRegex(kind, text):
            engine(view(*TIED), *policies).select_destinations(asked)

    def test_an_unknown_policy(self):
        self.refuses(UnknownName, "no policy named 'packk' .did you mean 'pack'",
                     request(EIGHT_CORES, policy="packk"))  # fmt: skip

    def test_an_unknown_podm_asked_for_or_excluded(self):
        for words in ({"podms": ["p9"]}, {"exclude_podms": ["p9"]}):
            self.refuses(UnknownName, "no pod manager named 'p9' .did you mean 'p",
                         request(EIGHT_CORES, **words))  # fmt: skip

    def test_nothing_asked_for(self):
        self.refuses(RequestError, "has no needs", Request())

    def test_a_wish_that_no_filter_of_the_policy_reads(self):
        asked = request(EIGHT_CORES, locations=["z"], policy="chance")
        self.refuses(RequestError, "policy 'chance' has no filter 'location'", asked)

    def test_unknown_attributes_reject_unless_the_policy_allows_or_penalises(self):
        unreported = {"id": "untold", "blocks": [cpu("c", None), cpu("d", None)]}
        reported = {"id": "told", "blocks": [cpu("c", 8)]}
        use = (FilterUse("capacity"),)
        for unknown, alone, both in (
            ("reject", "nothing_fits", {"told"}),
            ("allow", "placed", {"told", "untold"}),
            ("penalise", "placed", {"told"}),
        ):
            with self.subTest(unknown):
                policy = Policy(name="mine", filters=use, unknown=unknown)
                asked = request(EIGHT_CORES, policy="mine")
                found = engine(view(unreported), policy).select_destinations(asked)
                self.assertEqual(alone, found.outcome)
                found = engine(view(unreported, reported), policy)
                chosen = {
                    found.select_destinations(request(EIGHT_CORES, policy="mine", seed=seed))
                    .placements[0]
                    .chosen.podm
                    for seed in range(30)
                }
                self.assertEqual(both, chosen)

    def test_a_policy_without_filters_still_places_only_what_fits(self):
        site = view({"id": "small", "blocks": cpus(1, 4)}, {"id": "fits", "blocks": cpus(1)})
        policy = Policy(name="mine", pick=Pick(1))
        for seed in range(10):
            asked = request(EIGHT_CORES, policy="mine", seed=seed)
            (placed,) = engine(site, policy).select_destinations(asked).placements
            self.assertEqual("fits", placed.chosen.podm)


class TestReplace(unittest.TestCase):
    """The next decision sees a replaced pod manager."""

    def test_a_podm_that_filled_up_is_not_chosen_again(self):
        found = engine_of({"id": "a", "blocks": cpus(1)}, {"id": "b", "blocks": cpus(1)})
        first = found.select_destinations(request(EIGHT_CORES)).placements[0].chosen.podm
        found.replace(lean({"id": first, "blocks": [cpu("c0", 8, status={"state": "Composed"})]}))
        second = found.select_destinations(request(EIGHT_CORES)).placements[0].chosen.podm
        self.assertNotEqual(first, second)

    def test_a_new_podm_is_seen(self):
        found = engine_of({"id": "a"})
        self.assertEqual("nothing_fits", found.select_destinations(request(EIGHT_CORES)).outcome)
        found.replace(lean({"id": "b", "blocks": cpus(1)}))
        self.assertEqual("placed", found.select_destinations(request(EIGHT_CORES)).outcome)
        self.assertEqual(["a", "b"], found.snapshot().podm_ids)

    def test_a_view_that_was_looked_at_never_changes(self):
        found = engine_of({"id": "a"})
        seen = found.snapshot()
        found.replace(lean({"id": "a", "blocks": cpus(5)}))
        self.assertEqual((0, 5), (seen.block_count, found.snapshot().block_count))


class TestRanking(unittest.TestCase):
    """Candidates of one node, best first."""

    def test_what_is_settled_is_said_without_a_word_of_what_is_missing(self):
        site = view(*({"id": name, "blocks": cpus(1)} for name in "abc"))
        asked = request({"processor": {"total_cores": 8}})
        found = engine(site).rank(asked, 2)
        self.assertEqual((2, ()), (len(found.candidates), found.missing))
        self.assertEqual(3, len(engine(site).rank(asked, 9).candidates))
        self.assertEqual(0, len(engine(site).rank(asked, 0).candidates))


class TestBrokenPlugin(unittest.TestCase):
    def test_only_a_strict_decider_raises_its_error(self):
        def broken(_view, _request):
            raise ValueError("no number")

        class Policies(BoundPolicies):
            def policy(self, name):
                return bound(filters=(broken,))

        lenient, strict = engine(view(*TIED)), engine(view(*TIED), strict=True)
        for one in (lenient, strict):
            one.bound_policies = Policies(())
        self.assertEqual([], list(lenient.select_destinations(request(EIGHT_CORES)).placements))
        with self.assertRaisesRegex(PluginError, "broken.*no number"):
            strict.select_destinations(request(EIGHT_CORES))


class TestPrepare(unittest.TestCase):
    """Fields that a request gets before its decision."""

    def test_an_amount_that_no_pool_has_and_that_is_a_misspelt_one_is_refused(self):
        decider = engine(view({"id": "a", "blocks": cpus(1), "stocks": [
            {"uri": "s", "resource": "storage_gib", "total": 9}]}))  # fmt: skip
        where = [">=", "$free.storage_gbi", 1]
        with self.assertRaisesRegex(UnknownName, "storage_gib"):
            decider.select_destinations(request({"processor": {"total_cores": 8}}, where=where))

    def test_the_mix_of_the_operator_is_taken_where_a_policy_reads_it_and_a_request_has_none(self):
        needs = request({"processor": {"total_cores": 4}}).needs
        mine, theirs = (Mix(shares=(FlavorShare(needs, weight=weight),)) for weight in (1.0, 2.0))
        asks: list[int] = []

        def mix():
            asks.append(1)
            return mine

        reading = Policy(name="reading", filters=(FilterUse("capacity"),),
                         weighers=(WeigherUse("fragmentation"),))  # fmt: skip
        decider = engine(view({"id": "a", "blocks": cpus(1)}), reading, mix=mix)
        node = {"processor": {"total_cores": 8}}
        decided = decider.select_destinations(request(node, policy="chance"))
        self.assertEqual((Mix(), []), (decided.context.request.mix, asks))
        asked = request(node, policy="reading")
        self.assertEqual(mine, decider.select_destinations(asked).context.request.mix)
        asked = msgspec.structs.replace(asked, mix=theirs)
        self.assertEqual(theirs, decider.select_destinations(asked).context.request.mix)
        self.assertEqual([1], asks)


class TestCounting(unittest.TestCase):
    def test_each_note_of_a_plugin_is_a_warning_once(self):
        blocks = [cpu("c", None), cpu("d", 8)]
        decider = engine(view({"id": "a", "blocks": blocks, "traits": []}))
        asked = request({"processor": {"total_cores": 8}}, traits={"required": ["no_such_trait"]})
        warnings = count_fits(decider, asked, 3).warnings
        self.assertGreater(len(warnings), 0)
        self.assertEqual(len(set(warnings)), len(warnings))

    def test_a_listener_gets_the_attempts_on_each_pod_manager(self):
        decider = engine_of({"id": "a", "blocks": cpus(2)}, {"id": "b", "blocks": cpus(5)})
        heard = []
        counts = count_fits(decider,
            request({"processor": {"total_cores": 8}}), 3,
            listener=lambda podm, attempts: heard.append((podm, len(attempts[0].batch.nodes))),
        )  # fmt: skip
        self.assertEqual((("a", 2), ("b", 3)), counts.podms)
        self.assertEqual([(0, 2), (1, 3)], heard)


NODE = {"processor": {"total_cores": 8}, "accelerators": [{}]}
NEEDS = request(NODE).needs
#: A flavor without scarce resources, one that fits anywhere, and one for few pod managers.
PLAIN = FlavorShare(request(CORES).needs)
SHARES = FlavorShare(NEEDS), FlavorShare(NEEDS, NameRequirements(required=("RARE",)), 0.01)


def pod(name: str, size: int, *traits: str) -> dict:
    blocks = [*cpus(size), *(gpu(f"g{n}") for n in range(size))]
    return {"id": name, "blocks": blocks, "traits": [*traits]}


def others(*nodes, group: str | None = None, owner: str | None = None) -> list[OtherCandidate]:
    return [OtherCandidate(candidate=node, group=group, owner=owner) for node in nodes]


def blocks_of(nodes) -> set[tuple[str, str]]:
    return {(one.podm, block.uri) for one in candidates(nodes) for block in one.blocks}


class TestOthers(WithoutOptimiser):
    """Nodes of earlier decisions on other requests."""

    def setUp(self) -> None:
        super().setUp()
        self.decider = engine_of(*site())
        self.every = candidates(self.decider.offers(query(count=9), ()).nodes)

    def test_their_blocks_are_not_offered(self):
        every = blocks_of(self.decider.offers(query(count=9), ()).nodes)
        for number in range(len(self.every)):
            taken = self.every[: number + 1]
            found = self.decider.offers(query(count=9), (), others(*taken)).nodes
            gone = {(one.podm, block.uri) for one in taken for block in one.blocks}
            self.assertEqual(every - gone, blocks_of(found))

    def test_they_and_what_the_decision_took_itself_leave_the_rest(self):
        mine, theirs = self.every[:2], self.every[2:4]
        found = self.decider.offers(query(count=9), mine, others(*theirs)).nodes
        (left,) = candidates(found)
        self.assertEqual(self.every[4].blocks[0].uri, left.blocks[0].uri)
        self.assertEqual(self.every[4].podm, left.podm)

    def test_the_decider_itself_goes_on_as_if_there_were_none(self):
        before = self.decider.offers(query(count=9), ())
        self.decider.offers(query(count=9), (), others(*self.every))
        self.assertEqual(before, self.decider.offers(query(count=9), ()))

    def test_one_of_the_same_group_keeps_the_next_node_off_its_pod_manager(self):
        taken = self.every[0]
        for group, kept_off in (("web", True), ("db", False), (None, False)):
            with self.subTest(group):
                nodes = self.decider.offers(query(group=APART, count=9),
                                            (), others(taken, group=group)).nodes  # fmt: skip
                found = {one.podm for one in candidates(nodes)}
                self.assertEqual({"a", "b", "c"} - ({taken.podm} if kept_off else set()), found)

    def test_with_them_the_nodes_of_podms_without_rows_count(self):
        nodes = [{"uri": "1", "group": "web"}]
        self.decider.other_podms = [lean({"id": "z", "nodes": nodes})]
        one = self.every[0]
        state = self.decider.group_state(query(group=APART), (), others(one, group="web"))
        self.assertEqual({one.podm: 1, "z": 1}, state.members["podm"])

    def test_they_count_for_their_group_and_their_owner(self):
        one, two = self.every[0], next(o for o in self.every if o.podm != self.every[0].podm)
        taken = [*others(one, group="web", owner="red"), *others(two, group="web", owner="blue")]
        for owner, members, owned in (
            ("red", {one.podm: 1}, {one.podm: 1}),
            ("blue", {two.podm: 1}, {two.podm: 1}),
            (None, {one.podm: 1, two.podm: 1}, {}),
            ("green", {}, {}),
        ):
            with self.subTest(owner):
                asked_ = query(group=APART, owner=owner)
                state = self.decider.group_state(asked_, (), taken)
                self.assertEqual((members, owned), (state.members["podm"], state.owned))
        state = self.decider.group_state(query(group=APART, owner="red"), [two], others(
            one, group="web", owner="red"))  # fmt: skip
        self.assertEqual({one.podm: 1, two.podm: 1}, state.owned)

    def test_one_that_is_no_longer_free_is_stale(self):
        fewer = engine_of(*({**one, "blocks": one["blocks"][1:]} for one in site()))
        for ask in (fewer.offers, fewer.group_state):
            with self.assertRaises(StaleOffer):
                ask(query(group=APART), (), others(*self.every))
        with self.assertRaises(StaleOffer):
            fewer.mix_supplies(query(), others(*self.every))

    def test_the_policies_are_those_of_the_decider(self):
        easy = {"id": "z", "blocks": cpus(1, 10**6)}
        found = decider(easy, *site())
        (node,) = found.offers(query(policy="tight"), ()).nodes
        left = found.offers(query(policy="tight", count=9), (), others(node.candidate)).nodes
        self.assertNotIn((node.candidate.podm, node.candidate.blocks[0].uri), blocks_of(left))
        self.assertEqual(5, len(left))

    def test_a_strict_decider_stays_strict(self):
        hard, node = query(properties(SPLIT), policy="tight", limit=1), query(policy="tight")
        self.assertEqual(asked(), hard.request)
        for strict in (False, True):
            with self.subTest(strict=strict):
                found = decider(HARD, podm("next", SPLIT), pod("small", 1), strict=strict)
                small = next(
                    one
                    for one in candidates(found.offers(replace(node, limit=9), ()).ranking)
                    if one.podm == "small"
                )
                if strict:
                    with self.assertRaises(DecisionUndecided):
                        found.offers(hard, (), others(small))
                else:
                    self.assertEqual(2, len(found.offers(hard, (), others(small)).undecided))


class TestMixes(unittest.TestCase):
    """The mix of a sealed request, completed from the supplies of all pools of a tree."""

    def setUp(self) -> None:
        rare = [pod(f"r{n}", 2, "RARE") for n in range(4)]
        self.podms = (*rare, *(pod(f"p{n}", 2) for n in range(36)))
        self.decider = engine_of(*self.podms)

    def sealed(self, *shares: FlavorShare, policy: str = "fragmentation", **words):
        asked_ = replace(request(NODE, policy=policy), mix=Mix(shares, **words))
        return self.decider.seal(asked_)

    def ask(self, asked_, **words):
        return replace(query(), request=asked_, **words)

    def test_it_needs_supplies_just_where_a_weigher_is_to_know_what_is_scarce(self):
        for shares, words, needed in (
            (SHARES, {}, True),
            (SHARES[1:], {}, False),
            ((PLAIN,), {}, False),  # one share alone
            ((), {}, False),
            (SHARES, {"scarcity": (1.0, 9.0)}, False),
            (SHARES, {"policy": "chance"}, False),  # none of its plug-ins reads the mix
        ):
            with self.subTest(shares=len(shares), **words):
                asked_ = self.sealed(*shares, **words)
                for _ in range(2):  # the second answer is cached
                    self.assertIs(needed, self.decider.needs_supplies(asked_))

    def test_completed_by_its_own_supplies_it_is_the_mix_of_a_decision(self):
        asked_ = self.sealed(*SHARES)
        supplies = self.decider.mix_supplies(self.ask(asked_))
        self.assertEqual((40, {"fragmentation"}), (supplies.pools, set(supplies.by_weigher)))
        completed = self.decider.complete_mix(asked_, supplies.by_weigher)
        self.assertEqual((1.0, 81 / 9), completed.mix.scarcity)
        self.assertEqual(replace(asked_, mix=completed.mix), completed)
        plain = replace(request(NODE, policy="fragmentation"), mix=Mix(SHARES))
        self.assertEqual(completed.mix, self.decider.select_destinations(plain).request.mix)

    def test_what_other_requests_took_is_not_supplied(self):
        asked_ = self.sealed(*SHARES)
        rare = [one for one in self.decider.rank(request(NODE), 40).candidates
                if one.podm.startswith("r")]  # fmt: skip
        supplies = self.decider.mix_supplies(self.ask(asked_), others(*rare[:2]))
        self.assertEqual((78, 6), supplies.by_weigher["fragmentation"])
        every = self.decider.mix_supplies(self.ask(asked_)).by_weigher["fragmentation"]
        self.assertEqual((80, 8), every)

    def test_where_nothing_is_to_be_completed_it_bounds_the_nodes_that_the_pools_make(self):
        bound = ZoneSupplies(pools=40, most_nodes=80)
        for asked_ in (self.sealed(PLAIN), self.sealed(*SHARES, scarcity=(1.0, 9.0)),
                       self.sealed(*SHARES, policy="chance")):  # fmt: skip
            self.assertEqual(bound, self.decider.mix_supplies(self.ask(asked_)))
        (one,) = self.decider.rank(request(NODE), 1).candidates
        after = self.decider.mix_supplies(self.ask(self.sealed(PLAIN)), others(one))
        self.assertEqual(ZoneSupplies(pools=40, most_nodes=79), after)
        off = engine_of(pod("on", 3), {**pod("off", 5), "enabled": False})
        self.assertEqual(ZoneSupplies(pools=2, most_nodes=3), off.mix_supplies(query(NODE)))

    def test_the_first_answer_to_a_completed_mix_tells_what_it_would_be_completed_by_now(self):
        asked_ = self.sealed(*SHARES)
        completed = self.decider.complete_mix(
            asked_, self.decider.mix_supplies(self.ask(asked_)).by_weigher
        )
        expected = ZoneSupplies(pools=40, by_weigher={"fragmentation": (80, 8)})
        for one in (self.decider, engine_of(*self.podms)):  # one that has not completed it
            self.assertEqual(expected, one.offers(self.ask(completed), ()).supplies)
        for asked_again in (self.ask(asked_), self.ask(completed, taken=("token",))):
            self.assertIs(UNSET, self.decider.offers(asked_again, ()).supplies)
