# SPDX-License-Identifier: Apache-2.0
"""The secret that signs what a zone offers: named by its settings, or made beside the state."""

import stat
import tempfile
import threading
import unittest
from pathlib import Path

from valence_sched.app import App
from valence_sched.errors import CredentialError
from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone import ZoneSettings


class TestZoneKeys(unittest.TestCase):
    """Every process of a zone has the same."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.state = str(self.folder / "state.sqlite")
        self.file = self.folder / "state.sqlite.zone-key"
        self.app = App(environ={"NEW": "n" * 40, "XDG_STATE_HOME": folder.name})

    def keys(self, state=None, **words):
        return self.app.registry(state or self.state).zone_keys(ZoneSettings(), **words)

    def test_secrets_that_are_named_are_those_in_their_order(self):
        old = self.folder / "old"
        old.write_text("o" * 40)
        old.chmod(0o600)
        references = PasswordReference(file=str(old)), PasswordReference(env="NEW")
        settings = ZoneSettings(secrets=references)
        self.assertEqual(["o" * 40, "n" * 40], self.app.registry(self.state).zone_keys(settings))
        self.assertFalse(self.file.exists())

    def test_one_that_cannot_be_had_is_an_error(self):
        settings = ZoneSettings(secrets=(PasswordReference(env="MISSING"),))
        with self.assertRaisesRegex(CredentialError, "zones: secrets: .* MISSING"):
            self.app.registry(self.state).zone_keys(settings)

    def test_without_any_one_is_made_once_beside_the_state_for_its_owner_alone(self):
        found = []
        threads = [threading.Thread(target=lambda: found.append(self.keys()[0])) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((8, 1, 64), (len(found), len({*found}), len(found[0])))
        self.assertEqual(0o600, stat.S_IMODE(self.file.stat().st_mode))
        self.assertEqual(found[:1], self.keys())

    def test_one_that_others_can_read_is_refused(self):
        self.keys()
        self.file.chmod(0o644)
        with self.assertRaisesRegex(CredentialError, "others can read or change it"):
            self.keys()

    def test_a_state_on_a_server_has_none_beside_it(self):
        with self.assertRaisesRegex(CredentialError, "zones: secrets is empty.*an env or a file"):
            self.keys("postgresql://db/state")

    def test_a_folder_that_cannot_be_written_is_named(self):
        (self.folder / "file").write_text("")
        with self.assertRaisesRegex(CredentialError, "file/state.sqlite.zone-key: "):
            self.keys(str(self.folder / "file" / "state.sqlite"))

    def test_where_none_is_to_be_made_there_may_be_none(self):
        for state in (self.state, "postgresql://db/state"):
            self.assertEqual([], self.keys(state, make=False))
        self.assertFalse(self.file.exists())
        self.assertEqual(self.keys(), self.keys(make=False))
