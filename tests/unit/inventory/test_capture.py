# SPDX-License-Identifier: Apache-2.0
"""Captures: they hold every pod manager that could be read, and no password."""

import os
import tempfile
import unittest
from pathlib import Path

import msgspec

from valence_sched.app import App
from valence_sched.drivers.crawl.reading import Reading
from valence_sched.drivers.recorded import Record
from valence_sched.drivers.redfish.render import documents_of
from valence_sched.errors import InputError, PodmError
from valence_sched.inventory import capture
from valence_sched.inventory.anonymise import Aliases
from valence_sched.model.inventory import (
    Devices,
    Drive,
    FullBlock,
    FullPodm,
    Inventory,
    Pool,
    Status,
)
from valence_sched.model.read_options import Selection

CANARY = "kAn4ry-Wellensittich"
ROOT = "/redfish/v1"


def podm(id_: str) -> FullPodm:
    block = FullBlock(uri=f"{ROOT}/ResourceBlocks/{id_}-drive", type=("Storage",), pools=("z",),
                      status=Status(), devices=Devices(drives=(Drive(count=2),)))  # fmt: skip
    return FullPodm(id=id_, driver="redfish", pools=(Pool(id="z", name="z"),), blocks=(block,),
                    url=f"https://root:{CANARY}@{id_}.example.org{ROOT}")  # fmt: skip


def reading(id_: str) -> Reading:
    """Return a live reading that is full of credentials."""
    live = podm(id_)
    documents = documents_of(live)
    documents[ROOT] |= {"Oem": {"Vendor": {"AdminPassword": CANARY, "Note": f"x{CANARY}y"}}}
    documents |= {
        f"{ROOT}/SessionService/Sessions/1": {"Id": CANARY},
        f"{ROOT}/AccountService": {"x": CANARY},
    }
    return Reading(live, documents=documents)


def failed(id_: str, reason: str = f"login refused: password {CANARY}") -> Reading:
    """Return a reading of one that is down, with its last known state."""
    return Reading(msgspec.structs.replace(podm(id_), status="Offline"), reason)


class TestCapture(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="capture-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def everything(self) -> bytes:
        """Return all names and all bytes below the folder."""
        data = b""
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder) / name
                data += str(path.relative_to(self.folder)).encode() + path.read_bytes()
        return data

    def test_one_that_is_down_does_not_keep_the_others_from_being_written(self) -> None:
        readings = [reading("a"), failed("b"), reading("c")]
        result = capture.write_file(
            readings, self.path("x.json"), capture.Redactor(secrets=[CANARY])
        )
        self.assertEqual((3, 2, ["b"]), (result.podms, result.blocks, list(result.failures)))
        podms = msgspec.json.decode((self.folder / "x.json").read_bytes(), type=Inventory).podms
        self.assertEqual([("a", "Online", 1), ("b", "Offline", 0), ("c", "Online", 1)],
                         [(one.id, one.status, len(one.blocks)) for one in podms])  # fmt: skip

    def test_a_reading_that_failed_is_never_online(self) -> None:
        odd = Reading(podm("a"), "no answer")
        capture.write_file([odd], self.path("x.json"), capture.Redactor())
        (down,) = msgspec.json.decode((self.folder / "x.json").read_bytes(), type=Inventory).podms
        self.assertEqual(("Unknown", (), ()), (down.status, down.blocks, down.pools))

    def test_no_credential_is_written_or_reported(self) -> None:
        for number, aliases in enumerate((None, Aliases(b"k"))):
            readings = [reading("a"), failed("b")]
            for write, name in ((capture.write_file, "x.jsonl"), (capture.write_trees, "tree")):
                redactor = capture.Redactor(aliases, [CANARY])
                result = write(readings, self.path(f"{number}{name}"), redactor)
                self.assertNotIn(CANARY, str(result))
        written = self.everything()
        self.assertIn(b"redfish/v1/index.json", written)
        for trace in (CANARY, CANARY.casefold(), "SessionService", "AccountService"):
            self.assertNotIn(trace.encode(), written)

    def test_a_tree_is_read_as_the_pod_manager_it_was_written_from(self) -> None:
        readings = [reading("a"), failed("b"), reading("c")]
        result = capture.write_trees(readings, self.path("tree"), capture.Redactor())
        self.assertEqual((2, 2, ["b"], []), (result.podms, result.blocks, list(result.failures),
                                             result.left_out))  # fmt: skip
        by_id = {
            one.id: one for one in App({}).loader.podms(Selection(sources=(self.path("tree"),)))
        }
        self.assertEqual({"a", "c"}, set(by_id))
        self.assertEqual(2, by_id["a"].blocks[0].devices.drives[0].count)

    def test_a_tree_of_nobody_is_refused_and_leaves_nothing(self) -> None:
        with self.assertRaisesRegex(PodmError, "b: down, and 1 more"):
            capture.write_trees(
                [failed("b", "down"), failed("c", "down")], self.path("tree"), capture.Redactor()
            )
        with self.assertRaises(InputError):
            capture.write_trees([], self.path("tree"), capture.Redactor())
        self.assertEqual([], os.listdir(self.folder))

    def test_a_pod_manager_whose_id_cannot_be_a_folder_is_left_out_and_noted(self) -> None:
        readings = [reading("a"), reading("A"), reading("../b"), reading(".."), reading("c/d")]
        result = capture.write_trees(readings, self.path("tree"), capture.Redactor())
        self.assertEqual((1, 4), (result.podms, len(result.left_out)))
        self.assertEqual(["tree"], os.listdir(self.folder))
        self.assertEqual(["a"], os.listdir(self.folder / "tree"))

    def test_two_captures_under_one_key_have_the_same_names(self) -> None:
        for name, key in (("1.json", b"k"), ("2.json", b"k"), ("3.json", b"l")):
            capture.write_file([reading("a")], self.path(name), capture.Redactor(Aliases(key)))
        first, second, third = ((self.folder / f"{n}.json").read_bytes() for n in (1, 2, 3))
        self.assertEqual(first, second)
        self.assertNotEqual(first, third)
        self.assertNotIn(b"example.org", first)

    def test_a_recorded_inventory_loses_its_credentials_before_it_is_rendered(self) -> None:
        (captured,) = capture.recorded_readings(
            [(podm("a"), Record(b"", "file", "$"))], [], documents=True
        )
        self.assertEqual("https://a.example.org/redfish/v1", captured.podm.url)
        self.assertNotIn(CANARY, str(captured.documents))
