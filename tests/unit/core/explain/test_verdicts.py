# SPDX-License-Identifier: Apache-2.0
"""Verdicts on each attribute of a request (S36), and the nearest miss of a pool."""

import copy
import unittest
from typing import Any
from unittest import mock

import msgspec
from hypothesis import given, strategies as st

from tests.unit.core.deciders import cpu, engine_of, gpu
from tests.unit.core.sites import quietly, sized
from valence_sched.core.explain import sensitivity
from valence_sched.core.explain.report import explain_decision as explain
from valence_sched.core.fit.fit import Fitter
from valence_sched.filters.capacity import capacity
from valence_sched.filters.devices import devices
from valence_sched.model.decision import NearMiss
from valence_sched.testing import request, view
from valence_sched.words.decision import near_miss_line

GIB = 1 << 30
HAS = {
    "processors": [{"count": 2, "cores": 32, "model": "AMD EPYC 9354", "architecture": "x86",
                    "instruction_set": "x86-64", "speed_mhz": 3250}],
    "memory": [{"count": 8, "capacity_mib": 32768, "type": "DDR5", "speed_mhz": 4800}],
    "accelerators": [{"kind": "GPU", "count": 2, "model": "NVIDIA A100", "memory_mib": 81920}],
    "drives": [{"count": 2, "capacity_bytes": 4000 * GIB, "media": "SSD", "protocol": "NVMe",
                "rpm": 7200, "model": "Micron 7450", "remote": True}],
    "nics": [{"count": 2, "speed_mbps": 100000}],
}  # fmt: skip
ASKS = {
    "processors": {"processor": {"total_cores": 64, "sockets": 2, "model": "EPYC 9354",
                                 "architecture": "x86", "instruction_set": "x86-64",
                                 "speed_mhz": 3250}},
    "memory": {"memory": {"capacity_mib": 262144, "type": "DDR5", "speed_mhz": 4800}},
    "accelerators": {"accelerators": [{"kind": "GPU", "count": 2, "model": "A100",
                                       "memory_mib": 81920}]},
    "drives": {"drives": [{"count": 2, "capacity_gib": 4000, "media": "SSD", "protocol": "NVMe",
                           "rpm": 7200, "model": "Micron", "remote": True}]},
    "nics": {"nics": [{"count": 2, "speed_mbps": 100000}]},
}  # fmt: skip
#: For each attribute: the one difference of a pool, and the one field that requests it.
LACKS = {
    ("processors", "cores"): (31, {"processor": {"total_cores": 64}}),
    ("processors", "count"): (1, {"processor": {"sockets": 2}}),
    ("processors", "model"): ("Intel Xeon 6430", {"processor": {"model": "EPYC"}}),
    ("processors", "architecture"): ("ARM", {"processor": {"architecture": "x86"}}),
    ("processors", "instruction_set"): ("x86", {"processor": {"instruction_set": "x86-64"}}),
    ("processors", "speed_mhz"): (3249, {"processor": {"speed_mhz": 3250}}),
    ("memory", "capacity_mib"): (32767, {"memory": {"capacity_mib": 262144}}),
    ("memory", "type"): ("DDR4", {"memory": {"capacity_mib": 1, "type": "DDR5"}}),
    ("memory", "speed_mhz"): (4799, {"memory": {"capacity_mib": 1, "speed_mhz": 4800}}),
    ("accelerators", "kind"): ("FPGA", {"accelerators": [{"kind": "GPU"}]}),
    ("accelerators", "count"): (1, {"accelerators": [{"count": 2}]}),
    ("accelerators", "model"): ("NVIDIA A40", {"accelerators": [{"model": "A100"}]}),
    ("accelerators", "memory_mib"): (81919, {"accelerators": [{"memory_mib": 81920}]}),
    ("drives", "count"): (1, {"drives": [{"count": 2}]}),
    ("drives", "capacity_bytes"): (4000 * GIB - 1, {"drives": [{"capacity_gib": 4000}]}),
    ("drives", "media"): ("HDD", {"drives": [{"media": "SSD"}]}),
    ("drives", "protocol"): ("SAS", {"drives": [{"protocol": "NVMe"}]}),
    ("drives", "rpm"): (7199, {"drives": [{"rpm": 7200}]}),
    ("drives", "model"): ("Fjord H1", {"drives": [{"model": "Micron"}]}),
    ("drives", "remote"): (False, {"drives": [{"remote": True}]}),
    ("nics", "count"): (1, {"nics": [{"count": 2}]}),
    ("nics", "speed_mbps"): (99999, {"nics": [{"speed_mbps": 100000}]}),
}


