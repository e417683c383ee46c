# SPDX-License-Identifier: Apache-2.0
"""Quotas: the limits of an owner by resource (``doc/source/howto/access.rst``), and charges.

A node is charged for all devices of its blocks, which no other node can use. Nodes that share a
block are each charged for their request.
"""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta

from valence_sched.errors import InputError, suggest
from valence_sched.model.base import Noun
from valence_sched.model.claim import ClaimPart, Grant
from valence_sched.model.inventory import Devices
from valence_sched.model.need import NodeRequest, split_words
from valence_sched.model.quantity import format_count
from valence_sched.model.request import MAX_OWNER

MAX_LIMIT = 10**15
Limit = Annotated[float, Meta(ge=0, le=MAX_LIMIT)]
PLAIN = ("claims", "nodes", "cores", "processors", "memory_mib", "accelerators", "drives", "nics")
_NAMED = re.compile(r"(accelerators|stock):[!-~]{1,200}")
_MEASURES = {"cores": "cores", "sockets": "processors", "capacity_mib": "memory_mib"}
_DEVICES = {kind: f"{kind}s" for kind in ("processor", "accelerator", "drive", "nic")}


class Quota(Noun, frozen=True, kw_only=True):
    """The limits and the usage of an owner; if ``owner`` is None, the default limits."""

    owner: str | None = None
    limits: dict[str, float] = {}
    used: dict[str, float] = {}


class QuotaLimits(Noun, frozen=True, kw_only=True):
    """Limits by resource that replace all limits of an owner."""

    limits: dict[str, Limit]


class QuotaChange(Noun, frozen=True, kw_only=True):
    """Changed limits by resource, null for the default; other limits stay unchanged."""

    limits: dict[str, Limit | None]


def check_owner(owner: str | None) -> None:
    """Raise InputError for an invalid name of an owner; None passes."""
    if owner is not None and not 1 <= len(owner) <= MAX_OWNER:
        expected = f"1 to {MAX_OWNER} characters"
        raise InputError("owner", "", format_count(len(owner), "character"), expected)


def check_limits(limits: Mapping[str, float | None], place: str) -> None:
    """Raise InputError for an unknown resource or an invalid limit."""
    for name, most in limits.items():
        if most is not None and not 0 <= most <= MAX_LIMIT:
            raise InputError(place, name, f"{most:g}", f"0 to {MAX_LIMIT:g}")
        if name not in PLAIN and not _NAMED.fullmatch(name):
            hint = suggest(name, (*PLAIN, "accelerators:NAME", "stock:NAME"))
            raise InputError(place, name, "an unknown resource", hint=hint)


def claim_charges(parts: Iterable[ClaimPart]) -> dict[str, float]:
    """Return the charges of a claim by resource, at least the charges of its request.

    The blocks for an existing node are neither another claim nor another node.
    """
    charges = {"claims": 0.0, "nodes": 0.0}
    for part in parts:
        asked = node_charges(part.request) if part.request is not None else {}
        for share in part.shares:
            if part.node is None:
                charges["claims"] = 1.0
                charges["nodes"] += 1.0
            for name in asked | share.charges:
                amount = max(asked.get(name, 0.0), share.charges.get(name, 0.0))
                charges[name] = charges.get(name, 0.0) + amount
    return charges


@functools.lru_cache(maxsize=4096)
def block_charges(devices: Devices) -> Mapping[str, int]:
    """Return the charges of a block by resource, without unknown amounts."""
    charges = Counter[str]()
    for cpu in devices.processors:
        charges["processors"] += cpu.count or 0
        charges["cores"] += (cpu.count or 0) * (cpu.cores or 0)
    for module in devices.memory:
        charges["memory_mib"] += (module.count or 0) * (module.capacity_mib or 0)
    for card in devices.accelerators:
        words = {card.kind.lower(), *split_words(card.model or "")}
        names = (f"accelerators:{word}" for word in words)
        for name in ("accelerators", *filter(_NAMED.fullmatch, names)):
            charges[name] += card.count or 0
    charges["drives"] += sum(drive.count or 0 for drive in devices.drives)
    charges["nics"] += sum(nic.count or 0 for nic in devices.nics)
    return +charges


def grant_charges(grants: Iterable[Grant]) -> dict[str, float]:
    """Return the charges of amounts by resource."""
    charges: dict[str, float] = {}
    for one in grants:
        name = f"stock:{one.resource}"
        charges[name] = charges.get(name, 0.0) + one.amount
    return charges


def node_charges(request: NodeRequest) -> dict[str, float]:
    """Return the charges of one node: the largest amount of each resource over all alternatives."""
    charges: dict[str, float] = {}
    for needs in (request.needs, *(one.needs for one in request.other_alternatives)):
        own: dict[str, float] = defaultdict(float)
        for need in needs:
            amount = need.total_amount()
            if need.kind == "stock":
                own[f"stock:{need.resource}"] += amount
            elif need.measure in _MEASURES:
                own[_MEASURES[need.measure]] += amount
            elif need.kind in _DEVICES:
                own[_DEVICES[need.kind]] += amount
            if need.kind == "accelerator":
                words = {str(one.value).lower() for one in need.tests if one.operator != "at_least"}
                for word in sorted(words):
                    own[f"accelerators:{word}"] += amount
        charges = {name: max(charges.get(name, 0.0), own[name]) for name in charges | own}
    return charges
