# SPDX-License-Identifier: Apache-2.0
"""A tree of Redfish documents is read as a pod manager."""

import io
import os
import random
import tempfile
import unittest
from pathlib import Path

import msgspec
from hypothesis import given, settings, strategies as st

from tests.unit.core.sites import sized
from tests.unit.drivers.served import DIALECTS
from valence_sched.drivers import bounds
from valence_sched.drivers.files import tree as mockup
from valence_sched.drivers.files.tree import build_folder, join_pages, podm_of, tree_of, write_tree
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.recorded import files_below, records
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Nic

RECORDED = Path(__file__).parents[3] / "recorded"
BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"


def read(name):
    diagnostics = Diagnostics()
    (record,) = records(str(RECORDED / name), io.BytesIO(), diagnostics, DIALECTS)
    return msgspec.json.decode(record.json, type=FullPodm), diagnostics.lines()


def read_map(documents, diagnostics=None):
    tree = tree_of({uri: msgspec.json.encode(d) for uri, d in documents.items()})
    podm = podm_of(
        tree, "t", "t.json", Diagnostics() if diagnostics is None else diagnostics, DIALECTS
    )
    return msgspec.json.decode(msgspec.json.encode(podm), type=FullPodm)


def documents_of(name):
    return msgspec.json.decode((RECORDED / name).read_bytes())


def by_name(podm):
    return {block.uri.rpartition("/")[2]: block for block in podm.blocks}


def devices(podm, kind):
    return sum(line.count or 0 for block in podm.blocks for line in getattr(block.devices, kind))


class SharedBlocksTest(unittest.TestCase):
    def setUp(self):
        self.podm, self.problems = read("shared-blocks.json")
        self.blocks = by_name(self.podm)

    def test_a_member_listed_twice_is_one_block(self):
        self.assertEqual(1, [b.uri for b in self.podm.blocks].count(f"{BLOCKS}/Tray-1"))

    def test_a_tree_is_named_after_its_file_and_has_no_url(self):
        self.assertEqual(("shared-blocks", "Harbor rack 4"), (self.podm.id, self.podm.name))
        self.assertEqual((None, "redfish"), (self.podm.url, self.podm.driver))


class StatesTest(unittest.TestCase):
    def setUp(self):
        self.podm, self.problems = read("states.json")
        self.status = {name: block.status for name, block in by_name(self.podm).items()}

    def test_only_blocks_that_nothing_speaks_against_are_free(self):
        free = {name for name, status in self.status.items() if status.slots}
        self.assertEqual({"free", "pool-free", "warning", "no-status", "room", "own-system"}, free)


class LinksTest(unittest.TestCase):
    def setUp(self):
        self.podm, self.problems = read("links.json")

    def test_a_link_that_is_no_url_is_named_as_it_stands(self):
        notes = Diagnostics()
        service = LinkedDocuments(lambda _: None, notes, host="podm.example")
        for link in ("http://[::1", "file:///etc/passwd"):
            self.assertIsNone(service.uri(link, "/redfish/v1/Systems"))
        only = "for a link, expected links to podm.example only"
        self.assertEqual(
            [f"/redfish/v1/Systems: found 'http://[::1' {only}",
             f"/redfish/v1/Systems: found 'file:///etc/passwd' {only}"], notes.lines(),
        )  # fmt: skip

    def test_a_document_of_the_wrong_type_is_left_out_and_noted(self):
        what = "B3: found an answer of '[]', expected object"
        self.assertEqual(1, sum(what in problem for problem in self.problems))

    def test_problems_are_single_lines_that_begin_with_the_file(self):
        for problem in self.problems:
            self.assertTrue(problem.startswith(str(RECORDED / "links.json") + ": "))
            self.assertNotIn("\n", problem)


class DriftTest(unittest.TestCase):
    def setUp(self):
        self.podm, self.problems = read("drift.json")
        (self.block,) = self.podm.blocks

    def test_numbers_booleans_and_words_are_read_in_whatever_type_they_come(self):
        status = self.block.status
        self.assertEqual(("Unused", False, True), (status.state, status.reserved, status.shareable))
        self.assertEqual((True, "OK", 3), (status.enabled, status.health, status.slots))
        self.assertEqual((("Compute",), "42"), (self.block.type, self.block.name))
        (cpu,) = self.block.devices.processors
        self.assertEqual((16, 32, 2400, None), (cpu.cores, cpu.threads, cpu.speed_mhz, cpu.model))

    def test_null_and_unreadable_numbers_are_unknown_and_never_zero(self):
        sizes = [(m.capacity_mib, m.count) for m in self.block.devices.memory]
        self.assertEqual([(32768, 1), (None, 2)], sizes)
        self.assertEqual(
            [480103981056, None], [d.capacity_bytes for d in self.block.devices.drives]
        )
        self.assertEqual((Nic(count=2),), self.block.devices.nics)

    def test_unreadable_values_are_noted_and_null_is_not(self):
        self.assertEqual(3, len(self.problems))
        what = "M/2: CapacityMiB: found 'plenty', expected a number"
        self.assertTrue(any(what in problem for problem in self.problems))


