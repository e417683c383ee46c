# SPDX-License-Identifier: Apache-2.0
"""Amounts with a unit or a noun as people write them, and ages; Placement's MB means MiB."""

import datetime
import math
import re
from typing import Any

from valence_sched.errors import InputError, must_be

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {f"{prefix}i": 1 << 10 * power for power, prefix in enumerate("KMGTP", 1)}
UNITS = {f"{prefix}B": ("bytes", size) for prefix, size in (_DECIMAL | _BINARY).items()}
UNITS |= {prefix: ("bytes", size) for prefix, size in _BINARY.items()}
UNITS |= {f"{prefix}Hz": ("hertz", size) for prefix, size in _DECIMAL.items()}
for _unit in ("bps", "b/s", "bit/s", "bit"):
    UNITS |= {f"{prefix}{_unit}": ("bits per second", size) for prefix, size in _DECIMAL.items()}

_SUFFIXES = {"bytes": "B", "mib": "MiB", "mb": "MiB", "gib": "GiB", "gb": "GiB", "mhz": "MHz"}
_SUFFIXES |= {"mbps": "Mbps", "kilobit_per_sec": "kbps"}
_SUFFIX = re.compile(rf"(?:.*_)?({'|'.join(_SUFFIXES)})", re.IGNORECASE)
PATTERN = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z][A-Za-z/]{0,5})"
_QUANTITY = re.compile(PATTERN)
_PLURAL = re.compile(r"\b(core|socket|block)s\b")
_EXAMPLES = {"bytes": "256GiB, 1.5TB", "bits per second": "10Gbps", "hertz": "2.8GHz"}
MIB_PER_UNIT = {"MiB": 1, "GiB": 1024}
AGE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_CLOCK_SKEW_S = 300.0  # between two hosts
_AGE_PATTERN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)")


def unit_of(name: str) -> str | None:
    """Return the unit in which a field name ends, None for other names."""
    match = _SUFFIX.fullmatch(name)
    return _SUFFIXES[match[1].lower()] if match else None


def resource_title(name: str) -> str:
    """Return a resource as people call it, without its unit: ``memory_mib`` is memory."""
    words = name.rpartition("_")[0] if unit_of(name) and "_" in name else name
    return words.replace("_", " ").replace("cxl", "CXL")


def is_quantity(text: str) -> bool:
    """Return whether a text is a number followed by a word."""
    return _QUANTITY.fullmatch(text.strip()) is not None


def quantity_in(text: str, unit: str) -> float:
    """Return an amount with a unit as a number of ``unit``, an int if whole; else ValueError."""
    dimension, size = UNITS[unit]
    expected = f"such as {_EXAMPLES[dimension]}"
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r}, expected a number with a unit, {expected}")
    found, word = UNITS.get(match[2]), match[2]
    if found is None and (word.islower() or word.isupper()):
        alike = {UNITS[one] for one in UNITS if one.lower() == word.lower()}
        found = alike.pop() if len(alike) == 1 else None
    if found is None:
        raise ValueError(f"{text[:40]!r}, expected a known unit, {expected}")
    if found[0] != dimension:
        raise ValueError(f"{text[:40]!r} in {found[0]}, expected {dimension}, {expected}")
    from fractions import Fraction  # most commands read no quantity

    amount = Fraction(match[1]) * found[1] / size
    return int(amount) if amount.denominator == 1 else float(amount)


def format_bytes(number: float) -> str:
    """Return a number of bytes in the largest binary unit: ``3.5 TiB``."""
    return _in_largest(number, {f"{prefix}B": size for prefix, size in reversed(_BINARY.items())})


def format_size(value: float, name: str) -> str:
    """Return an amount with the unit of its name, bytes and MiB as GiB: ``1,788.5 GiB``."""
    unit = unit_of(name) or name.replace("_", " ")
    gib = {"B": 1 << 30, "MiB": 1 << 10}.get(unit)
    if unit == "Mbps":
        return format_mbps(value)
    if gib is None:
        return f"{value:,g} {unit}"
    return f"{value / gib:,.1f}".removesuffix(".0") + " GiB"


def format_mib(number: float) -> str:
    """Return a number of MiB as :func:`format_bytes` does, 0 as ``0``."""
    return format_bytes(number * (1 << 20)) if number else "0"


