# SPDX-License-Identifier: Apache-2.0
"""A View: rows are pools, unknown is not zero, a selection has the values of the whole."""

import unittest

import msgspec
import numpy as np
from hypothesis import given, strategies as st

from tests.unit.core.sites import STOCKS, quietly, sites
from tests.unit.view.same import LABELS, assert_same_rows
from valence_sched.errors import InputError
from valence_sched.model.need import Need, Test, need_for_stock
from valence_sched.testing import view
from valence_sched.view.block_kinds import BoundedMemo
from valence_sched.view.view import View

CORES = Need(kind="processor", measure="cores", amount=1)
GIB = Need(kind="stock", measure="amount", resource="gib", amount=1)


def cpu(uri: str, cores: int | None, **fields: object) -> dict:
    device = {} if cores is None else {"cores": cores}
    return {"uri": uri, "type": ["Compute"], "devices": {"processors": [device]}, **fields}


def full_sites(draw: st.DrawFn) -> list[dict]:
    podms, _ = draw(sites())
    for podm in podms:
        podm["stocks"] = [{**s, "uri": f"s{n}"} for n, s in enumerate(draw(STOCKS))]
        podm["zone"] = draw(st.sampled_from([None, "a", "b"]))
        podm["aggregates"] = draw(st.lists(st.sampled_from("xyz"), max_size=2))
        podm["capabilities"] = draw(st.sampled_from([{}, {"os": ["linux"]}]))
        podm["facts"] = draw(st.sampled_from([{}, {"year": 2020}, {"year": "new"}]))
        podm["enabled"] = draw(st.booleans())
        podm["status"] = draw(st.sampled_from(["Online", "Offline", "Unknown"]))
    return podms


FULL_SITES = st.composite(full_sites)()


class TestRows(unittest.TestCase):
    SITE = view(
        {
            "id": "two",
            "pools": [{"id": "1"}, {"id": "2", "traits": ["NEAR"]}],
            "traits": ["COOLED"],
            "blocks": [
                cpu("only", 8, pools=["1"]),
                cpu("both", 16, pools=["1", "2"]),
                cpu("used", 32, pools=["2"], status={"state": "Composed"}),
                cpu("nowhere", 64),
            ],
            "stocks": [
                {"uri": "a", "resource": "gib", "total": 10, "used": 4, "pools": ["1"]},
                {"uri": "b", "resource": "gib", "total": 20, "max": 5, "pools": ["1", "2"]},
            ],
        },
        {"id": "one", "blocks": [cpu("c", 4)]},
        {"id": "untold", "blocks": [cpu("c", None)], "stocks": [{"uri": "a", "resource": "gib"}]},
    )

    def test_rows_are_pools_and_a_podm_without_pools_is_one(self):
        self.assertEqual(["1", "2", "all", "all"], [pool.id for pool in self.SITE.pools])
        self.assertEqual([0, 0, 1, 2], self.SITE.podm_of.tolist())
        self.assertEqual([0, 1, 0, 0], self.SITE.position_of.tolist())
        self.assertEqual((2, 3), self.SITE.rows_of("one"))

    def test_free_is_what_free_blocks_of_the_pool_supply(self):
        self.assertEqual([24, 16, 4, 0], self.SITE.free(CORES).tolist())
        self.assertEqual([24, 48, 4, 0], self.SITE.total(CORES).tolist())

    def test_the_total_of_an_unknown_amount_is_0_whatever_the_need_allows(self):
        for cores in (16.0, 8.0):
            allow = msgspec.structs.replace(CORES, amount=cores, unknown="allow")
            self.assertEqual([24, 16, 4, cores], self.SITE.free(allow).tolist())
            self.assertEqual([24, 48, 4, 0], self.SITE.total(allow).tolist())

    def test_a_podms_sums_count_a_block_in_two_pools_once_and_one_in_none_too(self):
        self.assertEqual([88, 88, 4, 0], self.SITE.free(CORES, "podm").tolist())
        self.assertEqual([120, 120, 4, 0], self.SITE.total(CORES, "podm").tolist())

    def test_stocks_add_up_and_the_largest_grant_is_of_one_of_them(self):
        self.assertEqual([26, 20, 0, 0], self.SITE.free(GIB).tolist())
        self.assertEqual([30, 20, 0, 0], self.SITE.total(GIB).tolist())
        self.assertEqual([6, 5, 0, 0], self.SITE.largest_grant(GIB).tolist())
        self.assertEqual([5, 4, 0, 0], self.SITE.grant_count(need_for_stock("gib", 5)).tolist())
        self.assertEqual([26, 26, 0, 0], self.SITE.free(GIB, "podm").tolist())

    def test_a_stock_of_unknown_total_grants_nothing_even_where_the_unknown_is_allowed(self):
        allow = Need(kind="stock", measure="amount", resource="gib", amount=1, unknown="allow")
        self.assertEqual([6, 5, 0, 0], self.SITE.largest_grant(allow).tolist())

    def test_a_resource_that_no_pool_has_is_zero_everywhere(self):
        none = Need(kind="stock", measure="amount", resource="none", amount=1)
        for result in (self.SITE.free(none), self.SITE.total(none), self.SITE.largest_grant(none)):
            self.assertEqual([0] * 4, result.tolist())

    def test_the_inverse_of_0_is_0(self):
        self.assertEqual([1 / 24, 1 / 48, 1 / 4, 0], self.SITE.inverse(CORES).tolist())

    def test_a_pool_has_its_podms_traits_too(self):
        self.assertEqual({"COOLED"}, self.SITE.traits[0])
        self.assertEqual({"COOLED", "NEAR"}, self.SITE.traits[1])

    def test_facts_are_numbers_or_unknown(self):
        facts = ({"year": 2020}, {"year": "2020"}, {}, {"year": ["a"]})
        site = view(*({"id": str(n), "facts": fact} for n, fact in enumerate(facts)))
        np.testing.assert_array_equal([2020, np.nan, np.nan, np.nan], site.number("year"))
        self.assertEqual([2020, "2020", None, ("a",)], [site.text("year")[r] for r in range(4)])

    def test_labels_test_each_distinct_value_once(self):
        tested = []
        site = view(*({"id": str(n), "zone": zone} for n, zone in enumerate("abab")))
        result = site.zone.where(lambda zone: tested.append(zone) or zone == "b")
        self.assertEqual([False, True, False, True], result.tolist())
        self.assertEqual(["a", "b"], tested)

    def test_a_view_of_nothing_has_no_rows(self):
        self.assertEqual(0, len(view()))
        self.assertEqual([], view().free(CORES).tolist())