class MockupFolderTest(unittest.TestCase):
    def test_the_place_of_a_document_is_its_uri_whatever_it_says_itself(self):
        podm, _ = read("rack-mockup")
        self.assertEqual(["sled-1", "jbod"], list(by_name(podm)))
        self.assertEqual(2, devices(podm, "drives"))

    def test_one_broken_document_is_noted_and_one_that_nobody_links_is_not(self):
        _, (problem,) = read("rack-mockup")
        self.assertIn("ResourceBlocks/sled-2: ", problem)
        self.assertIn("is the file complete?", problem)

    def test_a_tree_is_the_same_from_redfish_and_from_v1_on(self):
        whole = read("rack-mockup")[0]
        self.assertEqual(whole, read("rack-mockup/redfish")[0])
        self.assertEqual(whole, read("rack-mockup/redfish/v1")[0])

    def test_a_document_beyond_the_bound_is_left_out_and_noted(self):
        documents, diagnostics = documents_of("no-zones.json"), Diagnostics()
        documents["/redfish/v1/ResourceBlocks/bay"]["x"] = "x" * bounds.MAX_DOCUMENT_BYTES
        self.assertEqual(2, len(read_map(documents, diagnostics).blocks))
        self.assertIn("a larger document", diagnostics.lines()[0])

    def test_faults_beyond_the_bound_are_summed_up(self):
        links = [{"@odata.id": f"/redfish/v1/gone/{i}"} for i in range(bounds.MAX_NOTES + 20)]
        diagnostics = Diagnostics()
        read_map({"/redfish/v1": {"ResourceBlocks": links}}, diagnostics)
        problems = diagnostics.lines()
        self.assertEqual(bounds.MAX_NOTES + 1, len(problems))
        self.assertIn("more of this kind", problems[-1])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["@odata.id", "Members", "State", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
NAMES = ("shared-blocks.json", "systems.json", "memory-domains.json", "states.json")


class AnyTreeTest(unittest.TestCase):
    @settings(max_examples=sized(200))
    @given(st.sampled_from(NAMES), st.integers(0, 2**32), st.lists(JSON, min_size=1, max_size=8))
    def test_whatever_a_document_holds_the_result_is_a_sound_pod_manager(self, name, seed, values):
        documents, chance = documents_of(name), random.Random(seed)
        for value in values:
            uri = chance.choice(list(documents))
            if isinstance(documents[uri], dict) and documents[uri] and chance.random() < 0.9:
                documents[uri][chance.choice(list(documents[uri]))] = value
            else:
                documents[uri] = value
        podm = read_map(documents)
        uris = [block.uri for block in podm.blocks]
        pools = [pool.id for pool in podm.pools]
        self.assertEqual(len(set(uris)), len(uris))
        self.assertEqual(len(set(pools)), len(pools))
        for member in (*podm.blocks, *podm.stocks):
            self.assertLessEqual(set(member.pools), set(pools))

    @settings(max_examples=sized(120))
    @given(st.sampled_from(NAMES), st.randoms(use_true_random=False))
    def test_the_order_of_members_changes_no_sum(self, name, chance):
        documents = documents_of(name)
        before = read_map(documents)
        for document in documents.values():
            if "Members" in document:
                chance.shuffle(document["Members"])
        after = read_map(documents)
        for kind in ("processors", "accelerators", "memory", "drives", "nics"):
            self.assertEqual(devices(before, kind), devices(after, kind))
        self.assertEqual(
            {b.uri: b.status for b in before.blocks}, {b.uri: b.status for b in after.blocks}
        )


ROOT = "/redfish/v1"


class TreesTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def written(self, documents: dict) -> tuple[dict, list[str]]:
        """Write documents; return the reading of them, and its notes."""
        notes: list[str] = []
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            place = Path(name)
            count = write_tree(documents, place, notes.append)
            tree = mockup.tree_of(files_below(place, "t", notes)) if count else None
            found = {uri: tree.get(uri) for uri in tree.documents} if tree else {}
            self.assertEqual(count, len(found))
            self.assertEqual([place.name], os.listdir(self.folder))
        return found, notes

    def test_are_read_back_as_they_were(self) -> None:
        documents = {ROOT: {"Name": "é\n", "n": 1.5}, f"{ROOT}/Systems/a b:%20(1)": {"x": [None]},
                     f"{ROOT}/Systems": {"Members": []}}  # fmt: skip
        self.assertEqual((documents, []), self.written(documents))

    @settings(max_examples=sized(320))
    @given(st.lists(st.text("aA.%2eEfF/\\ix:\0 é", max_size=12), max_size=8, unique=True))
    def test_are_read_back_or_noted_whatever_their_uris(self, tails: list[str]) -> None:
        documents = {f"{ROOT}/{tail}": {"n": number} for number, tail in enumerate(tails)}
        wanted = join_pages({ROOT: {"n": -1}} | documents)
        found, notes = self.written(wanted)
        self.assertLessEqual(found.items(), wanted.items())
        self.assertEqual(len(wanted), len(found) + len(notes))

    def test_uris_that_lead_elsewhere_are_left_out_and_noted(self) -> None:
        long = "x" * 300
        for uri in ("/etc/passwd", f"{ROOT}/../../x", f"{ROOT}/%2e%2e/x", f"{ROOT}/a/./b",
                    f"{ROOT}/a\\b", f"{ROOT}/a%5c..%5cb", f"{ROOT}/a\0b", f"{ROOT}/a%00b",
                    f"{ROOT}/index.json/x", f"{ROOT}/INDEX.JSON", f"{ROOT}/{long}", "/redfish/v10",
                    f"{ROOT}/a?x=1", f"{ROOT}/" + "a/" * 600):  # fmt: skip
            with self.subTest(uri=uri[:40]):
                found, notes = self.written({ROOT: {}, uri: {"odd": 1}})
                self.assertEqual(({ROOT: {}}, 1), (found, len(notes)))
                self.assertIn("left out", notes[0])

    def test_what_differs_in_case_only_is_left_out_and_noted(self) -> None:
        documents = {ROOT: {}, f"{ROOT}/Systems/A": {}, f"{ROOT}/systems/B": {}}
        found, notes = self.written(documents)
        self.assertEqual({ROOT, f"{ROOT}/Systems/A"}, set(found))
        self.assertIn("in case only", notes[0])

    def test_the_pages_of_a_collection_become_one(self) -> None:
        first, second, third = (f"{ROOT}/Systems{rest}" for rest in ("", "?$skip=1", "?$skip=2"))

        def page(member: str, next_: str | None) -> dict:
            link = {"Members@odata.nextLink": next_} if next_ else {}
            return {"Members": [{"@odata.id": member}], "Members@odata.count": 3, **link}

        found, notes = self.written(
            {ROOT: {}, first: page("a", second), second: page("b", third), third: page("c", first)}
        )
        members = [{"@odata.id": name} for name in "abc"]
        self.assertEqual({"Members": members, "Members@odata.count": 3}, found[first])
        self.assertEqual(([], 2), (notes, len(found)))

    def test_a_document_nested_too_deep_is_left_out_and_noted(self) -> None:
        deep: dict = {}
        for _ in range(100_000):
            deep = {"x": deep}
        found, notes = self.written({ROOT: {}, f"{ROOT}/Systems": deep})
        self.assertEqual(({ROOT: {}}, 1), (found, len(notes)))
        while deep:  # freed link by link, to spare the interpreter's stack
            deep = deep.pop("x")


class BuildTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_a_new_or_an_empty_folder_is_filled(self) -> None:
        (self.folder / "empty").mkdir()
        for name in ("new", "empty", "above/new"):
            target = self.folder / name
            build_folder(str(target), lambda place: (place / "x").mkdir())
            self.assertEqual([target / "x"], list(target.iterdir()))
            self.assertEqual(0, target.stat().st_mode & 0o022)
        self.assertEqual({"new", "empty", "above"}, set(os.listdir(self.folder)))

    def test_what_stands_there_is_never_replaced(self) -> None:
        (self.folder / "full").mkdir()
        (self.folder / "full" / "mine").touch()
        (self.folder / "file").touch()
        (self.folder / "link").symlink_to(self.folder / "nowhere")
        for name in ("full", "file", "link"):
            with self.subTest(name), self.assertRaisesRegex(InputError, "name a new folder"):
                build_folder(str(self.folder / name), lambda _place: self.fail("filled"))
        self.assertEqual({"full", "file", "link"}, set(os.listdir(self.folder)))

    def test_a_failure_leaves_nothing_behind(self) -> None:
        def fail(place: Path) -> None:
            (place / "half").mkdir()
            raise InputError("x", "", "a fault")

        with self.assertRaises(InputError):
            build_folder(str(self.folder / "new"), fail)
        self.assertEqual([], os.listdir(self.folder))

    def test_a_place_that_cannot_be_written_is_told_in_one_line(self) -> None:
        (self.folder / "file").touch()
        with self.assertRaisesRegex(InputError, "expected a writable folder"):
            build_folder(str(self.folder / "file" / "new"), lambda _place: None)
