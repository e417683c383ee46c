# SPDX-License-Identifier: Apache-2.0
"""S18: what every scheduler keeps to, ours and other people's, however it decides.

Every entry point of ``valence_sched.schedulers`` that is installed is tried, a solver too.
"""

import unittest
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.deciders import cpus, engine, gpu
from tests.unit.core.sites import quietly
from valence_sched.core import plugins
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_report
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.model.inventory import to_json
from valence_sched.model.policy import FilterUse, Policy, WeigherUse
from valence_sched.testing import request, view

NAMES = tuple(plugins.load(plugins.SCHEDULERS).by_name)
CORES = {"processor": {"total_cores": 8}}
FILTERS = tuple(FilterUse(name) for name in ("enabled", "spread", "capacity", "devices"))


def engines(*podms: dict) -> dict[str, Decider]:
    """Return an engine for each scheduler; its policy is called mine."""
    site = view(*podms)
    return {
        name: engine(site, Policy(name="mine", scheduler=name, filters=FILTERS,
                                  weighers=(WeigherUse("room"),)))
        for name in NAMES
    }  # fmt: skip


class TestConformance(unittest.TestCase):
    """S18: one suite behind one interface."""

    SITE = (
        {"id": "fits", "blocks": cpus(3)},
        {"id": "small", "blocks": cpus(3, 2)},
        {"id": "empty", "pools": [{"id": "1"}, {"id": "2"}]},
        {"id": "off", "enabled": False, "blocks": cpus(9)},
    )

    def every(self, *podms, **words):
        """Yield the decision of each scheduler."""
        for name, found in engines(*podms).items():
            with self.subTest(name):
                yield found.select_destinations(request(CORES, policy="mine", **words))

    def test_filter_and_chance_are_installed(self):
        self.assertLessEqual({"filter", "chance"}, set(NAMES))

    def test_it_places_only_where_blocks_make_the_node_and_no_more_than_there_are(self):
        for decision in self.every(*self.SITE, count=9, min_count=0):
            self.assertEqual(["fits"] * 3, [p.chosen.podm for p in decision.placements])
            uris = [b.uri for p in decision.placements for b in p.chosen.blocks]
            self.assertEqual(["c0", "c1", "c2"], sorted(uris))
            self.assertEqual("placed_in_part", decision.outcome)

    def test_it_honours_the_filters_of_its_policy(self):
        for decision in self.every(self.SITE[3]):
            self.assertEqual("nothing_fits", decision.outcome)
            (verdict,) = Verdicts(decision).podm_verdicts()
            self.assertEqual("enabled", verdict.reason.filter)

    def test_all_or_nothing_is_all_or_nothing(self):
        for decision in self.every(*self.SITE, count=4):
            self.assertEqual(("nothing_fits", 3), (decision.outcome, decision.fit_count))
            self.assertEqual((), decision.placements)

    def test_the_same_question_gets_the_same_bytes(self):
        podms = [{"id": str(n), "blocks": cpus(4)} for n in range(5)]
        for seed in range(3):
            words = {"count": 6, "alternates": 2, "seed": seed}
            one, other = (
                [to_json(decision_report(decision)) for decision in self.every(*podms, **words)]
                for _ in range(2)
            )
            self.assertEqual(one, other)

    def test_alternates_are_other_podms(self):
        podms = [{"id": str(n), "blocks": cpus(4)} for n in range(4)]
        for decision in self.every(*podms, count=3, alternates=9):
            taken = {placed.chosen.podm for placed in decision.placements}
            for placed in decision.placements:
                names = [other.podm for other in placed.alternates]
                self.assertEqual(sorted({"0", "1", "2", "3"} - taken), sorted(names))

    def test_a_group_stays_apart(self):
        podms = [{"id": str(n), "blocks": cpus(4), "nodes": [{"uri": "n", "group": "g"}] * (not n)}
                 for n in range(4)]  # fmt: skip
        group = {"name": "g", "anti_affinity": ["podm"]}
        for decision in self.every(*podms, count=9, min_count=0, group=group):
            names = sorted(placed.chosen.podm for placed in decision.placements)
            self.assertEqual(["1", "2", "3"], names)

    @quietly(40)
    @given(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 9)), min_size=1,
                 max_size=5),
        st.integers(1, 12),
        st.integers(0, 9),
    )  # fmt: skip
    def test_virtual_depletion_never_exceeds_what_there_is(self, sizes, count, seed):
        """S35: blocks by number, stocks by amount, under every scheduler."""
        podms = [
            {"id": str(n), "blocks": [*cpus(cores), *(gpu(f"g{i}") for i in range(cards))],
             "stocks": [{"uri": "s", "resource": "gib", "total": total}]}
            for n, (cores, cards, total) in enumerate(sizes)
        ]  # fmt: skip
        node = {**CORES, "stocks": [{"resource": "gib", "amount": 2}]}
        words = {"count": count, "min_count": 0, "policy": "mine", "seed": seed}
        asked = request(node, first_of=[{"accelerators": [{}]}, {}], **words)
        for name, found in engines(*podms).items():
            with self.subTest(name):
                taken: Counter = Counter()
                for placed in found.select_destinations(asked).placements:
                    taken.update((placed.chosen.podm, b.uri) for b in placed.chosen.blocks)
                    for grant in placed.chosen.grants:
                        taken[placed.chosen.podm, grant.uri] += grant.amount
                for (podm, uri), amount in taken.items():
                    self.assertLessEqual(amount, sizes[int(podm)][2] if uri == "s" else 1)


if __name__ == "__main__":
    unittest.main()
