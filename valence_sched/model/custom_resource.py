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

DECLARED_SCHEME = "declared:"  # how the URIs of declared stocks begin


class CustomResource(Noun, frozen=True, kw_only=True):
    """A kind of resource: how much of it each pod manager has, or each pool of it.

    The amount is what ``podms`` says of a pod manager's id or name, else the number that its
    ``fact`` tells, else ``total``; a pod manager of which none is told has none of it.
    ``used_fact`` tells how much is in use already. ``min``, ``max`` and ``step`` as of a stock.
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
        # Worded as msgspec words its own, so that the refusal names the place.
        if self.name in MEASURES:  # an expression could not tell $free.cores from the blocks'
            raise ValueError(f"Expected a name other than {', '.join(MEASURES)}")
        if self.total is None and self.fact is None and not self.podms:
            raise ValueError("Expected at least one of total, fact, podms")
        if self.per == "pool" and self.used_fact is not None:
            raise ValueError("Expected used_fact only with per: podm")
        if self.max is not None and self.max < self.min:
            raise ValueError("Expected max of at least min")


class DeclaredStocks:
    """Adds the stocks of declared resources to pod managers; ``remarks`` says what is doubtful."""

    def __init__(self, resources: Sequence[CustomResource]) -> None:
        self._resources = resources
        self._podm_names: set[str] = set()
        self.remarks: list[str] = []

    def all_stocks(self, podm: Podm[Any, Any]) -> tuple[Stock, ...]:
        """Return a pod manager's stocks with those declared.

        A resource that the pod manager tells itself stays as it tells it, and a remark says so.
        What an earlier declaration added (its URI says so) gives way to the present one.
        """
        self._podm_names.update(name for name in (podm.id, podm.name) if name)
        kept = list(podm.stocks)
        for resource in self._resources:
            uri = DECLARED_SCHEME + resource.name
            kept = [stock for stock in kept if stock.uri.partition("#")[0] != uri]
            if any(stock.resource == resource.name for stock in kept):
                self._remark(
                    podm.id, f"tells {resource.name!r} itself: its declaration is not used"
                )
            else:
                kept += self._stocks(resource, podm)
        return tuple(kept)

    def unmatched_remarks(self) -> Iterator[str]:
        """Yield a remark on each pod manager that was declared and never met."""
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
        told = self._fact_amount(resource.fact, podm)
        return resource.total if told is None else told

    def _fact_amount(self, fact: str | None, podm: Podm[Any, Any]) -> float | None:
        """Return a fact that is an amount, None when it is not told or is none."""
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
    """Return a podm, however far it is decoded, with the stocks that are declared."""
    if declared is None:
        return podm
    return msgspec.structs.replace(podm, stocks=declared.all_stocks(podm))


def declared_supplies(podm: Podm[Any, Any]) -> dict[str, float]:
    """Return what is left of the stocks that only their declaration tells of, by URI."""
    declared = (stock for stock in podm.stocks if stock.uri.startswith(DECLARED_SCHEME))
    return {stock.uri: free_amount(stock) for stock in declared}


def unique_by_name(resources: Iterable[CustomResource]) -> list[CustomResource]:
    """Return resources of which the last of each name wins."""
    return list({resource.name: resource for resource in resources}.values())
