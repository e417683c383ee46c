# SPDX-License-Identifier: Apache-2.0
"""Reported statistics: merges what a pod manager reports, and applies it to its inventory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from valence_sched.errors import InputError
from valence_sched.model.codec import decode
from valence_sched.model.inventory import FullPodm, parse_capabilities, to_json

REPORTED_SCHEME = "reported:"  # how the URIs of stocks begin of which only an amount was reported

Stats = dict[str, Any]

#: Words that mean a field of the podm; ``availability_zone`` is how others call the zone.
FIELDS = {name: name for name in (
    "name", "url", "driver", "status", "enabled", "zone", "aggregates", "capabilities", "traits",
    "pools", "blocks", "stocks", "nodes",
)} | {"availability_zone": "zone"}  # fmt: skip
MERGED_BY_KEY = ("facts", "amounts")  # each of their words is reported by itself


def podm_id(name: str | tuple[str, str]) -> str:
    """Return the id of a podm that is called by its id, or by host and node."""
    return name if isinstance(name, str) else "/".join(name)


def merge_stats(earlier: Stats, stats: Stats) -> Stats:
    """Return what is reported in all: a word that is reported again takes the earlier's place."""
    found = {**earlier, **stats}
    for word in MERGED_BY_KEY:
        both = {**_object(earlier, word), **_object(stats, word)}
        if both:
            found[word] = both
    return found


def apply_stats(podm: FullPodm, stats: Stats) -> FullPodm:
    """Return a podm with what was reported of it in place of what was read.

    Raises:
        InputError: something reported is not what it must be.
    """
    file = f"stats of {podm.id!r}"
    plain = msgspec.to_builtins(podm)
    facts = dict(plain.get("facts", {}))
    for word, value in {**stats, **_object(stats, "facts", file)}.items():
        if word in FIELDS:
            plain[FIELDS[word]] = _field(word, value, file)
        elif word not in MERGED_BY_KEY:
            facts = _with_fact(facts, word, value)
    plain["facts"] = facts
    plain["stocks"] = _stocks(plain.get("stocks", ()), _object(stats, "amounts", file), file)
    return decode(to_json(plain), FullPodm, file)


def _field(word: str, value: Any, file: str) -> Any:
    if word != "capabilities" or not isinstance(value, str):
        return value
    try:
        return parse_capabilities(value)
    except ValueError as error:
        raise InputError(file, "$.capabilities", str(error), "key=value") from None


def _with_fact(facts: dict[str, Any], word: str, value: Any) -> dict[str, Any]:
    """Return facts with one more; an object gives one for each of its words, null takes it away."""
    if isinstance(value, Mapping):
        for inner, deeper in value.items():
            facts = _with_fact(facts, f"{word}.{inner}", deeper)
        return facts
    if value is None:
        return {name: told for name, told in facts.items() if name != word}
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, list):
        value = [one if isinstance(one, str) else msgspec.json.encode(one).decode()
                 for one in value]  # fmt: skip
    return {**facts, word: value}


def _stocks(stocks: Any, amounts: Stats, file: str) -> list[Any]:
    kept = [stock for stock in stocks if not _is_reported_stock(stock["uri"], amounts)]
    for resource, told in amounts.items():
        words = told if isinstance(told, Mapping) else {"total": told}
        if told is not None:
            kept.append({**words, "uri": REPORTED_SCHEME + resource, "resource": resource})
    return kept


def _is_reported_stock(uri: str, amounts: Stats) -> bool:
    return uri.startswith(REPORTED_SCHEME) and uri.removeprefix(REPORTED_SCHEME) in amounts


def _object(stats: Stats, word: str, file: str = "stats") -> Stats:
    value = stats.get(word) or {}
    if not isinstance(value, dict):
        raise InputError(file, f"$.{word}", repr(value), "an object")
    return value
