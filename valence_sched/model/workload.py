# SPDX-License-Identifier: Apache-2.0
"""Workloads: requests with the times of arrival and departure, and columns of traces."""

import datetime
import math
import re
from typing import Annotated

from msgspec import Meta, Struct

from valence_sched.model.base import Noun
from valence_sched.model.quantity import parse_age
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec

#: Seconds, or a duration as people write it.
Duration = (
    Annotated[float, Meta(ge=0, le=10**15)]
    | Annotated[str, Meta(pattern=r"^\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$")]
)
#: Seconds or a duration since a moment that all lines share, or a date and time.
Moment = Annotated[float, Meta(ge=0, le=10**15)] | Annotated[str, Meta(min_length=1)]

TIMES = ("arrival", "departure", "duration")
MOST_SECONDS = 1e15
MOST_RATE = 1e9  # requests per second

_SOURCE = re.compile(r"(?P<column>.+?)(?:(?P<operator>[*/])(?P<number>[0-9]+(?:\.[0-9]+)?))?")


class WorkloadLine(RequestSpec, frozen=True, kw_only=True):
    """One request of a workload, its arrival, and the departure of its nodes.

    ``arrival`` defaults to the arrival of the previous line; 0 for the first line. Its nodes depart
    at ``departure`` or after ``duration``, else never.
    """

    arrival: Moment | None = None
    departure: Moment | None = None
    duration: Duration | None = None


class WorkloadEntry(Struct, frozen=True, gc=False):
    """One compiled request of a workload, with times in seconds; ``departure`` None means never."""

    arrival: float
    departure: float | None
    request: Request
    line: int


class TraceColumn(Noun, frozen=True, kw_only=True):
    """The column of a recorded trace for a field, and the factor of its numbers."""

    column: Annotated[str, Meta(min_length=1)]
    factor: Annotated[float, Meta(gt=0)] = 1.0


class TraceFile(Noun, frozen=True, kw_only=True):
    """The columns of a recorded trace for the fields of a workload.

    ``/1000`` or ``*60`` after a column converts its unit.
    """

    columns: Annotated[dict[str, str], Meta(min_length=1)]


def parse_trace_column(text: str) -> TraceColumn:
    """Parse ``creation_time``, ``cpu_milli/1000`` or ``minutes*60``; ValueError for a factor of 0.

    Worked example: ``cpu_milli/1000`` reads 3152 as 3.152, which is rounded up to 4 cores, as only
    whole cores can be requested.
    """
    match = _SOURCE.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text[:60]!r}, expected a column such as creation_time or cpu_milli/1000"
        )
    number = float(match["number"] or 1)
    if not number:
        raise ValueError(f"{text[:60]!r}, expected a factor above 0")
    factor = 1.0 / number if match["operator"] == "/" else number
    return TraceColumn(column=match["column"], factor=factor)


def parse_duration(value: float | str) -> float:
    """Return the seconds of ``90``, ``30s``, ``2h`` or ``3d``; ValueError for other texts."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{str(value)[:40]!r}, expected a number of seconds")
    try:
        seconds = float(value)
    except ValueError:
        try:
            return parse_age(str(value))
        except ValueError:
            shown = f"{str(value)[:40]!r}"
            raise ValueError(f"{shown}, expected a duration such as 90s, 2h or 3d") from None
    if not 0.0 <= seconds <= MOST_SECONDS:
        if seconds < 0.0:
            raise ValueError(f"{seconds:g}, expected seconds from 0 on")
        raise ValueError(f"{'nan' if math.isnan(seconds) else f'{seconds:g}'}, expected a time")
    return seconds


def parse_moment(value: float | str) -> float:
    """Return the seconds of a number, a duration or a time (UTC); ValueError for others."""
    try:
        return parse_duration(value)
    except ValueError:  # most are numbers, which are read fastest
        if not isinstance(value, str) or len(value) < 8 or "-" not in value[1:]:
            raise
    try:
        moment = datetime.datetime.fromisoformat(value.strip())
    except ValueError:
        example = "2026-01-05T08:00:00Z"
        raise ValueError(f"{value[:40]!r}, expected a time such as 90s, 3d or {example}") from None
    zone = moment.tzinfo or datetime.UTC
    return moment.replace(tzinfo=zone).timestamp()


class SyntheticSpec(Noun, frozen=True, kw_only=True):
    """The parameters of a synthetic workload.

    On average ``rate_per_s`` requests arrive per second until ``horizon_s``; ``mix`` has the share
    of each flavor. Nodes live for ``lifetime_s`` on average, None: for ever.
    """

    rate_per_s: Annotated[float, Meta(gt=0)]
    mix: Annotated[dict[str, Annotated[float, Meta(gt=0)]], Meta(min_length=1)]
    horizon_s: Annotated[float, Meta(gt=0)]
    lifetime_s: Annotated[float, Meta(gt=0)] | None = None
    seed: Annotated[int, Meta(ge=0)] = 0


def parse_rate(text: str) -> float:
    """Parse ``10/h``, ``0.5/s`` or ``200/2d`` into requests per second above 0; else ValueError."""
    number, slash, period = text.strip().partition("/")
    try:
        seconds = parse_duration(period if period[:1].isdigit() else f"1{period}")
        rate = float(number) / seconds
    except (ValueError, ZeroDivisionError):
        rate = 0.0
    if not slash or not period or not 0.0 < rate <= MOST_RATE:
        raise ValueError(f"must be a rate such as 10/h or 0.5/s, got {text[:40]!r}")
    return rate
