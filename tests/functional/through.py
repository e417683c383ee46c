# SPDX-License-Identifier: Apache-2.0
"""A service in the middle of functional tests: commands are answered through it where they can be.

Where it is switched on, a command that decides on recorded inventories runs both ways, and the
answers are compared; one that changes a state runs through the service alone. ``test_through.py``
runs the tests of other modules so; with ``VALENCE_SCHED_TEST_THROUGH=service`` any test does.
"""

import atexit
import contextlib
import difflib
import functools
import importlib.metadata
import os
import re
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.service.serving import serving
from valence_sched.app import App
from valence_sched.errors import InventoryIncomplete, SchedulerError, StoreError, UsageError
from valence_sched.model.reading import ReadOptions, ReadPace
from valence_sched.model.zone import ZoneSettings
from valence_sched.service.settings import Limits, ServiceSettings

VARIABLE = "VALENCE_SCHED_TEST_THROUGH"
GROUP = "openstack.podm.v1"
MOST_SERVICES = 6  # that are kept for the next command
FLAGS = ("-q", "-v", "--quiet", "--verbose", "--debug")
#: Options whose values become settings of the service.
SETTINGS = {"--inventory": "inventories", "--resource-file": "resource_files",
            "--policy-file": "policy_files", "--podm-file": "podm_files"}  # fmt: skip
#: What only a scheduler in the process can heed, or a person at a terminal.
HERE_ONLY = re.compile(
    r"--(strict|max-age|warn-age|liveness|from-catalog|all-regions|full|parallel|help"
    r"|password-prompt|os-scheduler-endpoint|nova-flavor)\b|-h$"
)
#: Commands and options that change what outlives them: they are not to run twice.
CHANGES = ("podm claim", "podm node", "podm apply", "podm stats", "podm create", "podm set",
           "podm unset", "podm delete", "scheduler quota", "scheduler zone")  # fmt: skip
CHANGING_OPTIONS = ("--claim", "--compose", "--dispatch", "--journal")
#: Commands that need no pod manager.
NAMING = ("podm flavor", "scheduler policy", "scheduler filter", "scheduler weigher")
#: Lines about how inventories were read, which is told where they are read.
ABOUT_READING = re.compile(r"^(remark|warning|skipped|unread): |\d remarks? on the inventory: ")
READ_AT = re.compile(r'"Read At": "[^"]*"')  # of the second answer it is later
#: As good as none: a scheduler in the process has none either.
LIMITS = Limits(
    nodes=1_000_000, alternates=1_000_000, requests=10_000, queue_s=60, body_bytes=1 << 28
)


class Translation(NamedTuple):
    """A command for the service: its words and variables, the settings, and whether it is safe."""

    words: tuple[str, ...]
    environ: dict[str, str]
    settings: ServiceSettings
    compares: bool


class Switch:
    """Whether commands go through a service."""

    on = os.environ.get(VARIABLE) == "service"


class ThroughService:
    """Switches the service on while the tests of a class run; a mixin before a test case."""

    @classmethod
    def setUpClass(cls) -> None:
        before, Switch.on = Switch.on, True
        cls.addClassCleanup(setattr, Switch, "on", before)  # type: ignore[attr-defined]
        super().setUpClass()  # type: ignore[misc]


def translate(words: tuple[str, ...], more: Mapping[str, str]) -> Translation | None:
    """Return a command as it is put to a service, None where a service cannot answer it."""
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
        return None  # which of them is wrong is told in another order
    if state and named:
        return None  # both are decided on together, which no setting of a service says
    changes = name.startswith(CHANGES) or any(word in CHANGING_OPTIONS for word in words)
    if changes and named:
        return None  # nothing is claimed on a recording
    state_url = state[-1] if state else None  # else that of the environment, or the usual one
    if not changes and (named or name.startswith(NAMING)):
        state_url = _empty_state()  # what claims hold is not subtracted from a recording
    elif state is None and not {"XDG_STATE_HOME", "VALENCE_SCHED_STATE"} & more.keys():
        return None
    try:
        zones = App(environ=more).config.zones() if "XDG_CONFIG_HOME" in more else ZoneSettings()
    except SchedulerError:
        return None  # a service has them in its settings, and does not begin
    settings = ServiceSettings(
        state=state_url, inventories=named, reader=False, limits=LIMITS, zones=zones, **found
    )
    recorded = bool(named) or name.startswith(NAMING)  # of live ones the second reading is newer
    return Translation(kept, dict(more), settings, compares=recorded and not changes)


def same(here: Any, there: Any) -> bool:
    """Return whether two answers are alike, but for lines about how inventories were read."""
    return _compared(here) == _compared(there)


def _compared(done: Any) -> tuple[Any, ...]:
    return done.code, READ_AT.sub("", done.out), _lines(done.err)


def difference(words: tuple[str, ...], here: Any, there: Any) -> str:
    """Return how the answer through a service differs from the one without it."""
    texts = [f"exit {one.code}\n{one.out}\n{one.err}".splitlines() for one in (here, there)]
    lines = difflib.unified_diff(*texts, "without", "through a service", lineterm="", n=1)
    return "\n".join((" ".join(words), *lines))


@functools.cache
def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {one.name.replace("_", " "): one for one in importlib.metadata.entry_points(group=GROUP)}


def _command(words: tuple[str, ...]) -> str | None:
    """Return the name of the command of some words, None for one that is about what is here."""
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
    """Return the words without those that name what is decided on, and these by setting."""
    kept: list[str] = []
    found: dict[str, Any] = dict.fromkeys(SETTINGS.values(), ()) | {"state": None}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in SETTINGS or option == "--state":
            value = value if equals else next(rest, "-")
            if value in ("-", "") or ":" in value.partition("/")[0]:
                # standard input, a plug-in, or no name, which the command refuses
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
    """Write the key that signs plans beside a state: all programs of tests have the same."""
    key = state.with_name(f"{state.name}.zone-key")
    key.write_text("k" * 64)
    key.chmod(0o600)


def _read_once(settings: ServiceSettings, environ: Mapping[str, str]) -> None:
    """Read each registered pod manager, as a scheduler in the process would before it decides."""
    pace = ReadPace(events=False)
    live = ReadOptions(state=settings.state)
    with contextlib.suppress(UsageError, InventoryIncomplete, StoreError):  # the command tells
        App(environ=environ).watch(live, lambda _line: None, pace=pace, threads=8, once=True)


class Services:
    """The services of this process by their settings, the latest few of which are kept."""

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
        """End all of them."""
        while self._running:
            self._running.popitem()[1][1].close()


@functools.cache
def services(_process: int) -> Services:
    """Return the services of a process."""
    return Services()
