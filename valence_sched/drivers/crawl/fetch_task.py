# SPDX-License-Identifier: Apache-2.0
"""The task to fetch one document."""

from __future__ import annotations

from typing import NamedTuple

from valence_sched.drivers.fields import Resource
from valence_sched.drivers.links import fold_uri
from valence_sched.drivers.short_links import places_below


class FetchTask(NamedTuple):
    """A document to fetch: its URI, the same folded, its resource class, the levels below it.

    ``parent`` is the document that links it, and ``instead`` are the URIs to try where it is gone;
    None where it is the link itself that is tried.
    """

    uri: str
    key: str
    to: type[Resource]
    levels: int = 0
    parent: str = ""
    instead: tuple[str, ...] | None = None

    def elsewhere(self) -> FetchTask | None:
        """Return the task for the next URI that the link may mean, None when there is none."""
        places = self.instead
        if places is None:
            places = tuple(places_below(self.parent, self.uri))
        if not places:
            return None
        return self._replace(uri=places[0], key=fold_uri(places[0]), instead=places[1:])


def fetch_task(uri: str, to: type[Resource], levels: int = 0) -> FetchTask:
    """Return the task to fetch a document."""
    return FetchTask(uri, fold_uri(uri), to, levels)
