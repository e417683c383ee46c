# SPDX-License-Identifier: Apache-2.0
"""Reads of files are limited, and writes are complete or have no effect."""

import gzip
import io
import json
import os
import stat
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import msgspec
import zstandard

from valence_sched import files
from valence_sched.errors import InputError
from valence_sched.model.inventory import FullPodm, Inventory


class FilesCase(unittest.TestCase):
    """A test case with its own folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refuses(self, line: str, function, *arguments, kind=InputError):
        with self.assertRaises(kind) as caught:
            function(*arguments)
        self.assertEqual(line, str(caught.exception))


class TestRead(FilesCase):
    """Files that cannot be read."""

    def test_a_file_that_is_not_there_and_a_folder(self):
        missing = str(self.folder / "none.yaml")
        line = f"{missing}: found no such file or directory, expected a readable file"
        self.refuses(line, files.read, missing)
        line = f"{self.folder}: found a directory, expected a readable file"
        self.refuses(line, files.read, str(self.folder))

    def test_a_name_that_cannot_be_one(self):
        with self.assertRaises(InputError):
            files.read("a\0b")

    def test_no_more_is_read_than_it_takes_to_see_that_it_is_too_much(self):
        large = self.folder / "large"
        with large.open("wb") as stream:
            stream.truncate(1 << 30)
        self.assertEqual(files.MAX_HUMAN_BYTES + 1, len(files.read(str(large))))


class TestReadDocument(FilesCase):
    """Documents of a program, which may be large."""

    def test_a_file_and_standard_input_are_read_whole(self):
        data = b"x" * (files.PIECE_BYTES * 2 + 7)
        large = self.folder / "large"
        large.write_bytes(data)
        for limit in (len(data), files.MAX_DOCUMENT_BYTES):
            self.assertEqual(data, files.read_document(str(large), io.BytesIO(), limit))
        self.assertEqual(data, files.read_document("-", io.BytesIO(data)))

    def test_one_without_end_is_refused_before_all_of_it_is_read(self):
        found = "stdin: found over 1,000 bytes"
        line = f"{found}, expected a smaller document (is this the right file?)"
        with open("/dev/zero", "rb") as endless:
            self.refuses(line, files.read_document, "-", endless, 1000)
        line = "/dev/zero: found a special file, expected a file that can be read"
        self.refuses(line, files.read_document, "/dev/zero", io.BytesIO())

    def test_what_cannot_be_read_is_refused(self):
        missing = str(self.folder / "none.json")
        line = f"{missing}: found no such file or directory, expected a readable file"
        self.refuses(line, files.read_document, missing, io.BytesIO())
        line = f"{self.folder}: found a directory, expected a readable file"
        self.refuses(line, files.read_document, str(self.folder), io.BytesIO())


class TestDecompressed(FilesCase):
    """Files that are read in pieces, compressed or not."""

    DATA = bytes(range(256)) * 3000
    PACKED = (
        DATA,
        gzip.compress(DATA),
        zstandard.compress(DATA),
        zstandard.compress(DATA[:1000]) + zstandard.compress(DATA[1000:]),  # successive frames
    )

    def read_all(self, data: bytes, limit: int = 4097) -> bytes:
        path = self.folder / "file"
        path.write_bytes(data)
        with files.decompressed(str(path)) as stream:
            return b"".join(iter(lambda: stream.read(limit), b""))

    def test_what_was_packed_is_read_whole(self):
        for data in self.PACKED:
            self.assertEqual(self.DATA, self.read_all(data))
        self.assertEqual(b"", self.read_all(b""))

    def test_what_is_cut_off_anywhere_or_damaged_is_refused(self):
        for data in self.PACKED[1:]:
            for size in (len(data) - 1, len(data) // 2):
                with self.assertRaisesRegex(InputError, "expected a whole file|readable file"):
                    self.read_all(data[:size])
        frame = zstandard.compress(os.urandom(5000))
        with self.assertRaises(InputError):
            self.read_all(frame[:4] + b"\xff" * 9 + frame[20:])

    def test_a_spooled_stream_can_be_read_again_and_stays_open(self):
        for data in self.PACKED:
            with files.spooled("-", io.BytesIO(data)) as copy:
                for _ in range(2):
                    with files.decompressed("-", copy) as stream:
                        self.assertEqual(self.DATA, stream.read())

    def test_what_has_no_end_is_not_spooled_for_ever(self):
        line = ("stdin: found over 1,000 bytes, expected a smaller stream "
                "(save it to a file, and give the name of the file)")  # fmt: skip
        with open("/dev/zero", "rb") as endless:
            self.refuses(line, files.spooled, "-", endless, 1000)

    def test_a_pipe_is_spooled_and_a_file_is_not(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(self.PACKED[1],))
        writer.start()
        with files.spooled(str(pipe), io.BytesIO()) as copy:
            self.assertEqual(self.DATA, copy.seek(0) or copy.read())
        writer.join()
        (self.folder / "file").write_bytes(b"x")
        self.assertIsNone(files.spooled(str(self.folder / "file"), io.BytesIO()))


class TestFolders(FilesCase):
    """A name that ends like the name of a folder."""

    def test_it_is_no_file_that_can_be_written(self):
        name = f"{self.folder}/new/"
        self.refuses(f"{name}: found a directory, expected a writable file",
                     files.pending(name).__enter__)  # fmt: skip
        self.assertEqual([], list(self.folder.iterdir()))


class TestPending(FilesCase):
    """A file that is open before its content is known."""

    def test_one_that_is_not_written_or_cannot_be_stays_as_it_was(self):
        file = self.folder / "report.json"
        file.write_text("before")
        for document in (None, object(), {"name": "\udcff"}):
            with self.subTest(repr(document)):
                with files.pending(str(file)) as write:
                    if document is not None:
                        line = "report.json: .*values of JSON"
                        with self.assertRaisesRegex(InputError, line):
                            write(files.json_text(document, str(file)))
                self.assertEqual(("before", [file]), (file.read_text(), [*self.folder.iterdir()]))
        files.write_json({"a": 1}, str(file))
        self.assertEqual('{\n  "a": 1\n}\n', file.read_text())

    def test_a_place_that_cannot_be_written_is_refused_at_once(self):
        missing = str(self.folder / "none" / "report.json")
        line = f"{missing}: found no such file or directory, expected a writable file"
        self.refuses(line, files.pending(missing).__enter__)

    def test_a_device_that_is_full_is_told_when_it_is_written(self):
        with files.pending("/dev/full") as write:
            line = "/dev/full: found no space left on device, expected a writable file"
            self.refuses(line, write, b"{}")


class TestWrite(FilesCase):
    """A write is complete or has no effect."""

    PODMS = (
        msgspec.convert({"id": "a", "blocks": [{"uri": "b", "type": ["Compute"]}]}, FullPodm),
        msgspec.convert({"id": "b", "facts": {"year": 2020.0}}, FullPodm),
    )

    def test_an_inventory_is_written_in_each_form_and_reads_back(self):
        for name in ("i.json", "i.jsonl", "i.json.gz", "i.jsonl.gz", "i.json.zst", "i.jsonl.zst"):
            with self.subTest(name):
                file = self.folder / name
                self.assertEqual((2, 1), files.write_inventory(iter(self.PODMS), str(file)))
                data = file.read_bytes()
                if name.endswith(".gz"):
                    data = gzip.decompress(data)
                elif name.endswith(".zst"):
                    data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
                if ".jsonl" in name:
                    head, *podms = (json.loads(line) for line in data.splitlines())
                    data = json.dumps({**head, "podms": podms}).encode()
                read = msgspec.json.decode(data, type=Inventory)
                self.assertEqual(self.PODMS, read.podms)

    def test_no_podm_at_all_is_still_a_document(self):
        file = self.folder / "i.json"
        self.assertEqual((0, 0), files.write_inventory([], str(file)))
        self.assertEqual((), msgspec.json.decode(file.read_bytes(), type=Inventory).podms)

    def test_the_same_podms_give_the_same_bytes(self):
        for name in ("i.json.gz", "i.jsonl.zst"):
            found = []
            for turn in range(2):
                file = self.folder / f"{turn}-{name}"
                files.write_inventory(iter(self.PODMS), str(file))
                found.append(file.read_bytes())
            self.assertEqual(*found)

    def test_a_name_that_does_not_say_which_form_is_refused_with_the_forms(self):
        with self.assertRaisesRegex(InputError, r"end it in \.json or \.jsonl"):
            files.write_inventory([], str(self.folder / "i.yaml"))
        self.assertEqual([], os.listdir(self.folder))

    def test_what_stood_there_stays_when_writing_fails_half_way(self):
        file = self.folder / "i.json"
        file.write_text("precious")

        def broken():
            yield self.PODMS[0]
            raise InputError("source", "$", "rubbish")

        with self.assertRaisesRegex(InputError, "rubbish"):
            files.write_inventory(broken(), str(file))
        self.assertEqual("precious", file.read_text())
        self.assertEqual(["i.json"], os.listdir(self.folder))

    def test_a_full_disk_is_one_line_and_leaves_nothing_behind(self):
        file = self.folder / "report.json"
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            line = f"{file}: found no space left on device, expected a writable file"
            self.refuses(line, files.write_json, {"a": 1}, str(file))
        self.assertEqual([], os.listdir(self.folder))

    def test_a_folder_that_is_not_there_is_one_line(self):
        file = str(self.folder / "none" / "report.json")
        line = f"{file}: found no such file or directory, expected a writable file"
        self.refuses(line, files.write_json, {}, file)

    def test_json_is_indented_ends_in_a_newline_and_has_the_usual_mode(self):
        file = self.folder / "report.json"
        files.write_json({"b": [1], "a": None}, str(file))
        self.assertEqual('{\n  "a": null,\n  "b": [\n    1\n  ]\n}\n', file.read_text())
        other = self.folder / "other"
        other.touch()
        self.assertEqual(other.stat().st_mode, file.stat().st_mode)

    def test_a_device_is_written_to_not_replaced(self):
        files.write_json({}, os.devnull)
        self.assertFalse(Path(os.devnull).is_file())

    def test_a_link_keeps_its_place_and_a_private_file_replaces_it(self):
        for target in ("old", "new"):
            link = self.folder / f"to-{target}"
            link.symlink_to(target)
        (self.folder / "old").touch(0o600)
        for target, mode in (("old", 0o600), ("new", 0o644)):
            with self.subTest(target):
                link, old_mask = self.folder / f"to-{target}", os.umask(0o022)
                self.addCleanup(os.umask, old_mask)
                files.write_json([], str(link))
                self.assertEqual((target, "[]\n"), (os.readlink(link), link.read_text()))
                self.assertEqual(mode, stat.S_IMODE(link.stat().st_mode))
        with files.atomic(link, mode=0o600) as stream:
            stream.write(b"secret")
        self.assertEqual("[]\n", (self.folder / "new").read_text())
        self.assertFalse(link.is_symlink())

    def test_a_file_is_written_with_the_permissions_that_are_asked_for(self):
        file = self.folder / "secret"
        file.touch(0o644)
        with files.atomic(file, mode=0o600, sync=False) as stream:
            stream.write(b"x")
        self.assertEqual((0o600, b"x"), (stat.S_IMODE(file.stat().st_mode), file.read_bytes()))
        with self.assertRaises(OSError), files.atomic(self.folder / "none" / "x"):
            self.fail("the folder is not there")
