# SPDX-License-Identifier: Apache-2.0
"""One podm replaced gives the View that reading all podms again would give."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from tests.unit.view.same import assert_same_view
from tests.unit.view.test_view import FULL_SITES
from valence_sched.model.codec import decode
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.testing import view
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.update import Splice, splice
from valence_sched.view.view import View


def part_of(site: View, podm: dict) -> View:
    builder = ViewBuilder(site.kinds)
    builder.add(decode(to_json(podm), LeanPodm, "test"), "test")
    return builder.view()


class TestSplice(unittest.TestCase):
    """Replacing and appending."""

    @quietly(80)
    @given(FULL_SITES, FULL_SITES, st.integers(1, 3), st.integers(0, 5))
    def test_a_replaced_or_appended_podm_equals_a_view_built_anew(self, old, new, pools, number):
        podm = new[0]
        names = [f"q{number}" for number in range(pools)]
        podm["pools"] = [{"id": name} for name in names]
        for item in (*podm["blocks"], *podm["stocks"]):
            item["pools"] = [names[0], names[-1]] if item["pools"] else []
        old = [{**old_podm, "id": f"old{index}"} for index, old_podm in enumerate(old)]
        number = min(number, len(old))
        podm["id"] = "new"
        site = view(*old)
        spliced, change = splice(site, number, part_of(site, podm))
        assert_same_view(self, view(*old[:number], podm, *old[number + 1 :]), spliced)
        last = 2 * number + (2 if number < len(old) else 0)
        self.assertEqual(Splice(2 * number, last, pools), change)
        assert_same_view(self, view(*old), site)  # the old View is as it was

    def test_splicing_again_and_again_stays_right(self):
        sizes = (3, 0, 7, 1)
        podms = [self.sized(f"p{number}", 4) for number in range(3)]
        site = view(*podms)
        for turn, size in enumerate(sizes * 3):
            number = turn % 3
            podms[number] = self.sized(f"p{number}", size)
            site, _ = splice(site, number, part_of(site, podms[number]))
            assert_same_view(self, view(*podms), site)

    @staticmethod
    def sized(name: str, cores: int) -> dict:
        block = {"uri": "b", "devices": {"processors": [{"cores": cores}]}}
        return {"id": name, "zone": f"z{cores}", "blocks": [block] * bool(cores)}

    def test_a_view_of_nothing_can_be_appended_to(self):
        empty = view()
        spliced, change = splice(empty, 0, part_of(empty, {"id": "a"}))
        assert_same_view(self, view({"id": "a"}), spliced)
        self.assertEqual(Splice(0, 0, 1), change)
