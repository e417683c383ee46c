# SPDX-License-Identifier: Apache-2.0
"""Edits: the effect of each on a site, and invariants of all edits."""

import copy
import tracemalloc
import unittest

import msgspec
from hypothesis import given, strategies as st

from tests.unit.core.deciders import cpu, gpu
from tests.unit.core.sites import quietly, sized
from tests.unit.planning.sites import GPU, WEB, chosen, counts, edit, free, racks, site_of, states
from valence_sched.errors import InputError, NothingMatches, UsageError
from valence_sched.model.inventory import Accelerator, Devices, LeanPodm
from valence_sched.model.scenario import EditEffect, Template, parse_target
from valence_sched.planning.edits import apply_edit, edited
from valence_sched.planning.site import Site, find_targets
from valence_sched.testing.generate import podms

TRAY = Template(name="H100 tray", type=("Expansion",), price=9.5,
                devices=Devices(accelerators=(Accelerator(kind="GPU", model="H100"),)))  # fmt: skip


def of(site: Site, podm: str) -> LeanPodm:
    return next(one for one in site.podms if one.id == podm)


class TestFail(unittest.TestCase):
    """Blocks fail together with their nodes."""

    def test_the_node_of_a_block_is_lost_and_its_other_blocks_are_free(self):
        site = apply_edit(racks(), edit(fail="c1@east"))
        (effect,) = site.effects
        self.assertEqual((), of(site, "east").nodes)
        self.assertEqual({"state": "Failed", "health": "Critical"}, states(of(site, "east"))["c1"])
        self.assertEqual(["c2", "g1", "g2"], sorted(free(site, "east")))
        self.assertEqual(EditEffect(edit="fail c1@east", podms=1, blocks=1, nodes=1), effect)

    def test_a_block_that_several_nodes_share_loses_only_those_that_fail(self):
        shared = {"state": "ComposedAndAvailable", "shareable": True, "max_compositions": 4,
                  "compositions": 3}  # fmt: skip
        nodes = [{"uri": f"/n/{n}", "blocks": [f"/r/c{n}", "/r/s"]} for n in (1, 2, 3)]
        blocks = [*(cpu(f"/r/c{n}", 8, status={"state": "Composed"}) for n in (1, 2, 3)),
                  cpu("/r/s", 8, status=shared)]  # fmt: skip
        base = site_of({"id": "p", "blocks": blocks, "nodes": nodes})
        site = edited(base, [edit(fail="c[12]@p")])
        self.assertEqual(1, states(of(site, "p"))["s"]["compositions"])
        self.assertEqual({"s": 3}, free(site, "p"))

    def test_a_pod_manager_that_fails_is_offline_and_has_nothing(self):
        site = edited(racks(), [edit(fail="east")])
        self.assertEqual("Offline", of(site, "east").status)
        self.assertEqual({}, free(site, "east"))
        self.assertEqual([0.0, 0.0], [stock.total for stock in of(site, "east").stocks])
        for policy in ("default", "chance"):
            self.assertEqual([], chosen(site, GPU, policy))

    def test_what_is_also_in_another_pool_only_leaves_the_pool_that_fails(self):
        site = edited(racks(), [edit(fail="east/a")])
        east = of(site, "east")
        self.assertEqual("Online", east.status)
        self.assertEqual("Failed", states(east)["c1"]["state"])
        self.assertEqual([("a",), ("b",), ("b",), ("b",)], [block.pools for block in east.blocks])
        self.assertEqual([(("a",), 0.0), (("b",), 10.0)],
                         [(stock.pools, stock.total) for stock in east.stocks])  # fmt: skip
        self.assertEqual([("east", ["/r/c2", "/r/g1"])], chosen(site, GPU))

    def test_all_pools_of_a_pod_manager_are_the_pod_manager(self):
        for verb in ("fail", "drain", "remove"):
            whole = edited(racks(), [edit(**{verb: "east"})])
            pools = edited(racks(), [edit(**{verb: "east/*"})])
            self.assertEqual(whole.podms, pools.podms)


