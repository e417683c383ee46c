# SPDX-License-Identifier: Apache-2.0
"""What all commands share: no login, an exit code of their own, errors on one line."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cliff import command, lister, show

from valence_sched.errors import InventoryIncomplete, SchedulerError, UsageError
from valence_sched_cli import cloud
from valence_sched_cli.options.types import StoreOnce
from valence_sched_cli.output import prepare
from valence_sched_cli.output.prepare import prepare_formatter

if TYPE_CHECKING:
    from valence_sched.engine import Operations
    from valence_sched.model.read_options import ReadOptions, Selection

LOG = logging.getLogger(__name__)

#: What ``timeout``, ``kill``, CI systems and a terminal that is closed send.
_SIGNALS = ("SIGTERM", "SIGHUP")


class _SignalInterrupt(KeyboardInterrupt):
    """A signal came: like Ctrl-C, it is no failure of whatever plug-in runs at the moment."""


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Have signals end what runs meanwhile, with the exit code that a shell gives them.

    One that is ignored, as with nohup, or that somebody handles already, stays as it is.
    """
    taken = []
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _interrupt)
    try:
        yield
    except _SignalInterrupt as ended:
        raise SystemExit(ended.args[0]) from None
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, _frame: object) -> None:
    raise _SignalInterrupt(128 + number)


#: Paths that stand without an option, and how their help calls them.
_ARGUMENTS = {"source": "path", "old": "old", "new": "new", "planned": "plan"}
STYLES = "valence_sched.formatter"  # entry points of our formatters, of lists and of one object
MAX_LINES = 20  # about skipped documents, before the rest is only counted


