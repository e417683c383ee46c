# SPDX-License-Identifier: Apache-2.0
"""Plug-ins: loads filters, weighers, schedulers and the other entry points by name."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import stevedore
from msgspec import Struct, field

from valence_sched.errors import PluginError, SchedulerError, UnknownName, describe_error
from valence_sched.model.policy import PluginKind, PluginList, PluginSummary

FILTERS = "valence_sched.filters"
WEIGHERS = "valence_sched.weighers"
SCHEDULERS = "valence_sched.schedulers"
DRIVERS = "valence_sched.drivers"
DIALECTS = "valence_sched.dialects"
RESOLVERS = "valence_sched.resolvers"
DISPATCHERS = "valence_sched.dispatchers"
LIVENESS = "valence_sched.liveness"

INTERFACE = 1  # the version of the arguments and results of plug-ins of every kind


class Plugins(Struct, frozen=True, eq=False):
    """The plug-ins installed under one entry point group, and those that could not be loaded."""

    kind: str
    by_name: Mapping[str, Callable[..., Any]]
    sources: Mapping[str, str] = field(default_factory=dict)
    load_errors: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str, where: str = "") -> Callable[..., Any]:
        """Return the plug-in of this name; UnknownName, or PluginError if it cannot be imported."""
        if name in self.load_errors:
            text = f"{self.kind} {name!r} cannot be loaded: {self.load_errors[name]}"
            raise PluginError(f"{where}: {text}" if where else text)
        if name not in self.by_name:
            raise UnknownName(self.kind, name, self.by_name, where)
        return self.by_name[name]

    def ours_first(self) -> list[str]:
        """Return the names of the plug-ins, those that ship with valence-sched first."""
        return sorted(self.by_name, key=lambda name: not _is_ours(self.sources.get(name, "")))


class _Manager(stevedore.ExtensionManager[Any]):
    """Counts an exit and a failed assertion of an import as a failure of this plug-in alone."""

    def _load_one_plugin(self, ep: Any, *arguments: Any) -> Any:
        try:
            return super()._load_one_plugin(ep, *arguments)
        except (AssertionError, SystemExit) as error:
            raise ImportError(f"its import ends with {describe_error(error)}") from error


@functools.cache
def load(group: str) -> Plugins:
    """Return the plug-ins of an entry point group, in name order."""
    load_errors: dict[str, str] = {}

    def note_failure(_manager: Any, entry_point: Any, error: BaseException) -> None:
        load_errors[entry_point.name] = describe_error(error)

    def order(extension: Any) -> tuple[str, bool, str]:
        value = extension.entry_point.value
        return extension.name, not _is_ours(value), value

    noun = group.rpartition(".")[2]
    kind = noun if noun.endswith("ss") else noun.removesuffix("s")
    manager = _Manager(group, on_load_failure_callback=note_failure)
    by_name: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for extension in sorted(manager, key=order):
        name, value = extension.name, extension.entry_point.value
        version = getattr(sys.modules.get(extension.entry_point.module), "PLUGIN_INTERFACE", 1)
        if not callable(extension.plugin):
            load_errors[name] = f"{value} is not a function"
        elif version != INTERFACE:
            text = f"{value} is for interface {version}, but valence-sched has {INTERFACE}"
            load_errors[name] = f"{text}: install a release for interface {INTERFACE}"
        elif name in by_name:
            load_errors[f"{name} of {value}"] = f"{sources[name]} already has this name"
        else:
            by_name[name], sources[name] = extension.plugin, value
    return Plugins(kind, by_name, sources, load_errors)


class InstalledPlugins(Mapping[str, Callable[..., Any]]):
    """The plug-ins of an entry point group by name, which are loaded on first access."""

    def __init__(self, group: str) -> None:
        self._group = group

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return load(self._group).by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(load(self._group).by_name)

    def __len__(self) -> int:
        return len(load(self._group).by_name)


def _is_ours(source: str) -> bool:
    return source.startswith("valence_sched.")


@contextmanager
def plugin_errors(source: str) -> Iterator[None]:
    """Convert an unexpected error of a plug-in into a PluginError that names the plug-in."""
    try:
        yield
    except SchedulerError:
        raise
    except Exception as error:
        raise PluginError(f"{source}: {describe_error(error)}") from error


def options(plugin: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the options of a filter or weigher: its keyword-only parameters."""
    parameters = inspect.signature(plugin).parameters
    return {name: one for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}


def summary(plugin: Callable[..., Any]) -> str:
    """Return the first line of a plug-in's docstring, its help text."""
    return (inspect.getdoc(plugin) or "").partition("\n")[0]


def plugin_list(kind: PluginKind) -> PluginList:
    """Return the installed plug-ins of a kind with their options and sources."""
    plugins = load(f"valence_sched.{kind}")
    return PluginList(
        kind=plugins.kind,
        plugins=tuple(
            PluginSummary(
                name=name,
                description=summary(plugin).replace("``", "'"),
                options={option: _default(one) for option, one in options(plugin).items()},
                source=plugins.sources[name],
            )
            for name, plugin in plugins.by_name.items()
        ),
        load_errors=dict(plugins.load_errors),
    )


def _default(parameter: inspect.Parameter) -> Any:
    default = None if parameter.default is parameter.empty else parameter.default
    return dict(default) if isinstance(default, Mapping) else default
