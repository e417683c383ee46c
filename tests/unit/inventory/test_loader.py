# SPDX-License-Identifier: Apache-2.0
"""The loader: a pod manager is decoded once, however it comes, and is the same either way."""

import io
import tempfile
import unittest
from pathlib import Path

from valence_sched import files
from valence_sched.app import App
from valence_sched.model.inventory import FullPodm, to_json
from valence_sched.model.read_options import ReadOptions, Selection
from valence_sched.testing.served import served

RECORDED = Path(__file__).parents[2] / "recorded"
TREES = sorted(
    str(path) for path in RECORDED.iterdir() if path.suffix == ".json" or path.name == "rack-mockup"
)


class TestLoader(unittest.TestCase):
    """On recorded Redfish trees, as they are, as inventory files and served."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.app = App({"XDG_CONFIG_HOME": folder.name, "XDG_CACHE_HOME": folder.name})

    def nouns(self, selection: Selection) -> list[FullPodm]:
        """Return the pod managers, each the very noun that its driver made."""
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
