# SPDX-License-Identifier: Apache-2.0
"""The hook of a site that drains a node: real commands, and URLs behind real sockets."""

import contextlib
import errno
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from msgspec.structs import replace

from tests.unit.integrations.test_dispatchers import controller
from tests.unit.lifecycle.site import request
from tests.unit.trees import tree
from valence_sched.app import App
from valence_sched.errors import CredentialError, DrainRefused, InputError, UsageError
from valence_sched.integrations.dispatchers.webhook import SIGNATURE, TIMESTAMP, signature
from valence_sched.lifecycle.drain import HINT
from valence_sched.model.claim import ComposedNode
from valence_sched.model.http import without_foreign_texts
from valence_sched.model.lifecycle import Event
from valence_sched.model.node_change import DrainBody, DrainSettings, NodeChange
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import PasswordReference, Registration
from valence_sched.model.zone import ZoneSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import served

NODE = ComposedNode(id="vs-1", podm="gpu-east", uri="/S/1", claim="c", owner="team", flavor="big")
BLOCKS = ("/B/2", "/B/1")
KEY = "canary-of-the-key"
ENVIRON = {
    "PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
    "HOOK_KEY": KEY, "VALENCE_SCHED_PASSWORD": "canary", "LD_PRELOAD": "", "XDG_CONFIG_HOME": "/no",
}  # fmt: skip
PATIENCE_S = 20
PROPERTIES = {"processor": {"total_cores": 8}, "accelerators": [{"kind": "GPU", "count": 1}]}
PAGE = (Path(__file__).parents[3] / "doc/source/howto/drain.rst").read_text()


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code, *arguments)


class DrainCase(unittest.TestCase):
    """A test case with a hook that is called for a node that loses two blocks."""

    def drain(self, *command, node=NODE, blocks=BLOCKS, events=(), **settings):
        drain = DrainSettings(command=command, **{"deadline_s": PATIENCE_S, **settings})
        site = App(environ=ENVIRON).site_drain(Selection(drain=drain))
        site.drain(node, blocks, events)

    def refusal(self, *command, **settings):
        """Return the reason of a refusal."""
        with self.assertRaises(DrainRefused) as caught:
            self.drain(*command, **settings)
        text = str(caught.exception)
        self.assertNotIn("canary", text)
        start, end = "node vs-1 is not drained: ", f": {HINT}"
        self.assertTrue(text.startswith(start) and text.endswith(end), text)
        return text.removeprefix(start).removesuffix(end)

    def file(self):
        return Path(self.enterContext(tempfile.TemporaryDirectory())) / "written"

    def assert_ends(self, pid):
        until = time.monotonic() + PATIENCE_S
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.kill(pid, 0)
                if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z"):
                    return  # no parent has waited for it yet
                time.sleep(0.02)
            self.fail(f"{pid} still runs")