class TestDrain(unittest.TestCase):
    """Drained hardware gets no new node and keeps its nodes."""

    def test_a_drained_pod_manager_keeps_its_nodes(self):
        site = edited(racks(), [edit(drain="east")])
        east, before = of(site, "east"), of(racks(), "east")
        self.assertEqual((before.nodes, False), (east.nodes, east.enabled))
        self.assertEqual({}, free(site, "east"))
        self.assertEqual([(4.0, 4.0), (1.0, 1.0)], [(one.total, one.used) for one in east.stocks])

    def test_a_drained_block_stays_with_its_node(self):
        site = edited(racks(), [edit(drain="model=A100")])
        self.assertEqual({"state": "Composed", "enabled": False}, states(of(site, "east"))["g1"])
        self.assertEqual([("east", ["/r/c2", "/r/g2"])], chosen(site, GPU))

    def test_a_drained_pool_gives_nothing_that_only_it_has(self):
        site = edited(racks(), [edit(drain="east/b")])
        self.assertEqual(
            [("a",), ("b",), ("a",), ("b",)], [b.pools for b in of(site, "east").blocks]
        )
        self.assertEqual([], chosen(site))


class TestRemove(unittest.TestCase):
    """Removed hardware is gone with its nodes."""

    def test_a_pod_manager_a_pool_and_blocks_go_with_their_nodes(self):
        self.assertEqual(["west"], [one.id for one in edited(racks(), [edit(remove="east")]).podms])
        east = of(edited(racks(), [edit(remove="east/a")]), "east")
        self.assertEqual(["b"], [pool.id for pool in east.pools])
        self.assertEqual(["/r/c2", "/r/g1", "/r/g2"], [block.uri for block in east.blocks])
        self.assertEqual(["/s/2"], [stock.uri for stock in east.stocks])
        self.assertEqual((), east.nodes)
        self.assertEqual([], chosen(edited(racks(), [edit(remove="*")])))
        site = edited(racks(), [edit(remove="g1@east")])
        self.assertEqual({"c1": 1, "c2": 1, "g2": 1}, free(site, "east"))


class TestClone(unittest.TestCase):
    """Copies of a pod manager are new hardware."""

    def test_a_clone_works_is_free_and_is_another_service(self):
        site = apply_edit(racks(), edit(clone="east", times=2))
        (effect,) = site.effects
        self.assertEqual(["east", "east-2", "east-3", "west"], [one.id for one in site.podms])
        clone = of(site, "east-2")
        self.assertEqual("East hall (2)", clone.name)
        self.assertEqual((None, None, ()), (clone.url, clone.identity, clone.nodes))
        self.assertEqual(4, len(free(site, "east-2")))
        self.assertEqual([0.0, 0.0], [stock.used for stock in clone.stocks])
        self.assertEqual((2, 4, 8, 4), (effect.podms, effect.pools, effect.blocks, effect.stocks))

    def test_a_clone_of_what_failed_or_is_disabled_works(self):
        site = edited(racks(), [edit(fail="east"), edit(clone="*")])
        for name in ("east-2", "west-2"):
            self.assertEqual(("Online", True), (of(site, name).status, of(site, name).enabled))
        self.assertEqual({"c1": 1, "g1": 1}, free(site, "west-2"))

    def test_names_that_are_in_use_are_passed_over(self):
        site = edited(site_of({"id": "p"}, {"id": "p-2"}), [edit(clone="p"), edit(clone="p")])
        self.assertEqual(["p", "p-4", "p-3", "p-2"], [one.id for one in site.podms])


