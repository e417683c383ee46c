# SPDX-License-Identifier: Apache-2.0
"""Known mistakes of other schedulers, by number, that this one must not make.

Other modules test further mistakes: 3 in ``core.test_batch``, 5 in ``lifecycle.test_plan``, 7 in
``lifecycle.test_compose``, 9 in ``drivers.rsd.test_composer``, 10 in ``store.test_claims``, 12 also
in ``core.test_evaluation`` and 13 in ``core.test_policy``.
"""

import unittest
from collections import Counter

from hypothesis import given, strategies as st

from tests.unit.core.deciders import built_in, cpu, cpus, engine, engine_of, gpu, lean
from tests.unit.core.sites import quietly
from valence_sched.core.explain.report import decision_report
from valence_sched.core.ranking import rank_rows
from valence_sched.errors import InputError
from valence_sched.model.inventory import to_json
from valence_sched.model.policy import Policy, WeigherUse
from valence_sched.planning.batches import decide_all
from valence_sched.planning.fit_counts import count_fits
from valence_sched.testing import request, view
from valence_sched.view.view import inventory_digest

CORES = {"processor": {"total_cores": 8}}
CARD = {**CORES, "accelerators": [{}]}
POLICIES = tuple(policy.name for policy in built_in())


def chosen(decision) -> list[tuple[str, str]]:
    return [(p.chosen.podm, block.uri) for p in decision.placements for block in p.chosen.blocks]