class TestReadOnly(unittest.TestCase):
    """A plug-in that writes raises immediately."""

    SITE = (
        {
            "id": "a",
            "pools": [{"id": "1"}, {"id": "2"}],
            "blocks": [cpu("c", 8)],
            "stocks": [{"uri": "s", "resource": "gib", "total": 4}],
        },
        {"id": "b"},
    )

    def test_no_array_of_a_view_can_be_written(self):
        for name, array in self.arrays(view(*self.SITE)).items():
            with self.subTest(name):
                self.assertFalse(array.flags.writeable)

    def test_no_array_of_a_window_leads_back_to_its_view(self):
        site = view(*self.SITE)
        whole = self.arrays(site)
        for name, array in self.arrays(site.window(0, 2)).items():
            with self.subTest(name):
                fresh = not np.shares_memory(array, whole[name])
                self.assertTrue(fresh or not array.flags.writeable)

    @staticmethod
    def arrays(site: View) -> dict[str, np.ndarray]:
        arrays = {
            name: getattr(site, name)
            for name in ("first_row", "podm_of", "position_of", "enabled", "lot", "all_rows")
        }
        arrays |= {name: getattr(site, name).codes for name in LABELS}
        for name in ("block_counts", "podm_block_counts"):
            for part in ("start", "kind", "free", "total"):
                arrays[f"{name}.{part}"] = getattr(getattr(site, name), part)
        for need in (CORES, GIB):
            for measure in ("free", "total", "inverse"):
                for by in ("pool", "podm"):
                    key = f"{measure} {need.kind} {by}"
                    arrays[key] = getattr(site, measure)(need, by)
        return {
            **arrays,
            "number": site.number("year"),
            "most": site.largest_grant(GIB),
            "podm_lots": site.podm_lots,
        }


class TestMemo(unittest.TestCase):
    def test_a_view_without_memo_computes_again(self):
        site = view({"id": "a"})
        self.assertEqual(1, site.memoise(("key",), lambda: 1))
        self.assertEqual(1, site.memoise(("key",), lambda: 2))
        self.assertEqual(2, site.without_memo().memoise(("key",), lambda: 2))

    def test_free_amounts_computed_ahead_are_those_that_are_computed_one_by_one(self):
        needs = (CORES, Need(kind="memory", measure="capacity_mib", amount=1))
        podms = [{"id": name, "blocks": [cpu("b", 1 + number)]} for number, name in enumerate("ab")]
        one_by_one, ahead = view(*podms), view(*podms)
        ahead.precompute_free(needs)
        for by in ("pool", "podm"):
            expected = [one_by_one.free(need, by).tolist() for need in needs]
            self.assertEqual(expected, [ahead.free(need, by).tolist() for need in needs])
            for site in (one_by_one, ahead):
                self.assertEqual(expected, site.free_table(needs, by).tolist())
            self.assertFalse(ahead.free_table(needs, by).flags.writeable)
            self.assertTrue(one_by_one.free_table(needs, by).flags.writeable)
        ahead.invalidate_free()
        self.assertTrue(ahead.free_table(needs, "pool").flags.writeable)

    def test_a_view_with_its_own_memo_begins_with_a_copy_and_leaves_the_original_alone(self):
        site = view({"id": "a"})
        site.memoise(("key",), lambda: 1)
        copy = site.with_own_memo()
        self.assertEqual(1, copy.memoise(("key",), lambda: 2))
        copy.memoise(("other",), lambda: 3)
        self.assertEqual(4, site.memoise(("other",), lambda: 4))


