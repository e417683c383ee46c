# SPDX-License-Identifier: Apache-2.0
"""Files of a sweep: its runs as JSON Lines, CSV or Parquet, by the name of the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from valence_sched.errors import SchedulerError, UsageError
from valence_sched.model.sweep import SweepRun, to_line

Encode = Callable[[Sequence[SweepRun]], bytes]


def encoder(file: str) -> Encode:
    """Return what encodes runs as the name of a file says.

    Raises:
        UsageError: it does not end in .jsonl, .csv or .parquet.
        SchedulerError: the library for Parquet is not installed.
    """
    suffix = PurePath(file).suffix
    if suffix == ".jsonl":
        return _json_lines
    if suffix == ".csv":
        return _csv
    if suffix == ".parquet":
        return _parquet_encoder()
    raise UsageError(f"--output: {file[:60]!r} does not end in .jsonl, .csv or .parquet")


def _json_lines(runs: Sequence[SweepRun]) -> bytes:
    return b"".join(map(to_line, runs))


def _csv(runs: Sequence[SweepRun]) -> bytes:
    """Return a row for each run; a measure that a run has no number of is an empty cell."""
    text = io.StringIO(newline="")
    columns = _columns(runs)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _parquet_encoder() -> Encode:
    try:
        import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]
        from pyarrow import parquet  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        text = "a .parquet file needs pyarrow: pip install 'valence-sched[parquet]'"
        raise SchedulerError(text) from None

    def encode(runs: Sequence[SweepRun]) -> bytes:
        types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
        columns = {name: pyarrow.array(cells, types[_kind(cells)])
                   for name, cells in _columns(runs).items()}  # fmt: skip
        stream = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), stream)
        return stream.getvalue()

    return encode


def _columns(runs: Sequence[SweepRun]) -> dict[str, list[Any]]:
    """Return the cells of each column; of two runs with other resources each lacks some."""
    rows = [run.cells() for run in runs]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _kind(cells: Sequence[Any]) -> type:
    """Return the type of a column: of text, of whole numbers, or else of numbers."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {str} or not kinds:
        return str if kinds else float
    return int if kinds == {int} else float
