# SPDX-License-Identifier: Apache-2.0
"""Amounts with a unit or a noun, as people write them: ``256GiB``, ``10Gbps``, ``1 node``.

A name that ends in a unit (``capacity_mib``, ``speed_mbps``, ``DISK_GB``) says what its numbers
mean, so an amount with a unit is a number for it. Placement's ``_MB`` and ``_GB`` mean MiB and GiB.
"""

import re

_BITS_PER_SECOND = ("bps", "b/s", "bit/s", "bit")
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {f"{prefix}i": 1 << 10 * power for power, prefix in enumerate("KMGTP", 1)}

#: Unit to its dimension and its size in bytes, bits a second, or hertz.
UNITS = (
    {f"{prefix}B": ("bytes", size) for prefix, size in (_DECIMAL | _BINARY).items()}
    | {prefix: ("bytes", size) for prefix, size in _BINARY.items()}
    | {f"{prefix}{unit}": ("bits a second", size)
       for prefix, size in _DECIMAL.items() for unit in _BITS_PER_SECOND}
    | {f"{prefix}Hz": ("hertz", size) for prefix, size in _DECIMAL.items()}
)  # fmt: skip

#: The end of a name, in small letters, to the unit of its numbers.
_SUFFIXES = {
    "bytes": "B",
    "mib": "MiB",
    "mb": "MiB",
    "gib": "GiB",
    "gb": "GiB",
    "mbps": "Mbps",
    "kilobit_per_sec": "kbps",
    "mhz": "MHz",
}
_SUFFIX = re.compile(rf"(?:.*_)?({'|'.join(_SUFFIXES)})", re.IGNORECASE)
PATTERN = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z][A-Za-z/]{0,5})"
_QUANTITY = re.compile(PATTERN)
_PLURAL = re.compile(r"\b(core|socket|block)s\b")
_EXAMPLES = {"bytes": "256GiB, 1.5TB", "bits a second": "10Gbps", "hertz": "2.8GHz"}


def unit_of(name: str) -> str | None:
    """Return the unit of the numbers of a name that ends in one, else None."""
    match = _SUFFIX.fullmatch(name)
    return _SUFFIXES[match[1].lower()] if match else None


def resource_title(name: str) -> str:
    """Return a resource as people call it, without its unit: ``memory_mib`` is memory."""
    words = name.rpartition("_")[0] if unit_of(name) and "_" in name else name
    return words.replace("_", " ").replace("cxl", "CXL")


def is_quantity(text: str) -> bool:
    """Return whether a text is a number with a word behind it."""
    return _QUANTITY.fullmatch(text.strip()) is not None


def quantity_in(text: str, unit: str) -> float:
    """Return an amount with a unit as a number of ``unit``, an int where it is a whole one.

    Raises:
        ValueError: no such unit, a unit of another dimension, or not a number with a unit.
    """
    dimension, size = UNITS[unit]
    expected = f"such as {_EXAMPLES[dimension]}"
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a number with a unit, {expected}")
    found = _find_unit(match[2])
    if found is None:
        raise ValueError(f"{text[:40]!r} has no unit that is known, {expected}")
    if found[0] != dimension:
        raise ValueError(f"{text[:40]!r} is in {found[0]}, expected {dimension}, {expected}")
    from fractions import Fraction  # only for what a person wrote

    amount = Fraction(match[1]) * found[1] / size
    return int(amount) if amount.denominator == 1 else float(amount)


def _find_unit(word: str) -> tuple[str, int] | None:
    """Find a unit as it is written, else one that is all in small letters or all in capitals."""
    exact = UNITS.get(word)
    if exact or not (word.islower() or word.isupper()):
        return exact
    alike = {UNITS[unit] for unit in UNITS if unit.lower() == word.lower()}
    return alike.pop() if len(alike) == 1 else None


def format_bytes(number: float) -> str:
    """Return a number of bytes in the largest binary unit of which there is one: ``3.5 TiB``."""
    return _in_largest(number, {f"{prefix}B": size for prefix, size in reversed(_BINARY.items())})


def format_mib(number: float) -> str:
    """Return a number of MiB as :func:`format_bytes` does, ``0`` for none."""
    return format_bytes(number * (1 << 20)) if number else "0"


def format_mbps(number: float) -> str:
    """Return a rate in Mbps in the largest decimal unit of which there is one: ``25 Gbps``."""
    return _in_largest(number, {"Tbps": 10**6, "Gbps": 10**3, "Mbps": 1})


def format_count(number: float, noun: str, plural: str = "") -> str:
    """Return a number of things: ``1 node``, ``1,000 nodes``; ``plural`` where it is irregular."""
    whole = int(number) if number == int(number) else number
    return f"{whole:,} {noun if number == 1 else plural or f'{noun}s'}"


def agree(number: float, label: str) -> str:
    """Return a label that begins with a plural, such as ``cores EPYC``, as it stands behind 1."""
    return _PLURAL.sub(r"\1", label, count=1) if number == 1 else label


def _in_largest(number: float, units: dict[str, int]) -> str:
    """Return a number with at most three digits, or as many as it has before the point."""
    for unit, size in units.items():
        if number >= size:
            amount = number / size
            digits = 0 if amount >= 100 else 1
            text = f"{amount:,.{digits}f}"
            return f"{text.removesuffix('.0')} {unit}"
    return f"{number / size:.3g} {unit}"