class TestCommand(DrainCase):
    """A command that exits 0 has drained the node."""

    def test_the_command_reads_the_change_and_gets_no_other_environment(self):
        code = "import json, os, sys; json.dump([json.load(sys.stdin), dict(os.environ)], " \
               "open(sys.argv[1], 'w'))"  # fmt: skip
        file = self.file()
        self.drain(*python(code, str(file)))
        body, environ = json.loads(file.read_text())
        self.assertRegex(body.pop("id"), "^[0-9a-f]{32}$")
        self.assertEqual(
            {"node": "vs-1", "podm": "gpu-east", "uri": "/S/1", "owner": "team", "flavor": "big",
             "blocks": ["/B/2", "/B/1"]},
            body,
        )  # fmt: skip
        inherited = {name: ENVIRON[name] for name in ("PATH", "HOME", "LANG", "LC_ALL")}
        self.assertEqual({**inherited, "VALENCE_SCHED_NODE": "vs-1"}, environ)

    def test_arguments_pass_no_shell(self):
        file = self.file()
        self.drain(*python("import sys; open(sys.argv[1], 'w').write(sys.argv[2])", str(file),
                           "$(exit 3); `exit 4` *"))  # fmt: skip
        self.assertEqual("$(exit 3); `exit 4` *", file.read_text())

    def test_a_program_is_found_in_the_path(self):
        self.drain("true")
        self.assertEqual("false exited with code 1", self.refusal("false"))

    def test_the_id_is_the_same_until_the_node_was_changed(self):
        def identify(**change):
            file = self.file()
            code = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
            self.drain(*python(code, str(file)), **change)
            return json.loads(file.read_text())["id"]

        held, detached = Event(at=1.0, kind="held"), Event(at=2.0, kind="detached")
        first = identify(events=[held])
        self.assertEqual(first, identify(events=[held], blocks=BLOCKS[::-1]))
        for change in (
            {"events": [held, detached]},
            {"events": [replace(held, at=1.5)]},
            {"events": [held], "blocks": BLOCKS[:1]},
            {"events": [held], "node": replace(NODE, id="vs-2")},
            {},
        ):
            self.assertNotEqual(first, identify(**change), change)

    def test_a_message_that_is_longer_than_a_pipe_and_is_not_read(self):
        self.drain("true", blocks=[f"/redfish/v1/Blocks/{number}" for number in range(20_000)])

    def test_a_process_that_the_command_leaves_behind_delays_nothing(self):
        file = self.file()
        code = "import subprocess, sys; open(sys.argv[1], 'w').write(" \
               "str(subprocess.Popen(['sleep', '60']).pid))"  # fmt: skip
        self.drain(*python(code, str(file)))
        pid = int(file.read_text())
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        os.kill(pid, 0)


class TestCommandsThatFail(DrainCase):
    """No other ending of a command drains a node."""

    def test_an_exit_code_is_named_with_the_last_line_of_the_error_output(self):
        code = "import os, sys; print('no, job 1'); sys.stderr.buffer.write(b'starting\\n' + " \
               "os.fsencode(sys.argv[1])); sys.exit(3)"  # fmt: skip
        start = f"{sys.executable} exited with code 3"
        for text, words in (
            ("", " with an answer of 'starting'"),
            ("job 17 uses it\n\n", " with an answer of 'job 17 uses it'"),
            ("it's \x1b[31mred\x07\r\n", r" with an answer of 'it`s \u001b[31mred\u0007'"),
            ("password=canary", " with an answer of 'password=***'"),
            ("see https://ana:canary@host/x", " with an answer of 'see https://host/x'"),
            ("a" * 5000, f" with an answer of '{'a' * 60}'"),
            ("\udcff", " with an answer of '\ufffd'"),
        ):
            self.assertEqual(start + words, self.refusal(*python(code, text)))

    def test_tenants_do_not_get_the_error_output(self):
        found = self.refusal(*python("import sys; sys.exit('secret-job')"))
        self.assertIn("secret-job", found)
        self.assertNotIn("secret-job", without_foreign_texts(found))

    def test_a_signal_a_missing_program_and_a_file_that_is_none(self):
        file = self.file()
        file.write_text("no program")
        code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
        for command, words in (
            (python(code), f"{sys.executable} was ended by SIGTERM"),
            (("/no/such",), "/no/such cannot be started: no such file or directory"),
            (("no-such-program",), "no-such-program cannot be started: no such file or directory"),
            ((str(file),), f"{file} cannot be started: permission denied"),
            (("true", "a\0b"), "true cannot be started: embedded null byte"),
        ):
            self.assertEqual(words, self.refusal(*command))

    def test_a_command_that_may_not_be_killed_or_given_its_message_is_a_refusal(self):
        """A hook that runs sudo and hangs was an internal error."""
        denied = PermissionError(errno.EPERM, "Operation not permitted")
        full = OSError(errno.ENOSPC, "No space left on device")
        for name, error, reason in (
            ("os.killpg", denied, "operation not permitted"),
            ("tempfile.TemporaryFile", full, "no space left on device"),
        ):
            with self.subTest(name), mock.patch(name, side_effect=error):
                found = self.refusal("sleep", "2", deadline_s=1.0)
                self.assertEqual(f"the hook cannot be run or ended: {reason}", found)

    def test_a_command_past_its_deadline_is_killed_with_its_children(self):
        file = self.file()
        code = "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, " \
               "signal.SIG_IGN); open(sys.argv[1], 'w').write(str(subprocess.Popen(['sleep', " \
               "'60']).pid)); time.sleep(60)"  # fmt: skip
        found = self.refusal(*python(code, str(file)), deadline_s=1.5)
        self.assertEqual(f"{sys.executable} did not end within 1.5 s, and was killed", found)
        self.assert_ends(int(file.read_text()))

    def test_an_interrupted_change_kills_the_command(self):
        file = self.file()
        code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); " \
               "time.sleep(60)"  # fmt: skip

        def interrupt():
            until = time.monotonic() + PATIENCE_S
            while not (file.exists() and file.read_text()) and time.monotonic() < until:
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with self.assertRaises(KeyboardInterrupt):
            self.drain(*python(code, str(file)))
        self.assert_ends(int(file.read_text()))

    def test_a_process_that_gets_no_exit_codes_detaches_nothing(self):
        """With SIGCHLD ignored, Python would report the exit code 0 of each command."""
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGCHLD, before)
        self.assertIn("ignores SIGCHLD", self.refusal("false"))


