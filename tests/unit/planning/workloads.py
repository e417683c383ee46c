# SPDX-License-Identifier: Apache-2.0
"""Workloads from text in one line, and flavors for them."""

import contextlib
import io
from typing import Any

from valence_sched.config.parsers import parse_flavors
from valence_sched.model.flavor import Flavor
from valence_sched.model.workload import WorkloadEntry, parse_trace_column
from valence_sched.planning.workload import FileWorkload

FLAVORS = {
    flavor.name: flavor
    for flavor in parse_flavors(
        b"""flavors:
- {name: cores, properties: {processor: {total_cores: 8}}}
- {name: card, properties: {processor: {total_cores: 8}, accelerators: [{}]}}
- {name: disk, properties: {resources: {gib: 3}}, policy: pack}
""",
        "test",
    )
}


def file_workload(
    text: str | bytes, name: str = "w.csv", *, sort: bool = False, **columns: str
) -> FileWorkload:
    """Return the workload of a text; ``columns`` are of a trace, with ``__`` for each dot."""
    data = text.encode() if isinstance(text, str) else text

    @contextlib.contextmanager
    def opened():
        yield io.BytesIO(data)

    sources = {field.replace("__", "."): parse_trace_column(source)
               for field, source in columns.items()}  # fmt: skip
    return FileWorkload(name, opened, tuple, sources, sort=sort)


def entries_of(
    text: str | bytes, name: str = "w.csv", flavors: dict[str, Flavor] = FLAVORS, **words: Any
) -> list[WorkloadEntry]:
    return list(file_workload(text, name, **words).entries(flavors))


def times(entries: list[WorkloadEntry]) -> list[tuple[float, float | None]]:
    return [(one.arrival, one.departure) for one in entries]
