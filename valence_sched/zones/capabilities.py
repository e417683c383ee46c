# SPDX-License-Identifier: Apache-2.0
"""Capabilities of a zone: what its hosts report, rolled up, and what they rule out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping


def rolled_up(
    reports: Iterable[tuple[str, Mapping[str, float]]],
    below: Iterable[Mapping[str, tuple[float, ...]]] = (),
) -> dict[str, tuple[float, ...]]:
    """Return the least and the most that the hosts of each service report.

    ``reports`` has the service and the numbers of one host each; the result has
    ``<service>_<capability>``, and so has what each zone ``below`` rolled up. Unknown numbers (NaN)
    do not count.
    """
    found: dict[str, tuple[float, ...]] = {}
    for ranges in below:
        for key, pair in ranges.items():
            both = *found.get(key, pair), *pair
            found[key] = (min(both), max(both))
    for service, numbers in reports:
        for name, value in numbers.items():
            if math.isnan(value):
                continue
            key = f"{service}_{name}"
            least, most = found.get(key, (value, value))
            found[key] = (min(least, value), max(most, value))
    return found


def why_ruled_out(
    capabilities: Mapping[str, Collection[str]], required: Mapping[str, Collection[str]]
) -> str | None:
    """Return why no pod manager of a zone has what a request requires, None if one may.

    Of every key one of the required values suffices, as for a pod manager. A key that the zone
    does not speak of rules nothing out.
    """
    for key, wanted in sorted(required.items()):
        have = capabilities.get(key)
        if have and not set(have).intersection(wanted):
            return f"capability {key}: needs {';'.join(wanted)}, has {';'.join(sorted(have))}"
    return None