def raw(text: bytes):
    """Answer with bytes, and close the connection."""

    def answer(door) -> None:
        door.wfile.write(text)
        door.close_connection = True

    return answer


def slowly(text: bytes):
    """Answer byte by byte."""

    def answer(door) -> None:
        for number in range(len(text)):
            door.wfile.write(text[number : number + 1])
            time.sleep(0.05)

    return answer


class TestUrl(DrainCase):
    """A URL that answers ``{"drained": true}`` has drained the node."""

    def test_the_change_is_posted_with_its_id(self):
        event = Event(at=1.0, kind="composed")
        with controller(*[(200, {"drained": True})] * 2) as there:
            for _ in range(2):
                self.drain(url=f"{there.url}/hook?token=t", events=[event])
        (path, headers, body), (_, _, again) = there.came
        self.assertEqual("/hook?token=t", path)
        self.assertEqual(body, again)
        self.assertEqual(headers["Idempotency-Key"], json.loads(body)["id"])
        self.assertEqual("vs-1", json.loads(body)["node"])
        self.assertNotIn(SIGNATURE, headers)

    def test_a_key_signs_the_time_and_the_body(self):
        key = PasswordReference(env="HOOK_KEY")
        with controller((201, {"drained": True, "jobs": 2})) as there:
            self.drain(url=there.url, key=key)
        ((_, headers, body),) = there.came
        wanted = signature(KEY.encode(), headers[TIMESTAMP], body)
        self.assertEqual(f"sha256={wanted}", headers[SIGNATURE])
        self.assertLess(abs(time.time() - int(headers[TIMESTAMP])), 60)

    def test_the_receiver_of_the_page_verifies_the_signature(self):
        found, key = {}, PasswordReference(env="HOOK_KEY")
        exec(re.search(r"code-block:: python\n\n((?:   .*\n|\n)+)", PAGE)[1].replace("\n   ", "\n")
             .removeprefix("   "), found)  # fmt: skip
        with controller((200, {"drained": True})) as there:
            self.drain(url=there.url, key=key)
        ((_, headers, body),) = there.came
        verify = found["is_from_scheduler"]
        self.assertTrue(verify(KEY.encode(), headers, body))
        for wrong in (
            (b"other", headers, body),
            (KEY.encode(), headers, body + b" "),
            (KEY.encode(), {**headers, TIMESTAMP: "1700000000"}, body),
        ):
            self.assertFalse(verify(*wrong))

    def test_the_message_is_as_on_the_page(self):
        shown = json.loads(re.search(r"code-block:: json\n\n((?:   .*\n)+)", PAGE)[1])
        self.assertEqual([*DrainBody.__struct_fields__], [*shown])

    def test_each_other_answer_is_a_refusal(self):
        form = 'did not answer {"drained": true} or {"drained": false}'
        for answer, words in (
            ((200, {"drained": False}), "refused"),
            ((200, {"drained": False, "reason": "job\n\x1b 7"}),
             r"refused with an answer of 'job \u001b 7'"),
            ((200, {"drained": False, "reason": f"not with {KEY}"}),
             "refused with an answer of 'not with ***'"),
            ((200, {"drained": "true"}), form), ((200, {"drained": 1}), form),
            ((200, {"drained": None}), form), ((200, {}), form), ((200, [True]), form),
            ((200, True), form), ((200, {"drained": False, "reason": 7}), form),
            (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"), form),
            (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), form),
            (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<br/>"), form),
            (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\"\xff\""), form),
            (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n" + b"[" * 90_000), form),
            (raw(b'HTTP/1.1 200 OK\r\n\r\n{"drained": true' + b" " * (1 << 20) + b"}"), form),
            ((302, {"drained": True}), "HTTP 302, expected 2xx"),
            ((409, {"drained": True}), "HTTP 409, expected 2xx"),
            ((503, {"drained": True}), "HTTP 503, expected 2xx: check that it runs and that the "
                                       "URL is right"),
            ((0, {}), "ConnectionError: check that it runs and that the URL is right"),
            ((206, {"drained": True}), "ProtocolError: check that it runs and that the URL "
                                       "is right"),
        ):  # fmt: skip
            with self.subTest(words), controller(answer) as there:
                key = PasswordReference(env="HOOK_KEY")
                found = self.refusal(url=f"{there.url}/hook?canary=1", key=key)
                where = f"{there.url}/hook"
                self.assertEqual(where, found[: len(where)])
                self.assertEqual(words, found[len(where) :].lstrip(": "))
                self.assertEqual(1, len(there.came))

    def test_a_late_answer_is_a_refusal(self):
        text = b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"drained": true}'
        head = b"HTTP/1.1 200 OK\r\nX: " * 9
        for answer in (lambda _: time.sleep(3), slowly(text), slowly(head)):
            with self.subTest(answer), controller(answer) as there:
                found = self.refusal(url=there.url, deadline_s=0.5)
                self.assertEqual(f"{there.url} did not answer within 0.5 s", found)

    def test_no_server(self):
        found = self.refusal(url="http://127.0.0.1:9/hook")
        self.assertIn("http://127.0.0.1:9/hook: no connection, nothing was sent", found)


class TestSettings(unittest.TestCase):
    """The hook in the user's own file, and the key."""

    def app(self, text=None, **environ):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "valence-sched").mkdir()
        if text is not None:
            (folder / "valence-sched" / "drain.yaml").write_text(text)
        return App({"XDG_CONFIG_HOME": str(folder), **environ})

    def test_the_file_of_the_user_is_the_default_except_in_a_service(self):
        app = self.app("{command: [drain-node, --now], deadline_s: 300}")
        own = DrainSettings(command=("drain-node", "--now"), deadline_s=300)
        self.assertEqual(own, app.site_drain(Selection()).settings)
        other = DrainSettings(url="http://host")
        self.assertEqual(other, app.site_drain(Selection(drain=other)).settings)
        self.assertIsNone(app.site_drain(Selection(zones=ZoneSettings())))
        self.assertIsNone(self.app().site_drain(Selection()))

    def test_what_is_wrong_is_named_without_a_password(self):
        key = "url: https://host, key"
        for text, words in (
            ("{}", r"drain.yaml: \$: found neither command nor url"),
            ("{command: [a], url: http://b}", "found both, expected either command or url"),
            ("{command: a b}", r"drain.yaml: \$.command: "),
            ("{command: ['']}", r"\$.command: found an invalid command"),
            ('{command: [a, "b\\0"]}', r"\$.command: found an invalid command"),
            ("{url: ftp://host}", r"\$.url: found an invalid URL, expected http"),
            ("{url: http://ana:canary@host}", r"\$.url: found an invalid URL, expected http"),
            ("{url: 'http://[::1'}", "an invalid URL"), ("{url: 'http://a b'}", "an invalid URL"),
            ("{command: [a], key: {env: A}}", "found a key without a url"),
            (f"{{{key}: {{}}}}", r"\$.key: found no reference"),
            (f"{{{key}: {{env: A, file: b}}}}", "exactly one of env and file"),
            (f"{{{key}: {{stored: true}}}}", "exactly one of env and file"),
            ("{command: [a], deadline_s: 0.9}", "deadline_s: found 0.9"),
            ("{command: [a], deadline_s: 3601}", "deadline_s: found 3601"),
            ("{comand: [a]}", "comand"),
        ):  # fmt: skip
            with self.subTest(text), self.assertRaisesRegex(InputError, words) as caught:
                self.app(text).site_drain(Selection())
            self.assertNotIn("canary", str(caught.exception))

    def test_a_key_that_is_missing_is_named(self):
        text = "{url: http://host, key: {env: HOOK_KEY}}"
        for environ, words in (({}, "is not set"), ({"HOOK_KEY": ""}, "is empty")):
            app = self.app(text, **environ)
            with self.assertRaisesRegex(CredentialError, f"^drain: key: .*HOOK_KEY.* {words}"):
                app.site_drain(Selection())

    def test_no_text_about_the_hook_has_the_key_or_the_environment(self):
        app = self.app("{url: http://host, key: {env: HOOK_KEY}}", HOOK_KEY=KEY)
        self.assertNotIn("canary", repr(app.site_drain(Selection())))

    def test_with_a_service_the_hook_of_a_client_is_refused(self):
        app = self.app()
        app.use_service("http://127.0.0.1:9")
        for drain, option in (
            (DrainSettings(command=("true",)), "--drain-command"),
            (DrainSettings(url="http://host"), "--drain-url"),
        ):
            with self.assertRaisesRegex(UsageError, f"^{option}: the service decides by its own"):
                app.scheduler(Selection(drain=drain))
        app.scheduler(Selection())


