# SPDX-License-Identifier: Apache-2.0
"""A pod manager is a service, not a name: one service with two names, and two with one name."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.functional.programs import PROGRAMS, SITE
from tests.functional.test_live import TREE, Live
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store
from valence_sched.testing.served import ServedPodm

SMALL = ("schedule", "--flavor", "small", "-f", "json")
NO_UUID = ("no-uuid",)


@contextlib.contextmanager
def second_port(url: str) -> Iterator[str]:
    """Make a service reachable at a second port, by forwarding."""
    target = urlsplit(url)
    listener = socket.create_server(("127.0.0.1", 0))

    def pipe(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        source.close()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near = listener.accept()[0]
                far = socket.create_connection((target.hostname, target.port))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=pipe, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


class Identities(Live):
    """A test case with served pod managers of the example, and a state."""

    def one(self, *fail: str, name: str = "gpu-east") -> ServedPodm:
        return self.serve(fail=fail)[name]

    def port(self, podm: ServedPodm) -> int:
        return urlsplit(podm.url).port or 0

    def registered(self, **urls: str) -> None:
        """Register URLs as if the service did not answer."""
        with Store(f"sqlite:///{self.state}") as store:
            for name, url in urls.items():
                store.register(Registration(name=name, url=url))

    def status(self, *words: str) -> tuple[dict[str, str], str]:
        done = self.podm("list", "-f", "json", *words)
        return {row["Podm"]: row["Status"] for row in done.data}, done.err


class TestCreate(Identities):
    """A second name of the same service is refused at registration."""

    def test_every_other_spelling_of_an_address_is_refused(self):
        for fail in ((), NO_UUID):
            one = self.one(*fail)
            port = self.port(one)
            self.podm("create", "a", f"http://localhost:{port}")
            shown = self.podm("show", "a", "-f", "json").data["Identity"]
            self.assertRegex(
                shown, f"^address:127.0.0.1:{port}$" if fail else "^uuid:[-0-9a-f]{36}$"
            )
            for host in ("127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "LOCALHOST", "2130706433"):
                for program in PROGRAMS if host == "127.1" else PROGRAMS[:1]:
                    with self.subTest(host, fail=fail, program=program):
                        words = ("create", "b", f"http://{host}:{port}/redfish/v1/")
                        done = self.podm(*words, code=1, program=program)
                        self.assertEqual("", done.out)
                        line = (
                            rf"\A'b' is the same service as 'a' \(identity {shown}\): .*podm delete"
                        )
                        self.assertRegex(done.err, rf"{line}.*UUID of its own\n\Z")
            self.assertEqual(["a"], list(self.status()[0]))
            self.podm("delete", "a")
            self.stop()

    def test_a_second_port_of_the_same_root_is_refused(self):
        one = self.one()
        self.podm("create", "a", one.url)
        with second_port(one.url) as url:
            line = self.podm("create", "b", url, code=1).err
            self.assertRegex(line, r"'b' is the same service as 'a' \(identity uuid:")
            file = self.write("two.yaml", yaml.safe_dump({"podms": {"c": {"url": url}}}))
            known, err = self.status("--podm-file", file, "--state", str(self.state))
            self.assertEqual({"a": "Online", "c": "Unknown"}, known)
            self.assertRegex(err, "not read: c: 'c' is the same service as 'a'")

    def test_one_address_is_refused_while_nobody_answers_there(self):
        self.podm("create", "a", "http://localhost:9", "--no-check")
        self.assertIn(
            "'b' is the same", self.podm("create", "b", "http://127.1:9", "--no-check", code=1).err
        )
        self.podm("create", "b", "http://127.0.0.1:7", "--no-check")
        line = self.podm("set", "b", "--url", "http://127.0.0.1:9", code=1).err
        self.assertIn("'b' is the same service as 'a' (identity address:127.0.0.1:9)", line)

    def test_a_name_keeps_its_service_at_a_new_url(self):
        found = self.serve()
        self.podm("create", "a", found["gpu-east"].url)
        line = self.podm("set", "a", "--url", found["gpu-west"].url, code=1).err
        self.assertRegex(line, r"\A'a' is another service than before: its identity was uuid:\S+ "
                         r"and is now uuid:\S+: .*podm unset a --identity\)\n\Z")  # fmt: skip
        with second_port(found["gpu-east"].url) as url:
            self.podm("set", "a", "--url", url)
        self.podm("unset", "a", "--identity")
        self.podm("set", "a", "--url", found["gpu-west"].url)
        self.assertEqual({"a": "Online"}, self.status()[0])


class TestReading(Identities):
    """A second name is reported when it is read, and no block is held twice."""

    def test_two_names_of_one_service_are_named_and_only_the_first_is_used(self):
        for fail in ((), NO_UUID):
            one = self.one(*fail)
            with second_port(one.url) as url:
                names = {"a": one.url, "b": f"http://localhost:{self.port(one)}", "c": url}
                self.registered(**names)
                known, err = self.status()
                self.assertEqual({"a": "Online", "b": "Unknown", "c": "Unknown"}, known)
                for name in "bc":
                    self.assertRegex(err, f"not read: {name}: '{name}' is the same service as 'a'")
                self.podm(*SMALL, "--podm", "b", "--claim", code=5)
                held = [self.podm(*SMALL, "--claim").data[0]["Blocks"] for _ in range(2)]
                self.assertFalse(set(held[0]) & set(held[1]))
                self.assertIn(
                    "incomplete inventory: b: ", self.podm(*SMALL, "--strict", code=5).err
                )
            self.stop()
            self.state.unlink()

    def test_two_files_that_call_a_service_otherwise_hold_nothing_twice(self):
        one = self.one()
        state = ("--state", str(self.state))
        files = [self.write(f"{name}.yaml", yaml.safe_dump({"podms": {name: {"url": one.url}}}))
                 for name in ("a", "b")]  # fmt: skip
        self.podm(*SMALL, "--podm-file", files[0], "--claim", *state)
        done = self.podm(*SMALL, "--podm-file", files[1], "--claim", *state, code=5)
        self.assertIn("no pod manager could be read: b: 'b' is the same service", done.err)
        (claim,) = self.podm("claim", "list", "-f", "json").data
        self.podm("claim", "release", claim["ID"])
        (row,) = [row for row in self.podm(*SMALL, "--podm-file", files[1], "--claim", *state).data
                  if row["Rank"] == 1]  # fmt: skip
        self.assertEqual("b", row["Podm"], "a name that nothing is held under can change")

    def test_two_names_in_recordings_count_once(self):
        site = json.loads(Path(SITE).read_bytes())
        (east,) = [one for one in site["podms"] if one["id"] == "gpu-east"]
        apart = ("--group", "g", "--anti-affinity", "podm", "--count", "2")
        for identities, code in ((("uuid:x", "uuid:x"), 3), (("uuid:x", "uuid:y"), 0)):
            names = dict(zip("ab", identities, strict=True))
            site["podms"] = [{**east, "id": name, "identity": it} for name, it in names.items()]
            file = self.write("twice.json", json.dumps(site))
            done = self.podm(*SMALL, *apart, "--inventory", file, code=code)
            self.assertEqual(code == 3, "skipped: " in done.err)
            self.assertEqual(code == 3, "'b' is the same service as 'a'" in done.err)
            self.podm(*SMALL, "--inventory", file, "--strict", code=5 if code else 0)


class TestChanged(Identities):
    """A service that is not the registered one is reported, and never written to."""

    def swapped(self, *fail: str) -> ServedPodm:
        """Register a service, compose on it, and serve another service at its URL."""
        one = self.one(*fail)
        self.podm("create", "a", one.url)
        self.node = self.podm(*SMALL, "--compose").data[0]["Node"]
        documents = one.documents
        root = documents.get("/redfish/v1")
        if not fail:
            documents.put("/redfish/v1", {**root, "UUID": "11111111-2222-4333-8444-555555555555"})
        return one

    def writes(self, one: ServedPodm) -> int:
        return sum(seen.method not in ("GET", "HEAD") for seen in one.requests)

    def test_it_is_named_by_every_command_and_not_written_to(self):
        one = self.swapped()
        before = self.writes(one)
        known, err = self.status()
        self.assertEqual({"a": "Unknown"}, known)
        self.assertRegex(
            err, "not read: a: 'a' is another service than before: .*podm unset a --ident"
        )
        self.podm(*SMALL, "--compose", code=5)
        self.assertIn("another service", self.podm("node", "delete", self.node, code=1).err)
        self.podm("claim", "reap")
        self.assertEqual([self.node], [row["Node"] for row in
                                       self.podm("node", "list", "-f", "json").data])  # fmt: skip
        self.assertEqual(before, self.writes(one))
        self.podm("unset", "a", "--identity")
        self.assertEqual({"a": "Online"}, self.status()[0])
        self.podm("node", "delete", self.node)

    def test_one_without_a_uuid_is_another_once_none_of_its_blocks_is_there(self):
        one = self.one(*NO_UUID)
        self.podm("create", "a", one.url)
        self.podm(*SMALL, "--claim")
        documents, blocks = one.documents, "/redfish/v1/CompositionService/ResourceBlocks"
        members = documents.get(blocks)["Members"]
        documents.put(blocks, {**documents.get(blocks), "Members": members[1:]})
        self.assertEqual({"a": "Online"}, self.status()[0], "blocks come and go")
        self.stop()
        self.serve(TREE, fail=NO_UUID, port=self.port(one))
        known, err = self.status()
        self.assertEqual({"a": "Unknown"}, known)
        self.assertRegex(
            err, "'a' is another service than before: .* it has no block of its last reading"
        )
        self.podm("claim", "reap")
        self.podm("unset", "a", "--identity")
        self.assertEqual({"a": "Online"}, self.status()[0])

    def test_a_uuid_that_is_told_later_is_learnt(self):
        one = self.one(*NO_UUID)
        self.podm("create", "a", one.url)
        self.status()
        documents = one.documents
        told = "11111111-2222-4333-8444-555555555555"
        documents.put("/redfish/v1", {**documents.get("/redfish/v1"), "UUID": told.upper()})
        self.assertEqual({"a": "Online"}, self.status()[0])
        self.assertEqual(f"uuid:{told}", self.podm("show", "a", "-f", "json").data["Identity"])
        documents.put("/redfish/v1", {**documents.get("/redfish/v1"), "UUID": None})
        self.assertEqual({"a": "Unknown"}, self.status()[0])
