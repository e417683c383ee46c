# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of functional tests through a service, if a service can answer them.

A command that decides on recorded inventories then runs with and without the service, and the
answers are compared. A command that changes a state runs only through the service.
``test_through.py`` runs the tests of other modules this way; with
``VALENCE_SCHED_TEST_THROUGH=service`` all tests run this way.
"""

import atexit
import contextlib
import difflib
import functools
import importlib.metadata
import os
import re
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.service.serving import serving
from valence_sched.app import App
from valence_sched.errors import InventoryIncomplete, SchedulerError, StoreError, UsageError
from valence_sched.model.reading import ReadOptions, ReadPace
from valence_sched.model.zone import ZoneSettings
from valence_sched.server.engine_pool import OWN_FILE
from valence_sched.service.settings import Limits, ServiceSettings

VARIABLE = "VALENCE_SCHED_TEST_THROUGH"
GROUP = "openstack.podm.v1"
MOST_SERVICES = 6  # services kept for the next command
FLAGS = ("-q", "-v", "--quiet", "--verbose", "--debug")
#: Options whose values become settings of the service.
SETTINGS = {"--inventory": "inventories", "--resource-file": "resource_files",
            "--policy-file": "policy_files", "--podm-file": "podm_files"}  # fmt: skip
#: Options that only a scheduler in the process can use, or that need a terminal.
HERE_ONLY = re.compile(
    r"--(strict|max-age|warn-age|liveness|from-catalog|all-regions|full|parallel|help"
    r"|password-prompt|os-scheduler-endpoint|nova-flavor)\b|-h$"
)
#: Commands and options with lasting changes: they must not run twice.
CHANGES = ("podm claim", "podm node", "podm apply", "podm stats", "podm create", "podm set",
           "podm block set", "podm block unset", "podm unset", "podm delete", "scheduler quota",
           "scheduler zone")  # fmt: skip
CHANGING_OPTIONS = ("--claim", "--compose", "--dispatch", "--journal")
#: Commands that need no pod manager.
NAMING = ("podm flavor", "scheduler policy", "scheduler filter", "scheduler weigher")
#: Lines about readings of inventories, which only the reading process prints.
ABOUT_READING = re.compile(r"^(remark|warning|skipped|unread): |\d remarks? on the inventory: ")
READ_AT = re.compile(r'"Read At": "[^"]*"')  # times of the second answer are later
#: Values that count as empty: a scheduler in the process has no such object either.
LIMITS = Limits(
    nodes=1_000_000, alternates=1_000_000, requests=10_000, queue_s=60, body_bytes=1 << 28
)


class Translation(NamedTuple):
    """A command for the service: its arguments, variables and settings, and whether it is safe."""

    words: tuple[str, ...]
    environ: dict[str, str]
    settings: ServiceSettings
    compares: bool


class Switch:
    """Sets whether commands go through a service."""

    on = os.environ.get(VARIABLE) == "service"


class ThroughService:
    """Uses a service while the tests of a class run; a mixin before a test case."""

    @classmethod
    def setUpClass(cls) -> None:
        before, Switch.on = Switch.on, True
        cls.addClassCleanup(setattr, Switch, "on", before)  # type: ignore[attr-defined]
        super().setUpClass()  # type: ignore[misc]


def is_chosen(case: str, name: str, share: int = 10) -> bool:
    """Return whether a case keeps a name: all in a soak test, else one test of ``share``."""
    if not name.startswith("test") or os.environ.get("VALENCE_SCHED_SOAK"):
        return True
    return zlib.crc32(f"{case}.{name}".encode()) % share == 0


def translate(words: tuple[str, ...], more: Mapping[str, str]) -> Translation | None:
    """Return a command for a service, None if a service cannot answer it."""
    if "VALENCE_SCHED_URL" in more or any(name.startswith("OS_") for name in more):
        return None
    name = _command(words)
    if name is None or any(HERE_ONLY.match(word) for word in words):
        return None
    kept, found = _taken_out(words)
    if found is None:
        return None
    named = (*found.pop("inventories"), *_inventories(more))
    state = found.pop("state")
    if named[1:] and not all(map(os.path.exists, named)):
        return None  # the first of several errors differs
    if state and named:
        return None  # the service has no setting for deciding on both
    changes = name.startswith(CHANGES) or any(word in CHANGING_OPTIONS for word in words)
    if changes and named:
        return None  # recordings cannot be claimed
    state_url = state[-1] if state else None  # otherwise that of the environment, or the default
    if not changes and (named or name.startswith(NAMING)):
        state_url = _empty_state()  # holds are not subtracted from recordings
    elif state is None and not {"XDG_STATE_HOME", "VALENCE_SCHED_STATE"} & more.keys():
        return None
    try:
        zones = App(environ=more).config.zones() if "XDG_CONFIG_HOME" in more else ZoneSettings()
    except SchedulerError:
        return None  # these are settings of a service, and invalid ones prevent its start
    settings = ServiceSettings(
        state=state_url, inventories=named, reader=False, limits=LIMITS, zones=zones, **found
    )
    recorded = bool(named) or name.startswith(NAMING)  # a second live reading is newer
    return Translation(kept, dict(more), settings, compares=recorded and not changes)


def same(here: Any, there: Any) -> bool:
    """Return whether two answers are alike, except for lines about readings of inventories."""
    return _compared(here) == _compared(there)


def _compared(done: Any) -> tuple[Any, ...]:
    # an invalid file of the service is no error of its client
    code = 1 if OWN_FILE in done.err else done.code
    return code, READ_AT.sub("", done.out), _lines(done.err.replace(OWN_FILE, ""))


def difference(words: tuple[str, ...], here: Any, there: Any) -> str:
    """Return the difference between the answers through a service and without it."""
    texts = [f"exit {one.code}\n{one.out}\n{one.err}".splitlines() for one in (here, there)]
    lines = difflib.unified_diff(*texts, "without", "through a service", lineterm="", n=1)
    return "\n".join((" ".join(words), *lines))


@functools.cache
def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {one.name.replace("_", " "): one for one in importlib.metadata.entry_points(group=GROUP)}


def _command(words: tuple[str, ...]) -> str | None:
    """Return the command name of some arguments, None if it concerns only the local program."""
    rest = list(words)
    while rest and rest[0] in FLAGS:
        rest.pop(0)
    for size in (3, 2):
        name = " ".join(rest[:size])
        if name in _entry_points():
            command = _entry_points()[name].load()
            return name if command.through_service and not command.reads_files_only else None
    return None


def _taken_out(words: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Any] | None]:
    """Return the arguments without the sources of a decision, and the sources by setting."""
    kept: list[str] = []
    found: dict[str, Any] = dict.fromkeys(SETTINGS.values(), ()) | {"state": None}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in SETTINGS or option == "--state":
            value = value if equals else next(rest, "-")
            if value in ("-", "") or ":" in value.partition("/")[0]:
                # standard input, a plug-in, or an empty name, which the command refuses
                return words, None
            name = SETTINGS.get(option, "state")
            found[name] = (*(found[name] or ()), value)
        elif any(len(option) > 3 and known.startswith(option) for known in (*SETTINGS, "--state")):
            return words, None  # an abbreviation
        else:
            kept.append(word)
    return tuple(kept), found


def _inventories(more: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, more.get("VALENCE_SCHED_INVENTORY", "").split(os.pathsep)))


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not ABOUT_READING.search(line)]


@functools.cache
def _empty_state() -> str:
    folder = tempfile.TemporaryDirectory(prefix="through-")
    atexit.register(folder.cleanup)
    write_key(Path(folder.name) / "state.sqlite")
    return f"sqlite:///{folder.name}/state.sqlite"


def write_key(state: Path) -> None:
    """Write the key that signs plans beside a state; all programs of tests have the same key."""
    key = state.with_name(f"{state.name}.zone-key")
    key.write_text("k" * 64)
    key.chmod(0o600)


def _read_once(settings: ServiceSettings, environ: Mapping[str, str]) -> None:
    """Read each registered pod manager, as a scheduler in the process does before a decision."""
    pace = ReadPace(events=False)
    live = ReadOptions(state=settings.state)
    with contextlib.suppress(UsageError, InventoryIncomplete, StoreError):  # reported later
        App(environ=environ).watch(live, lambda _line: None, pace=pace, threads=8, once=True)


class Services:
    """The services of this process by their settings; only the latest few are kept."""

    def __init__(self) -> None:
        self._running: OrderedDict[Any, tuple[str, contextlib.ExitStack]] = OrderedDict()
        atexit.register(self.close)

    def url(self, settings: ServiceSettings, environ: Mapping[str, str]) -> str:
        """Return the URL of the service with these settings and variables."""
        key = (settings, tuple(sorted(environ.items())))
        if key not in self._running:
            while len(self._running) >= MOST_SERVICES:
                self._running.popitem(last=False)[1][1].close()
            stack = contextlib.ExitStack()
            url = stack.enter_context(serving(settings, environ))
            self._running[key] = (url, stack)
        self._running.move_to_end(key)
        if not settings.inventories:
            _read_once(settings, environ)
        return self._running[key][0]

    def close(self) -> None:
        """End all services."""
        while self._running:
            self._running.popitem()[1][1].close()


@functools.cache
def services(_process: int) -> Services:
    """Return the services of a process."""
    return Services()
