# SPDX-License-Identifier: Apache-2.0
"""The loader, and the cache of views."""

import concurrent.futures
import datetime
import io
import os
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from tests.unit.view.same import assert_same_view
from valence_sched import files
from valence_sched.app import App
from valence_sched.errors import InventoryIncomplete, InventoryStale
from valence_sched.inventory import view_cache
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.inventory.view_cache import ViewCache
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.testing.generate import header, podms
from valence_sched.testing.served import served
from valence_sched.view.columns import StoredTables
from valence_sched.view.view import View, inventory_digest

RECORDED = Path(__file__).parents[2] / "recorded"
TREES = sorted(
    str(path) for path in RECORDED.iterdir() if path.suffix == ".json" or path.name == "rack-mockup"
)


class TestLoader(unittest.TestCase):
    """Recorded Redfish trees: unchanged, as inventory files, and served."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.app = App({"XDG_CONFIG_HOME": folder.name, "XDG_CACHE_HOME": folder.name})

    def nouns(self, selection: Selection) -> list[FullPodm]:
        """Return the pod managers, each the same object that its driver made."""
        podms = []
        for podm, record in self.app.loader.podm_records(selection):
            self.assertIs(podm, record.content)
            podms.append(podm)
        return podms

    def test_a_pod_manager_that_a_driver_made_is_not_decoded_again(self):
        self.assertEqual(len(TREES), len(self.nouns(Selection(sources=tuple(TREES)))))

    def test_a_live_pod_manager_is_not_decoded_again(self):
        source = str(RECORDED / "no-zones.json")
        with served(source) as podms:
            (url,) = (podm.url for podm in podms.values())
            file = self.folder / "podms.yaml"
            file.write_text(f"podms: {{one: {{url: '{url}'}}}}")
            live = ReadOptions(podm_files=(str(file),))
            (podm,) = self.nouns(Selection(live=live))
        self.assertEqual("one", podm.id)
        self.assertTrue(podm.blocks)

    def test_a_noun_has_the_bytes_that_it_has_when_it_was_written_and_read(self):
        file = str(self.folder / "all.jsonl")
        nouns = self.nouns(Selection(sources=tuple(TREES)))
        files.write_inventory(nouns, file)
        read = self.app.loader.podms(Selection(sources=(file,)))
        for noun, podm in zip(nouns, read, strict=True):
            self.assertEqual(to_json(podm), to_json(noun))

    def test_the_texts_of_a_view_are_the_bytes_of_its_files(self):
        line = b'{"id":"a","blocks":[]}'
        texts: dict[str, bytes] = {}
        app = App({}, io.BytesIO(line + b"\n"))
        app.loader.view(Selection(sources=("-",)), texts)
        self.assertEqual({"a": line}, {name: text.strip() for name, text in texts.items()})


LATER = datetime.timedelta(minutes=1)  # older than the last change of a file: it no longer changes


def later() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + LATER


class TestViewCache(unittest.TestCase):
    """One inventory file, with the loader of commands."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environ = {"XDG_CONFIG_HOME": folder.name, "XDG_CACHE_HOME": folder.name}
        self.views = self.folder / "valence-sched" / "views"
        self.file = self.folder / "site.jsonl"
        self.write(20)

    def write(self, count: int, seed: int = 1) -> None:
        self.file.write_bytes(b"\n".join([header(), *podms(count, 30, seed, stocks=1)]) + b"\n")

    def view(self, *, now=later, smallest: int = 0, **words) -> View:
        """Return a view of the file from a new application; ``remarks`` has its remarks."""
        app = App(self.environ, now=now)
        self.loader = InventoryLoader(app.sources, smallest)
        selection = Selection(sources=(str(self.file),), **words)
        view = self.loader.view(selection)
        self.remarks, self.diagnostics = app.config.remarks, list(app.diagnostics)
        return view

    def cached_file(self) -> Path:
        (file,) = self.views.iterdir()
        return file

    def assert_cached(self, view: View) -> None:
        self.assertIsInstance(view.block_tables, StoredTables)

    def assert_read(self, view: View) -> None:
        self.assertNotIsInstance(view.block_tables, StoredTables)

    def test_the_second_view_comes_from_the_cache_and_is_the_same(self):
        first, second = self.view(), self.view()
        self.assert_read(first)
        self.assert_cached(second)
        assert_same_view(self, first, second)
        self.assertEqual(inventory_digest(first), inventory_digest(second.without_memo()))
        self.assertEqual([], self.remarks)

    def test_only_its_owner_may_read_it(self):
        self.view()
        self.assertEqual(0o600, self.cached_file().stat().st_mode & 0o777)
        self.assertEqual(0o700, self.views.stat().st_mode & 0o777)

    def test_nothing_is_cached_where_that_is_not_wanted_or_not_worth_it(self):
        self.view(no_cache=True)
        self.view(stated={str(self.file): {"region": ("eu",)}})
        self.view(smallest=self.file.stat().st_size + 1)
        self.environ["VALENCE_SCHED_NO_CACHE"] = "1"
        self.view()
        self.assertFalse(self.views.exists())
        del self.environ["VALENCE_SCHED_NO_CACHE"]
        self.view()
        self.assert_read(self.view(no_cache=True))
        self.assert_cached(self.view())

    def test_a_file_that_may_still_change_unseen_is_not_cached(self):
        self.view(now=lambda: datetime.datetime.now(datetime.UTC))
        self.assertFalse(self.views.exists())

    def test_a_file_that_changed_is_read(self):
        def same_size_and_time() -> None:
            status, text = self.file.stat(), self.file.read_bytes()
            self.file.write_bytes(text.replace(b'"state":"Composed"', b'"reserved":true   ', 1))
            self.assertEqual(status.st_size, self.file.stat().st_size)
            os.utime(self.file, ns=(status.st_atime_ns, status.st_mtime_ns))

        def other_file() -> None:
            other = self.folder / "other"
            other.write_bytes(self.file.read_bytes())
            os.replace(other, self.file)

        def longer() -> None:
            self.write(21)

        for change in (same_size_and_time, other_file, longer):
            with self.subTest(change.__name__):
                self.view()
                self.assert_cached(self.view())
                change()
                fresh = self.view()
                self.assert_read(fresh)
                self.assertEqual([], self.remarks)
                assert_same_view(self, fresh, self.view())

    def test_a_file_that_changes_while_it_is_read_is_not_cached(self):
        app = App(self.environ, now=later)
        loader = InventoryLoader(app.sources, 0)
        with mock.patch.object(app.sources, "records", self.touching(app.sources.records)):
            loader.view(Selection(sources=(str(self.file),)))
        self.assertFalse(self.views.exists())

    def touching(self, records):
        def touched(selection):
            for number, record in enumerate(records(selection)):
                if number == 5:
                    os.utime(self.file)
                yield record

        return touched

    def test_damage_is_told_and_the_inventory_read(self):
        self.view()
        whole = self.cached_file().read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 4
        key_flipped = bytearray(whole)
        key_flipped[10] ^= 4
        for name, content in {
            "empty": b"",
            "short": whole[:3],
            "cut off in its key": whole[:50],
            "cut off": whole[:-1],
            "longer": whole + b"x",
            "a bit of it": bytes(flipped),
            "a bit of its key": bytes(key_flipped),
            "zero bytes": bytes(len(whole)),
            "something else": b"\x80\x04\x95 a pickle" * 1000,
            "a huge size": b"\xff" * 100,
        }.items():
            with self.subTest(name):
                self.cached_file().write_bytes(content)
                self.assert_read(self.view())
                self.assertRegex("\n".join(self.remarks), r"\.view: could not be used: .+")
                self.assert_cached(self.view())  # it was written again

    def test_the_view_of_another_release_or_form_is_not_used(self):
        self.view()
        with mock.patch("importlib.metadata.version", lambda _: "99"):
            self.assert_read(self.view())
            self.assertEqual([], self.remarks)
        self.view()
        with mock.patch("valence_sched.view.columns.VERSION", 99):
            self.assert_read(self.view())
            self.assertRegex(self.remarks[0], "could not be used: it is of another version")

    def cache(self) -> ViewCache:
        self.remarks = []
        return ViewCache(self.views, self.remarks.append, min_bytes=0,
                         now_ns=lambda: time.time_ns() + 10**10)  # fmt: skip

    def test_the_cached_view_of_another_path_is_not_used(self):
        other = self.folder / "copy.jsonl"
        other.write_bytes(self.file.read_bytes())
        self.view()
        mine = self.cached_file()
        cached = self.cache().load(str(other))
        mine.rename(self.cache()._path(cached.key))
        self.assertIsNone(self.cache().load(str(other)).view)

    def test_a_file_that_others_can_write_or_that_is_none_is_not_used(self):
        self.view()
        file = self.cached_file()
        for mode in (0o620, 0o602, 0o640, 0o604):
            file.chmod(mode)
            self.assert_read(self.view())
            self.assertRegex(self.remarks[0], "could not be used: other users can read or write it")
            self.assertEqual(0o600, file.stat().st_mode & 0o777)
        real = self.folder / "real"
        file.rename(real)
        file.symlink_to(real)
        self.assert_read(self.view())
        self.assertRegex(self.remarks[0], "could not be used: ")
        self.assertFalse(file.is_symlink())
        self.assert_cached(self.view())
        file.unlink()
        os.mkfifo(file)
        self.assert_read(self.view())
        self.assertRegex(self.remarks[0], "could not be used: it is not a file")
        file.unlink()
        file.mkdir()
        self.assert_read(self.view())
        self.assertRegex(self.remarks[0], "could not be used: ")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_a_file_of_somebody_else_is_not_used(self):
        self.view()
        os.chown(self.cached_file(), 65534, 65534)
        self.assert_read(self.view())
        self.assertRegex(self.remarks[0], "other users can read or write it")
        self.assert_cached(self.view())

    def test_a_folder_that_cannot_be_written_is_told(self):
        (self.folder / "valence-sched").write_text("a file in its place")
        self.assert_read(self.view())
        self.assertRegex("\n".join(self.remarks), "could not be written: ")

    def test_writers_at_once_leave_one_whole_view(self):
        view = self.view()
        (cache, key) = self.cache(), self.cache().load(str(self.file)).key
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: cache.save(key, view), range(40)))
        self.assertEqual(1, len(list(self.views.iterdir())))
        self.assert_cached(self.view())
        self.assertEqual([], self.remarks)

    def test_the_oldest_views_make_room(self):
        view = self.view()
        size = self.cached_file().stat().st_size
        with mock.patch.object(view_cache, "MAX_CACHE_BYTES", 3 * size + 1000):
            for number in range(5):
                copy = self.folder / f"{number}.jsonl"
                copy.write_bytes(self.file.read_bytes())
                self.cache().save(self.cache().load(str(copy)).key, view)
                os.utime(self.cache()._path(self.cache().load(str(copy)).key), ns=(0, number))
        self.assertEqual(3, len(list(self.views.iterdir())))
        with mock.patch.object(view_cache, "MAX_VIEW_BYTES", size - 1):
            self.assert_read(self.view())

    def test_what_is_doubtful_is_told_each_time(self):
        with self.file.open("ab") as stream:
            stream.write(b'{"id": "broken", "blocks": 5}\n')
        for _ in range(2):
            self.assert_read(self.view())
            self.assertEqual(["skipped"], [one.kind for one in self.diagnostics])
        self.assertFalse(self.views.exists())
        with self.assertRaises(InventoryIncomplete):
            self.view(strict=True)

    def test_ages_are_looked_at_each_time(self):
        self.view()
        live = ReadOptions(warn_age_s=3600.0)
        self.assert_cached(self.view(live=live))
        self.assertEqual(["warning"], [one.kind for one in self.diagnostics])
        with self.assertRaises(InventoryStale):
            self.view(live=ReadOptions(max_age_s=3600.0))

    def test_a_redfish_tree_is_read_each_time(self):
        recorded = Path(__file__).parents[2] / "recorded" / "no-zones.json"
        self.file.write_bytes(recorded.read_bytes())
        self.assert_read(self.view())
        self.assertFalse(self.views.exists())

    def test_what_is_added_to_the_file_is_read_each_time(self):
        state = f"sqlite:///{self.folder}/state.sqlite"
        resources = self.folder / "power.yaml"
        resources.write_text("resources: [{name: power, unit: W, total: 5}]")
        self.view()
        for words in (
            {"live": ReadOptions(state=state)},
            {"live": ReadOptions(liveness="read:10m")},
            {"resource_files": (str(resources),)},
        ):
            self.assert_read(self.view(**words))
