# SPDX-License-Identifier: Apache-2.0
"""The blocks that a living node gets and gives away: reach, limits, and the smallest change."""

import itertools
import random
import unittest

import msgspec

from tests.unit.core.deciders import built_in
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_result
from valence_sched.errors import ClaimLost, RequestError, UnknownName
from valence_sched.model.claim import ComposedNode
from valence_sched.model.codec import decode
from valence_sched.model.inventory import FullPodm, LeanPodm, to_json
from valence_sched.model.need import NodeRequest, Toleration
from valence_sched.planning.node_change import ChangePlanner
from valence_sched.testing import request
from valence_sched.view.builder import ViewBuilder

HOST = {"uri": "/B/host-1", "type": ["Compute"], "devices": {"processors": [{"cores": 16}]}}


def gpu(name, model="A100", pools=(), state="Unused"):
    devices = {"accelerators": [{"kind": "GPU", "model": model}]}
    status = {"state": state}
    return {"uri": f"/B/{name}", "type": ["Processor"], "devices": devices,
            "pools": list(pools), "status": status}  # fmt: skip


def gpus(count, model=None):
    one = {"kind": "GPU", "count": count} | ({"model": model} if model else {})
    return request({"accelerators": [one]})


def decide(podm, wanted):
    builder = ViewBuilder()
    builder.add(decode(to_json(podm), LeanPodm, "p"), "p")
    return decision_result(Decider(builder.view(), built_in()).select_destinations(wanted))


def planner(blocks, own, pools=(), **words):
    podm = {"id": "p", "blocks": blocks, "pools": [{"id": one} for one in pools]}
    if limits := words.pop("limits", None):
        podm["pools"] = [{"id": one, "limits": limits} for one in pools]
    if by_pool := words.pop("limits_of", None):
        podm["pools"] = [{"id": one, "limits": by_pool[one]} for one in pools]
    node = ComposedNode(id="n", podm="p", uri="/S/1", claim="c",
                        blocks=tuple(f"/B/{one}" for one in own), **words)  # fmt: skip
    return ChangePlanner(msgspec.convert(podm, FullPodm), node, decide)


def tails(uris):
    return sorted(uri.removeprefix("/B/") for uri in uris)


