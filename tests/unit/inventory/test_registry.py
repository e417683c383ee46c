# SPDX-License-Identifier: Apache-2.0
"""The registry: members of the state, of the user's file, of named files, and of a catalogue."""

import json
import tempfile
import unittest
from pathlib import Path

from tests.unit.store.site import podm
from tests.unit.zones.in_process import inventory
from valence_sched.config.settings import Configuration
from valence_sched.errors import (
    CredentialError,
    DuplicateId,
    IdentityConflict,
    InputError,
    UnknownName,
    UsageError,
)
from valence_sched.inventory.registry import Registry, read_podms
from valence_sched.model.reading import ReadOptions
from valence_sched.model.registration import PasswordReference, Registration
from valence_sched.testing.served import served

ONE = b"podms: {%s: {url: 'https://%s'}}"


class TestRegistry(unittest.TestCase):
    """A registry with its own folders."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environ = {
            "XDG_CONFIG_HOME": str(self.folder / "c"),
            "XDG_STATE_HOME": str(self.folder / "s"),
        }

    def registry(self, state: str | None = None, **more: str) -> Registry:
        return Registry(Configuration(self.environ | more), state)

    def write(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return str(path)

    def names(self, live: ReadOptions, registry: Registry | None = None) -> list[str]:
        members = (registry or self.registry(live.state)).members(live)
        return [member.registration.name for member in members]

    def test_a_shared_store_is_used_on_a_database_server_and_a_file_is_opened_again(self):
        shared = object()
        config = Configuration(self.environ)
        server = Registry(config, "postgresql://db.example/state", shared=lambda: shared)
        with server.opened() as store:
            self.assertIs(shared, store)
        state = self.folder / "state.db"
        for _ in range(2):
            with Registry(config, str(state), shared=lambda: shared).opened() as store:
                store.quotas.change("me", {"nodes": 1.0})
            self.assertTrue(state.exists())
            state.unlink()

    def test_the_option_wins_over_the_environment_and_that_over_the_usual_place(self):
        usual = self.registry()
        self.assertEqual(self.folder / "s/valence-sched/state.sqlite", usual.file)
        named = self.registry(VALENCE_SCHED_STATE="/a/b.sqlite")
        self.assertEqual(Path("/a/b.sqlite"), named.file)
        self.assertEqual(Path("/c"), self.registry("/c", VALENCE_SCHED_STATE="/a").file)
        self.assertEqual(Path("/c"), self.registry("sqlite:////c").file)

    def test_a_path_is_the_file_whatever_characters_it_has(self):
        """Characters with a meaning in URLs, such as %20 or a question mark, belong to the name."""
        for name in ("a%20b", "a?b", "a#b", "a+b c", "100%"):
            with self.subTest(name):
                path = self.folder / name / "state.sqlite"
                registry = self.registry(str(path))
                self.assertEqual(path, registry.file)
                registry.create(Registration(name="a", url="http://127.0.0.1:1"))
                self.assertTrue(path.is_file())
                again = self.registry(str(path)).registrations()
                self.assertEqual(["a"], [one.name for one in again])
        url = f"sqlite:///{self.folder}/a%20c"
        self.assertEqual(self.folder / "a c", self.registry(url).file)

    def test_a_state_that_would_end_with_the_command_is_refused(self):
        for url in ("sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite+pysqlite:///"):
            with self.subTest(url), self.assertRaises(UsageError) as caught:
                self.registry(url)
            self.assertEqual(f"the state {url!r} ends with this command: name a file, or the URL "
                             "of a database", str(caught.exception))  # fmt: skip

    def test_a_database_of_many_keeps_passwords_at_home_and_shows_none(self):
        url = "postgresql://op:hunter2@h/db"
        registry = self.registry(VALENCE_SCHED_STATE=url)
        self.assertIsNone(registry.file)
        self.assertEqual("postgresql://op@h/db", registry.where)
        self.assertEqual(self.folder / "s/valence-sched", registry.passwords.path.parent)
        same = self.registry(VALENCE_SCHED_STATE=url.replace("hunter2", "other"))
        self.assertEqual(registry.passwords.path, same.passwords.path)
        for one in (
            url,
            "postgresql://op:hun/ter2@h/db",
            "mysql://h/db?passwd=hunter2",
            "postgresql:///db?host=h&password=hunter2&sslmode=require",
        ):
            with self.subTest(one):
                with self.assertRaises(UsageError) as caught:
                    self.registry(one)
                self.assertNotIn("ter2", str(caught.exception))
                self.assertNotIn("ter2", self.registry(VALENCE_SCHED_STATE=one).where)

    def test_what_was_read_to_register_is_stored(self):
        """Decisions on the state do not wait for another reading."""
        registry = self.registry()
        url = "http://127.0.0.1:1"
        registry.create(Registration(name="a", url=url), podm=podm("a", url=url, blocks=2))
        with registry.store() as store:
            known = store.load_podms()["a"]
        self.assertEqual((2, "address:127.0.0.1:1"), (len(known.blocks), known.identity))

    def test_what_cannot_be_stored_is_not_registered(self):
        registry = self.registry()
        uuid = "urn:uuid:00000000-0000-0000-0000-000000000001"
        with registry.store() as store:
            store.register(Registration(name="other", url="https://other", identity=uuid))
        read = podm("a", identity=uuid)
        with self.assertRaises(IdentityConflict):
            registry.create(Registration(name="a", url="http://127.0.0.1:1"), podm=read)
        self.assertEqual(["other"], [one.name for one in registry.registrations()])

    def test_named_files_take_the_place_of_the_state_and_of_ones_own(self):
        self.registry().create(Registration(name="stored", url="https://k"))
        self.write("c/valence-sched/podms.yaml", ONE % (b"own", b"o"))
        file = self.write("f.yaml", ONE % (b"named", b"n"))
        self.assertEqual(["stored", "own"], self.names(ReadOptions()))
        self.assertEqual(["named"], self.names(ReadOptions(podm_files=(file,))))
        state = str(self.registry().file)
        self.assertEqual(
            ["stored", "named"], self.names(ReadOptions(podm_files=(file,), state=state))
        )
        (member,) = self.registry().members(ReadOptions(podm_files=(file,)))
        self.assertFalse(member.uses_state)

    def test_two_of_one_name_are_refused_and_named_with_their_places(self):
        files = tuple(self.write(f"{n}.yaml", ONE % (b"a", b"h")) for n in "12")
        with self.assertRaisesRegex(DuplicateId, "2.yaml: found 'a' again, first in .*1.yaml"):
            self.registry().members(ReadOptions(podm_files=files))

    def test_only_the_named_ones_are_selected(self):
        files = tuple(self.write(f"{n}.yaml", ONE % (n.encode(), b"h")) for n in "abc")
        self.assertEqual(["b"], self.names(ReadOptions(podm_files=files, only=("b",))))
        with self.assertRaisesRegex(UnknownName, "known: a, b, c"):
            self.names(ReadOptions(podm_files=files, only=("z",)))

    def test_a_catalogue_is_named_by_entries_of_its_urls(self):
        file = self.write("f.yaml", ONE % (b"mine", b"h:443"))
        catalogue = (
            Registration(name="east", url="https://h"),
            Registration(name="w", url="https://w"),
        )
        live = ReadOptions(podm_files=(file,), catalogue=catalogue)
        self.assertEqual(["mine", "w"], self.names(live))

    def test_names_of_a_catalogue_follow_services_and_not_endpoints(self):
        site = self.write("site.json", json.dumps(inventory({"a": 1, "b": 1})).encode())
        with served(site) as there:
            urls = {name: one.url for name, one in there.items()}
            also = urls["a"].replace("127.0.0.1", "localhost")  # as in another interface
            public = self.registry().named_catalogue(
                [Registration(name=f"west-{n}p", url=url, zone="west") for n, url in urls.items()]
            )
            names = {n: one.name for n, one in zip(urls, public, strict=True)}
            for name in names.values():
                self.assertRegex(name, "^west-[0-9a-f]{12}$")
            internal = Registration(name="west-ai", url=also, zone="west")
            self.assertEqual([names["a"]], self.names(self.catalogue(internal)))
            again = [Registration(name=f"west-{n}", url=urls["a"], zone="west") for n in "pq"]
            self.assertEqual([names["a"], "west-q"], self.names(self.catalogue(*again)))
            token = Registration(name="podm", url=urls["a"])
            self.assertEqual(["podm"], self.names(self.catalogue(token)))
            self.registry().create(Registration(name="mine", url=urls["a"]))
            (member,) = self.registry().members(self.catalogue(internal))
            found = member.registration
            self.assertEqual(
                ("mine", urls["a"]), (found.name, found.url)
            )  # its own, with its login
            with self.registry().store() as store:
                store.remember(podm(id="old", url=urls["b"], identity=public[1].identity))
            b = Registration(name="west-bp", url=urls["b"], zone="west")
            self.assertEqual(["old"], self.names(self.catalogue(b)))
        self.assertEqual(["old"], self.names(self.catalogue(b)))  # it no longer answers
        gone = Registration(name="west-cp", url="http://127.0.0.1:1", zone="west")
        self.assertEqual(["west-cp"], self.names(self.catalogue(gone)))

    def catalogue(self, *found: Registration) -> ReadOptions:
        return ReadOptions(catalogue=self.registry().named_catalogue(found))

    def test_what_was_read_without_a_registration_can_be_deleted(self):
        registry = self.registry()
        with registry.store() as store:
            store.remember(podm(id="west-1"))
            store.update_stats("reporting", {"load": 1})
        registry.delete("west-1")
        with registry.store() as store:
            self.assertEqual(["reporting"], list(store.load_podms()))
        for name in ("west-1", "reporting", "nothing"):
            with self.assertRaises(UnknownName):
                registry.delete(name)

    def test_paths_are_found_from_the_folder_of_the_file(self):
        text = b"podms: {a: {url: 'https://h', username: u, password: {file: w}, cacert: c/d}}"
        (one,) = read_podms(text, self.write("deep/f.yaml", text))
        deep = self.folder / "deep"
        self.assertEqual(PasswordReference(file=str(deep / "w")), one.password)
        self.assertEqual(str(deep / "c/d"), one.cacert)

    def test_nothing_is_forgotten_while_its_password_cannot_be(self):
        registry = self.registry()
        registry.create(Registration(name="a", url="https://h"))
        registry.passwords.path.write_text("{")
        registry.passwords.path.chmod(0o600)
        with self.assertRaisesRegex(CredentialError, "not a password file of podm create"):
            registry.delete("a")
        self.assertEqual("a", registry.get("a").name)
        registry.passwords.path.unlink()
        registry.delete("a")
        self.assertEqual([], registry.registrations())

    def test_an_unknown_driver_of_a_file_is_refused_with_its_place(self):
        text = b"podms: {a: {url: 'https://h', driver: redfsh}}"
        with self.assertRaisesRegex(UnknownName, r"\$.podms.a.driver: .*mean 'redfish'"):
            read_podms(text, "f")

    def test_what_cannot_be_is_not_registered(self):
        registry = self.registry()
        for one in (
            Registration(name="a", url="https://u:p@h"),
            Registration(name="a\n", url="https://h"),
            Registration(name="a", url="https://h", password=PasswordReference(env="V")),
            Registration(name="a" * 1025, url="https://h"),
            Registration(name="a", url="https://" + "h" * 1025),
            Registration(name="a", url="https://h", zone="\udcff"),
        ):
            with self.assertRaises(InputError):
                registry.create(one)
        self.assertEqual([], registry.registrations())

    def test_the_example_is_read(self):
        path = Path(__file__).parents[3] / "examples" / "podms.yaml"
        registrations = read_podms(path.read_bytes(), str(path))
        self.assertEqual(["gpu-east", "store-west", "lab"], [one.name for one in registrations])
