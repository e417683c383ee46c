# SPDX-License-Identifier: Apache-2.0
"""Short links: links that lack the path of the document in which they stand.

A hub that aggregates agents may serve their documents below a path of its own, and leave the
links in them as the agents wrote them. Such a link is followed only where nothing stands at it.
"""

from __future__ import annotations

from collections.abc import Iterator

#: Segments of the path of the service root.
_ROOT = ("redfish", "v1")
#: Places that are tried for one link.
MAX_PLACES = 8


def places_below(parent: str, link: str) -> list[str]:
    """Return the URIs that a link without the path of its document may mean, the likeliest first.

    ``parent`` and ``link`` are paths. What ends the one and begins the other is not repeated.

    >>> places_below("/redfish/v1/Agents/a/Systems/1", "/redfish/v1/Systems/1/Memory")[0]
    '/redfish/v1/Agents/a/Systems/1/Memory'
    >>> places_below("/redfish/v1/Agents/a", "/Systems/1")
    ['/redfish/v1/Agents/a/Systems/1', '/redfish/v1/Agents/Systems/1', '/redfish/v1/Systems/1']
    """
    path, mark, query = link.partition("?")
    above, rest = _segments(parent.partition("#")[0].partition("?")[0]), _segments(path)
    if not rest or _overlap(above, rest) == len(above) > 0:
        return []
    head = "/" + "/".join(_ROOT)
    found = (f"{head}/{'/'.join(place)}{mark}{query}" for place in _places(above, rest))
    return [uri for uri in dict.fromkeys(found) if uri.casefold() != link.casefold()][:MAX_PLACES]


def _places(above: list[str], rest: list[str]) -> Iterator[list[str]]:
    if shared := _overlap(above, rest):
        yield above + rest[shared:]
    for length in range(len(above), -1, -1):
        yield above[:length] + rest


def _overlap(above: list[str], rest: list[str]) -> int:
    """Return how many segments end the one and begin the other."""
    old, new = [part.casefold() for part in above], [part.casefold() for part in rest]
    most = min(len(old), len(new))
    return next((n for n in range(most, 0, -1) if old[-n:] == new[:n]), 0)


def _segments(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    same = tuple(part.casefold() for part in parts[:2]) == _ROOT
    return parts[2:] if same else parts
