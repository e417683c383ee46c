# SPDX-License-Identifier: Apache-2.0
"""Trees of documents: read back as they were written, and never outside of their folder."""

import os
import tempfile
import unittest
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from valence_sched.drivers.files import tree as mockup
from valence_sched.drivers.files.tree import build_folder, join_pages, write_tree
from valence_sched.drivers.recorded import files_below
from valence_sched.errors import InputError

ROOT = "/redfish/v1"


class TreesTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="trees-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()

    def written(self, documents: dict) -> tuple[dict, list[str]]:
        """Write documents; return what is read back, and what was noted."""
        notes: list[str] = []
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            place = Path(name)
            count = write_tree(documents, place, notes.append)
            tree = mockup.tree_of_files(files_below(place, "t", notes)) if count else None
            found = {uri: tree.get(uri) for uri in tree.documents} if tree else {}
            self.assertEqual(count, len(found))
            self.assertEqual([place.name], os.listdir(self.folder))
        return found, notes

    def test_are_read_back_as_they_were(self) -> None:
        documents = {ROOT: {"Name": "é\n", "n": 1.5}, f"{ROOT}/Systems/a b:%20(1)": {"x": [None]},
                     f"{ROOT}/Systems": {"Members": []}}  # fmt: skip
        self.assertEqual((documents, []), self.written(documents))

    @settings(max_examples=200)
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
        while deep:  # freeing it link by link spares the interpreter's stack
            deep = deep.pop("x")


class BuildTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="trees-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

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
        with self.assertRaisesRegex(InputError, "expected a place to write to"):
            build_folder(str(self.folder / "file" / "new"), lambda _place: None)