class TestSelections(unittest.TestCase):
    """Row-locality is the contract that permits speed."""

    @quietly(25)
    @given(FULL_SITES, st.randoms(use_true_random=False))
    def test_rows_taken_in_any_order_keep_their_values(self, podms, random):
        site = view(*podms)
        rows = [random.randrange(len(site)) for _ in range(random.randint(0, 5))]
        assert_same_rows(self, site, rows, site.take(rows))

    @quietly(25)
    @given(FULL_SITES)
    def test_windows_of_whole_podms_keep_their_values(self, podms):
        site = view(*podms)
        for first, last in {(0, len(site)), (0, 2), (len(site) - 2, len(site))}:
            part = site.window(first, last)
            assert_same_rows(self, site, list(range(first, last)), part)
            self.assertEqual([0, 1] * len(part.podms), part.position_of.tolist())
            self.assertEqual(list(range(0, len(part) + 1, 2)), part.first_row.tolist())

    @quietly(25)
    @given(FULL_SITES)
    def test_a_podm_alone_is_the_podm_among_others(self, podms):
        site = view(*podms)
        for number, podm in enumerate(podms):
            assert_same_rows(self, site, [2 * number, 2 * number + 1], view(podm))

    def test_the_lot_of_a_pool_does_not_depend_on_the_other_pools(self):
        alone = view({"id": "b"})
        beside = view({"id": "a"}, {"id": "b"})
        self.assertEqual(alone.lot[0], beside.lot[1])
        self.assertNotEqual(beside.lot[0], beside.lot[1])


class TestRefused(unittest.TestCase):
    """A contradiction is named by its path."""

    def refuses(self, text: str, *podms: dict) -> None:
        with self.assertRaises(InputError) as caught:
            view(*podms)
        self.assertIn(text, str(caught.exception))

    def test_an_id_twice(self):
        self.refuses("$.podms[1].id: found 'a' again", {"id": "a"}, {"id": "a"})

    def test_a_block_twice_in_one_podm(self):
        twice = [cpu("c", 1), cpu("d", 1), cpu("c", 2)]
        self.refuses("$.podms[0].blocks[2].uri: found 'c' again", {"id": "a", "blocks": twice})

    def test_the_same_uri_in_two_podms_is_two_blocks(self):
        site = view({"id": "a", "blocks": [cpu("c", 1)]}, {"id": "b", "blocks": [cpu("c", 2)]})
        self.assertEqual(([1, 2], 2), (site.free(CORES).tolist(), site.block_count))

    def test_a_pool_that_is_not_there_with_the_nearest_that_is(self):
        podm = {"id": "a", "pools": [{"id": "rack1"}], "blocks": [cpu("c", 1, pools=["rack2"])]}
        self.refuses("$.podms[0].blocks[0].pools: found 'rack2'", podm)
        self.refuses("did you mean 'rack1'?", podm)

    def test_a_pool_id_twice(self):
        self.refuses("a pool id twice", {"id": "a", "pools": [{"id": "1"}, {"id": "1"}]})

    def test_a_status_and_devices_that_are_none(self):
        bad = {"id": "a", "blocks": [cpu("c", 1, status={"state": "Free"})]}
        self.refuses("$.podms[0].blocks[0].status.state: found 'Free'", bad)
        bad = {"id": "a", "blocks": [{"uri": "c", "devices": {"gpus": []}}]}
        self.refuses("$.podms[0].blocks[0].devices: found unknown field 'gpus'", bad)

    def test_a_refused_podm_leaves_the_builder_as_it_was(self):
        from valence_sched.model.codec import decode
        from valence_sched.model.inventory import LeanPodm
        from valence_sched.view.builder import ViewBuilder

        builder = ViewBuilder()
        bad = b'{"id":"a","blocks":[{"uri":"c","status":{"state":"Free"}}]}'
        with self.assertRaises(InputError):
            builder.add(decode(bad, LeanPodm, "f"), "f")
        builder.add(decode(b'{"id":"a"}', LeanPodm, "f"), "f")
        self.assertEqual(["a"], builder.view().podm_ids)

    def test_tests_on_devices_reach_the_rows(self):
        card = {"kind": "GPU", "model": "NVIDIA A100"}
        site = view({"id": "a", "blocks": [{"uri": "g", "devices": {"accelerators": [card]}}]})
        for word, count in (("A100", 1), ("A10", 0)):
            need = Need(kind="accelerator", measure="devices", amount=1,
                        tests=(Test("model", "words", word),))  # fmt: skip
            self.assertEqual([count], site.free(need).tolist())


class TestBoundedMemo(unittest.TestCase):
    def test_a_full_memo_drops_all_values_before_the_next(self):
        memo = BoundedMemo(2)
        for number, key in enumerate("abc"):
            memo.store(key, number)
        self.assertEqual({"c": 2}, memo)
