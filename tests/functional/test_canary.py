# SPDX-License-Identifier: Apache-2.0
"""Passwords do not leak: no output, file or process of the programs contains a canary password."""

import contextlib
import json
import subprocess
import threading
from pathlib import Path

import yaml

from tests.functional.programs import BIN, PROGRAMS, ROOT, Case, Done, environment, run
from valence_sched.config.podms_file import SecureFile
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import ServedPodm, served

RACK = "rack-mockup"
TREE = str(ROOT / "tests" / "recorded" / RACK)
CANARY = "canary-7d1f0e"
#: The canary in plain text, and as in a header of basic authentication.
FORMS = (CANARY.encode(), b"Y2FuYXJ5LTdkMWYwZ", b"NhbmFyeS03ZDFmMGU", b"jYW5hcnktN2QxZjBl")


class TestCanary(Case):
    """Every command on live pod managers, in both programs, with success and with failure."""

    def setUp(self):
        self.home = self.folder / self.id().rpartition(".")[2]
        self.home.mkdir()
        self.state = self.home / "state" / "valence-sched" / "state.sqlite"

    def serve(self, **options) -> ServedPodm:
        settings = SimulatorSettings(login=Account("op", CANARY))
        manager = served(TREE, settings=settings, **options)
        self.addCleanup(manager.__exit__, None, None, None)
        return manager.__enter__()[RACK]

    def write_secret(self) -> str:
        path = self.folder / f"{self.home.name}.secret"
        path.write_text(CANARY)
        path.chmod(0o600)
        return str(path)

    def environment(self) -> dict[str, str]:
        names = {f"XDG_{kind}_HOME": str(self.home / kind.lower())
                 for kind in ("STATE", "CACHE", "CONFIG")}  # fmt: skip
        return {**names, "CANARY": CANARY}

    def run_and_look(self, program: str, *words: str) -> Done:
        """Run a command, and check all its results for the canary."""
        done = run(program, *words, folder=self.home, **self.environment())
        self.look(f"{program} {' '.join(words)}", stdout=done.out, stderr=done.err)
        return done

    def run_and_watch(self, program: str, *words: str) -> Done:
        """Run a command in a process, and check also its child processes for the canary."""
        started = subprocess.Popen(
            [str(BIN / program), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, cwd=self.home, env=environment(**self.environment()),
        )  # fmt: skip
        seen: list[bytes] = []
        watcher = threading.Thread(target=_watch, args=(started, seen))
        watcher.start()
        done = Done(0, *started.communicate(timeout=120))._replace(code=started.returncode)
        watcher.join()
        self.assertTrue(seen, "nobody was watched")
        self.look(f"{program} {' '.join(words)}", stdout=done.out, stderr=done.err,
                  processes=b"\n".join(seen).decode())  # fmt: skip
        return done

    def look(self, command: str, **texts: str) -> None:
        """Fail if a text of a command or a file contains the canary."""
        for what, text in texts.items():
            for form in FORMS:
                self.assertNotIn(form.decode(), text, f"{what} of {command}")
        for path in self.home.rglob("*"):
            if path.is_file() and path.suffix != ".passwords":
                for form in FORMS:
                    self.assertNotIn(form, path.read_bytes(), str(path))

    def file(self, url: str, **more: object) -> str:
        login = {"username": "op", "password": {"env": "CANARY"}}
        path = self.folder / f"{self.home.name}.yaml"
        path.write_text(yaml.safe_dump({"podms": {RACK: {"url": url, **login, **more}}}))
        return str(path)

    def test_when_all_is_well(self):
        podm = self.serve()
        report, output = str(self.home / "report.json"), str(self.home / "out.json")
        log = ("--log-file", str(self.home / "log"), "--debug")
        ours, theirs = PROGRAMS
        schedule = ("schedule", "--flavor", "small", "--explain", "--report", report)
        for program, words in (
            (ours, ("create", RACK, podm.url, "--username", "op", "--password-env", "CANARY")),
            (ours, ("list", "--long")), (theirs, schedule), (ours, ("fit", "--flavor", "small")),
            (theirs, ("show", RACK)), (ours, ("inventory", "convert", "-o", output)),
            (theirs, ("set", RACK, "--auth", "basic")), (theirs, ("list", "--full")),
            (ours, ("set", RACK, "--password-file", self.write_secret())), (ours, schedule),
            (ours, ("unset", RACK, "--password")), (theirs, ("delete", RACK)),
        ):  # fmt: skip
            with self.subTest(program=program, words=words):
                look = (
                    self.run_and_watch if words[0] in ("create", "schedule") else self.run_and_look
                )
                done = look(program, *log, "podm", *words)
                self.assertEqual(0, done.code, done)
        self.assertTrue(json.loads(Path(report).read_bytes()))
        self.assertGreater(len(podm.requests), 10)

    def test_a_password_that_was_typed_in(self):
        podm = self.serve()
        self.run_and_look("valence-sched", "podm", "create", RACK, podm.url, "--username", "op",
                          "--password-env", "CANARY")  # fmt: skip
        _typed(self.state, RACK)
        for program in PROGRAMS:
            done = self.run_and_look(program, "--debug", "podm", "list", "-f", "json")
            self.assertEqual("Online", json.loads(done.out)[0]["Status"], done.err)

    def test_when_it_is_refused_or_answered_badly(self):
        for number, fail in enumerate((
            ["status:401:/redfish/v1/SessionService/Sessions"],
            ["status:403:/redfish/v1/CompositionService*"],
            ["status:500:/redfish/v1/CompositionService*"],
            ["html:/redfish/v1*"], ["malformed:/redfish/v1/CompositionService*"],
            ["lie:/redfish/v1/SessionService/Sessions"], ["session-limit:0"],
            ["drop-reply:/redfish/v1/SessionService/Sessions"], ["closed-root"],
        )):  # fmt: skip
            with self.subTest(fail=fail):
                podm = self.serve(fail=fail)
                file = self.file(podm.url, auth="basic" if number in (1, 2, 8) else "session")
                words = ("--debug", "podm", "list", "--podm-file", file, "--request-timeout", "3")
                self.run_and_look(PROGRAMS[number % 2], *words)

    def test_when_it_is_told_to_somebody_else(self):
        podm = self.serve()
        entry = Path(self.file(podm.url))
        entry.write_text(entry.read_text().replace("op", "nobody"))
        for program in PROGRAMS:
            done = self.run_and_look(program, "--debug", "podm", "list", "--podm-file", str(entry))
            self.assertIn("not read: ", done.err)

    def test_when_nobody_listens_or_speaks_tls(self):
        podm = self.serve()
        for url in ("http://127.0.0.1:9", podm.url.replace("http:", "https:")):
            for program in PROGRAMS:
                words = ("podm", "list", "--podm-file", self.file(url), "--request-timeout", "3")
                done = self.run_and_look(program, "--debug", *words)
                self.assertIn("not read: ", done.err)

    def test_when_a_command_fails_with_a_traceback(self):
        podm = self.serve()
        for program in PROGRAMS:
            words = ("podm", "show", "nobody", "--podm-file", self.file(podm.url))
            done = self.run_and_look(program, "--debug", *words)
            self.assertIn("Traceback", done.err)
            self.assertEqual(1, done.code)

    def test_a_password_where_a_reference_belongs(self):
        path = Path(self.file("https://h"))
        path.write_text(f"podms: {{a: {{url: 'https://h', username: u, password: {CANARY}}}}}")
        for program in PROGRAMS:
            done = self.run_and_look(program, "--debug", "podm", "list", "--podm-file", str(path))
            self.assertIn("found a password, expected a reference", done.err)

    def test_the_looking_finds_one(self):
        with self.assertRaisesRegex(AssertionError, "stderr of"):
            self.run_and_watch("valence-sched", "podm", CANARY)
        (self.home / "x").write_text(CANARY)
        with self.assertRaisesRegex(AssertionError, "/x"):
            self.run_and_look("valence-sched", "--version")


def _typed(state: Path, name: str) -> None:
    """Store a password in the secure file and refer to it, as --password-prompt does."""
    import msgspec

    from valence_sched.model.registration import PasswordReference
    from valence_sched.store.store import Store

    SecureFile(state.with_name(f"{state.name}.passwords")).put(name, CANARY)
    with Store(f"sqlite:///{state}") as store:
        (one,) = store.registrations()
        store.change(msgspec.structs.replace(one, password=PasswordReference(stored=True)))


def _watch(process: subprocess.Popen[bytes], seen: list[bytes]) -> None:
    """Collect the command lines of a process tree, and the environments of child processes."""
    while process.poll() is None:
        for pid in [process.pid, *_below(process.pid)]:
            try:
                seen.append(Path(f"/proc/{pid}/cmdline").read_bytes())
                if pid != process.pid:
                    seen.append(Path(f"/proc/{pid}/environ").read_bytes())
            except OSError:
                continue
        threading.Event().wait(0.01)


def _below(pid: int) -> list[int]:
    """Return the children of a process, and theirs; a process may end while it is looked at."""
    found = []
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, path.read_text().split()):
                found += [child, *_below(child)]
    return found