class TestAdd(unittest.TestCase):
    """Blocks like another block, or of a template."""

    def test_new_blocks_are_like_the_one_that_is_named(self):
        site = apply_edit(racks(), edit(add="g1", to="east", count=2))
        (effect,) = site.effects
        new = of(site, "east").blocks[4:]
        self.assertEqual(["/r/g1-2", "/r/g1-3"], [block.uri for block in new])
        self.assertEqual({("a", "b")}, {block.pools for block in new})
        self.assertEqual(2, effect.blocks)
        self.assertEqual(1, free(site, "east")["g1-2"])
        self.assertEqual(["/r/g1-4"], [b.uri for b in of(
            edited(site, [edit(add="g1", to="east")]), "east").blocks[6:]])  # fmt: skip

    def test_new_blocks_stand_in_the_pools_that_are_named(self):
        site = apply_edit(racks(), edit(add="g1", to="east/*"))
        (effect,) = site.effects
        self.assertEqual([("a",), ("b",)], [block.pools for block in of(site, "east").blocks[4:]])
        self.assertEqual((1, 2, 2), (effect.podms, effect.pools, effect.blocks))

    def test_a_block_of_another_pod_manager_can_be_the_model(self):
        site = edited(racks(), [edit(add="g2@east", to="west", count=1)])
        (new,) = of(site, "west").blocks[2:]
        self.assertEqual(("/r/g2-2", ()), (new.uri, new.pools))
        self.assertEqual(of(site, "east").blocks[3].devices, new.devices)

    def test_a_template_makes_blocks_in_every_pool(self):
        base = site_of({"id": "new", "pools": [{"id": "a"}, {"id": "b"}]},
                       templates={"H100 tray": TRAY})  # fmt: skip
        (podm,) = edited(base, [edit(add="H100 tray", to="new", count=2)]).podms
        uris = [block.uri.rpartition("/")[2] for block in podm.blocks]
        self.assertEqual(["H100-tray-1", "H100-tray-2"], uris)
        self.assertEqual(("a", "b"), podm.blocks[0].pools)
        self.assertEqual(TRAY.devices, msgspec.json.decode(podm.blocks[0].devices, type=Devices))

    def test_what_is_to_be_added_must_be_known_and_of_one_kind(self):
        with self.assertRaises(NothingMatches) as caught:
            edited(racks(), [edit(add="g11", to="east")])
        self.assertEqual("add 1xg11@east: no template, and no block of pod manager 'east', named "
                         "'g11' (did you mean 'g1'?)", str(caught.exception))  # fmt: skip
        with self.assertRaisesRegex(UsageError, "2 kinds are named 'g\\*' \\(g1, g2\\)"):
            edited(racks(), [edit(add="g*", to="east")])
        with self.assertRaisesRegex(UsageError, "'podm=e@st' is not a block: expected a template"):
            edited(site_of({"id": "e@st"}), [edit(add="podm=e@st", to={"podm": "e@st"})])
        with self.assertRaisesRegex(InputError, "^add 1xg@@east: target 'g@': found another form"):
            edited(racks(), [edit(add="g@", to="east")])

    def test_more_than_a_million_blocks_are_refused_before_they_are_made(self):
        site = edited(racks(), [edit(clone="west", times=20)])
        with self.assertRaisesRegex(UsageError, "at most 1,000,000 blocks, not 2,100,000"):
            edited(site, [edit(add="g1", to="west*", count=100_000)])
        with self.assertRaisesRegex(UsageError, "at most 1,000,000 blocks"):
            edited(site_of({"id": "p", "blocks": [gpu(f"/{n}") for n in range(101)]}),
                   [edit(clone="p", times=10_000)])  # fmt: skip


class TestSet(unittest.TestCase):
    """Attributes of pod managers, pools and blocks."""

    def test_attributes_of_a_pod_manager(self):
        site = edited(racks(), [edit(
            set="east", zone=None, aggregates=["new"], traits=[], status="Offline", enabled=False,
            facts={"price": None, "rack": "R1", "racks": ["a", "b"]},
            capabilities={"os": None, "fabric": ["ib"], "cpu": "x86"},
        )])  # fmt: skip
        east = of(site, "east")
        found = (east.zone, east.aggregates, east.traits, east.status, east.enabled)
        self.assertEqual((None, ("new",), (), "Offline", False), found)
        self.assertEqual({"rack": "R1", "racks": ("a", "b")}, east.facts)
        self.assertEqual({"fabric": ("ib",), "cpu": ("x86",)}, east.capabilities)
        self.assertEqual(of(racks(), "east").blocks, east.blocks)

    def test_traits_of_pools_and_of_a_pod_manager_that_lists_none(self):
        site = edited(racks(), [edit(set="pool=*", traits=["CXL"])])
        self.assertEqual([("CXL",), ("CXL",)], [pool.traits for pool in of(site, "east").pools])
        self.assertEqual(("CXL",), of(site, "west").traits)

    def test_the_status_of_blocks(self):
        site = edited(racks(), [edit(set="g1@west", reserved=False, enabled=True),
                                edit(set="c1@west", health="Critical")])  # fmt: skip
        self.assertEqual({"g1": 1}, free(site, "west"))