class TestAttaching(unittest.TestCase):
    """Free devices for a node."""

    def test_free_devices_in_the_reach_of_the_host_are_chosen(self):
        host = {**HOST, "pools": ["a", "b"], "status": {"state": "Composed"}}
        names = ("a1", "b1", "b2", "c1", "c2", "c3")
        blocks = [host, *(gpu(name, pools=[name[0]]) for name in names)]
        plan = planner(blocks, ["host-1"], "abc")
        self.assertEqual(["b1", "b2"], tails(plan.attach(gpus(2)).attach))
        self.assertFalse(plan.attach(gpus(3)).fits)

    def test_blocks_in_use_and_other_hosts_are_not_chosen(self):
        other = {**HOST, "uri": "/B/host-2", "devices": {**HOST["devices"], **gpu("")["devices"]}}
        plan = planner([HOST, other, gpu("1", state="Composed"), gpu("2")], ["host-1"])
        self.assertEqual(["2"], tails(plan.attach(gpus(1)).attach))
        found = plan.attach(gpus(2))
        self.assertFalse(found.fits)
        self.assertEqual("nothing_fits", found.decision.report.outcome)

    def test_the_limits_of_a_pool_count_what_the_node_has(self):
        blocks = [{**HOST, "pools": ["a"]}, *(gpu(str(n), pools=["a"]) for n in range(1, 5))]
        limits = {"Processor": {"min": 2, "max": 3}}
        plan = planner(blocks, ["host-1", "1"], "a", limits=limits)
        self.assertEqual(1, len(plan.attach(gpus(1)).attach))  # a minimum is for a whole node
        self.assertEqual(2, len(plan.attach(gpus(2)).attach))
        self.assertFalse(plan.attach(gpus(3)).fits)

    def test_a_coming_block_is_not_chosen_again_and_takes_room(self):
        blocks = [{**HOST, "pools": ["a"]}, *(gpu(str(n), pools=["a"]) for n in range(1, 4))]
        for most, others in ((2, ["2"]), (1, [])):
            plan = planner(blocks, ["host-1"], "a", limits={"Processor": {"max": most}})
            with self.subTest(most):
                self.assertEqual(others, tails(plan.attach(gpus(1), coming=["/B/1"]).attach))

    def test_a_named_block_is_free_within_reach_and_of_this_pod_manager(self):
        other = {**HOST, "uri": "/B/host-2", "pools": ["a"]}
        blocks = [{**HOST, "pools": ["a"]}, other, gpu("1", pools=["a"]), gpu("2", pools=["b"]),
                  gpu("3", pools=["a"], state="Composed"),
                  gpu("4", pools=["a"], state="Failed")]  # fmt: skip
        plan = planner(blocks, ["host-1"], "ab")
        self.assertEqual(("/B/1",), plan.free_named(["1", "/B/1"]))
        self.assertEqual(("/B/host-1",), plan.free_named(["host-1"]))
        for name, kind, words in (
            ("x", UnknownName, "no block of pod manager p named 'x'"),
            ("2", RequestError, "node n reaches a, but /B/2 is in b"),
            ("3", ClaimLost, "p: /B/3: found Composed, expected a free block"),
            ("4", ClaimLost, "p: /B/4: found Failed, expected a free block"),
            ("host-2", RequestError, "part of another host"),
        ):
            with self.subTest(name), self.assertRaisesRegex(kind, words):
                plan.free_named([name])

    def test_a_tainted_block_is_attached_only_if_the_taint_is_tolerated(self):
        tainted = gpu("1")
        tainted["status"]["taints"] = ["team=a:NoPlace"]
        plan = planner([HOST, tainted], ["host-1"])
        self.assertFalse(plan.attach(gpus(1)).fits)
        with self.assertRaisesRegex(RequestError, "/B/1 is tainted team=a:NoPlace: use --tolerate"):
            plan.free_named(["1"])
        tolerations = (Toleration("team", value="a"),)
        self.assertEqual(("/B/1",), plan.free_named(["1"], tolerations))
        wanted = msgspec.structs.replace(gpus(1), tolerations=tolerations)
        self.assertEqual(("/B/1",), plan.attach(wanted).attach)

    def test_a_node_keeps_a_block_that_was_tainted_later(self):
        tainted = gpu("1", state="Composed")
        tainted["status"]["taints"] = ["team=a:NoPlace"]
        found = planner([HOST, tainted], ["host-1", "1"]).become(gpus(1))
        self.assertEqual(((), ()), (found.attach, found.detach))
        self.assertTrue(found.fits)

    def test_free_devices_beyond_the_reach_are_named(self):
        blocks = [{**HOST, "pools": ["a"]}, gpu("1", pools=["b"]), gpu("2", pools=["a"])]
        plan = planner(blocks, ["host-1"], "ab")
        for found in (plan.attach(gpus(2)), plan.become(gpus(2))):
            (line,) = found.decision.report.warnings
            self.assertEqual("p: /B/1 would fit, but the node reaches a only", line)
        self.assertEqual((), plan.attach(gpus(3)).decision.report.warnings)

    def test_a_device_of_another_fabric_is_beyond_the_reach(self):
        host = {**HOST, "places": {"fabric": "/F/1"}}
        near, far = ({**gpu(name), "places": {"fabric": f"/F/{name}"}} for name in "12")
        plan = planner([host, near, far], ["host-1"])
        self.assertEqual(["1"], tails(plan.attach(gpus(1)).attach))
        with self.assertRaisesRegex(RequestError, "reaches /F/1, but /B/2 is in fabric /F/2"):
            plan.free_named(["2"])


class TestDetaching(unittest.TestCase):
    """Devices that leave a node."""

    def setUp(self):
        blocks = [HOST, gpu("1", "A100"), gpu("2", "H100"), gpu("3", "A100")]
        wanted = NodeRequest.of(request({"processor": {"total_cores": 8},
                                         "accelerators": [{"model": "H100"}]}))  # fmt: skip
        self.plan = planner(blocks, ["host-1", "1", "2"], request=wanted)

    def test_devices_are_chosen_among_those_of_the_node(self):
        self.assertEqual(["2"], tails(self.plan.detach(gpus(1, "H100")).detach))
        self.assertEqual(["1", "2"], tails(self.plan.detach(gpus(2)).detach))
        lacking = r"node n lacks these devices \(can be detached: 1, 2\)"
        with self.assertRaisesRegex(RequestError, lacking):
            self.plan.detach(gpus(3))

    def test_a_leaving_block_is_not_chosen_again(self):
        self.assertEqual(["2"], tails(self.plan.detach(gpus(1), ["/B/1"]).detach))
        with self.assertRaisesRegex(RequestError, r"\(can be detached: 2\)"):
            self.plan.detach(gpus(2), ["/B/1"])

    def test_what_the_request_of_the_node_does_not_need_is_idle(self):
        self.assertEqual(["1"], tails(self.plan.without_idle().detach))
        with self.assertRaisesRegex(RequestError, "node n has no request"):
            planner([HOST], ["host-1"]).without_idle()

    def test_a_part_of_the_host_is_never_detached(self):
        with self.assertRaisesRegex(RequestError, "host-1 is part of the host"):
            self.plan.own_named(["host-1"])
        with self.assertRaisesRegex(RequestError, "lacks these devices"):
            self.plan.detach(request({"processor": {"total_cores": 8}}))

    def test_a_block_of_another_node_is_unknown(self):
        with self.assertRaisesRegex(UnknownName, "no block of node n named '3'"):
            self.plan.own_named(["3"])


