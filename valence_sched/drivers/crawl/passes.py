# SPDX-License-Identifier: Apache-2.0
"""Read passes: fetches and reads documents again until no document is missing.

Where documents bring what stands below them, reading may need no more than the root links, so
it is tried at once: following documents that are there costs as much as reading them.
"""

from __future__ import annotations

from typing import NamedTuple

from valence_sched.drivers.crawl.crawler import Crawler, fetch_task
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.fields import Json, Link
from valence_sched.drivers.links import ROOT, DocumentNotes, LinkedDocuments
from valence_sched.errors import PodmError
from valence_sched.model.inventory import FullPodm

#: How often the reader may want more documents.
MAX_PASSES = 20


class ReadPass(NamedTuple):
    """The result of one pass: the documents that it read, and those that were missing."""

    notes: DocumentNotes
    podm: FullPodm
    read: dict[str, Json]
    missing: list[str]


def read_in_passes(
    crawl: Crawler, dialect: Dialect, root: Json | None, name: str, host: str
) -> ReadPass:
    """Return the last pass: the documents are read again as long as the reader wants more."""
    if root is None:
        _defer_usual_links(crawl, dialect)
        crawl.fetch([])
    else:
        crawl.add(ROOT, root)
        whole = fetch_task(ROOT, dialect.root)
        if crawl.expands:
            crawl.fetch(crawl.below(whole), deep=False)
            found = _run_pass(crawl, dialect, name, host)
            if not found.missing:
                return found
        crawl.fetch([whole])
    for _ in range(MAX_PASSES):
        found = _run_pass(crawl, dialect, name, host)
        if not found.missing:
            return found
        for uri in (*found.read, *found.missing):
            crawl.queue_deferred(uri)
        crawl.fetch([])
    raise PodmError(f"its documents lead on without end ({MAX_PASSES} times)")


def _defer_usual_links(crawl: Crawler, dialect: Dialect) -> None:
    """Defer the documents at the usual URIs below a root that is missing."""
    for way in vars(dialect.root).values():
        if isinstance(way, Link):
            crawl.defer(fetch_task(f"{ROOT}/{way.path}", way.to, way.levels))


def _run_pass(crawl: Crawler, dialect: Dialect, name: str, host: str) -> ReadPass:
    """Read with the documents that are there."""
    notes = DocumentNotes()
    read: dict[str, Json] = {}
    missing: list[str] = []

    def get(uri: str) -> Json | None:
        try:
            found = crawl.get(uri)
        except KeyError:
            missing.append(uri)
            return None
        if found is not None:
            read[uri] = found
        return found

    service = LinkedDocuments(get, notes, crawl.spellings(), host)
    return ReadPass(notes, dialect.read(service, name, dialect.name), read, missing)