EDITS = st.sampled_from([
    edit(fail="podm-00001"), edit(fail="pool=z1"),
    edit(fail="model=EPYC"), edit(fail="free=yes,podm=podm-00002"),
    edit(drain="podm-00002"), edit(drain="podm-0000[13]/z2"), edit(drain="type=Compute"),
    edit(remove="podm-00003/z1"), edit(remove="type=Storage"), edit(remove="free=no"),
    edit(clone="podm-00002"), edit(add="tray", to="*", count=3), edit(add="tray", to="pool=z2"),
    edit(set="*", facts={"price": 3}), edit(set="block=*1", health="Critical"),
])  # fmt: skip


def random_site(seed: int) -> Site:
    """Return three pod managers of twelve blocks; every composed pair of blocks is a node."""
    built = []
    for text in podms(3, 12, seed, stocks=2):
        podm = msgspec.json.decode(text, type=LeanPodm)
        used = [b.uri for b in podm.blocks if b"Composed" in bytes(b.status or b"")]
        nodes = [{"uri": f"/n/{n}", "blocks": used[n : n + 2]} for n in range(0, len(used), 2)]
        built.append(msgspec.to_builtins(msgspec.json.decode(text)) | {"nodes": nodes})
    return site_of(*built, templates={"tray": TRAY})


def tolerant(site: Site, edits: list) -> Site:
    """Apply edits; an edit with a missing target changes nothing."""
    for one in edits:
        try:
            site = edited(site, [one])
        except NothingMatches:
            continue
    return site


class TestProperties(unittest.TestCase):
    """Invariants of every edit on every site."""

    @quietly(sized(180))
    @given(st.integers(0, 50), st.lists(EDITS, max_size=4))
    def test_the_base_never_changes_and_the_result_is_sound(self, seed, edits):
        base = random_site(seed)
        before, amounts = copy.deepcopy(base.podms), counts(base)
        site = tolerant(base, edits)
        site.view()
        for podm in site.podms:
            uris = {block.uri for block in podm.blocks}
            if podm.id in {one.id for one in base.podms}:
                for node in podm.nodes:
                    self.assertLessEqual(set(node.blocks), uris)
        self.assertEqual(before, base.podms)
        self.assertEqual(amounts, counts(Site("again", base.podms, {}, {})))

    @quietly(sized(150))
    @given(st.integers(0, 50), st.lists(EDITS, max_size=3), st.lists(EDITS, max_size=3))
    def test_edits_compose_in_their_order(self, seed, first, second):
        base = random_site(seed)
        self.assertIs(base, edited(base, []))
        one_by_one = tolerant(tolerant(base, first), second)
        self.assertEqual(one_by_one.podms, tolerant(base, [*first, *second]).podms)

    @quietly(sized(150))
    @given(st.integers(0, 50), st.integers(0, 2), st.integers(0, 11), st.integers(1, 5))
    def test_to_remove_what_was_added_gives_the_same_amounts(self, seed, podm, block, count):
        base = random_site(seed)
        name, uri = base.podms[podm].id, base.podms[podm].blocks[block].uri
        added = edited(base, [edit(add=uri, to=name, count=count)])
        last = uri.rpartition("/")[2]
        removed = edited(added, [edit(remove=f"{last}-[2-9]@{name}")])
        self.assertEqual(base.podms, removed.podms)
        self.assertEqual(counts(base), counts(removed))

    @quietly(sized(180))
    @given(st.integers(0, 50), st.lists(EDITS, max_size=2), st.sampled_from(["default", "chance"]))
    def test_a_failed_block_is_never_chosen_and_a_drained_pod_manager_takes_nothing(
        self, seed, edits, policy
    ):
        site = tolerant(random_site(seed), edits)
        wanted = msgspec.structs.replace(WEB, count=4, min_count=1)
        for podm, blocks in chosen(site, wanted, policy):
            first = f"{blocks[0].rpartition('/')[2]}@{podm}"
            without = edited(site, [edit(fail=first)])
            again = [(one, uri) for one, uris in chosen(without, wanted, policy) for uri in uris]
            self.assertNotIn((podm, blocks[0]), again)
            drained = edited(site, [edit(drain=podm)])
            self.assertNotIn(podm, [one for one, _ in chosen(drained, wanted, policy)])