class TestResizing(unittest.TestCase):
    """The smallest change after which a node fulfils a request."""

    def test_own_blocks_that_suffice_are_kept_and_others_go(self):
        plan = planner([HOST, gpu("1"), gpu("2"), gpu("3")], ["host-1", "1", "2"])
        self.assertEqual(
            ((), []), (plan.become(gpus(2)).attach, tails(plan.become(gpus(2)).detach))
        )
        found = plan.become(gpus(1))
        self.assertEqual(((), 1), (found.attach, len(found.detach)))

    def test_only_missing_blocks_are_attached_though_others_fit_better(self):
        blocks = [HOST, gpu("1", "A100"), gpu("2", "A100"), gpu("3", "A100"), gpu("4", "H100")]
        found = planner(blocks, ["host-1", "1"]).become(gpus(2))
        self.assertEqual(1, len(found.attach))
        self.assertEqual((), found.detach)

    def test_a_block_of_another_model_is_swapped(self):
        plan = planner([HOST, gpu("1", "A100"), gpu("2", "H100")], ["host-1", "1"])
        found = plan.become(gpus(1, "H100"))
        self.assertEqual((["2"], ["1"]), (tails(found.attach), tails(found.detach)))

    def test_a_swap_says_why_it_has_no_room_to_attach_first(self):
        blocks = [{**HOST, "pools": ["a"]}, gpu("1", pools=["a"]), gpu("2", "H100", pools=["a"])]
        for most, words in ((1, "a node in a has at most 1 Processor block"), (2, "")):
            limits = {"Processor": {"max": most}}
            plan = planner(blocks, ["host-1", "1"], "a", limits=limits)
            found = plan.become(gpus(1, "H100"))
            self.assertEqual((["2"], ["1"]), (tails(found.attach), tails(found.detach)))
            self.assertEqual(words, plan.no_room(found.attach, found.detach))
            self.assertEqual("", plan.no_room(found.attach, ()))

    def test_what_cannot_move_is_not_changed(self):
        other = {**HOST, "uri": "/B/host-2", "devices": {"processors": [{"cores": 64}]}}
        plan = planner([HOST, other], ["host-1"])
        found = plan.become(request({"processor": {"total_cores": 64}}))
        self.assertFalse(found.fits)

    def test_no_change_is_smaller_on_random_fabrics(self):
        rng = random.Random(7)
        for _ in range(40):
            pools = ["a", "b", "c"][: rng.randint(1, 3)]
            reach = rng.sample(pools, rng.randint(1, len(pools)))
            models = ["A", "B"]
            blocks = [{**HOST, "pools": reach}] + [
                gpu(str(n), rng.choice(models), pools=rng.sample(pools, rng.randint(1, len(pools))),
                    state=rng.choice(["Unused", "Unused", "Composed"]))
                for n in range(6)
            ]  # fmt: skip
            near = [b for b in blocks[1:] if set(b["pools"]) & set(reach)]
            own = rng.sample(near, rng.randint(0, min(2, len(near))))
            names = ["host-1", *(b["uri"].removeprefix("/B/") for b in own)]
            wanted = {model: rng.randint(0, 2) for model in models}
            if not any(wanted.values()):
                continue
            asked = [{"kind": "GPU", "model": m, "count": n} for m, n in wanted.items() if n]
            found = planner(blocks, names, pools).become(request({"accelerators": asked}))
            free = [b for b in near if b not in own and b["status"]["state"] == "Unused"]
            fewest = min(
                (
                    len(added)
                    for size in range(len(free) + 1)
                    for added in itertools.combinations(free, size)
                    if _has([*own, *added], wanted)
                    and any(all(pool in b["pools"] for b in added) for pool in reach)
                ),
                default=None,
            )
            with self.subTest(blocks=blocks, names=names, wanted=wanted):
                self.assertEqual(fewest, len(found.attach) if found.fits else None)
                kept = [b for b in own if b["uri"] not in found.detach]
                gained = [b for b in blocks if b["uri"] in found.attach]
                if found.fits:
                    self.assertTrue(_has([*kept, *gained], wanted))
                    self.assertTrue(all(set(b["pools"]) & set(reach) for b in gained))

    def test_slots_and_zones_of_a_host_agree_with_brute_force_on_random_fabrics(self):
        """Attach exactly where pool, slots and free devices allow it."""
        rng, fitting = random.Random(11), 0
        for _ in range(150):
            pools = ["a", "b", "c"][: rng.randint(1, 3)]
            reach = rng.sample(pools, rng.randint(1, len(pools)))
            slots = {name: rng.randint(0, 4) for name in pools}
            blocks = [{**HOST, "pools": reach}] + [
                gpu(str(n), rng.choice("AB"), pools=rng.sample(pools, rng.randint(1, len(pools))),
                    state=rng.choice(["Unused", "Unused", "Composed"]))
                for n in range(7)
            ]  # fmt: skip
            own = [b for b in blocks[1:] if set(b["pools"]) & set(reach)][: rng.randint(0, 2)]
            names = ["host-1", *(b["uri"].removeprefix("/B/") for b in own)]
            limits = {name: {"Processor": {"max": most}} for name, most in slots.items()}
            plan = planner(blocks, names, pools, limits_of=limits)
            count = rng.randint(1, 3)
            free = [b for b in blocks[1:] if b not in own and b["status"]["state"] == "Unused"]
            fits = any(
                all(pool in b["pools"] for b in some) and len(own) + count <= slots[pool]
                for pool in reach
                for some in itertools.combinations(free, count)
            )
            found = plan.attach(gpus(count))
            with self.subTest(blocks=blocks, names=names, limits=limits, count=count):
                self.assertEqual(fits, found.fits)
                chosen = [b for b in blocks if b["uri"] in found.attach]
                self.assertEqual(count if fits else 0, len(chosen))
                self.assertTrue(all(b in free for b in chosen))
            fitting += fits
        self.assertTrue(30 < fitting < 120, fitting)

    def test_the_order_of_a_swap_agrees_with_brute_force_on_random_fabrics(self):
        """Detach first exactly where no pool has room for both, but one for what stays."""
        rng, orders = random.Random(13), {True: 0, False: 0}
        for _ in range(200):
            pools = ["a", "b", "c"][: rng.randint(1, 3)]
            reach = rng.sample(pools, rng.randint(1, len(pools)))
            slots = {name: rng.randint(1, 4) for name in pools}
            blocks = [{**HOST, "pools": reach}] + [
                gpu(str(n), pools=rng.sample(pools, rng.randint(1, len(pools)))) for n in range(6)
            ]
            near = [b for b in blocks[1:] if set(b["pools"]) & set(reach)]
            own = near[: rng.randint(1, 3)]
            free = [b for b in near if b not in own][: rng.randint(1, 2)]
            if not (own and free):
                continue
            names = ["host-1", *(b["uri"].removeprefix("/B/") for b in own)]
            limits = {name: {"Processor": {"max": most}} for name, most in slots.items()}
            plan = planner(blocks, names, pools, limits_of=limits)
            gone = own[: rng.randint(1, len(own))]

            def has_room(some, slots=slots, reach=reach):
                return any(
                    len(some) <= slots[pool] and all(pool in b["pools"] for b in some)
                    for pool in reach
                )

            detach_first = not has_room([*own, *free]) and has_room(
                [*(b for b in own if b not in gone), *free]
            )
            found = plan.no_room([b["uri"] for b in free], [b["uri"] for b in gone])
            with self.subTest(blocks=blocks, names=names, limits=limits, gone=gone):
                self.assertEqual(detach_first, bool(found), found)
            orders[detach_first] += 1
        self.assertGreater(min(orders.values()), 30, orders)


def _has(blocks, wanted):
    models = [b["devices"]["accelerators"][0]["model"] for b in blocks]
    return all(models.count(model) >= count for model, count in wanted.items())
