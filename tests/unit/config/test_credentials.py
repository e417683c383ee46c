# SPDX-License-Identifier: Apache-2.0
"""Passwords and secrets: found by reference, readable only by their owner, and in no error."""

import os
import stat
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from valence_sched.app import App
from valence_sched.config.podms_file import SecureFile, read_password
from valence_sched.errors import CredentialError
from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone import ZoneSettings

SECRET = "hunter2"


class Case(unittest.TestCase):
    """A test case with its own folder."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, data: bytes, mode: int = 0o600) -> Path:
        path = self.folder / "password"
        path.write_bytes(data)
        path.chmod(mode)
        return path

    def refused(self, reference: PasswordReference, pattern: str, **environ: str) -> None:
        with self.assertRaisesRegex(CredentialError, pattern) as caught:
            read_password(reference, "a", environ, SecureFile(self.folder / "kept"))
        self.assertNotIn(SECRET, str(caught.exception))


class TestReferences(Case):
    """References to an environment variable and to a file."""

    def test_without_a_reference_there_is_no_password(self):
        self.assertIsNone(read_password(None, "a", {}, None))

    def test_a_variable_holds_it(self):
        self.assertEqual(
            SECRET, read_password(PasswordReference(env="V"), "a", {"V": SECRET}, None)
        )

    def test_a_variable_that_is_missing_or_empty_is_named(self):
        self.refused(PasswordReference(env="V"), r"variable V of its password is not set")
        self.refused(PasswordReference(env="V"), r"variable V of its password is empty", V="")

    def test_a_file_holds_it_with_or_without_the_end_of_its_line(self):
        for data in (b"hunter2", b"hunter2\n", b"hunter2\r\n"):
            path = self.write(data)
            self.assertEqual(
                SECRET, read_password(PasswordReference(file=str(path)), "a", {}, None)
            )

    def test_spaces_belong_to_a_password(self):
        path = self.write(b" a b \n")
        self.assertEqual(" a b ", read_password(PasswordReference(file=str(path)), "a", {}, None))

    def test_a_file_that_is_missing_empty_or_no_line_is_named(self):
        reference = PasswordReference(file=str(self.folder / "password"))
        self.refused(reference, "no such file")
        for data, pattern in (
            (b"", "is empty"), (b"\n", "is empty"), (b"hunter2\nmore\n", "not one line"),
            (b"\xffhunter2", "not UTF-8"), (b"hunter2\0", "not one line"),
            (b"hunter2" * 10_000, "over 65,536 bytes"),
        ):  # fmt: skip
            with self.subTest(data[:9]):
                self.write(data)
                self.refused(reference, pattern)

    def test_a_file_that_others_can_get_at_is_refused_with_the_remedy(self):
        for mode in (0o644, 0o640, 0o604, 0o660, 0o602):
            with self.subTest(oct(mode)):
                path = self.write(b"hunter2", mode)
                self.refused(PasswordReference(file=str(path)), f"chmod 600 {path}$")

    @unittest.skipIf(os.geteuid(), "only root can give files away")
    def test_a_file_of_somebody_else_is_refused(self):
        path = self.write(b"hunter2")
        os.chown(path, 12345, -1)
        self.refused(PasswordReference(file=str(path)), "belongs to another user")

    def test_a_folder_and_a_pipe_are_no_files(self):
        self.refused(
            PasswordReference(file=str(self.folder)), "expected a regular file|is a directory"
        )
        os.mkfifo(self.folder / "pipe", 0o600)
        self.refused(
            PasswordReference(file=str(self.folder / "pipe")),
            "expected a regular file with a password",
        )

    def test_people_are_told_where_it_is(self):
        self.assertEqual("variable V", PasswordReference(env="V").text)
        self.assertEqual("file /p", PasswordReference(file="/p").text)
        self.assertEqual("secure file", PasswordReference(stored=True).text)


class TestSecureFile(Case):
    """The file with typed passwords."""

    def setUp(self):
        super().setUp()
        self.file = SecureFile(self.folder / "new" / "kept")

    def mode(self, path: Path) -> int:
        return path.stat().st_mode & 0o777

    def test_what_is_put_is_got_and_nobody_else_can_read_it(self):
        self.file.put("a", SECRET)
        self.file.put("b", "other")
        self.assertEqual((SECRET, "other"), (self.file.get("a"), self.file.get("b")))
        self.assertEqual(
            (0o600, 0o700), (self.mode(self.file.path), self.mode(self.file.path.parent))
        )
        self.assertEqual(["kept"], os.listdir(self.file.path.parent))

    def test_what_was_forgotten_is_not_there_nor_in_the_bytes(self):
        self.file.put("a", SECRET)
        self.file.put("a", None)
        with self.assertRaisesRegex(CredentialError, "podm set NAME --password-prompt"):
            self.file.get("a")
        self.assertNotIn(SECRET.encode(), self.file.path.read_bytes())

    def test_forgetting_makes_no_file(self):
        self.file.put("a", None)
        self.assertFalse(self.file.path.parent.exists())

    def test_a_file_that_others_can_read_is_neither_read_nor_written(self):
        self.file.put("a", SECRET)
        self.file.path.chmod(0o640)
        before = self.file.path.read_bytes()
        for act in (lambda: self.file.get("a"), lambda: self.file.put("b", "other")):
            with self.assertRaisesRegex(CredentialError, f"chmod 600 {self.file.path}$"):
                act()
        self.assertEqual(before, self.file.path.read_bytes())

    def test_a_damaged_file_is_not_overwritten(self):
        self.file.put("a", SECRET)
        for data in (b"{", b"[]", b'{"a": 7}', b"[" * 100_000):
            self.file.path.write_bytes(data)
            with self.assertRaisesRegex(CredentialError, "not a password file of podm create"):
                self.file.put("b", "other")
            self.assertEqual(data, self.file.path.read_bytes())

    def test_a_file_that_cannot_be_written_is_named(self):
        (self.folder / "new").write_text("a file")
        with self.assertRaisesRegex(CredentialError, "kept"):
            self.file.put("a", SECRET)

    def test_two_who_put_at_the_same_moment_lose_nothing(self):
        names = [str(number) for number in range(20)]
        with ThreadPoolExecutor(20) as pool:
            list(pool.map(lambda name: self.file.put(name, SECRET), names))
        self.assertEqual([SECRET] * 20, [self.file.get(name) for name in names])


class TestZoneKeys(unittest.TestCase):
    """Every process of a zone has the same keys."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.state = str(self.folder / "state.sqlite")
        self.file = self.folder / "state.sqlite.zone-key"
        self.app = App(environ={"NEW": "n" * 40, "XDG_STATE_HOME": str(self.folder)})

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
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: self.keys()[0], range(8)))
        self.assertEqual((8, 1, 64), (len(found), len({*found}), len(found[0])))
        self.assertEqual(0o600, stat.S_IMODE(self.file.stat().st_mode))
        self.assertEqual(found[:1], self.keys())

    def test_one_that_others_can_read_is_refused(self):
        self.keys()
        self.file.chmod(0o644)
        with self.assertRaisesRegex(CredentialError, "other users can read or change it"):
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