class TestFindTargets(unittest.TestCase):
    """One site of two pod managers, both with a ``g1``."""

    def found(self, text):
        site = racks()
        lines = []
        for match in find_targets(site.podms, parse_target(text), site.kinds):
            podm = site.podms[match.podm]
            names = [podm.blocks[number].uri.rpartition("/")[2] for number in match.blocks]
            lines.append((podm.id, *sorted(match.pools), *names))
        return lines

    def test_what_is_selected(self):
        for text, lines in (
            ("east", [("east",)]),
            ("East hall", [("east",)]),
            ("*", [("east",), ("west",)]),
            ("*st/*", [("east", "a", "b"), ("west", "all")]),
            ("zone=az*", [("east",), ("west",)]),
            ("aggregate=gold", [("east",)]),
            ("trait=IB", [("east",)]),
            ("pool=*,trait=NVLINK", [("east", "a")]),
            ("status=Unknown", [("west",)]),
            ("enabled=no", [("west",)]),
            ("g1@*", [("east", "g1"), ("west", "g1")]),
            ("/r/g1@west", [("west", "g1")]),
            ("sled 2@east", [("east", "c2")]),
            ("g[12]@east/b", [("east", "g1", "g2")]),
            ("*@west/all", [("west", "c1", "g1")]),
            ("type=Compute", [("east", "c1", "c2"), ("west", "c1")]),
            ("model=a100", [("east", "g1"), ("west", "g1")]),
            ("model=A100,zone=az2", [("west", "g1")]),
            ("kind=GPU,podm=east", [("east", "g1", "g2")]),
            ("free=yes", [("east", "c2", "g2"), ("west", "c1")]),
            ("free=no,type=Expansion", [("east", "g1"), ("west", "g1")]),
            ("block=*,trait=NVLINK", [("east", "c1", "g1")]),
        ):
            with self.subTest(text):
                self.assertEqual(lines, self.found(text))

    def test_a_target_that_selects_nothing_names_the_nearest(self):
        for text, message in (
            ("eats", "no pod manager named 'eats' (did you mean 'east'?)"),
            ("x*", "no pod manager named 'x*' (known: East hall, east, west)"),
            ("east/c", "no pool named 'c' (known: a, b)"),
            ("g11@east", "no block named 'g11' (did you mean 'g1'?)"),
            ("zone=az9", "no pod manager in zone 'az9' (did you mean 'az2'?)"),
            ("aggregate=glod", "no pod manager in aggregate 'glod' (did you mean 'gold'?)"),
            ("trait=NVLINK", "no pod manager with trait 'NVLINK' (known: IB)"),
            ("pool=*,trait=NVLNK", "no pool with trait 'NVLNK' (did you mean 'NVLINK'?)"),
            ("block=*,trait=NVLNK", "no pool with trait 'NVLNK' (did you mean 'NVLINK'?)"),
            ("status=Offline", "no pod manager with status 'Offline' (did you mean 'Online'?)"),
            ("enabled=no,zone=az1", "no pod manager that is disabled"),
            ("model=H100,zone=az2",
             "no block with a device of model 'H100' (known: NVIDIA A100)"),
            ("model=A10",
             "no block with a device of model 'A10' (known: NVIDIA A100, NVIDIA H100)"),
            ("kind=FPGA", "no block with a device of kind 'FPGA' (known: GPU)"),
            ("type=Network", "no block of type 'Network' (known: Compute, Expansion)"),
            ("model=A100,free=yes", "no block that is free"),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(NothingMatches) as caught:
                self.found(text)
            self.assertEqual(message, str(caught.exception))

    def test_of_a_large_site_only_the_numbers_of_blocks_are_kept(self):
        one = of(racks(), "east")
        large = msgspec.structs.replace(one, blocks=one.blocks * 5_000)
        for text in ("model=A100,free=no", "block=g1,trait=NVLINK"):
            target, kinds = parse_target(text), racks().kinds
            with self.subTest(text):
                find_targets([one], target, kinds)  # decodes each kind and status once
                tracemalloc.start()
                (found,) = find_targets([large], target, kinds)
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
                self.assertEqual(5_000, len(found.blocks))
                # a tuple or another object for each block would take over 64 bytes
                self.assertLess(peak, 64 * len(large.blocks))
