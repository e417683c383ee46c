# SPDX-License-Identifier: Apache-2.0
"""The composed application: inventories, drivers, the environment, and files of the user."""

import io
import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from valence_sched.app import App
from valence_sched.core import plugins
from valence_sched.errors import (
    DuplicateId,
    InputError,
    InventoryIncomplete,
    PluginError,
    UnknownName,
    UsageError,
)
from valence_sched.model.diagnostic import NoProgress
from valence_sched.model.reading import Selection

SITE = str(Path(__file__).parents[2] / "examples" / "site.json")
PODM = b'{"id":"%s","blocks":[{"uri":"c1","devices":{"processors":[{"cores":8}]}}]}\n'
FLAVOR = b"name: mine\nproperties: {processor: {total_cores: 4}}\n"


def selection(*sources: str, strict: bool = False) -> Selection:
    return Selection(sources=sources, strict=strict)


class Calls(NoProgress, list):
    """Records the numbers of pod managers."""

    def count_podms(self, done, total=None, awaited=()):
        self.append(done)

    def end_count(self):
        self.append("end")


class TestApp(unittest.TestCase):
    """App with its own folder for configuration."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environ = {"XDG_CONFIG_HOME": str(self.folder)}

    def app(self, stdin: bytes = b"", **environ: str) -> App:
        return App(environ=self.environ | environ, stdin=io.BytesIO(stdin))

    def write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return str(path)

    def test_without_an_inventory_the_error_names_the_option(self):
        with self.assertRaisesRegex(UsageError, "--inventory"):
            self.app(XDG_STATE_HOME=str(self.folder)).loader.view(selection())

    def test_the_environment_names_inventories_where_no_option_does(self):
        first, second = self.write("a.jsonl", PODM % b"a"), self.write("b.jsonl", PODM % b"b")
        both = os.pathsep.join([first, second])
        self.assertEqual(
            ["a", "b"], self.app(VALENCE_SCHED_INVENTORY=both).loader.view(selection()).podm_ids
        )

    def test_an_option_wins_over_the_environment(self):
        path = self.write("a.jsonl", PODM % b"a")
        app = self.app(VALENCE_SCHED_INVENTORY="/nowhere")
        self.assertEqual(["a"], app.loader.view(selection(path)).podm_ids)

    def test_a_driver_may_be_named_before_the_path(self):
        self.assertEqual(8, len(self.app().loader.view(selection(f"recorded:{SITE}")).podms))

    def test_an_unknown_driver_is_refused_with_the_nearest_name(self):
        with self.assertRaisesRegex(UnknownName, "did you mean 'recorded'"):
            self.app().loader.view(selection(f"record:{SITE}"))

    def test_a_driver_that_yields_no_record_is_named(self):
        drivers = plugins.Plugins("driver", {"odd": lambda *_: [{"id": "a"}]})
        with (
            mock.patch.object(plugins, "load", lambda _: drivers),
            self.assertRaisesRegex(PluginError, "driver 'odd': x: .*found dict, expected a Record"),
        ):
            self.app().loader.view(selection("odd:x"))

    def test_a_file_with_a_colon_in_its_name_is_a_file(self):
        path = self.write("rack:7.jsonl", PODM % b"a")
        self.assertEqual(["a"], self.app().loader.view(selection(path)).podm_ids)

    def test_standard_input_is_an_inventory_too(self):
        self.assertEqual(["a"], self.app(PODM % b"a").loader.view(selection("-")).podm_ids)

    def test_a_bad_podm_is_skipped_and_the_others_are_read(self):
        app = self.app(PODM % b"a" + b'{"id":"b","blocks":7}\n' + PODM % b"c")
        self.assertEqual(["a", "c"], app.loader.view(selection("-")).podm_ids)
        (line,) = app.diagnostics.lines("skipped")
        self.assertEqual("stdin: line 2: $.blocks: found 7, expected array", line)

    def test_strict_makes_a_skipped_podm_an_error_of_its_own(self):
        with self.assertRaisesRegex(InventoryIncomplete, "line 2"):
            self.app(PODM % b"a" + b'{"id":1}\n').loader.view(selection("-", strict=True))

    def test_one_id_in_two_inventories_is_never_skipped(self):
        first, second = self.write("a.jsonl", PODM % b"a"), self.write("b.jsonl", PODM % b"a")
        with self.assertRaisesRegex(DuplicateId, "'a' again, first in .*a.jsonl"):
            self.app().loader.view(selection(first, second))

    def test_an_empty_id_is_skipped_like_any_other_bad_value(self):
        app = self.app(PODM % b"a" + PODM % b"")
        self.assertEqual(["a"], app.loader.view(selection("-")).podm_ids)
        self.assertEqual(1, len(app.diagnostics.lines("skipped")))

    def test_an_inventory_without_podms_is_an_error(self):
        with self.assertRaisesRegex(InputError, "found no pod manager"):
            self.app(b'{"schema":"valence-sched/inventory","podms":[]}').loader.view(selection("-"))

    def test_what_is_converted_is_what_was_read(self):
        path = str(self.folder / "out.jsonl.zst")
        self.assertEqual((8, 203), self.app().loader.convert(selection(SITE), path))
        before = [podm.id for podm in self.app().loader.podms(selection(SITE))]
        self.assertEqual(before, self.app().loader.view(selection(path)).podm_ids)
        self.assertEqual(
            list(self.app().loader.podms(selection(SITE))),
            list(self.app().loader.podms(selection(path))),
        )

    def test_a_failed_conversion_leaves_what_stood_there(self):
        path = self.write("out.json", b"old")
        with self.assertRaises(InventoryIncomplete):
            self.app(PODM % b"a" + b"{}\n").loader.convert(selection("-", strict=True), path)
        self.assertEqual(b"old", Path(path).read_bytes())
        self.assertEqual(["out.json"], os.listdir(self.folder))

    def test_own_flavors_stand_beside_the_built_in_ones_and_win(self):
        self.write("valence-sched/flavors.yaml", b"flavors:\n- " + FLAVOR.replace(b"\n", b"\n  "))
        small = self.write("more.yaml", FLAVOR.replace(b"mine", b"small"))
        flavors = self.app().config.flavors([small])
        self.assertEqual(4, flavors["small"].needs[0].amount)
        self.assertIn("mine", flavors)
        self.assertIn("gpu-large", flavors)

    def test_the_mix_is_of_all_known_flavors_by_their_share(self):
        own = b"flavors: [{name: small, share: 0, properties: {nics: [{}]}}, "
        own += b"{name: mine, share: 2.5, properties: {nics: [{}]}}]"
        file = self.write("f.yaml", own)
        names = self.app().config.flavors([file])
        mix = self.app().config.mix([file])
        self.assertEqual(len(names) - 1, len(mix.shares))
        self.assertEqual({1.0, 2.5}, {share.weight for share in mix.shares})

    def test_a_flavor_word_is_a_name_a_file_or_standard_input(self):
        path = self.write("mine.yaml", FLAVOR)
        for app, word in ((self.app(), path), (self.app(FLAVOR), "-")):
            self.assertEqual("mine", app.config.flavor(word).name)
        self.assertEqual("gpu-large", self.app().config.flavor("gpu-large").name)
        with self.assertRaisesRegex(UnknownName, "did you mean 'gpu-large'"):
            self.app().config.flavor("gpu-larg")

    def test_a_file_of_several_flavors_is_no_flavor(self):
        one = {"properties": {"processor": {"total_cores": 4}}}
        both = {"flavors": [{"name": "a", **one}, {"name": "b", **one}]}
        path = self.write("both.json", json.dumps(both).encode())
        with self.assertRaisesRegex(InputError, "found 2 flavors, expected one .*--flavor-file"):
            self.app().config.flavor(path)

    def test_own_policies_stand_beside_the_built_in_ones(self):
        path = self.write("p.yaml", b"name: mine\nfilters: [enabled]\nweighers: [room]\n")
        known = self.app().config.policies([path])
        self.assertLessEqual({"default", "pack", "balanced", "chance", "mine"}, set(known))

    def test_progress_is_reported_while_podms_are_read_and_at_the_end(self):
        calls = Calls()
        lines = b"".join(PODM % str(number).encode() for number in range(3))
        App(environ={}, stdin=io.BytesIO(lines), progress=calls).loader.view(selection("-"))
        self.assertEqual([1, 2, 3, "end"], calls)