class TestEngine(unittest.TestCase):
    """An engine calls the hook of its selection before it detaches blocks."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.state = f"sqlite:///{self.folder}/state.sqlite"
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        self.app = App({"PATH": ENVIRON["PATH"], **dict.fromkeys(homes, str(self.folder))})
        podms = self.enterContext(served(documents={"gpu-east": tree()}))
        with Store(self.state) as store:
            for name, podm in podms.items():
                store.register(Registration(name=name, url=podm.url))

    @contextlib.contextmanager
    def engine(self, *command):
        drain = DrainSettings(command=command) if command else None
        selection = Selection(live=ReadOptions(state=self.state), drain=drain)
        with contextlib.closing(self.app.engine(selection)) as engine:
            yield engine

    def test_a_block_is_detached_after_the_hook_has_drained_the_node(self):
        said = self.folder / "said"
        with self.engine() as engine:
            (node,) = engine.compose(request(properties=PROPERTIES)).nodes
        gpu, change = node.blocks[-1], {"detach_blocks": (node.blocks[-1],), "force": True}
        with self.engine("sh", "-c", f"cat > {said}; echo busy >&2; exit 4") as engine:
            engine.change_node(node.id, NodeChange(**change), dry_run=True)
            self.assertFalse(said.exists())
            with self.assertRaisesRegex(DrainRefused, "exited with code 4 .*'busy'"):
                engine.change_node(node.id, NodeChange(**change))
            self.assertEqual(set(node.blocks), set(engine.node_record(node.id).node.blocks))
        first = said.read_text()
        self.assertEqual([gpu], json.loads(first)["blocks"])
        with self.engine("sh", "-c", f"cat > {said}") as engine:
            changed = engine.change_node(node.id, NodeChange(**change))
            self.assertNotIn(gpu, changed.node.blocks)
            self.assertEqual(first, said.read_text())
            engine.change_node(node.id, NodeChange(attach_blocks=(gpu,)))
            engine.change_node(node.id, NodeChange(**change))
        again = json.loads(said.read_text())
        self.assertEqual([gpu], again["blocks"])
        self.assertNotEqual(json.loads(first)["id"], again["id"])
