# SPDX-License-Identifier: Apache-2.0
"""Policies: filters and weighers with weights and options, and the plug-ins they name."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from valence_sched.model.base import Noun
from valence_sched.model.need import Unknown

Weight = Annotated[float, Meta(ge=0, le=1000)]
PluginKind = Literal["filters", "weighers"]


class FilterUse(Noun, frozen=True):
    """A filter by name, with its options."""

    name: str
    options: dict[str, Any] = {}


class WeightOverrides(Noun, frozen=True):
    """Other weights by the aggregate or the zone of a pod manager.

    Of several aggregates, the smallest weight applies; an aggregate overrides a zone.
    """

    aggregate: dict[str, Weight] = {}
    zone: dict[str, Weight] = {}

    def __bool__(self) -> bool:
        return bool(self.aggregate or self.zone)


class WeigherUse(Noun, frozen=True):
    """A weigher by name, with its weight and its options."""

    name: str
    weight: Weight = 1.0
    options: dict[str, Any] = {}
    overrides: WeightOverrides = WeightOverrides()

    @property
    def max_weight(self) -> float:
        others = (*self.overrides.aggregate.values(), *self.overrides.zone.values())
        return max((self.weight, *others))


class Pick(Noun, frozen=True):
    """Pick the best pool, or a random pool of the ``best_of`` best to avoid conflicts."""

    best_of: Annotated[int, Meta(ge=1, le=1000)] = 1


class Budget(Noun, frozen=True, kw_only=True):
    """The limits of the searches of a decision; pools beyond the limits are undecided.

    ``pool_states`` limits the search for the blocks of a node in one pool, ``decision_states`` all
    such searches of a decision together. ``batch_fits`` limits the tried fits of several requests
    that are decided together, and the pools of their optimiser. ``solver_nodes`` limits the branch
    and bound of each of its integer programmes, and those of scheduler ``joint``.
    """

    pool_states: Annotated[int, Meta(ge=1, le=10_000_000)] = 200_000
    decision_states: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 2_000_000
    batch_fits: Annotated[int, Meta(ge=0, le=10_000_000)] = 20_000
    solver_nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 500


DEFAULT_BUDGET = Budget()
#: How scheduler ``joint`` chooses among placements with the same number of nodes.
Goal = Literal["most-nodes", "least-cost", "least-fragmentation", "fewest-podms", "spread"]


# Not a subclass of PolicyText: the digest of a policy covers the encoded bytes of this class.
class Policy(Noun, frozen=True, kw_only=True):
    """A named list of filters and of weighted weighers, in the order in which they run.

    ``goals`` are for scheduler ``joint``, in order; the number of placed nodes always has
    precedence. With ``shrink: last``, a plan takes blocks from shrinkable nodes if nothing else is
    free.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    description: str = ""
    scheduler: str = "filter"
    filters: tuple[FilterUse, ...] = ()
    weighers: tuple[WeigherUse, ...] = ()
    pick: Pick = Pick()
    unknown: Unknown = "reject"
    budget: Budget = DEFAULT_BUDGET
    goals: tuple[Goal, ...] = ()
    shrink: Literal["never", "last"] = "never"


class PolicyText(Noun, frozen=True, kw_only=True):
    """A policy as people write it: a filter or weigher without options is just its name."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    description: str = ""
    scheduler: str = "filter"
    filters: tuple[str | FilterUse, ...] = ()
    weighers: tuple[str | WeigherUse, ...] = ()
    pick: Pick = Pick()
    unknown: Unknown = "reject"
    budget: Budget = DEFAULT_BUDGET
    goals: tuple[Goal, ...] = ()
    shrink: Literal["never", "last"] = "never"

    def policy(self) -> Policy:
        filters = tuple(FilterUse(use) if isinstance(use, str) else use for use in self.filters)
        weighers = tuple(WeigherUse(use) if isinstance(use, str) else use for use in self.weighers)
        fields = msgspec.structs.asdict(self)
        return Policy(**(fields | {"filters": filters, "weighers": weighers}))


class PodmReads(Noun, frozen=True, kw_only=True):
    """The fields of pod managers that decisions of a policy read; other fields may be missing.

    ``fields`` are names such as ``status``, ``facts.year``, or ``facts`` for all facts. If
    ``flavor`` is set, these are the fields for requests of that flavor, else for any request.
    """

    policy: str
    flavor: str | None = None
    fields: tuple[str, ...] = ()


class PluginSummary(Struct, frozen=True, kw_only=True):
    """One plug-in, with its options and their defaults, and its source."""

    name: str
    description: str
    options: dict[str, Any]
    source: str


class PluginList(Struct, frozen=True, kw_only=True):
    """The plug-ins of one kind, such as ``filter``.

    ``load_errors`` has the errors of plug-ins that cannot be loaded, by name.
    """

    kind: str
    plugins: tuple[PluginSummary, ...]
    load_errors: dict[str, str] = {}