def format_mib_of(number: float, total: float) -> str:
    """Return a part and a whole, given in MiB, in the unit of the whole: ``0.75/1.5 TiB``."""
    whole = format_mib(total)
    unit = whole.rpartition(" ")[2]
    amount = number * (1 << 20) / UNITS[unit][1] if unit in UNITS else number
    decimals = 2 if amount < 1 else 1 if amount < 100 else 0
    part = f"{amount:,.{decimals}f}"
    part = part.rstrip("0").rstrip(".") if decimals else part
    return f"{'<0.01' if number and part == '0' else part}/{whole}"


def format_mbps(number: float) -> str:
    """Return a rate in Mbps in the largest decimal unit: ``25 Gbps``."""
    return _in_largest(number, {"Tbps": 10**6, "Gbps": 10**3, "Mbps": 1})


def format_count(number: float, noun: str, plural: str = "") -> str:
    """Return a number of things: ``1 node``, ``1,000 nodes``; ``plural`` if it is irregular."""
    whole = int(number) if number == int(number) else number
    return f"{whole:,} {noun if number == 1 else plural or f'{noun}s'}"


def agree(number: float, label: str) -> str:
    """Return a label in singular for an amount of 1 (``core EPYC``), else in plural."""
    return _PLURAL.sub(r"\1", label, count=1) if number == 1 else label


def _in_largest(number: float, units: dict[str, int]) -> str:
    for unit, size in units.items():
        if (amount := number / size) >= 1:
            text = f"{amount:,.0f}" if amount >= 100 else f"{amount:,.1f}"
            return f"{text.removesuffix('.0')} {unit}"
    return f"{number / size:.3g} {unit}"


def parse_age(text: str) -> float:
    """Parse ``90``, ``30s``, ``10m``, ``2h`` or ``1d`` into seconds; ValueError for other texts."""
    match = _AGE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"must be an age such as 30s, 10m, 2h or 1d, got {text[:40]!r}")
    return float(match[1]) * AGE_UNITS[match[2] or "s"]


def parse_age_limit(text: str) -> float:
    """Parse an age in seconds; ``0`` and ``never`` are infinite. ValueError for other texts."""
    try:
        return math.inf if text.strip().casefold() == "never" else parse_age(text) or math.inf
    except ValueError:
        example = "an age such as 30s, 10m, 2h or 1d"
        raise ValueError(f"must be never or {example}, got {text[:40]!r}") from None


def format_age(seconds: float) -> str:
    """Format an age in the largest unit with a number of at least two: ``35s``, ``10m``, ``3d``."""
    unit = next((unit for unit in "dhm" if seconds >= 2 * AGE_UNITS[unit]), "s")
    return f"{int(seconds // AGE_UNITS[unit])}{unit}"


def check_time(text: str | None, file: str, place: str) -> None:
    """Raise InputError for a timestamp that is not ISO 8601; None passes."""
    try:
        if text is not None:
            datetime.datetime.fromisoformat(text)
    except ValueError:
        expected = "a time such as 2026-01-05T06:00:00Z"
        raise InputError(file, place, repr(text), expected) from None


def format_utc(text: str) -> str:
    """Return a timestamp in UTC with a Z; an invalid timestamp unchanged."""
    try:
        return _aware(text).astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return text


def _aware(text: str) -> datetime.datetime:
    then = datetime.datetime.fromisoformat(text)  # UTC if it has no zone
    return then if then.tzinfo else then.replace(tzinfo=datetime.UTC)


def age_s(read_at: str | None, now: datetime.datetime) -> float | None:
    """Return the seconds since a timestamp; None if it is missing, invalid or in the future."""
    try:
        seconds = (now - _aware(read_at or "")).total_seconds()
    except ValueError:
        return None
    return max(0.0, seconds) if seconds > -MAX_CLOCK_SKEW_S else None


def as_number(value: Any) -> float:
    """Return a value as a number, NaN if it is not a number, such as the name ``1_2``."""
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return math.nan  # Python reads 12
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def parse_percentage(text: str) -> float:
    """Parse a percentage above 0, at most 100, such as ``5%`` or ``5``, into a share."""
    share = as_number(text.strip().removesuffix("%"))
    if not 0.0 < share <= 100.0:
        raise must_be("a percentage above 0 and at most 100, such as 5%", text)
    return share / 100.0


def parse_resource_percentage(text: str) -> tuple[str | None, float]:
    """Parse ``5%``, or ``memory_mib=5%``, into a resource or None and a share."""
    name, _, percentage = text.rpartition("=")
    name = name.strip()
    return name or None, parse_percentage(percentage if name else text)
