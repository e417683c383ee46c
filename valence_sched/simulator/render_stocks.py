# SPDX-License-Identifier: Apache-2.0
"""Stocks that are memory as Redfish memory domains, with a chunk for what is in use."""

from __future__ import annotations

import re

from valence_sched.drivers.fields import Json
from valence_sched.drivers.stocks import PERSISTENT, VOLATILE
from valence_sched.model.inventory import FullPodm, Stock
from valence_sched.simulator.sheet import Sheet, link, links

_IN_CHASSIS = re.compile(r"(?P<chassis>/(?:.*/)?Chassis/[^/?#]+)/MemoryDomains/[^/?#]+", re.I)


def is_memory(stock: Stock, podm: FullPodm) -> bool:
    """Return whether a memory domain says at least as much of a stock as the inventory does.

    Redfish does not say which zones reach a domain, so one that some pools cannot reach would
    be read as more than there is; nor has it parts of a MiB, or a largest grant.
    """
    amounts = (stock.total or 0.0, stock.used, stock.min, stock.step)
    return (
        stock.resource in (VOLATILE, PERSISTENT)
        and stock.unit == "MiB"
        and stock.max is None
        and set(stock.pools) == {pool.id for pool in podm.pools}
        and all(amount.is_integer() for amount in map(float, amounts))
    )


def chassis_of(uri: str) -> str | None:
    """Return the chassis that the URI of a memory domain stands below, if it tells one."""
    found = _IN_CHASSIS.fullmatch(uri)
    return found["chassis"] if found else None


def domain(sheet: Sheet, uri: str, stock: Stock) -> str:
    """Write a memory domain and its chunk; return its URI, at which it was kept."""
    chunks = [_chunk(sheet, uri, stock)] if stock.used else []
    body = {
        "Status": {"State": "Enabled", "Health": "OK"},
        "AllowsMemoryChunkCreation": True,
        "AllowsBlockProvisioning": False,
        "MemorySizeMiB": _mib(stock.total),
        "MinMemoryChunkSizeMiB": _mib(stock.min) or None,
        "MemoryChunkIncrementMiB": _mib(stock.step) or None,
        "MemoryChunks": link(_chunks(sheet, uri, chunks)),
        "InterleavableMemorySets": _sets(sheet, uri, stock),
    }
    return sheet.put(uri, "MemoryDomain", stock.name, body)


def _chunks(sheet: Sheet, uri: str, chunks: list[str]) -> str:
    return sheet.collection(sheet.own(f"{uri}/MemoryChunks"), "MemoryChunks", chunks)


def _chunk(sheet: Sheet, uri: str, stock: Stock) -> str:
    keeps = stock.resource == PERSISTENT
    size = {
        "MemoryChunkSizeMiB": _mib(stock.used),
        "AddressRangeType": "PMEM" if keeps else "Volatile",
    }
    return sheet.put(sheet.own(f"{uri}/MemoryChunks/InUse"), "MemoryChunks", None, size)


def _sets(sheet: Sheet, uri: str, stock: Stock) -> list[Json] | None:
    """Return the modules of a persistent domain: without chunks they alone tell what it is."""
    if stock.resource != PERSISTENT:
        return None
    module = {"MemoryType": "NVDIMM_P", "CapacityMiB": _mib(stock.total)}
    place = sheet.put(sheet.own(f"{uri}/Memory/1"), "Memory", None, module)
    return [{"MemorySet": links([place])}]


def _mib(amount: float | None) -> int | None:
    return None if amount is None else int(amount)