class TestTraps(unittest.TestCase):
    """One test for each trap."""

    def test_a_score_does_not_depend_on_who_else_is_there(self):
        """Trap 1: scores normalised over the candidates of a zone could not be merged."""
        podms = [{"id": str(n), "blocks": [*cpus(1 + 3 * n), gpu("g", n + 1)]} for n in range(5)]
        for policy in POLICIES:
            with self.subTest(policy):
                asked = request(CARD, policy=policy)
                flat = engine_of(*podms).rank(asked, 9).candidates
                tree = [engine_of(podm).rank(asked, 9).candidates for podm in podms]
                alone = {(one.podm, one.score) for part in tree for one in part}
                self.assertEqual(alone, {(one.podm, one.score) for one in flat})
                self.assertEqual(5, len(alone))

    def test_what_is_worked_out_for_one_decision_is_nowhere_after_it(self):
        """Trap 2: a discarded estimate must not reduce the amounts of the next one."""
        site = view(
            {"id": "a", "blocks": cpus(9),
             "stocks": [{"uri": "s", "resource": "gib", "total": 100}]},
            {"id": "b", "blocks": cpus(5)},
        )  # fmt: skip
        found = engine(site)
        before, asked = inventory_digest(site), request(CORES, count=3, alternates=1)
        first = to_json(decision_report(found.select_destinations(asked)))
        stock = {**CORES, "stocks": [{"resource": "gib", "amount": 9}]}
        for other in (request(CORES, count=99), request(CORES, count=99, min_count=0),
                      request(stock, count=9, min_count=0)):  # fmt: skip
            found.select_destinations(other)
            count_fits(found, other, 50)
            decide_all(found, [other, request(CORES, count=2, min_count=0)])
        self.assertEqual(before, inventory_digest(found.snapshot()))
        self.assertEqual(first, to_json(decision_report(found.select_destinations(asked))))

    def test_a_part_of_a_word_is_not_the_word(self):
        """Trap 4: a text instead of a list contains each of its substrings."""
        there = {"id": "rack-10", "zone": "east-1", "aggregates": ["golden"],
                 "traits": ["HW_GPU_X"], "capabilities": {"os": ["linux64"]},
                 "facts": {"location": "dc1/row-33"}, "blocks": cpus(1)}  # fmt: skip
        found = engine_of(there, {"id": "rack-1", "blocks": cpus(0)})
        for name, whole, part in (
            ("zone", "east-1", "east"),
            ("aggregates", ["golden"], ["gold"]),
            ("traits", {"required": ["HW_GPU_X"]}, {"required": ["HW_GPU"]}),
            ("traits", {"any_of": [["HW_GPU_X"]]}, {"any_of": [["GPU", "HW"]]}),
            ("capabilities", {"os": ["linux64"]}, {"os": ["linux"]}),
            ("attributes", {"capabilities.os": "linux64"}, {"capabilities.os": "linux"}),
            ("locations", ["dc1/row-33"], ["dc1/row-3"]),
            ("podms", ["rack-10"], ["rack-1"]),
            ("where", ["in", "linux64", "$capabilities.os"], ["in", "linux", "$capabilities.os"]),
        ):
            with self.subTest(name, part=part):
                words = [{name: whole}, {name: part}]
                placed = [len(found.select_destinations(request(CORES, **one)).placements)
                          for one in words]  # fmt: skip
                self.assertEqual([1, 0], placed)
        for name in ("aggregates", "traits"):
            with self.subTest(name), self.assertRaisesRegex(InputError, name):
                view({**there, name: "golden"})

    def test_a_block_is_known_by_its_podm_and_its_uri(self):
        """Trap 6: an index alone may select the device of another pod manager."""
        twins = [{"id": name, "blocks": [cpu("/1", 8), cpu("/2", 8)]} for name in "ab"]
        decision = engine_of(*twins).select_destinations(request(CORES, count=4))
        self.assertEqual({(name, uri): 1 for name in "ab" for uri in ("/1", "/2")},
                         Counter(chosen(decision)))  # fmt: skip
        status = {"state": "Composed"}
        half = {"id": "a", "blocks": [cpu("/1", 8, status=status), cpu("/2", 8)]}
        decision = engine_of(half, twins[1]).select_destinations(request(CORES, count=3))
        self.assertNotIn(("a", "/1"), chosen(decision))

    def test_whatever_changes_of_a_pod_manager_is_in_the_next_decision(self):
        """Trap 8: elsewhere only a change of the group was loaded; other fields became stale."""
        old = {"id": "a", "zone": "z", "facts": {"year": 2022}, "traits": ["T"],
               "capabilities": {"os": ["linux"]}, "aggregates": ["x"],
               "blocks": [*cpus(1), gpu("g", places={"switch": "s"})]}  # fmt: skip
        asked = request({**CORES, "accelerators": [{"model": "A100", "same": "switch"}]},
                        zone="z", attributes={"year": ">= 2022"}, traits={"required": ["T"]},
                        capabilities={"os": ["linux"]}, aggregates=["x"])  # fmt: skip
        blocks = {
            "state": {"status": {"state": "Composed"}},
            "health": {"status": {"health": "Critical"}},
            "model": {"model": "NVIDIA L4"},
            "place": {"places": {"rack": "r"}},
        }
        changes = [{"blocks": [*cpus(1), gpu("g", **{"places": {"switch": "s"}, **words})]}
                   for words in blocks.values()]  # fmt: skip
        changes += [{"zone": "y"}, {"facts": {"year": 2021}}, {"traits": []}, {"aggregates": []},
                    {"capabilities": {}}, {"status": "Offline"}, {"enabled": False}]  # fmt: skip
        for change in changes:
            with self.subTest(change):
                found, now = engine_of(old), {**old, **change}
                self.assertEqual(1, len(found.select_destinations(asked).placements))
                found.replace(lean(now))
                self.assertEqual(0, len(found.select_destinations(asked).placements))
                found.replace(lean(old))
                self.assertEqual(1, len(found.select_destinations(asked).placements))

    @quietly(60)
    @given(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 6)), min_size=1,
                 max_size=4),
        st.sampled_from([CORES, CARD, {**CARD, "stocks": [{"resource": "gib", "amount": 3}]}]),
        st.booleans(),
    )  # fmt: skip
    def test_what_is_counted_is_what_is_placed(self, sizes, node, at_most):
        """Trap 11: a second test of feasibility would eventually differ.

        ``podm fit`` counts the nodes that scheduling places on each pod manager.
        """
        podms = [
            {"id": str(n), "blocks": [*cpus(cores), *(gpu(f"g{i}") for i in range(cards))],
             "stocks": [{"uri": "s", "resource": "gib", "total": total}]}
            for n, (cores, cards, total) in enumerate(sizes)
        ]  # fmt: skip
        words = {"group": {"name": "g", "at_most": {"podm": 2}}} if at_most else {}
        found = engine_of(*podms)
        choices = [{}, {"drives": [{}]}]
        for podm, number in count_fits(found, request(node, first_of=choices, **words), 50).podms:
            asked = request(node, first_of=choices, podms=[podm], count=50, min_count=0, **words)
            self.assertEqual(number, len(found.select_destinations(asked).placements), podm)

    def test_a_millionth_between_two_scores_decides(self):
        """Trap 12: whole numbers from 0 to 100 would make a tie of them."""
        site = view(
            {"id": "a", "blocks": cpus(1), "facts": {"failures": 999}},
            {"id": "b", "blocks": cpus(1), "facts": {"failures": 998}},
            {"id": "c", "blocks": cpus(1), "facts": {"failures": 1_000}},
        )
        policy = Policy(name="mine", weighers=(WeigherUse("failures"),))
        for seed in range(20):
            asked = request(CORES, policy="mine", seed=seed)
            decision = engine(site, policy).select_destinations(asked)
            self.assertEqual("b", decision.placements[0].chosen.podm)

    def test_no_number_of_candidates_hides_the_only_one_that_fits(self):
        """Trap 14: a limit on candidates hides capacity; there is no limit."""
        full = [{"id": f"{n:04}", "blocks": [cpu("c", 8), gpu("g", model="L4")]}
                for n in range(1500)]  # fmt: skip
        for place in (0, 700, 1499):
            podms = [*full]
            podms[place] = {"id": "last", "blocks": [cpu("c", 8), gpu("g", model="A100")]}
            site = view(*podms)
            asked = request({**CORES, "accelerators": [{"model": "A100"}]}, count=2, min_count=0)
            decision = engine(site).select_destinations(asked)
            self.assertEqual([("last", "c"), ("last", "g")], sorted(chosen(decision)))
            everyone = request(CORES, count=1500)
            self.assertEqual(1500, len(engine(site).select_destinations(everyone).placements))
            cost = decision.context.evaluation.cost
            self.assertEqual(1, len(list(rank_rows(site, cost, asked, 0))))


if __name__ == "__main__":
    unittest.main()
