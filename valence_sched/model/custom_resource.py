# SPDX-License-Identifier: Apache-2.0
"""Custom resources: resources that an operator declares, added as stocks to pod managers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from valence_sched.errors import one_line, suggest
from valence_sched.model.base import Noun
from valence_sched.model.inventory import Amount, Name, Podm, Stock
from valence_sched.model.measures import MEASURES
from valence_sched.model.stock import free_amount

DECLARED_SCHEME = "declared:"  # with which the URIs of declared stocks begin


class CustomResource(Noun, frozen=True, kw_only=True):
    """A resource that an operator declares, and how much of it each pod manager or pool has.

    The amount is the entry of the pod manager's id or name in ``podms``, else the number in its
    ``fact``, else ``total``; a pod manager without any of these has none of the resource.
    ``used_fact`` names the fact that says how much is in use. ``min``, ``max`` and ``step`` are
    those of a stock.
    """

    name: Name
    unit: str = ""
    per: Literal["podm", "pool"] = "podm"
    total: Amount | None = None
    fact: str | None = None
    podms: dict[str, Amount] = {}
    used_fact: str | None = None
    min: Amount = 0.0
    max: Amount | None = None
    step: Amount = 0.0

    def __post_init__(self) -> None:
        # In the words of msgspec's own errors, so that the message names the path.
        if self.name in MEASURES:  # else $free.cores would be ambiguous
            raise ValueError(f"Expected a name other than {', '.join(MEASURES)}")
        if self.total is None and self.fact is None and not self.podms:
            raise ValueError("Expected at least one of total, fact, podms")
        if self.per == "pool" and self.used_fact is not None:
            raise ValueError("Expected used_fact only with per: podm")
        if self.max is not None and self.max < self.min:
            raise ValueError("Expected max of at least min")


class DeclaredStocks:
    """Adds the stocks of declared resources to pod managers; collects ``remarks`` about doubts."""

    def __init__(self, resources: Sequence[CustomResource]) -> None:
        self._resources = resources
        self._podm_names: set[str] = set()
        self.remarks: list[str] = []

    def all_stocks(self, podm: Podm[Any, Any]) -> tuple[Stock, ...]:
        """Return the stocks of a pod manager with the declared ones.

        A resource that the pod manager reports itself is not changed, and a remark says so. The
        present declaration replaces what an earlier one added, which its URI shows.
        """
        self._podm_names.update(name for name in (podm.id, podm.name) if name)
        stocks = list(podm.stocks)
        for resource in self._resources:
            uri = DECLARED_SCHEME + resource.name
            stocks = [stock for stock in stocks if stock.uri.partition("#")[0] != uri]
            if any(stock.resource == resource.name for stock in stocks):
                self._remark(
                    podm.id, f"tells {resource.name!r} itself: its declaration is not used"
                )
            else:
                stocks += self._stocks(resource, podm)
        return tuple(stocks)

    def unmatched_remarks(self) -> Iterator[str]:
        """Yield a remark on each pod manager that a declaration names and no inventory has."""
        for resource in self._resources:
            for name in resource.podms:
                if name not in self._podm_names:
                    hint = suggest(name, self._podm_names)
                    yield one_line(
                        f"resource {resource.name!r}: no pod manager named {name!r} ({hint})"
                    )  # fmt: skip

    def _stocks(self, resource: CustomResource, podm: Podm[Any, Any]) -> Iterator[Stock]:
        total = self._total(resource, podm)
        if total is None:
            return
        used = self._fact_amount(resource.used_fact, podm) or 0.0
        pools = tuple(pool.id for pool in podm.pools)
        uri = DECLARED_SCHEME + resource.name
        shares = [(uri, pools)]
        if resource.per == "pool" and pools:
            shares = [(f"{uri}#{pool}", (pool,)) for pool in pools]
        for name, members in shares:
            yield Stock(uri=name, resource=resource.name, unit=resource.unit, pools=members,
                        total=total, used=used, min=resource.min, max=resource.max,
                        step=resource.step)  # fmt: skip

    def _total(self, resource: CustomResource, podm: Podm[Any, Any]) -> float | None:
        for name in (podm.id, podm.name):
            if name in resource.podms:
                return resource.podms[name]
        amount = self._fact_amount(resource.fact, podm)
        return resource.total if amount is None else amount

    def _fact_amount(self, fact: str | None, podm: Podm[Any, Any]) -> float | None:
        """Return a fact that is an amount; None if it is missing or not an amount."""
        value = podm.facts.get(fact) if fact is not None else None
        if value is None:
            return None
        if isinstance(value, (int, float)) and math.isfinite(value) and value >= 0:
            return float(value)
        self._remark(podm.id, f"fact {fact!r} is {value!r} and no amount: counted as not told")
        return None

    def _remark(self, podm: str, text: str) -> None:
        self.remarks.append(one_line(f"pod manager {podm!r}: {text}"))


def with_declared_stocks(podm: Any, declared: DeclaredStocks | None) -> Any:
    """Return a pod manager, decoded or not, with the declared stocks."""
    if declared is None:
        return podm
    return msgspec.structs.replace(podm, stocks=declared.all_stocks(podm))


def declared_supplies(podm: Podm[Any, Any]) -> dict[str, float]:
    """Return the free amount of the declared stocks of a pod manager, by URI."""
    declared_stocks = (stock for stock in podm.stocks if stock.uri.startswith(DECLARED_SCHEME))
    return {stock.uri: free_amount(stock) for stock in declared_stocks}


def unique_by_name(resources: Iterable[CustomResource]) -> list[CustomResource]:
    """Return the resources, of each name only the last one."""
    return list({resource.name: resource for resource in resources}.values())
