# SPDX-License-Identifier: Apache-2.0
"""App: wires configuration, sources, inventory loader, captures and engine."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from valence_sched import files
from valence_sched.config import credentials
from valence_sched.config.requests import Cloud
from valence_sched.config.settings import Configuration
from valence_sched.engine import Engine
from valence_sched.errors import UsageError
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.inventory.registry import Registry
from valence_sched.inventory.sources import Now, Progress, SourceReader
from valence_sched.model.decision import Report, Reports
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.effect import EffectLog
from valence_sched.model.plan import Plan, parse_plan
from valence_sched.model.read_options import DEFAULT_SELECTION, Selection
from valence_sched.model.registration import PasswordReference
from valence_sched.model.reports import parse_report

if TYPE_CHECKING:
    from valence_sched.inventory.capture import Captures


class App:
    """Holds the scheduler's parts, made from files, the environment and standard input.

    ``config`` reads the files of a user, ``sources`` the records of pod managers, ``loader``
    builds views of them, ``captures`` records them, ``diagnostics`` are about what was read.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        progress: Progress | None = None,
        cloud: Cloud | None = None,
        now: Now | None = None,
    ) -> None:
        self.diagnostics = Diagnostics()
        self.config = Configuration(environ, stdin, cloud)
        self.sources = SourceReader(self.config, self.diagnostics, self.registry, progress, now)
        self.loader = InventoryLoader(self.sources)
        self.now = self.sources.now

    @functools.cached_property
    def captures(self) -> Captures:
        """Return the part that records pod managers."""
        from valence_sched.inventory.capture import Captures  # the renderer: only to record

        return Captures(self.sources, self.loader)

    def registry(self, state: str | None = None) -> Registry:
        """Return the registry whose state is at a URL, None for the usual one."""
        return Registry(self.config, state)

    def engine(
        self,
        selection: Selection = DEFAULT_SELECTION,
        *,
        on_state: Callable[[str, str], None] = lambda _claim, _state: None,
        effects: EffectLog | None = None,
    ) -> Engine:
        """Return the scheduler over a selection; ``on_state`` and ``effects`` as of an engine."""
        return Engine(self.config, self.sources, self.loader, selection, on_state=on_state,
                      effects=effects)  # fmt: skip

    def serve(
        self,
        selection: Selection,
        ready: Callable[[list[tuple[str, str]]], None],
        *,
        username: str | None = None,
        password: PasswordReference | None = None,
        **options: Any,
    ) -> None:
        """Serve inventories as live pod managers until a signal stops the process.

        ``ready`` is called with id and URL of each when all listen; ``options`` are the fields of
        :class:`~valence_sched.simulator.server.serve.ServeOptions`.

        Raises:
            UsageError: a user without a password, or a password without a user.
            CredentialError: the password is missing, or others can read it.
            InventoryIncomplete: with ``strict``, a document had to be skipped.
            SchedulerError: as for the simulator.
        """
        from valence_sched.simulator.server import serve, sessions

        if (username is None) != (password is None):
            raise UsageError("a login needs --username and one of --password-env, --password-file")
        if username is not None:
            text = credentials.read_password(password, "podm serve", self.config.environ, None)
            options["login"] = sessions.Account(username, text or "")

        def check_and_report(urls: list[tuple[str, str]]) -> None:
            self.loader.check(len(urls), selection)
            ready(urls)

        records = self.sources.records(selection)
        serve.serve(records, self.diagnostics, serve.ServeOptions(**options), check_and_report)

    @contextlib.contextmanager
    def report_writer(self, file: str) -> Iterator[Callable[[Report | Reports], None]]:
        """Yield what writes a decision as JSON into a file that is open before it is made.

        InputError if it cannot be written, at once or later; unwritten, the file stays as it was.
        """
        pending = files.PendingJson(file)
        try:
            yield pending.write
        finally:
            pending.discard()

    def report_text(self, report: Report | Reports) -> str:
        """Return a decision as the JSON that a file would get."""
        return files.json_text(report).decode()

    def read_report(self, file: str) -> tuple[Report | Reports, list[str]]:
        """Read one written decision or several, ``-`` for stdin; also return warnings.

        InputError if it cannot be read or is none, NewerSchema if its major version is newer.
        """
        data = self.config.input.read() if file == "-" else files.read(file, limit=-1)
        return parse_report(data, "stdin" if file == "-" else file)

    def write_plan(self, plan: Plan, file: str) -> None:
        """Write a plan as JSON, whole or not at all."""
        files.write_json(plan, file)

    def read_plan(self, file: str) -> Plan:
        """Read a plan, ``-`` for standard input; its unknown fields become remarks.

        Errors as for a report; InputError, too, if it was changed since it was made.
        """
        data = self.config.input.read() if file == "-" else files.read(file, limit=-1)
        plan, warnings = parse_plan(data, "stdin" if file == "-" else file)
        self.config.remarks += warnings
        return plan


def fault_rules() -> list[tuple[str, str]]:
    """Return the form and the help of every fault rule of ``podm serve``."""
    from valence_sched.simulator.server.faults import RULES

    return [(f"{rule.name}:{rule.words}".rstrip(":"), rule.help) for rule in RULES]
