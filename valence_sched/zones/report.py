# SPDX-License-Identifier: Apache-2.0
"""Report of a zone to its parent zone: its name, its capabilities and its amounts."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from valence_sched.errors import one_line
from valence_sched.model import hardware, quantity, zone
from valence_sched.model.zone_registry import ZoneAmounts, ZoneInfo, ZoneNode


def rolled_up(
    reports: Iterable[tuple[str, Mapping[str, float]]],
    below: Iterable[Mapping[str, tuple[float, ...]]] = (),
) -> dict[str, tuple[float, ...]]:
    """Return the least and the largest number by ``<service>_<capability>``, NaN left out."""
    pairs = [pair for ranges in below for pair in ranges.items()]
    pairs += [
        (f"{service}_{name}", (value, value))
        for service, numbers in reports
        for name, value in numbers.items()
        if not math.isnan(value)
    ]
    found: dict[str, tuple[float, ...]] = {}
    for key, pair in pairs:
        both = *found.get(key, pair), *pair
        found[key] = (min(both), max(both))
    return found


def why_ruled_out(
    capabilities: Mapping[str, Collection[str]], required: Mapping[str, Collection[str]]
) -> str | None:
    """Return the reason why no pod manager has the capabilities; a missing key is unchecked."""
    for key, wanted in sorted(required.items()):
        have = capabilities.get(key)
        if have and not set(have).intersection(wanted):
            text = f"capability {key}: needs {';'.join(wanted)}, has {';'.join(sorted(have))}"
            return one_line(text)  # a child reports what it has
    return None


INTERVALS = 3  # number of poll intervals until a child's report expires
#: The service name in zone capabilities for each amount of a pod manager.
SERVICES = {
    "cores": "compute",
    "memory_mib": "compute",
    "gpus": "compute",
    "accelerators": "compute",
    "drives": "storage",
    "nics": "network",
}


def zone_info(
    id_: str,
    settings: zone.ZoneSettings,
    podms: Iterable[hardware.PodmOverview],
    reports: Mapping[str, hardware.StatsReport],
    below: Iterable[ZoneInfo] = (),
) -> ZoneInfo:
    fresh_s = INTERVALS * settings.poll_interval_s
    found = list(podms)
    alive = {one.podm.id for one in found if one.podm.enabled and one.podm.status != "Offline"}
    heard = [reports[podm] for podm in sorted(reports) if podm in alive]
    fresh = (one for one in heard if one.age_s is not None and one.age_s <= fresh_s)
    free = (numbers for one in found if one.podm.id in alive for numbers in _free(one.amounts))
    reported = (numbers for one in fresh for numbers in _reported(one.stats))
    ranges = rolled_up([*free, *reported], [info.services for info in below])
    return ZoneInfo(
        id=id_,
        name=settings.name,
        capabilities=dict(sorted(settings.capability_map.items())),
        services=dict(sorted(ranges.items())),
    )


def _free(amounts: hardware.PodmSummary) -> Iterator[tuple[str, dict[str, float]]]:
    every = {name: (service, *getattr(amounts, name)) for name, service in SERVICES.items()}
    every |= {name: ("storage", *pair) for name, pair in amounts.stocks.items()}
    for name, (service, free, total) in every.items():
        if free is not None and total:
            yield service, {name: free}


def _reported(stats: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the numbers of each service in a report such as ``{"compute": {"cpu": 0.7}}``."""
    facts = stats.get("facts")
    for service, values in {**(facts if isinstance(facts, Mapping) else {}), **stats}.items():
        if isinstance(values, Mapping) and service not in ("facts", "amounts", "capabilities"):
            numbers = {
                name: float(value)
                for name, value in values.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
            yield service, numbers


def zone_node(
    name: str, podms: Sequence[hardware.PodmOverview], now: datetime, children: Sequence[ZoneNode]
) -> ZoneNode:
    """Return a zone of a tree, with the sums over its own pod managers (None if unknown)."""
    times = (one.podm.read_at for one in podms)
    ages_s = {at: age for at in times if (age := quantity.age_s(at, now)) is not None}
    oldest = max(ages_s, key=ages_s.__getitem__, default=None)
    amounts: dict[str, tuple[int | None, int | None]] = {}
    for resource in SERVICES:
        pairs = [getattr(one.amounts, resource) for one in podms]
        amounts[resource] = _sum(free for free, _ in pairs), _sum(total for _, total in pairs)
    return ZoneNode(
        name=name,
        own=ZoneAmounts(podms=len(podms), amounts=amounts if podms else {}),
        age_s=ages_s.get(oldest),
        read_at=oldest,
        children=tuple(children),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)
