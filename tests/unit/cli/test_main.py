# SPDX-License-Identifier: Apache-2.0
"""The end of the program: immediate and complete."""

import argparse
import io
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

from tests.unit.core.deciders import bound
from valence_sched.app import App
from valence_sched.core.evaluation import evaluate
from valence_sched.errors import StoreError
from valence_sched.model.diagnostic import EffectLog
from valence_sched.model.reading import Selection
from valence_sched.streams import interrupt_on_signals
from valence_sched.testing import request, view
from valence_sched_cli import base

SITE = str(Path(__file__).parents[3] / "examples" / "site.json")
#: The program as its script calls it, after other code; then the output of only a regular end.
SCRIPT = """
import atexit, sys, threading, time
{before}
from valence_sched_cli.main import main
code = main({argv})
print("came back", code)
sys.exit(code)
"""


def run(*words: str, before: str = "", argv: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program with these arguments, after other code."""
    script = SCRIPT.format(before=before, argv=argv)
    return subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
    )


#: Sends Ctrl-C before a module is imported.
INTERRUPT = """
import os, signal
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
"""


class TestInterrupt(unittest.TestCase):
    """Ctrl-C while modules are imported."""

    def test_it_ends_without_a_word_of_python(self):
        for module in ("valence_sched_cli.shell", "cliff.app", "stevedore.extension",
                       "valence_sched_cli.commands.podm", "valence_sched.app"):  # fmt: skip
            with self.subTest(module):
                done = run(*TestEnd.LIST, before=INTERRUPT.format(module=module))
                self.assertEqual((130, "", ""), (done.returncode, done.stdout, done.stderr))

    def test_it_ends_so_after_them_and_before_a_command(self):
        before = (
            "import os, signal, stevedore\n"
            "def interrupted(*_): os.kill(os.getpid(), signal.SIGINT)\n"
            "stevedore.ExtensionManager.make_test_instance = interrupted"
        )
        done = run(*TestEnd.LIST, before=before)
        self.assertEqual((130, "", ""), (done.returncode, done.stdout, done.stderr))

    def test_one_that_is_ignored_stays_ignored(self):
        ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
        module = INTERRUPT.format(module="cliff.app")
        done = run(*TestEnd.LIST, before=f"{ignored}\n{module}")
        self.assertEqual((0, 8), (done.returncode, len(done.stdout.splitlines())), done.stderr)


class TestFullStandardOutput(unittest.TestCase):
    """The output of a parser to a full disk."""

    SCHEDULER = "from valence_sched.server.main import main; sys.exit(main({words}))"
    PROGRAM = "from valence_sched_cli.main import main; sys.exit(main({words}))"

    def test_help_and_version_fail_in_one_line(self):
        cases = [
            (self.PROGRAM, words)
            for words in (
                ["--help"],
                ["--version"],
                ["podm", "list", "--help"],
                ["help", "podm", "list"],
            )
        ]
        cases += [
            (self.SCHEDULER, words)
            for words in (["--help"], ["serve", "--help"], ["check-config", "--state", "{state}"])
        ]
        with tempfile.TemporaryDirectory() as folder, open("/dev/full", "wb") as full:
            for program, words in cases:
                script = "import sys; " + program.format(
                    words=[word.format(state=f"{folder}/state.sqlite") for word in words]
                )
                with self.subTest(words):
                    done = subprocess.run(
                        [sys.executable, "-c", script],
                        stdout=full,
                        stderr=subprocess.PIPE,
                        text=True,
                        check=False,
                    )
                    line = "standard output: no space left on device\n"
                    self.assertEqual((1, line), (done.returncode, done.stderr))


class TestNoHome(unittest.TestCase):
    """A user ID without a passwd entry, and without HOME."""

    def engine(self):
        environ = mock.patch.dict(os.environ, clear=True)
        no_entry = mock.patch("pwd.getpwuid", side_effect=KeyError("uid"))
        for patch in (environ, no_entry):
            self.enterContext(patch)
        return App().engine

    def test_a_recording_needs_none(self):
        engine = self.engine()(Selection(sources=(SITE,)))
        self.assertEqual(8, len(engine.podms()))

    def test_without_a_state_nothing_is_claimed(self):
        self.assertEqual((), self.engine()(Selection()).claims())

    def test_what_would_be_stored_names_the_variables(self):
        with self.assertRaisesRegex(StoreError, "set HOME or XDG_STATE_HOME"):
            self.engine()(Selection()).set_quota("a", {"cores": 1})


class TestEnd(unittest.TestCase):
    """The end of a command that has printed its output."""

    LIST = ("podm", "list", "--inventory", SITE, "-f", "value", "-c", "Podm")

    def test_the_process_ends_when_the_command_does(self):
        done = run(*self.LIST)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("came back", done.stdout)
        self.assertEqual(8, len(done.stdout.splitlines()))

    def test_the_exit_code_is_that_of_the_command(self):
        none = ("podm", "schedule", "--inventory", SITE, "--flavor", "gpu-large", "--count", "90")
        self.assertEqual(3, run(*none).returncode)
        self.assertEqual(1, run("podm", "list", "--inventory", "there-is-no-such").returncode)
        self.assertEqual(2, run("no", "such", "command").returncode)

    def test_what_was_registered_for_the_end_runs_once(self):
        done = run(*self.LIST, before="atexit.register(print, 'registered')")
        self.assertEqual(["registered"], done.stdout.splitlines()[8:])

    def test_a_caller_with_its_own_words_gets_the_exit_code_back(self):
        done = run(argv=repr(list(self.LIST)))
        self.assertEqual("came back 0", done.stdout.splitlines()[-1])

    def test_another_thread_has_the_time_that_it_needs(self):
        work = "(threading.main_thread().join(), print('late'))"
        late = f"threading.Thread(target=lambda: {work}).start()"
        done = run(*self.LIST, before=late)
        self.assertEqual(["came back 0", "late"], done.stdout.splitlines()[8:])

    def test_a_profiler_has_its_say(self):
        done = run(*self.LIST, before="sys.setprofile(lambda *_: None)")
        self.assertEqual("came back 0", done.stdout.splitlines()[-1])

    def test_a_stream_that_takes_no_more_has_the_usual_end(self):
        full = (
            "class Full:\n"
            "    write = len\n"
            "    def flush(self): raise OSError(28, 'No space left on device')\n"
            "atexit.register(lambda: setattr(sys, 'stderr', Full()))"
        )
        done = run(*self.LIST, before=full)
        self.assertEqual("came back 0", done.stdout.splitlines()[-1])


ASKED = request({"processor": {"sockets": 1}})


class TestEnding(unittest.TestCase):
    """SIGTERM, which ends the process by default."""

    def strike(self) -> None:
        self.assertNotEqual(signal.SIG_DFL, signal.getsignal(signal.SIGTERM))
        signal.raise_signal(signal.SIGTERM)

    def test_it_ends_with_the_code_of_a_shell_and_signals_are_as_they_were(self):
        before = signal.getsignal(signal.SIGTERM)
        with self.assertRaises(SystemExit) as caught, interrupt_on_signals():
            self.strike()
        self.assertEqual(143, caught.exception.code)
        self.assertEqual(before, signal.getsignal(signal.SIGTERM))

    def test_one_that_comes_while_a_plug_in_judges_is_no_failure_of_the_plug_in(self):
        """A plug-in that calls sys.exit only fails; the decision continues without it."""

        def struck(seen, _request):
            self.strike()
            return np.ones(len(seen), dtype=bool)

        def exits(seen, _request):
            raise SystemExit(1)

        site = view({"id": "a"})
        self.assertEqual({"exits"}, evaluate(site, ASKED, bound(filters=(exits,))).failed_plugins)
        with self.assertRaises(SystemExit), interrupt_on_signals():
            evaluate(site, ASKED, bound(filters=(struck,)))


class TestWriting(unittest.TestCase):
    """An interrupt while a command reads what it writes to a file."""

    def lines(self, *written: str) -> list[str]:
        command = base.PodmCommand()
        command.effects = EffectLog()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "site.json")
            with self.assertRaises(KeyboardInterrupt), command.writing("capture", str(file)):
                for text in written:
                    file.write_text(text)
                raise KeyboardInterrupt
        return [line.replace(folder, "") for line in command.effects.unnamed_lines()]

    def test_an_unchanged_file_is_no_effect_and_a_changed_one_is_named(self):
        self.assertEqual([], self.lines())
        self.assertEqual(["capture /site.json may be written"], self.lines("{}"))


class TestErrors(unittest.TestCase):
    """An error causes one line and an exit code."""

    def line_of(self, error: BaseException) -> str:
        """Return the line of a command that ends with an error."""

        class Failing(base.Command):
            def take_action(self, parsed_args):
                raise error

        options = argparse.Namespace()
        app = argparse.Namespace(
            stdout=io.StringIO(), NAME="valence-sched", options=options, client_manager=None
        )
        with self.assertLogs(base.LOG, "ERROR") as logs:
            command = Failing(app, None)
            self.assertEqual(1, command.run(command.get_parser("x").parse_args([])))
        (record,) = logs.records
        return record.getMessage()

    def test_too_little_memory_is_said_for_most_such_errors_have_no_text(self):
        hint = "use smaller files or fewer nodes"
        self.assertEqual(f"out of memory: {hint}", self.line_of(MemoryError()))
        line = self.line_of(MemoryError("Unable to allocate 7 GiB"))
        self.assertEqual(f"out of memory: Unable to allocate 7 GiB: {hint}", line)


class TestEncoding(unittest.TestCase):
    def setUp(self):
        self.bytes, self.effects = io.BytesIO(), EffectLog()
        self.stdout = io.TextIOWrapper(self.bytes, encoding="ascii")
        self.addCleanup(self.stdout.close)

    def print(self, text="gpü 日\n", stdout=None):
        command = base.PodmCommand()
        command.app, command.effects = (
            argparse.Namespace(stdout=stdout or self.stdout),
            self.effects,
        )
        command.print(lambda stream: stream.write(text))
        return self.bytes.getvalue().decode("ascii")

    def test_a_character_that_an_encoding_lacks_is_escaped(self):
        self.assertEqual("gp\\u00fc \\u65e5\n", self.print())

    def test_it_is_the_same_after_an_effect(self):
        self.effects.note("claim", "c", "is held")
        self.assertEqual("gp\\u00fc \\u65e5\n", self.print())

    def test_the_stream_is_as_before_afterwards(self):
        for errors in ("strict", "surrogateescape"):  # the latter is that of LC_ALL=C
            with self.subTest(errors):
                self.stdout.reconfigure(errors=errors)
                self.assertTrue(self.print().endswith("gp\\u00fc \\u65e5\n"))
                self.assertEqual(errors, self.stdout.errors)

    def test_a_stream_without_an_encoding_is_written_as_it_is(self):
        stream = io.StringIO()
        self.print("ü", stream)
        self.assertEqual("ü", stream.getvalue())


if __name__ == "__main__":
    unittest.main()