def fits(properties: dict, *blocks: dict, **words) -> bool:
    asked = request(properties)
    named = [{"uri": str(n), "devices": block} for n, block in enumerate(blocks)]
    seen = view({"id": "a", "blocks": named, **words})
    found = Fitter(asked.needs, seen.kinds, asked.topology).fit(seen, 0)
    if found is not None:
        assert capacity(seen, asked)[0] and devices(seen, asked)[0], "a filter rejects what fits"
    return found is not None


def cards(**counts: int) -> list[dict]:
    return [{"accelerators": [{"kind": "GPU", "model": model, "count": count}]}
            for model, count in counts.items()]  # fmt: skip


class TestEachAttribute(unittest.TestCase):
    def test_every_device_attribute_has_its_line(self):
        asked = {(group, name) for group, lines in HAS.items() for name in lines[0]}
        self.assertEqual(asked - {("memory", "count")}, set(LACKS))

    def test_a_pool_that_has_all_is_kept_and_one_that_lacks_a_single_thing_is_not(self):
        everything = {name: part for ask in ASKS.values() for name, part in ask.items()}
        self.assertTrue(fits(everything, HAS))
        for (group, attribute), (value, word) in LACKS.items():
            with self.subTest(f"{group}.{attribute}"):
                other = copy.deepcopy(HAS)
                other[group][0][attribute] = value
                self.assertTrue(fits(word, HAS))
                self.assertFalse(fits(word, other))
                self.assertFalse(fits(everything, other))

    def test_what_is_not_told_does_not_pass(self):
        for (group, attribute), (_, word) in LACKS.items():
            if attribute not in ("count", "kind"):
                with self.subTest(f"{group}.{attribute}"):
                    silent = copy.deepcopy(HAS)
                    del silent[group][0][attribute]
                    self.assertFalse(fits(word, silent))

    def test_local_drives_are_asked_for_as_remote_ones_are(self):
        local = {"drives": [{"remote": False}]}
        self.assertTrue(fits({"drives": [{"remote": False}]}, local))
        self.assertFalse(fits({"drives": [{"remote": False}]}, {"drives": [{"remote": True}]}))

    def test_any_kind_of_accelerator_can_be_asked_for_and_is_no_other(self):
        for kind in ("GPU", "FPGA", "DSP", "Partition"):
            block = {"accelerators": [{"kind": kind}]}
            for other in ("GPU", "FPGA", "DSP", "Partition"):
                self.assertEqual(kind == other, fits({"accelerators": [{"kind": other}]}, block))

    def test_stocks(self):
        asked = {"stocks": [{"resource": "storage_gib", "amount": 5, "count": 2}]}
        for total, enough in ((10, True), (9, False)):
            stocks = [{"uri": "/s", "resource": "storage_gib", "total": total}]
            self.assertEqual(enough, fits(asked, stocks=stocks))


class TestGroups(unittest.TestCase):
    """Two A100 and any one GPU need three cards."""

    ASKED = {"accelerators": [{"model": "A100", "count": 2}, {"count": 1}]}  # noqa: RUF012

    def test_each_device_counts_for_one_group(self):
        for counts, enough in (
            ({"A100": 2}, False), ({"A100": 3}, True), ({"A100": 2, "A40": 1}, True),
            ({"A100": 1, "A40": 2}, False), ({"A40": 3}, False),
        ):  # fmt: skip
            with self.subTest(counts):
                self.assertEqual(enough, fits(self.ASKED, *cards(**counts)))

    def test_each_group_has_its_own_memory(self):
        asked = {"accelerators": [{"memory_mib": 80, "count": 1}, {"memory_mib": 40, "count": 1}]}
        big, small = ({"accelerators": [{"kind": "GPU", "memory_mib": m}]} for m in (80, 40))
        self.assertTrue(fits(asked, big, small))
        self.assertTrue(fits(asked, big, big))
        self.assertFalse(fits(asked, small, small))


COMPOSED = {"status": {"state": "Composed", "compositions": 1, "active": True}}
ASKED: dict[str, Any] = {
    "processor": {"total_cores": 8},
    "accelerators": [{"kind": "GPU", "model": "A100", "count": 2}],
}


def node(name: str, *blocks: str) -> dict[str, Any]:
    return {"uri": f"/redfish/v1/Systems/{name}", "blocks": list(blocks)}