class PodmCommand:
    """A command that works without a cloud; mixed into cliff's Lister and ShowOne."""

    auth_required = False
    app: Any
    formatter: Any
    exit_code = 0
    tells_remarks = False  # on the inventory, each, and not only how many there are
    _main: Operations | None = None
    _words: argparse.Namespace | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return a parser that refuses the second value of an option of ours that has one."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)  # type: ignore[misc]
        for action in (None, "store"):
            parser.register("action", action, StoreOnce)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run and return the exit code: the command's own, else that of its error."""
        self.closing: list[str] = []
        self._words = parsed_args
        try:
            _check_stdin(parsed_args)
            if known := self.column_names(parsed_args):
                prepare.check_columns(parsed_args.columns, known)
            with interrupt_on_signals():
                status: int = super().run(parsed_args)  # type: ignore[misc]
            self.app.stdout.flush()
        except SchedulerError as error:
            LOG.debug("%s", type(error).__name__, exc_info=True)  # where, with --debug
            self._tell_problems(error)
            self.tell(str(error), logging.ERROR)
            return error.exit_code
        self._tell_problems()
        for line in self.closing:
            self.tell(line)
        return self.exit_code or status

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        """Print; what cannot hold a structure gets it as JSON, and people get harmless text.

        An outcome that has none of the columns asked for, though another has, is no rows.
        """
        known = self.column_names(parsed_args) or column_names
        prepare.check_columns(parsed_args.columns, known)
        if not prepare.has_any_column(parsed_args.columns, column_names):
            column_names, data = known, ()
        self.formatter = prepare_formatter(self.formatter, parsed_args.formatter)
        status: int = super().produce_output(parsed_args, column_names, data)  # type: ignore[misc]
        return status

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """Return every column that these words may lead to; none where that is known too late.

        A command that changes or writes anything returns them, so that a column that is not
        there is refused before.
        """
        return ()

    def get_epilog(self) -> str:
        """Say which plug-in this is, but in our own program, where it would cost a third more.

        cliff looks through every installed distribution for the answer.
        """
        ours = type(self.app).__module__.startswith("valence_sched_cli.")
        return "" if ours else str(super().get_epilog())  # type: ignore[misc]

    @property
    def main(self) -> Operations:
        """Return the scheduler's parts; they are imported when first asked for."""
        if self._main is None:
            self._main = self.app.client_manager.podm
            self._configure(self._main)
        return self._main

    def _configure(self, main: Operations) -> None:
        """Tell the scheduler's parts what the words of the shell say for all that they read."""
        words = self._words
        if getattr(self.app.options, "verbose_level", 1) == 0:
            main.sources.progress = lambda *_counts: None
        main.config.ignored_extra_specs = tuple(getattr(words, "ignore_extra_spec", ()))
        main.config.default_owner = functools.partial(
            cloud.token_project,
            self.app.client_manager,
            log_in=getattr(words, "from_catalog", False),
        )

    def live(self, parsed_args: argparse.Namespace, only: Sequence[str] = ()) -> ReadOptions:
        """Return which live pod managers the words of the shell name, and how they are read."""
        from valence_sched.model.read_options import ReadOptions

        catalogue = None
        if parsed_args.from_catalog:
            catalogue = cloud.catalogue(
                self.app.client_manager, all_regions=parsed_args.all_regions
            )
        elif parsed_args.all_regions:
            raise UsageError("--all-regions: only with --from-catalog")
        return ReadOptions(
            podm_files=tuple(parsed_args.podm_file),
            state=parsed_args.state,
            catalogue=catalogue,
            only=tuple(only),
            timeout_s=parsed_args.timeout,
            parallel=parsed_args.parallel,
            full=parsed_args.full,
            max_age_s=parsed_args.max_age,
            liveness=getattr(parsed_args, "liveness", None),
        )

    def selection(self, parsed_args: argparse.Namespace, only: Sequence[str] = ()) -> Selection:
        """Return the inventories and files that the words of the shell name."""
        from valence_sched.model.read_options import Selection

        return Selection(
            sources=tuple(parsed_args.inventory),
            strict=parsed_args.strict,
            resource_files=tuple(parsed_args.resource_file),
            flavor_files=tuple(getattr(parsed_args, "flavor_file", ())),
            policy_files=tuple(getattr(parsed_args, "policy_file", ())),
            live=self.live(parsed_args, only),
        )

    def tell(self, text: str, level: int = logging.WARNING) -> None:
        """Log one line, which people read on standard error; data goes elsewhere.

        ``openstack`` shows a person no lower level than this one, and with ``-q`` only errors.
        """
        LOG.log(level, "%s", text)

    def _tell_problems(self, error: SchedulerError | None = None) -> None:
        if self._main is None:
            return
        for line in dict.fromkeys(self._main.config.remarks):
            self.tell(f"remark: {line}")
        self._main.config.remarks.clear()
        diagnostics = self._main.diagnostics
        unread, skipped = diagnostics.lines("unread"), diagnostics.lines("skipped")
        remarks = diagnostics.lines("remark")
        if isinstance(error, InventoryIncomplete) and len(skipped) + len(unread) == 1:
            skipped = unread = []  # the error is about that one
        self._tell_lines("unread", unread, "pod managers")
        self._tell_lines("skipped", skipped, "documents")
        self._tell_remarks(remarks)
        diagnostics.clear()  # in interactive mode another command comes after this one

    def _tell_remarks(self, remarks: Sequence[str]) -> None:
        """Tell of what is doubtful in the inventory, or where that is told."""
        if self.tells_remarks:
            for line in remarks:
                self.tell(f"remark: {line}")
        elif remarks:
            noun = "remark" if len(remarks) == 1 else "remarks"
            live = self._main is not None and bool(self._main.sources.live_ids)
            place = "podm show <podm>" if live else "podm inventory validate --long"
            self.tell(f"{len(remarks)} {noun} on the inventory: see {place}")

    def _tell_lines(self, word: str, lines: Sequence[str], noun: str) -> None:
        for line in lines[:MAX_LINES]:
            self.tell(f"{word}: {line}")
        if len(lines) > MAX_LINES:
            self.tell(f"{word}: {len(lines)} {noun} in all; the report lists them")


class Command(PodmCommand, command.Command):
    """A command that prints nothing."""


class Lister(PodmCommand, lister.Lister):
    """A command that prints rows."""

    def _load_formatter_plugins(self) -> Any:
        return _add_styles(super()._load_formatter_plugins(), "list")


class ShowOne(PodmCommand, show.ShowOne):
    """A command that prints one thing."""

    def _load_formatter_plugins(self) -> Any:
        return _add_styles(super()._load_formatter_plugins(), "show")


def _add_styles(manager: Any, kind: str) -> Any:
    """Return cliff's formatters together with our own, which no other command is to offer."""
    ours = type(manager)(f"{STYLES}.{kind}", invoke_on_load=True)
    manager.extensions += ours.extensions
    return manager


def _check_stdin(parsed_args: argparse.Namespace) -> None:
    """Refuse to read standard input for two things: the second would find it empty."""
    readers = [
        f"--{name.replace('_', '-')}" if name not in _ARGUMENTS else f"<{_ARGUMENTS[name]}>"
        for name in (
            "inventory",
            "podm_file",
            "source",
            "flavor",
            "flavor_file",
            "policy_file",
            "resource_file",
            "request_file",
            "file",
            "old",
            "new",
            "planned",
        )
        for word in _as_list(getattr(parsed_args, name, None))
        if word == "-"
    ]
    if len(readers) > 1:
        raise UsageError(f"only one may be standard input (-): {', '.join(readers)}")
    if "-" in _as_list(getattr(parsed_args, "near_map", None)):
        raise UsageError("--near-map: no map is read from standard input: name a file")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
