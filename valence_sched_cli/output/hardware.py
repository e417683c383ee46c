# SPDX-License-Identifier: Apache-2.0
"""Cells of hardware: grouped devices, bars, and amounts in the units that people compare."""

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from valence_sched.model.hardware import PodmSummary
from valence_sched.model.quantity import format_mib, format_mib_of
from valence_sched.words import phrases as words
from valence_sched_cli.output.cells import Amount, AmountLines, Shown, format_value, painted

WIDTH = 30  # characters of a cell with the devices of a block
AMOUNT_WIDTH = 16  # characters of such a cell beside the long name of an amount
RECORD_WIDTH = 60  # characters of such a cell if each title has its own line
_GLUE = "\N{NO-BREAK SPACE}"
BAR_WIDTH = 10  # characters between the brackets of a bar
AMOUNTS = {
    "blocks": "Blocks",
    "cores": "Cores",
    "memory_mib": "Memory MiB",
    "gpus": "GPUs",
    "accelerators": "Accelerators",
    "drives": "Drives",
    "nics": "NICs",
}


def _phrases_cell(
    value: Any,
    phrases: Callable[[Any], str | Iterable[str]],
    width: int,
    machine: Callable[[Any], Any] = msgspec.to_builtins,
) -> Shown[Any]:
    """Return a cell: people see folded phrases, programs the structure."""

    def people(value: Any) -> str:
        found = phrases(value)
        text = found if isinstance(found, str) else ", ".join(found)
        glued = re.sub(r"(?<=\d) (?=[KMGTP])", _GLUE, text)  # do not break "2 GiB"
        return textwrap.fill(glued, width).replace(_GLUE, " ")

    return Shown(value, people, machine)


def devices_cell(devices: Any, width: int = WIDTH) -> Shown[Any]:
    return _phrases_cell(devices, words.device_phrases, width)


def amount_cell(grant: Any) -> Shown[Any]:
    return _phrases_cell(grant, words.grant_phrase, AMOUNT_WIDTH)


class BarCell(Shown[tuple[float | None, float | None]]):
    """A free amount of a total: a bar that shows the used share, and a text with the numbers."""

    def __init__(
        self,
        free: float | None,
        total: float | None,
        shown: Callable[[float], str] = "{:,}".format,
        unusable: str = "",
    ) -> None:
        free_text, of = ("unknown" if one is None else shown(one) for one in (free, total))
        text, self._used = f"{free_text} of {of} free", 0
        if unusable:
            text += f", 0 usable ({unusable})"
        elif free is not None and total:
            self._used = round(BAR_WIDTH * (total - free) / total)
            self._share = free / total
            text = f"[{('#' * self._used).ljust(BAR_WIDTH, '-')}] {text}"
        super().__init__((free, total), lambda _: text)

    def coloured(self, text: str) -> str:
        """Return the text of the cell; the colour of its bar shows the free share."""
        end = 1 + self._used
        return text[:1] + painted(text[1:end], self._share) + text[end:] if self._used else text


def node_hardware_cell(status: Any, width: int = WIDTH) -> Shown[Any]:
    def machine(status: Any) -> Any:
        devices, grants = msgspec.to_builtins((status.devices, status.node.grants))
        more = {"amounts": grants, "unknown_blocks": status.unknown_blocks}
        return {**devices, **{name: value for name, value in more.items() if value}}

    return _phrases_cell(status, words.node_phrases, width, machine)


def pools_cell(pools: Mapping[str, PodmSummary]) -> Shown[Mapping[str, PodmSummary]]:
    """Return the cell of free amounts by pool ID: people see a line each, programs numbers."""

    def people(pools: Mapping[str, PodmSummary]) -> str:
        width = max(map(len, pools), default=0)
        every = ((pool, ", ".join(words.free_phrases(amounts))) for pool, amounts in pools.items())
        return "\n".join(f"{pool:{width}}  {text}" for pool, text in every)

    def machine(pools: Mapping[str, PodmSummary]) -> list[dict[str, Any]]:
        names, found = ("blocks", "cores", "memory_mib", "gpus", "drives"), []
        for pool, amounts in pools.items():
            free = {f"free_{name}": getattr(amounts, name)[0] for name in names}
            stocks = {f"free_{name}": number for name, (number, _) in amounts.stocks.items()}
            found.append({"pool": pool, **free, **stocks})
        return found

    return Shown(pools, people, machine)


def bar_cells(amounts: PodmSummary, unusable: str = "") -> dict[str, BarCell]:
    """Return a bar for each resource by title; only a text if there is a reason in ``unusable``."""
    names = [name for name in AMOUNTS if name != "accelerators"]
    pairs = {AMOUNTS[name].removesuffix(" MiB"): getattr(amounts, name) for name in names}
    shown: dict[str, Callable[[float], str]] = {"Memory": format_mib}
    shown |= dict.fromkeys(amounts.stocks, format_value)
    return {
        title: BarCell(pair[0], pair[1], shown.get(title, "{:,}".format), unusable)
        for title, pair in (pairs | dict(amounts.stocks)).items()
        if pair != (0, 0)
    }


class FreeCell(Amount[Any]):
    """A free amount of a total, such as ``224/432``; a table that is too wide shows ``brief``."""

    def __init__(self, free: float, total: float | None, in_mib: bool, usable: bool) -> None:
        brief = format_mib(free) if in_mib else f"{free:,}"
        format_pair = format_mib_of if in_mib else "{:,}/{:,}".format
        whole = brief if total is None else format_pair(free, total)
        marks = "{}" if usable or not free else "({})"
        super().__init__(free, lambda _: marks.format(whole))
        self.brief = lambda: marks.format(brief)


def amount_cells(amounts: PodmSummary) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, title in AMOUNTS.items():
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
    for name, title in AMOUNTS.items():
        free, total = getattr(amounts, name)
        if free is not None:
            total = total if of_total else None
            cells[f"Free {title}"] = FreeCell(free, total, name == "memory_mib", usable)
    return cells
