# SPDX-License-Identifier: Apache-2.0
"""Hardware in words: devices as a phrase, sizes in the units that people compare."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from valence_sched.model.hardware import PodmOverview, PodmSummary
from valence_sched.model.quantity import format_count, format_mib, format_mib_of
from valence_sched.words.phrases import device_phrases
from valence_sched_cli.output.cells import (
    Amount,
    AmountLines,
    Cell,
    format_value,
    painted,
    to_builtins,
)

WIDTH = 30  # of a cell with the devices of a block
RECORD_WIDTH = 60  # of such a cell in the table of one object, or among lines of a title each
_GLUE = "\N{NO-BREAK SPACE}"
BAR_WIDTH = 10  # characters between the brackets of a bar


def _folded(phrases: Iterable[str], width: int) -> str:
    glued = re.sub(r"(?<=\d) (?=[KMGTP])", _GLUE, ", ".join(phrases))  # a number and its unit
    return textwrap.fill(glued, width).replace(_GLUE, " ")


class DevicesCell(Cell[Any]):
    """The devices of a block: phrases folded for people, the structure for machines."""

    def __init__(self, devices: Any, width: int = WIDTH) -> None:
        super().__init__(devices)
        self._width = width

    def human_readable(self) -> str:
        return _folded(device_phrases(self._value), self._width)

    def machine_readable(self) -> Any:
        return to_builtins([self._value])[0]


class BarCell(Cell[tuple[float | None, float | None]]):
    """A free amount of a total: a bar of the used share, and the numbers in words."""

    def __init__(
        self,
        free: float | None,
        total: float | None,
        shown: Callable[[float], str] = "{:,}".format,
        unusable: str = "",
    ) -> None:
        super().__init__((free, total))
        self._shown, self._unusable = shown, unusable

    def human_readable(self) -> str:
        free, total = self._value
        words = ["unknown" if amount is None else self._shown(amount) for amount in self._value]
        text = f"{words[0]} of {words[1]} free"
        if self._unusable:
            return f"{text}, 0 usable ({self._unusable})"
        if free is None or not total:
            return text
        return f"[{('#' * self._used).ljust(BAR_WIDTH, '-')}] {text}"

    def coloured(self, text: str) -> str:
        """Return the text of the cell; the colour of its bar shows the free share."""
        free, total = self._value
        if free is None or not total or not self._used or self._unusable:
            return text
        end = 1 + self._used
        return text[:1] + painted(text[1:end], free / total) + text[end:]

    @property
    def _used(self) -> int:
        free, total = self._value
        return round(BAR_WIDTH * (total - free) / total) if free is not None and total else 0


class NodeHardwareCell(Cell[Any]):
    """The hardware of a node: phrases folded for people; devices, amounts and gaps for machines."""

    width = WIDTH

    def human_readable(self) -> str:
        status = self._value
        phrases = [*device_phrases(status.devices, brief=True)]
        for grant in status.node.grants:
            words = (format_value(grant.amount), grant.unit, grant.resource)
            phrases.append(" ".join(filter(None, words)))
        if status.unknown_blocks:
            phrases.append(f"{format_count(status.unknown_blocks, 'block')} unknown")
        return _folded(phrases, self.width)

    def machine_readable(self) -> Any:
        status = self._value
        devices, *grants = to_builtins([status.devices, *status.node.grants])
        more = {"amounts": grants, "unknown_blocks": status.unknown_blocks}
        return {**devices, **{name: value for name, value in more.items() if value}}


class PoolsCell(Cell[Any]):
    """Free amounts by pool ID: a line each for people, numbers for machines."""

    _value: Mapping[str, PodmSummary]

    def human_readable(self) -> str:
        width = max(map(len, self._value), default=0)
        return "\n".join(
            f"{pool:{width}}  {', '.join(_free_phrases(amounts))}"
            for pool, amounts in self._value.items()
        )

    def machine_readable(self) -> list[dict[str, Any]]:
        pools = []
        for pool, amounts in self._value.items():
            names = ("blocks", "cores", "memory_mib", "gpus", "drives")
            free = {f"free_{name}": getattr(amounts, name)[0] for name in names}
            stocks = {f"free_{name}": number for name, (number, _) in amounts.stocks.items()}
            pools.append({"pool": pool, **free, **stocks})
        return pools


def _free_phrases(amounts: PodmSummary) -> Iterator[str]:
    cores, mib = amounts.cores[0], amounts.memory_mib[0]
    yield "unknown cores" if cores is None else format_count(cores, "core") if cores else "no cores"
    yield "unknown memory" if mib is None else format_mib(mib) if mib else "no memory"
    for number, word in ((amounts.gpus[0], "GPU"), (amounts.drives[0], "drive")):
        if number is None:
            yield f"unknown {word}s"
        elif number:
            yield format_count(number, word)
    for name, (free, _) in amounts.stocks.items():
        yield f"{'unknown' if free is None else format_value(free)} {name}"


def bar_cells(amounts: PodmSummary, unusable: str = "") -> dict[str, BarCell]:
    """Return a bar for each present resource, by its title.

    If ``unusable`` has a reason, the cell has only words: new nodes cannot use the resource.
    """
    number = "{:,}".format
    bars = {
        "Blocks": BarCell(*amounts.blocks, number, unusable),
        "Cores": BarCell(*amounts.cores, number, unusable),
        "Memory": BarCell(*amounts.memory_mib, format_mib, unusable),
        "GPUs": BarCell(*amounts.gpus, number, unusable),
        "Drives": BarCell(*amounts.drives, number, unusable),
        "NICs": BarCell(*amounts.nics, number, unusable),
        **{name: BarCell(*pair, format_value, unusable) for name, pair in amounts.stocks.items()},
    }
    return {title: bar for title, bar in bars.items() if bar._value != (0, 0)}


class FreeCell(Amount[Any]):
    """A free amount of a total: ``224/432`` for people, in parentheses if unusable.

    A table that is too wide shows ``brief``, the free amount alone.
    """

    def __init__(self, free: float, total: float | None, in_mib: bool, usable: bool) -> None:
        super().__init__(free, format_mib if in_mib else "{:,}".format)
        self._total, self._in_mib, self._usable = total, in_mib, usable

    def human_readable(self) -> str:
        if self._total is None:
            return self.brief()
        format_pair = format_mib_of if self._in_mib else "{:,}/{:,}".format
        return self._marked(format_pair(self._value, self._total))

    def brief(self) -> str:
        return self._marked(super().human_readable())

    def _marked(self, text: str) -> str:
        return text if self._usable or not self._value else f"({text})"


def usable_lines(podms: Iterable[PodmOverview]) -> Iterator[str]:
    """Yield the usable part of free amounts, if a part of them is unusable."""
    every = list(podms)
    unusable = Counter(one.podm.unusable for one in every if one.podm.unusable)
    if not unusable:
        return
    sums = dict.fromkeys(("cores", "memory_mib", "gpus"), 0)
    for one in every:
        for name in () if one.podm.unusable else sums:
            sums[name] += getattr(one.amounts, name)[0] or 0
    cores, mib, gpus = sums.values()
    amounts = f"{format_count(cores, 'core')}, {format_mib(mib)}, {format_count(gpus, 'GPU')}"
    why = ", ".join(f"{number:,} {word}" for word, number in sorted(unusable.items()))
    yield f"usable: {amounts}"
    yield f"in parentheses: free, but not usable ({why})"


def amount_cells(amounts: PodmSummary) -> dict[str, Any]:
    """Return the cells of free and total amounts by title."""
    cells: dict[str, Any] = {}
    for name, title in _AMOUNTS.items():
        for word, amount in zip(("Free", "Total"), getattr(amounts, name), strict=True):
            is_size = name == "memory_mib" and amount is not None
            cells[f"{word} {title}"] = Amount(amount, format_mib) if is_size else amount
    for number, word in enumerate(("Free", "Total")):
        stocks = {name: pair[number] for name, pair in amounts.stocks.items()}
        cells[f"{word} Stocks"] = AmountLines(stocks)
    return cells


def free_cells(amounts: PodmSummary, usable: bool, of_total: bool) -> dict[str, Any]:
    """Return the cells of the known free amounts, by title, as people see them."""
    cells = {}
    for name, title in _AMOUNTS.items():
        free, total = getattr(amounts, name)
        if free is not None:
            total = total if of_total else None
            cells[f"Free {title}"] = FreeCell(free, total, name == "memory_mib", usable)
    return cells


_AMOUNTS = {
    "blocks": "Blocks",
    "cores": "Cores",
    "memory_mib": "Memory MiB",
    "gpus": "GPUs",
    "accelerators": "Accelerators",
    "drives": "Drives",
    "nics": "NICs",
}
