# SPDX-License-Identifier: Apache-2.0
"""Reported statistics: merged, and applied to the inventory of a pod manager."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from valence_sched.errors import InputError
from valence_sched.model.base import Noun
from valence_sched.model.codec import decode
from valence_sched.model.inventory import (
    FullPodm,
    Stock,
    capabilities_in,
    parse_capabilities,
    to_json,
)

REPORTED_SCHEME = "reported:"  # scheme of stocks with a reported amount only
Stats = dict[str, Any]
#: Reported keys by the field of the podm; ``availability_zone`` is another name of the zone.
_OWN = ("name", "url", "driver", "status", "enabled", "zone", "aggregates", "capabilities")
_LISTS = ("traits", "pools", "blocks", "stocks", "nodes")
FIELDS = {name: name for name in (*_OWN, *_LISTS)} | {"availability_zone": "zone"}
STRUCTURE = ("pools", "blocks", "stocks", "amounts")  # the hardware of nodes
MERGED_BY_KEY = ("facts", "amounts")  # each of their keys is reported separately


class ReportedSwitch(msgspec.Struct, frozen=True):
    """The enabled state that a pod manager reported, None without such a report."""

    enabled: bool | None = None


class ReportedStats(Noun, frozen=True):
    """The statistics that a pod manager reported; ``alone`` if the pod manager was never read.

    ``at`` is the time of the last report in seconds since 1970 by the clock of the database.
    """

    stats: Stats
    alone: bool = False
    at: float | None = None


def podm_id(name: str | tuple[str, str]) -> str:
    """Return the id of a podm from its id, or from host and node."""
    return name if isinstance(name, str) else "/".join(name)


def merge_stats(earlier: Stats, stats: Stats) -> Stats:
    """Merge reported statistics: a key that is reported again replaces its earlier value."""
    merged = {**earlier, **stats}
    for key in MERGED_BY_KEY:
        values = {**_object(earlier, key), **_object(stats, key)}
        if values:
            merged[key] = values
    return merged


def select_stats(stats: Mapping[str, Any], fields: Iterable[str]) -> Stats:
    """Return the statistics of fields such as ``zone`` or ``facts.year``, with all hardware."""
    wanted = {*fields, *STRUCTURE}
    selected: Stats = {}
    for key, value in stats.items():
        if FIELDS.get(key, key) in wanted:
            selected[key] = value
        elif key == "capabilities":
            parsed = parse_capabilities(value if isinstance(value, str) else _object(stats, key))
            names = [name for name in parsed if f"capabilities.{name}" in wanted]
            selected[key] = {name: parsed[name] for name in names}
        elif key == "facts":
            selected[key] = _wanted_facts(_object(stats, key), "facts.", wanted)
        elif key not in FIELDS:
            selected |= _wanted_facts({key: value}, "facts.", wanted)
    return selected


def _wanted_facts(values: Mapping[str, Any], prefix: str, wanted: set[str]) -> Stats:
    if "facts" in wanted:
        return dict(values)
    selected: Stats = {}
    for name, value in values.items():
        if f"{prefix}{name}" in wanted:
            selected[name] = value
            continue
        below = value if isinstance(value, Mapping) else {}
        if inner := _wanted_facts(below, f"{prefix}{name}.", wanted):
            selected[name] = inner
    return selected


def apply_stats(podm: FullPodm, stats: Stats) -> FullPodm:
    """Return a podm with the reported values instead of the values read; InputError if invalid."""
    file = f"stats of {podm.id!r}"
    plain = msgspec.to_builtins(podm)
    facts = dict(plain.get("facts", {}))
    for key, value in {**stats, **_object(stats, "facts", file)}.items():
        if key == "capabilities" and isinstance(value, str):
            plain[key] = capabilities_in(value, file, "$")
        elif key in FIELDS:
            plain[FIELDS[key]] = value
        elif key not in MERGED_BY_KEY:
            _add_facts(facts, key, value)
    plain["facts"] = facts
    podm = decode(to_json(plain), FullPodm, file)
    amounts = _object(stats, "amounts", file)
    if not amounts:
        return podm
    replaced = {REPORTED_SCHEME + resource for resource in amounts}
    stocks = [stock for stock in podm.stocks if stock.uri not in replaced]
    for resource, reported in amounts.items():
        fields = reported if isinstance(reported, Mapping) else {"total": reported}
        if reported is not None:
            stock = {**fields, "uri": REPORTED_SCHEME + resource, "resource": resource}
            stocks.append(decode(to_json(stock), Stock, file, f"$.amounts.{resource}"))
    return msgspec.structs.replace(podm, stocks=tuple(stocks))


def _add_facts(facts: dict[str, Any], word: str, value: Any) -> None:
    left = [(word, value)]
    while left:
        word, value = left.pop()
        if isinstance(value, Mapping):
            left += reversed([(f"{word}.{key}", inner) for key, inner in value.items()])
        elif value is None:
            facts.pop(word, None)
        elif isinstance(value, list):
            encode = msgspec.json.encode
            facts[word] = [it if isinstance(it, str) else encode(it).decode() for it in value]
        else:
            facts[word] = str(value).lower() if isinstance(value, bool) else value


def _object(stats: Mapping[str, Any], key: str, file: str = "stats") -> Stats:
    value = stats.get(key)
    if isinstance(value, dict | None):
        return value or {}
    raise InputError(file, f"$.{key}", repr(value), "an object")
