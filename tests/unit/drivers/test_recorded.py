# SPDX-License-Identifier: Apache-2.0
"""Every kind of source, and the errors of unreadable sources."""

import gzip
import io
import os
import struct
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import msgspec
import zstandard
from hypothesis import given, settings, strategies as st

from tests.unit.core.sites import sized
from tests.unit.drivers.served import DIALECTS
from valence_sched.drivers import bounds, recorded as streams
from valence_sched.drivers.files import json_inventory
from valence_sched.drivers.recorded import records
from valence_sched.errors import InputError, NewerSchema
from valence_sched.model import codec
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import SCHEMA, FullPodm

RECORDED = Path(__file__).parents[2] / "recorded"
MOCKUP = RECORDED / "rack-mockup"
HEADER = f'{{"schema":"{SCHEMA}","version":"1.0"}}\n'.encode()
LINES = b'{"id":"a"}\n{"id":"b","name":"B"}\n'
MAP = (RECORDED / "no-zones.json").read_bytes()


def document(*podms, version="1.0", **more):
    return msgspec.json.encode({"schema": SCHEMA, "version": version, "podms": podms, **more})


def packed(form, files):
    """Return a zip or tar archive with these files."""
    out = io.BytesIO()
    if form == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def mockup_files(prefix=""):
    return {
        prefix + path.relative_to(MOCKUP).as_posix(): path.read_bytes()
        for path in sorted(MOCKUP.rglob("index.json"))
    }


