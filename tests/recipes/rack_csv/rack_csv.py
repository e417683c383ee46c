# SPDX-License-Identifier: Apache-2.0
"""The driver for pod managers that export their sleds as CSV: one file, one pod manager."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from valence_sched import (
    Accelerator,
    Devices,
    Diagnostics,
    Dialects,
    FullBlock,
    FullPodm,
    InputError,
    Memory,
    Processor,
    Record,
    Status,
    to_json,
)

DRIVER = "rack_csv"
COLUMNS = ("sled", "cores", "memory_gib", "gpus", "gpu_model", "used_by")


def records(
    source: str, stdin: BinaryIO, diagnostics: Diagnostics, dialects: Dialects
) -> Iterator[Record]:
    """Yield the pod manager of a CSV file; ``diagnostics`` gets each row that is left out.

    A driver of Redfish trees would read them by ``dialects``.

    Raises:
        InputError: the columns are not those of this dialect.
    """
    data = stdin.read() if source == "-" else Path(source).read_bytes()
    rows = csv.DictReader(io.StringIO(data.decode()))
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise InputError(source, "line 1", str(rows.fieldnames), ",".join(COLUMNS))
    podm = FullPodm(
        id=Path(source).stem, driver=DRIVER, blocks=tuple(_blocks(rows, source, diagnostics))
    )
    yield Record(to_json(podm), source, "$")


def _blocks(rows: csv.DictReader[str], file: str, diagnostics: Diagnostics) -> Iterator[FullBlock]:
    for row in rows:
        try:
            yield _block(row)
        except (TypeError, ValueError) as error:
            place = f"line {rows.line_num}"
            diagnostics.skip(InputError(file, place, str(error), "a sled", "left out"))


def _block(row: dict[str, str]) -> FullBlock:
    gpus = int(row["gpus"])
    # A fact that is not in the export stays unknown; 0 would mean that it does not exist.
    gib = row["memory_gib"]
    return FullBlock(
        uri=f"/sleds/{row['sled']}",
        type=("ComputerSystem",),
        status=Status(state="Composed" if row["used_by"] else "Unused"),
        devices=Devices(
            processors=(Processor(cores=int(row["cores"])),),
            memory=(Memory(capacity_mib=int(gib) * 1024 if gib else None),),
            accelerators=(Accelerator(kind="GPU", count=gpus, model=row["gpu_model"]),)
            if gpus
            else (),
        ),
    )


if __name__ == "__main__":
    skipped = Diagnostics()
    for record in records(sys.argv[1], sys.stdin.buffer, skipped, {}):
        sys.stdout.buffer.write(record.json + b"\n")
    sys.stderr.writelines(f"{line}\n" for line in skipped.lines())
