# SPDX-License-Identifier: Apache-2.0
"""The permissions of written files match the table of the page of files."""

import ast
import os
import re
import stat
import tempfile
import time
import unittest
from pathlib import Path

from tests.unit.structure import ROOT, every_module
from valence_sched import files
from valence_sched.config.podms_file import SecureFile
from valence_sched.drivers.crawl.cache import DocumentCache
from valence_sched.drivers.files.tree import build_folder, write_tree
from valence_sched.inventory.view_cache import ViewCache
from valence_sched.store.store import Store
from valence_sched.testing import generate, view

#: The modules that create files, and their rows of the table.
WRITERS = {
    "config/podms_file": ["secure file"],
    "drivers/crawl/cache": ["cache of documents"],
    "drivers/files/tree": ["Redfish tree"],
    "files": ["report", "plan", "inventory", "page", "results and golden decisions"],
    "inventory/view_cache": ["cache of views"],
    "store/maintenance": ["copy of a state", "rows of a repair"],
    "store/schema": ["state file"],
    "testing/generate": ["generated inventory"],
}
BY_CLIFF = ["log"]
WRITING = {"write_bytes", "write_text", "NamedTemporaryFile", "mkstemp", "atomic", "touch"}


def makes_a_file(call: ast.Call) -> bool:
    """Return whether a call creates a file, by its name and arguments."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    words = [*call.args, *(keyword.value for keyword in call.keywords)]
    texts = [word.value for word in words if isinstance(word, ast.Constant)]
    if name == "open":
        modes = any(
            isinstance(text, str) and re.fullmatch("[wax]b?|r\\+b?", text) for text in texts
        )
        return modes or "O_CREAT" in ast.dump(call)
    return name in WRITING


def documented() -> dict[str, str]:
    """Return the permissions of each kind of file on the page of files."""
    page = (ROOT / "doc/source/reference/files.rst").read_text()
    section = page.partition("Files that are written\n====")[2].partition("Their folders")[0]
    rows = [re.split("  +", line) for line in section.split("\n") if re.search("  +(0|u)", line)]
    return {kind.partition(" (")[0].partition(",")[0]: words for kind, words in rows}


class TestTable(unittest.TestCase):
    """The table has every writer."""

    def test_no_module_but_these_makes_files(self):
        found = {
            module.address
            for module in every_module()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and makes_a_file(node)
            and "devnull" not in ast.dump(node)
        }  # fmt: skip
        self.assertEqual(set(WRITERS), found)

    def test_what_they_make_is_on_the_page_and_nothing_else(self):
        kinds = sorted([kind for kinds in WRITERS.values() for kind in kinds] + BY_CLIFF)
        known = sorted(documented())
        self.assertEqual(len(kinds), len(known), known)
        for kind, page in zip(kinds, known, strict=True):
            self.assertTrue(page.startswith(kind), (page, kind))


class TestModes(unittest.TestCase):
    """The permissions of each writer with a umask of 0, and with one that removes everything."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="modes-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.addCleanup(os.umask, os.umask(0o022))

    def secure(self, place):
        SecureFile(place / "secure").put("a", "hunter2")

    def cache(self, place):
        cache = DocumentCache(place / "cache", "https://h", None, 0.0)
        cache.save({"/redfish/v1": {"a": 1}})

    def views(self, place):
        file = place / "site.json"
        file.write_text('{"id": "a", "blocks": []}')
        file.chmod(0o600)  # it is not checked
        cache = ViewCache(place / "views", self.fail, min_bytes=0,
                          now_ns=lambda: time.time_ns() + 10**10)  # fmt: skip
        cached = cache.load(str(file))
        cache.save(cached.key, view({"id": "a"}))
        self.assertEqual(1, len(list((place / "views").iterdir())))

    def state(self, place):
        Store(f"sqlite:///{place / 'state.db'}").close()

    def modes(self, write, umask):
        place = self.folder / f"{write.__name__}-{umask:o}"
        place.mkdir()
        os.umask(umask)
        write(place)
        os.umask(0o022)
        return {stat.S_IMODE(path.stat().st_mode) for path in place.rglob("*") if path.is_file()}

    def test_what_may_hold_a_secret_is_for_its_owner_alone(self):
        for write in (self.secure, self.cache, self.views, self.state):
            for umask in (0, 0o027):
                with self.subTest(write.__name__, umask=umask):
                    self.assertEqual({0o600}, self.modes(write, umask))

    def test_what_is_to_be_shared_follows_the_umask(self):
        def shared(place):
            files.write_json({"a": 1}, str(place / "report.json"))
            files.write_inventory((), str(place / "site.jsonl.gz"))
            tree = place / "tree"
            build_folder(str(tree), lambda folder: write_tree(
                {"/redfish/v1": {"a": 1}}, folder, self.fail) and None)  # fmt: skip
            words = ["--podms", "1", "--blocks", "1", "--output", str(place / "generated")]
            self.assertEqual(0, generate.main(words))

        for umask in (0, 0o027, 0o077):
            with self.subTest(umask=umask):
                self.assertEqual({0o666 & ~umask}, self.modes(shared, umask))

    def test_what_replaces_a_file_keeps_its_permissions_but_for_a_secret(self):
        file = self.folder / "report.json"
        for mode in (0o600, 0o640, 0o664):
            file.write_text("{}")
            file.chmod(mode)
            files.write_json({"a": 1}, str(file))
            self.assertEqual(mode, stat.S_IMODE(file.stat().st_mode))
        with files.atomic(file, mode=0o600) as stream:
            stream.write(b"x")
        self.assertEqual(0o600, stat.S_IMODE(file.stat().st_mode))
