# SPDX-License-Identifier: Apache-2.0
"""What the documents of a live pod manager say: fetch ahead, read, and fetch what was missing."""

from __future__ import annotations

from valence_sched.drivers.crawl import Crawl, Want
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.fields import Json, Link
from valence_sched.drivers.links import ROOT, Service
from valence_sched.drivers.notes import Notes
from valence_sched.errors import PodmError
from valence_sched.model.inventory import FullPodm

#: How often the reader may say that it wants more.
MAX_PASSES = 20


def understood(
    crawl: Crawl, dialect: Dialect, root: Json | None, name: str, host: str
) -> tuple[Notes, FullPodm, dict[str, Json]]:
    """Return what the documents say: read them again as long as the reader wants more."""
    if root is None:
        for way in vars(dialect.root).values():
            if isinstance(way, Link):
                crawl.put_off(Want(f"{ROOT}/{way.path}", way.to, way.levels))
    else:
        crawl.add(ROOT, root)
    crawl.fetch([Want(ROOT, dialect.root)] if root is not None else [])
    for _ in range(MAX_PASSES):
        notes = Notes()
        read: dict[str, Json] = {}
        missing: list[str] = []

        def get(
            uri: str, read: dict[str, Json] = read, missing: list[str] = missing
        ) -> Json | None:
            try:
                found = crawl.get(uri)
            except KeyError:
                missing.append(uri)
                return None
            if found is not None:
                read[uri] = found
            return found

        service = Service(get, notes.add, crawl.known(), host)
        podm = dialect.read(service, name, dialect.name)
        if not missing:
            return notes, podm, read
        for uri in (*read, *missing):
            crawl.ask(uri)
        crawl.fetch([])
    raise PodmError(f"its documents lead on without end ({MAX_PASSES} times)")