class Pipe(io.RawIOBase):
    """Standard input that cannot seek and returns a few bytes at a time."""

    def __init__(self, data):
        self._data = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self._data.read(min(7, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


class SourceTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.diagnostics = Diagnostics()

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return str(path)

    def read(self, source, stdin=b""):
        return list(
            records(str(source), io.BufferedReader(Pipe(stdin)), self.diagnostics, DIALECTS)
        )

    def ids(self, source, stdin=b""):
        found = self.read(source, stdin)
        return [msgspec.json.decode(record.json)["id"] for record in found]

    def refused(self, source, stdin=b"", kind=InputError):
        with self.assertRaises(kind) as caught:
            self.read(source, stdin)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        self.assertTrue(text.startswith("stdin" if source == "-" else str(source)), text)
        return text


class TextsTest(SourceTest):
    def test_an_inventory_document_is_a_record_for_each_podm_with_its_place(self):
        path = self.write("site.json", document({"id": "a"}, {"id": "b"}))
        found = self.read(path)
        self.assertEqual(["$.podms[0]", "$.podms[1]"], [record.place for record in found])
        self.assertEqual({path}, {record.file for record in found})
        self.assertEqual(["a", "b"], self.ids(path))

    def test_an_indented_document_is_read_too(self):
        data = msgspec.json.format(document({"id": "a"}), indent=2)
        self.assertEqual(["a"], self.ids(self.write("site.json", data)))

    def test_a_key_that_stands_twice_in_an_object_loses_nothing_silently(self):
        expected = "$.podms[0].blocks[0]: found the key 'uri' twice, expected each key once"
        self.enterContext(mock.patch.object(codec, "MOST_COMPACT_BYTES", 10_000))
        for blank in (b"", b" " * 10_000):  # a large document that also has lines
            twice = b'{"id":"a","blocks":[{"uri":"/1","uri":"/2"}]}'
            text = document({"id": "x"}).replace(b'{"id":"x"}', twice + blank)
            for end in (b",\n", b",\r\n", *[b","] * (not blank)):
                path = self.write("site.json", text.replace(b",", end))
                self.assertEqual(f"{path}: {expected}", self.refused(path))
            one = self.write("one.json", twice.replace(b",", b"," + blank + b"\n"))
            self.assertIn("$.blocks[0]: found the key 'uri' twice", self.refused(one))
            tree = b'{"/redfish/v1":{},\n' + blank + b'"/redfish/v1":{}}'
            path = self.write("map.json", tree)
            self.assertIn("$: found the key '/redfish/v1' twice", self.refused(path))
        podms = text.replace(b'"podms"', b'"podms":[],\n"podms"', 1)
        podms = self.write("podms.json", b"\xef\xbb\xbf" + podms)
        self.assertIn("$: found the key 'podms' twice", self.refused(podms))

    def test_a_large_document_on_one_line_is_read_unchecked(self):
        self.enterContext(mock.patch.object(codec, "MOST_COMPACT_BYTES", 10_000))
        text = document({"id": "x"}).replace(b'"x"', b'"x","id":"x"' + b" " * 10_000)
        for end in (b"", b"\n", b"\r\n"):
            self.assertEqual(["x"], self.ids(self.write("site.json", text + end)))

    def test_a_key_twice_within_lists_of_any_depth_is_refused(self):
        deep = b"[" * 400 + b'{"a":1,"a":2}' + b"]" * 400
        path = self.write("site.json", document({"id": "x"}).replace(b'"x"', deep))
        self.assertIn(f"{path}: $.podms[0].id[0][0]", self.refused(path))

    def test_a_header_of_lines_with_a_key_twice_is_refused(self):
        header = HEADER.replace(b'"schema"', b'"schema":"x","schema"', 1)
        path = self.write("site.jsonl", header + LINES)
        self.assertIn("line 1: $: found the key 'schema' twice", self.refused(path))
        path = self.write("site.jsonl", HEADER + LINES + header + LINES)
        self.assertIn("line 4: $: found the key 'schema' twice", self.refused(path))

    def test_a_line_with_a_key_twice_is_left_out_and_named(self):
        path = self.write("site.jsonl", HEADER + b'{"id":"a","id":"b"}\n{"id":"c"}\n')
        self.assertEqual(["c"], self.ids(path))
        place = f"{path}: line 2: $"
        self.assertEqual([f"{place}: found the key 'id' twice, expected each key once"],
                         self.diagnostics.lines("skipped"))  # fmt: skip

    def test_memory_may_be_in_gib(self):
        def podm(*memory):
            return {"id": "a", "blocks": [{"uri": "/b", "devices": {"memory": memory}}]}

        two = {"capacity_mib": 512, "type": "DDR4"}, {"capacity_mib": 65536, "count": 2}
        in_mib = FullPodm, msgspec.json.encode(podm(*two))
        in_gib = podm({"capacity_gib": 0.5, "type": "DDR4"}, {"capacity_gib": 64, "count": 2})
        line = msgspec.json.encode(in_gib) + b"\n"
        for text in (document(in_gib), line, HEADER + line, line + b'{"id":"b"}\n'):
            with self.subTest(text):
                records = self.read(self.write("a.json", text))
                self.assertEqual(msgspec.json.decode(in_mib[1], type=FullPodm), records[0].podm())
        for wrong in ({"capacity_gib": 1, "capacity_mib": 1024}, {"capacity_gib": "64"},
                      {"capacity_gib": True}, {"capacity_gib": 1e308}, {"capacity_gib": -1},
                      {"capacity_gib": 0.0001}, {"capacity_gib": None}):  # fmt: skip
            with self.subTest(wrong):
                records = self.read(self.write("a.json", document(podm(wrong))))
                self.assertRaises(InputError, records[0].podm)
        drive = {"id": "a", "blocks": [{"uri": "/b", "devices": {"drives": [{"capacity_gib": 9}]}}]}
        records = self.read(self.write("a.json", document(drive)))
        with self.assertRaisesRegex(InputError, "capacity_gib"):
            records[0].podm()

    def test_one_bad_podm_does_not_sink_the_others(self):
        path = self.write("site.json", document({"id": "a"}, 17, {"nonsense": 1}))
        self.assertEqual(3, len(self.read(path)))

    def test_lines_are_records_with_their_number_and_the_header_is_optional(self):
        path = self.write("site.jsonl", LINES)
        self.assertEqual(["line 1: $", "line 2: $"], [record.place for record in self.read(path)])
        path = self.write("site.jsonl", HEADER + b"\r\n" + LINES)
        self.assertEqual(["line 3: $", "line 4: $"], [record.place for record in self.read(path)])

    def test_joined_files_of_lines_may_hold_further_headers(self):
        path = self.write("site.jsonl", HEADER + LINES + HEADER + b'{"id":"c"}\n')
        self.assertEqual(["a", "b", "c"], self.ids(path))

    def test_a_bad_first_line_does_not_sink_the_lines_after_it(self):
        path = self.write("site.jsonl", b'{"id": "broken\n' + LINES)
        self.assertEqual(3, len(self.read(path)))

    def test_a_line_beyond_the_bound_is_a_problem_and_the_others_are_read(self):
        path = self.write("site.jsonl", b'{"id":"a"}\n{"id":"b' + b" " * 90 + b'"}\n{"id":"c"}\n')
        with mock.patch.object(json_inventory, "MAX_LINE_BYTES", 40):
            self.assertEqual(["a", "c"], self.ids(path))
        (problem,) = self.diagnostics.lines()
        self.assertEqual(
            f"{path}: line 2: found a longer line, expected at most 40 bytes (left out)", problem
        )

    def test_lines_are_read_as_they_are_asked_for(self):
        class Endless(io.RawIOBase):
            def readable(self):
                return True

            def readinto(self, buffer):
                line = b'{"id":"x"}\n'
                whole = len(buffer) // len(line) * len(line)
                buffer[:whole] = line * (whole // len(line))
                return whole

        found = records("-", io.BufferedReader(Endless(), 1100), self.diagnostics, DIALECTS)
        self.assertEqual(
            ["line 1: $", "line 2: $", "line 3: $"], [next(found).place for _ in range(3)]
        )

    def test_an_empty_inventory_has_no_podms_and_is_not_an_error(self):
        self.assertEqual([], self.read(self.write("site.json", document())))
        self.assertEqual([], self.read(self.write("site.jsonl", HEADER)))

    def test_a_map_from_uri_to_document_is_a_podm_named_after_its_file(self):
        self.assertEqual(["box-7"], self.ids(self.write("box-7.json", MAP)))
        self.assertEqual(["box.7"], self.ids(self.write("box.7.json.gz", gzip.compress(MAP))))

    def test_standard_input_is_read_and_names_its_podm_stdin(self):
        self.assertEqual(["a", "b"], self.ids("-", LINES))
        self.assertEqual(["stdin"], self.ids("-", MAP))

    def test_compression_is_told_by_content_and_not_by_name(self):
        for data in (gzip.compress(LINES), zstandard.compress(LINES)):
            self.assertEqual(["a", "b"], self.ids(self.write("site.jsonl", data)))
            self.assertEqual(["a", "b"], self.ids("-", data))
        self.assertEqual(["a", "b"], self.ids(self.write("site.jsonl.gz", LINES)))

    def test_joined_compressed_files_are_read_to_the_end(self):
        for pack in (gzip.compress, zstandard.compress):
            data = pack(HEADER) + pack(b'{"id":"a"}\n') + pack(b'{"id":"b"}\n')
            self.assertEqual(["a", "b"], self.ids("-", data))

    def test_a_byte_order_mark_is_passed_over(self):
        self.assertEqual(["a", "b"], self.ids("-", b"\xef\xbb\xbf" + LINES))

    def test_a_newer_minor_version_is_read_with_a_warning(self):
        data = document({"id": "a"}, version="1.7", comment="new")
        self.assertEqual(["a"], self.ids("-", data))
        self.assertIn("1.7 is newer than 1.0", self.diagnostics.lines()[0])

    def test_a_newer_major_version_is_refused(self):
        self.assertIn("upgrade", self.refused("-", document(version="2.0"), NewerSchema))
        lines = HEADER.replace(b"1.0", b"2.0") + LINES
        self.refused("-", lines, NewerSchema)

    def test_a_misspelt_field_of_the_document_gets_the_nearest_name(self):
        text = self.refused("-", document(captured="today"))
        self.assertIn("unknown field 'captured' (did you mean 'captured_at'?)", text)

    def test_more_after_the_end_of_a_document_is_a_problem(self):
        self.assertEqual(
            ["a"], self.ids("-", document({"id": "a"}) + b"\n" + document({"id": "b"}))
        )
        self.assertIn("more data after the first document", self.diagnostics.lines()[0])

    def test_other_json_is_refused_in_one_line(self):
        self.assertIn("an object with a, b", self.refused("-", b'{"a":1,"b":2}'))
        self.assertIn("found []", self.refused("-", b"[]"))
        self.assertIn("'other'", self.refused("-", b'{"schema":"other","podms":[]}'))

    def test_text_that_is_no_json_is_refused_with_the_place_in_it(self):
        self.assertIn("found text, expected JSON", self.refused("-", b"hello\nworld"))
        self.assertIn("line 1 column 5", self.refused("-", b'{"a"]'))
        self.assertIn("is the file complete?", self.refused("-", document({"id": "a"})[:-5]))
        self.refused("-", b"\xff\xfe{\x00")

    def test_a_document_beyond_the_bound_is_refused(self):
        with mock.patch.object(json_inventory, "MAX_JSON_BYTES", 100):
            text = self.refused("-", b"{\n" + b" " * 200 + b"}")
        self.assertIn("at most 100 bytes", text)

    @settings(max_examples=sized(240))
    @given(st.lists(st.dictionaries(st.text(max_size=5), st.integers(), max_size=3), max_size=9),
           st.sampled_from([bytes, gzip.compress, zstandard.compress]))  # fmt: skip
    def test_what_was_written_as_lines_is_what_is_read(self, podms, pack):
        podms = [{"id": f"p{i}", **podm} for i, podm in enumerate(podms)]
        data = HEADER + b"".join(msgspec.json.encode(podm) + b"\n" for podm in podms)
        found = records("-", io.BytesIO(pack(data)), Diagnostics(), DIALECTS)
        self.assertEqual(podms, [msgspec.json.decode(record.json) for record in found])

    @settings(max_examples=sized(800))
    @given(st.binary(max_size=300),
           st.sampled_from([b"", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"{", b"{\n",
                            HEADER, b'{"schema":']))  # fmt: skip
    def test_no_bytes_whatever_raise_anything_but_an_input_error(self, data, start):
        try:
            list(records("-", io.BytesIO(start + data), Diagnostics(), DIALECTS))
        except InputError as error:
            self.assertTrue(str(error).startswith("stdin"))


class DamageTest(SourceTest):
    @settings(max_examples=sized(240))
    @given(st.sampled_from(["zip", "tar", "tar.gz", "tar.zst", "gz"]), st.data())
    def test_a_damaged_file_is_read_in_part_or_refused_in_one_line(self, form, data):
        packs = {"tar.gz": gzip.compress, "tar.zst": zstandard.compress}
        if form == "gz":
            whole = bytearray(gzip.compress(LINES * 50))
        else:
            archive = packed("zip" if form == "zip" else "tar", mockup_files())
            whole = bytearray(packs.get(form, bytes)(archive))
        for _ in range(data.draw(st.integers(1, 4))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(0, len(whole)))
        try:
            list(records("-", io.BytesIO(bytes(whole[: cut or None])), Diagnostics(), DIALECTS))
        except InputError as error:
            self.assertNotIn("\n", str(error))

    def test_a_stream_that_was_cut_off_is_refused(self):
        whole = gzip.compress(os.urandom(5000).hex().encode())
        self.assertIn("a whole file", self.refused("-", whole[:-900]))


class PathTest(SourceTest):
    def test_a_path_that_is_not_there_gets_a_hint(self):
        text = self.refused(self.folder / "gone.json")
        self.assertIn("no such file or directory", text)
        self.assertIn("check the path", text)

    def test_an_empty_file_is_refused(self):
        self.assertIn("found an empty file", self.refused(self.write("empty.json", b"")))
        self.assertIn("found an empty file", self.refused("-", b""))

    def test_a_device_or_pipe_is_refused_with_a_hint_instead_of_hanging(self):
        os.mkfifo(self.folder / "pipe")
        self.assertIn("use - and redirect", self.refused(self.folder / "pipe"))

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_file_that_may_not_be_read_gets_a_hint(self):
        path = self.write("secret.json", LINES)
        Path(path).chmod(0)
        self.assertIn("check its permissions", self.refused(path))

    def test_a_name_with_a_zero_byte_is_refused(self):
        with self.assertRaises(InputError):
            self.read("a\0b")

    def test_forms_that_are_not_read_are_named(self):
        self.assertIn("a bzip2 file", self.refused("-", b"BZh91AY&SY"))
        self.assertIn("xz file", self.refused("-", b"\xfd7zXZ\x00"))
        twice = gzip.compress(gzip.compress(LINES))
        self.assertIn("compressed twice", self.refused("-", twice))


class TreesTest(SourceTest):
    def test_a_tree_is_the_same_as_folder_zip_tar_and_map(self):
        (folder,) = self.read(MOCKUP)
        forms = {
            "rack-mockup.zip": packed("zip", mockup_files()),
            "rack-mockup.tar": packed("tar", mockup_files()),
            "rack-mockup.tar.gz": gzip.compress(packed("tar", mockup_files())),
            "rack-mockup.tar.zst": zstandard.compress(packed("tar", mockup_files())),
            "rack-mockup.tgz": gzip.compress(packed("tar", mockup_files("./"))),
        }
        for name, data in forms.items():
            (record,) = self.read(self.write(name, data))
            self.assertEqual(folder.json, record.json, name)
            (record,) = self.read("-", data)
            self.assertEqual("stdin", msgspec.json.decode(record.json)["id"])

    def test_a_tree_begins_with_redfish_v1_or_redfish_or_neither(self):
        files = {
            name.removeprefix("redfish/v1/"): data
            for name, data in mockup_files().items()
            if name.startswith("redfish/v1/")
        }
        blocks = set()
        for start in ("redfish/v1/", "redfish/", "v1/", ""):
            data = packed("zip", {start + name: text for name, text in files.items()})
            (record,) = self.read(self.write("t.zip", data))
            podm = msgspec.json.decode(record.json, type=FullPodm)
            blocks.add(tuple(block.uri for block in podm.blocks))
        self.assertEqual(1, len(blocks))
        self.assertEqual(2, len(*blocks))

    def test_an_archive_of_the_folder_of_a_tree_is_named_after_the_folder(self):
        self.assertEqual(["mill"], self.ids("-", packed("tar", mockup_files("mill/"))))

    def test_a_folder_of_trees_and_inventories_is_several_podms(self):
        self.write("c.jsonl.gz", gzip.compress(LINES))
        self.write("d.zip", packed("zip", mockup_files()))
        self.write("LICENSE.md", b"terms")
        self.write("compose-request.json", b'{"RequestFormat": "Manifest"}')
        self.write("notes/readme.json", b"{}")
        self.write("box.json", MAP)
        (self.folder / "rack").symlink_to(MOCKUP / "redfish")
        for name, data in mockup_files("tree/").items():
            self.write(name, data)
        self.assertEqual(["box", "a", "b", "d", "tree"], self.ids(self.folder))
        outside = [
            problem for problem in self.diagnostics.lines() if "a link out of the tree" in problem
        ]
        self.assertEqual(1, len(outside))

    def test_one_bad_file_in_a_folder_is_a_problem_and_the_others_are_read(self):
        self.write("bad.json", b'{"schema": "valence-sched/inventory", "podms": [')
        self.write("empty.json", b"")
        self.write("new.json", document(version="3.0"))
        time = b'{"schema": "valence-sched/inventory", "captured_at": "\xff", "podms": []}'
        self.write("time.json", time)
        self.write("good.json", document({"id": "a"}))
        self.assertEqual(["a"], self.ids(self.folder))
        problems = self.diagnostics.lines()
        self.assertEqual(4, len(problems))
        self.assertIn("found bytes that are not UTF-8, expected JSON", "".join(problems))

    def test_a_folder_with_an_inventory_of_no_podms_is_not_refused(self):
        self.write("site.json", document())
        self.assertEqual([], self.read(self.folder))

    def test_a_folder_or_archive_of_nothing_known_is_refused(self):
        self.write("readme.txt", b"hello")
        self.assertIn("no inventory or Redfish tree", self.refused(self.folder))
        self.refused("-", packed("zip", {"readme.txt": b"hello"}))
        self.refused("-", packed("tar", {"a/b/c.txt": b"hello"}))

    def test_an_archive_of_several_podms_is_read_one_archive_deep(self):
        inner = packed("zip", {"x.jsonl": LINES})
        data = packed("tar", mockup_files("one/") | {"two.jsonl": LINES, "three.zip": inner})
        self.assertEqual(["one", "a", "b", "a", "b"], self.ids("-", data))
        deeper = packed("zip", {"deep.zip": packed("zip", {"four.zip": inner}), "a.jsonl": LINES})
        self.assertEqual(["a", "b"], self.ids("-", deeper))
        self.assertTrue(
            any("archives nested too deeply" in problem for problem in self.diagnostics.lines())
        )


class HostileTest(SourceTest):
    def test_names_that_lead_out_of_an_archive_refuse_all_of_it(self):
        for name in ("/etc/index.json", "../index.json", "a/../../index.json", "..\\x.json",
                     "C:/index.json"):  # fmt: skip
            for form in ("zip", "tar"):
                data = packed(form, mockup_files() | {name: b"{}"})
                self.assertIn("do not trust this archive", self.refused("-", data), name)

    def test_links_and_devices_in_an_archive_are_noted_and_not_followed(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            archive.add(MOCKUP, ".")
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
                info = tarfile.TarInfo(f"x{int(kind)}/index.json")
                info.type, info.linkname = kind, "/etc/passwd"
                archive.addfile(info)
        self.assertEqual(["stdin"], self.ids("-", out.getvalue()))
        (problem,) = [p for p in self.diagnostics.lines() if "not followed" in p]
        self.assertIn("4 links or devices", problem)

    def test_links_in_a_zip_are_noted_and_not_followed(self):
        out = io.BytesIO(packed("zip", mockup_files()))
        with zipfile.ZipFile(out, "a") as archive:
            info = zipfile.ZipInfo("link/index.json")
            info.external_attr = 0o120777 << 16
            archive.writestr(info, "/etc/passwd")
        self.assertEqual(["stdin"], self.ids("-", out.getvalue()))
        self.assertTrue(any("1 link or device " in problem for problem in self.diagnostics.lines()))

    def test_an_archive_bomb_is_refused_by_the_bytes_that_really_come(self):
        files = {f"{i}/index.json": bytes(50_000) for i in range(40)}
        with mock.patch.object(bounds, "MAX_TREE_BYTES", 1_000_000):
            for form in ("zip", "tar"):
                self.assertIn("archive bomb", self.refused("-", packed(form, files)))

    def test_a_zip_that_lies_about_a_size_is_refused_or_left_out(self):
        data = packed("zip", mockup_files())
        at = data.index(b"PK\x01\x02")
        data = data[: at + 24] + struct.pack("<I", 5) + data[at + 28 :]
        self.refused("-", data)

    def test_a_decompressed_stream_beyond_the_bound_is_refused(self):
        with mock.patch.object(streams, "MAX_STREAM_BYTES", 100_000):
            for pack in (gzip.compress, zstandard.compress):
                self.assertIn("archive bomb", self.refused("-", pack(b" " * 5_000_000)))

    def test_a_tar_header_that_asks_for_much_memory_is_refused(self):
        info = tarfile.TarInfo("././@LongLink")
        info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 31
        self.assertIn("a valid archive", self.refused("-", info.tobuf(tarfile.GNU_FORMAT) * 4))

    def test_too_many_members_or_documents_are_refused(self):
        files = {f"{i}/index.json": b"{}" for i in range(30)}
        for name in ("MAX_MEMBERS", "MAX_DOCUMENTS"):
            with mock.patch.object(bounds, name, 20):
                for form in ("zip", "tar"):
                    self.assertIn("at most 20", self.refused("-", packed(form, files)))

    def test_a_document_beyond_the_bound_in_an_archive_is_left_out(self):
        files = mockup_files() | {"redfish/v1/Big/index.json": b" " * 9000}
        with mock.patch.object(bounds, "MAX_DOCUMENT_BYTES", 8192):
            self.assertEqual(["stdin"], self.ids("-", packed("zip", files)))
        self.assertIn("Big/index.json: found more than 8192 bytes", self.diagnostics.lines()[0])

    def test_an_encrypted_member_is_left_out(self):
        data = bytearray(packed("zip", mockup_files()))
        data[data.index(b"PK\x01\x02") + 8] |= 1
        self.assertEqual(["stdin"], self.ids("-", bytes(data)))
        self.assertTrue(any("encrypted" in problem for problem in self.diagnostics.lines()))

    def test_links_out_of_a_folder_and_loops_are_noted_and_not_followed(self):
        for name, data in mockup_files("tree/").items():
            self.write(name, data)
        self.write("outside/index.json", b"{}")
        tree = self.folder / "tree" / "redfish" / "v1"
        (tree / "Out").symlink_to(self.folder / "outside")
        (tree / "Loop").symlink_to(tree.parent)
        (tree / "Gone").symlink_to("nowhere")
        for one, other in (("Chassis", "Managers"), ("Managers", "Chassis")):
            (tree / one).mkdir()
            for number in range(4):
                (tree / one / f"{other}{number}").symlink_to(tree / other)
        (tree / "Alias").symlink_to(tree / "Systems")
        (tree / "Pipe").mkdir()
        os.mkfifo(tree / "Pipe" / "index.json")
        self.assertEqual(["tree"], self.ids(self.folder / "tree"))
        noted = " ".join(self.diagnostics.lines())
        for words in ("a link out of the tree", "a link to its parent folder",
                      "a dangling link", "a special file"):  # fmt: skip
            self.assertIn(words, noted)

    def test_a_folder_beyond_the_bounds_is_refused(self):
        for name, data in mockup_files("tree/").items():
            self.write(name, data)
        for name in ("MAX_MEMBERS", "MAX_DOCUMENTS", "MAX_TREE_BYTES"):
            with mock.patch.object(bounds, name, 3):
                self.assertIn("at most 3", self.refused(self.folder / "tree"))

    def test_the_bounds_are_the_documented_ones(self):
        self.assertEqual(16 << 20, bounds.MAX_DOCUMENT_BYTES)
        self.assertEqual(512 << 20, bounds.MAX_TREE_BYTES)
        self.assertEqual(200_000, bounds.MAX_DOCUMENTS)
        self.assertEqual(512 << 20, bounds.MAX_JSON_BYTES)
        self.assertEqual(64 << 20, bounds.MAX_LINE_BYTES)
        self.assertEqual(8 << 30, bounds.MAX_STREAM_BYTES)