def pod(**words: Any) -> dict[str, Any]:
    """Return a podm with one free host and one free card, and two nodes of a card each."""
    blocks = [cpu("c1", 8), gpu("g1"), cpu("c2", 8, **COMPOSED), gpu("g2", **COMPOSED),
              cpu("c3", 8, **COMPOSED)]  # fmt: skip
    return {"id": "pod-2", "blocks": blocks, "nodes": [node("6", "c3"), node("7", "c2", "g2")],
            **words}  # fmt: skip


def near_misses_of(*podms: dict[str, Any], **words: Any) -> tuple[NearMiss, ...]:
    decision = engine_of(*podms).select_destinations(request(ASKED, **words))
    return explain(decision).nearest_misses


class TestHardware(unittest.TestCase):
    """Only free hardware is missing."""

    def test_the_sentence_of_the_issue(self):
        (found,) = near_misses_of(pod())
        self.assertEqual("pod-2 lacks 1 GPU A100; removing node 7 frees it", near_miss_line(found))
        self.assertEqual("/redfish/v1/Systems/7", found.freeing.uri)
        self.assertEqual((2, 2), (found.nodes, found.tried))

    def test_the_nearest_pool_is_that_of_the_alternative_that_was_chosen(self):
        site = (
            {"id": "p", "pools": [{"id": "x"}, {"id": "y"}], "blocks": [
                cpu("c1", 8, pools=["x"]), gpu("g1", pools=["x"]), cpu("c2", 8, pools=["y"]),
                {"uri": "n", "devices": {"nics": [{}]}, "pools": ["y"]}]},
            {"id": "q", "blocks": [cpu("c", 16), {"uri": "n", "devices": {"nics": [{}]}}]},
        )  # fmt: skip
        either = [{"accelerators": [{"kind": "GPU", "model": "A100"}]}, {"nics": [{}]}]
        asked = request({"processor": {"total_cores": 16}}, first_of=either)
        (found,) = explain(engine_of(*site).select_destinations(asked)).nearest_misses
        self.assertEqual("p lacks 8 cores; it has no node to remove", near_miss_line(found))

    def test_a_node_is_called_by_its_name_where_it_has_one(self):
        nodes = [{**node("7", "c2", "g2"), "name": "train-1"}]
        (found,) = near_misses_of(pod(nodes=nodes))
        self.assertEqual("train-1", found.freeing.node)

    def test_of_nodes_that_would_do_the_one_of_fewest_blocks_is_named(self):
        nodes = [node("big", "c2", "c3", "g2"), node("small", "g2")]
        (found,) = near_misses_of(pod(nodes=nodes))
        self.assertEqual("small", found.freeing.node)

    def test_a_block_that_stays_out_of_use_does_not_help(self):
        for status in ({"state": "Composed", "reserved": True}, {"state": "Unavailable"},
                       {"state": "Composed", "health": "Critical"}, {"state": "Failed"},
                       {"state": "Composed", "enabled": False}):  # fmt: skip
            with self.subTest(status=status):
                blocks = [*pod()["blocks"][:3], gpu("g2", status=status)]
                (found,) = near_misses_of(pod(blocks=blocks))
                self.assertIsNone(found.freeing)
                self.assertIn("removing any one of its nodes is not enough", near_miss_line(found))

    def test_a_block_shared_with_another_node_gives_back_one_slot(self):
        shared = {"state": "Composed", "shareable": True, "max_compositions": 2, "compositions": 2}
        blocks = [*pod()["blocks"][:3], gpu("g2", status=shared)]
        (found,) = near_misses_of(pod(blocks=blocks))
        self.assertEqual("7", found.freeing.node)

    def test_a_block_listed_twice_or_unknown_is_no_trouble(self):
        (found,) = near_misses_of(pod(nodes=[node("7", "g2", "g2", "nowhere")]))
        self.assertEqual("7", found.freeing.node)

    def test_without_nodes_there_is_none_to_free(self):
        (found,) = near_misses_of(pod(nodes=[]))
        self.assertEqual("pod-2 lacks 1 GPU A100; it has no node to remove", near_miss_line(found))

    def test_a_block_of_another_pool_does_not_help(self):
        """A node is composed in one pool: blocks outside of it do not help."""
        pools = [{"id": "p"}, {"id": "q"}]
        blocks = [{**block, "pools": ["q" if block["uri"] == "g2" else "p"]}
                  for block in pod()["blocks"]]  # fmt: skip
        (found,) = near_misses_of(pod(pools=pools, blocks=blocks))
        self.assertIsNone(found.freeing)

    def test_limits_of_the_pool_count(self):
        """All needed blocks would be free, but the pool allows a node only one of them."""
        pools = [{"id": "p", "limits": {"Expansion": {"max": 1}}}]
        blocks = [{**block, "pools": ["p"]} for block in pod()["blocks"]]
        (found,) = near_misses_of(pod(pools=pools, blocks=blocks))
        self.assertIsNone(found.freeing)

    def test_the_nearest_comes_first_and_those_that_freeing_mends_before_them(self):
        far = {"id": "far", "blocks": [cpu("c", 1)]}
        near = {"id": "near", "blocks": [cpu("c", 8), gpu("g")]}
        self.assertEqual(
            ["pod-2", "near", "far"], [one.podm for one in near_misses_of(far, near, pod())]
        )

    def test_the_order_of_the_inventory_does_not_matter(self):
        nodes = [node("5", "c3", "g2"), node("7", "c2", "g2")]
        equal = [pod(id=f"p{number}", nodes=nodes) for number in range(sensitivity.MOST_PODMS + 2)]
        fitting = {"blocks": [cpu("c", 8), gpu("g", 2)], "enabled": False}
        equal += [{"id": f"w{number}", **fitting} for number in range(sensitivity.MOST_PODMS + 2)]
        turned = [{**one, "nodes": one.get("nodes", [])[::-1]} for one in equal[::-1]]
        found = near_misses_of(*equal)
        self.assertEqual(2 * sensitivity.MOST_PODMS, len(found))
        self.assertEqual(found, near_misses_of(*turned))

    def test_the_order_of_equal_pools_does_not_matter(self):
        pools = [{"id": name, "limits": {"Compute": {"max": 1}}} for name in ("p", "q", "r")]
        blocks = [{**block, "pools": [pool["id"] for pool in pools]} for block in pod()["blocks"]]
        found = [
            explain(engine_of(pod(pools=some, blocks=blocks)).select_destinations(request(ASKED)))
            for some in (pools, pools[::-1])
        ]
        self.assertEqual("p", found[0].nearest_misses[0].freeing.pool)
        self.assertEqual(found[0].nearest_misses, found[1].nearest_misses)

    def test_a_removed_node_no_longer_counts_in_its_group(self):
        member, other = {"group": "g"}, {"id": "other", "blocks": []}
        together = {"name": "g", "affinity": ["podm"]}
        for words, members, is_enough in (
            (member, 2, False), ({**member, "owner": "x"}, 2, False),
            ({**member, "owner": "y"}, 1, True), ({}, 1, True),
        ):  # fmt: skip
            nodes = [{**node("6", "c3"), **member}, {**node("7", "c2", "g2"), **words}]
            others = [{**node(f"{n}"), **member} for n in range(members)]
            misses = near_misses_of(
                pod(nodes=nodes), {**other, "nodes": others}, group=together, owner="x"
            )
            found = {one.podm: one.freeing is not None for one in misses}
            self.assertEqual(is_enough, found["pod-2"], words)

    def test_a_podm_that_takes_the_node_misses_nothing(self):
        able = {"id": "able", "blocks": [cpu("c", 8), gpu("g", 2)]}
        self.assertEqual([], [one for one in near_misses_of(able) if one.podm == "able"])

    def test_after_a_short_batch_it_is_about_the_node_that_no_longer_fits(self):
        able = {"id": "able", "blocks": [cpu("c", 8), gpu("g", 2), cpu("c2", 8, **COMPOSED),
                gpu("g2", 2, **COMPOSED)], "nodes": [node("9", "c2", "g2")]}  # fmt: skip
        (found,) = near_misses_of(able, count=2)
        self.assertEqual(("able", "9"), (found.podm, found.freeing.node))

    def test_only_so_many_nodes_are_tried_and_it_says_how_many(self):
        with mock.patch.object(sensitivity, "MOST_NODES", 1):
            (found,) = near_misses_of(pod())
        self.assertEqual("pod-2 lacks 1 GPU A100; removing one of 1 of its 2 nodes is not enough",
                         near_miss_line(found))  # fmt: skip

    def test_only_so_many_podms_are_looked_at(self):
        podms = [pod(id=f"p{n}") for n in range(sensitivity.MOST_PODMS + 3)]
        self.assertEqual(sensitivity.MOST_PODMS, len(near_misses_of(*podms)))

    def test_when_the_tries_of_fits_run_out_the_notes_say_so(self):
        able = {"id": "able", "blocks": [cpu("c", 8), gpu("g", 2)]}
        with mock.patch.object(sensitivity, "MOST_FREED_FITS", 1):
            site = (able, {**able, "id": "able, too"}, pod())
            decision = engine_of(*site).select_destinations(request(ASKED))
            self.assertIn("ended after 1 pool", " ".join(explain(decision).notes))

    def test_the_view_is_untouched(self):
        decision = engine_of(pod()).select_destinations(request(ASKED))
        before = decision.view.block_counts.free.copy(), list(decision.view.block_tables[0].slots)
        _ = explain(decision)
        self.assertEqual(before[0].tolist(), decision.view.block_counts.free.tolist())
        self.assertEqual(before[1], decision.view.block_tables[0].slots)


class TestWords(unittest.TestCase):
    """A single field of the request or the podm prevents the fit."""

    def fit_pod(self, **words: Any) -> dict[str, Any]:
        return {"id": "pod-3", "blocks": [cpu("c", 8), gpu("g", 2)], **words}

    def test_another_zone(self):
        (found,) = near_misses_of(self.fit_pod(zone="b"), zone="a")
        self.assertEqual("word", found.kind)
        self.assertEqual("pod-3 is blocked only by policy: zone b, needs a", near_miss_line(found))

    def test_two_words_against_it_are_no_near_miss(self):
        self.assertEqual((), near_misses_of(self.fit_pod(zone="b", enabled=False), zone="a"))

    def test_a_word_and_missing_hardware_are_no_near_miss(self):
        self.assertEqual((), near_misses_of(pod(zone="b"), zone="a"))

    def test_what_has_no_fit_would_not_do_in_the_right_zone_either(self):
        pools = [{"id": "p", "limits": {"Expansion": {"max": 0}}}]
        blocks = [{**block, "pools": ["p"]} for block in self.fit_pod()["blocks"]]
        self.assertEqual(
            (), near_misses_of(self.fit_pod(zone="b", pools=pools, blocks=blocks), zone="a")
        )


@st.composite
def busy(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a podm of a few blocks, some in nodes, in two pools that overlap."""
    blocks, owners = [], {}
    for number in range(draw(st.integers(3, 8))):
        uri = f"b{number}"
        make = draw(st.sampled_from([cpu, gpu]))
        block = cpu(uri, 4) if make is cpu else gpu(uri)
        owner = draw(st.sampled_from(["", "", "n1", "n2", "n3"]))
        if owner:
            owners.setdefault(owner, []).append(uri)
            block["status"] = {"state": "Composed", "compositions": 1}
        blocks.append({**block, "pools": draw(st.sampled_from([["p"], ["q"], ["p", "q"]]))})
    nodes = [node(name, *uris) for name, uris in sorted(owners.items())]
    return {"id": "a", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks, "nodes": nodes}


class TestFreeing(unittest.TestCase):
    """A suggested removal is sufficient: without the node, the request fits."""

    @quietly(sized(300))
    @given(busy(), st.integers(1, 9), st.integers(0, 3))
    def test_it_fits_without_the_node_and_only_then(self, podm, cores, cards):
        properties: dict[str, Any] = {"processor": {"total_cores": cores}}
        if cards:
            properties["accelerators"] = [{"kind": "GPU", "count": cards}]
        asked = request(properties)
        decision = engine_of(podm).select_destinations(asked)
        if decision.outcome == "placed":
            self.assertEqual((), explain(decision).nearest_misses)
            return
        (found,) = explain(decision).nearest_misses
        would = {
            one["uri"]: engine_of(without(podm, one)).select_destinations(asked).outcome == "placed"
            for one in podm["nodes"]
        }
        if found.freeing is None:
            self.assertFalse(any(would.values()), podm)
        else:
            self.assertTrue(would[found.freeing.uri], podm)


def without(podm: dict[str, Any], gone: dict[str, Any]) -> dict[str, Any]:
    """Return a podm without the node, whose blocks are free."""
    copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(podm))
    copy["nodes"] = [one for one in copy["nodes"] if one["uri"] != gone["uri"]]
    for block in copy["blocks"]:
        if block["uri"] in gone["blocks"]:
            block["status"] = {}
    return copy


class TestServed(unittest.TestCase):
    """A chosen pod manager has no misses, unless nodes are missing."""

    def test_who_was_chosen_is_no_near_miss_of_a_request_that_has_all_its_nodes(self):
        blocks = [cpu("c1", 8), cpu("c2", 8), gpu("g1", 2), gpu("g2", 2)]
        site = [{"id": name, "blocks": blocks} for name in "ab"]
        group = {"name": "g", "anti_affinity": ["podm"]}
        self.assertEqual((), near_misses_of(*site, count=2, group=group))
        self.assertEqual((), near_misses_of(*site, count=4))
        found = near_misses_of(*site, count=3, min_count=1, group=group)
        self.assertEqual({"a", "b"}, {one.podm for one in found})
