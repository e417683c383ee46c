# SPDX-License-Identifier: Apache-2.0
"""Node types: the nodes that are asked for, many of equal needs, and how blocks look to them.

To all node types together most kinds of block look alike: a drive of 1 TB and one of 2 TB, if 1 TB
is asked for. Such kinds are one *block class*, so that pools with unlike blocks become equal ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.fit.fit import Fitter
from valence_sched.core.fit.stocks import stock_amounts
from valence_sched.model.inventory import BlockType
from valence_sched.model.need import Alternative
from valence_sched.model.policy import DEFAULT_BUDGET, Budget
from valence_sched.model.request import Request
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.view import Ints, Mask


@dataclass(frozen=True, slots=True, eq=False)
class NodeType:
    """Nodes of equal needs: the alternatives that make one, the pools that may, and how many.

    ``rows`` are the pools that the filters of a policy leave, all if None: what is free does not
    belong in it. ``most`` is how many nodes are asked for, None for as many as fit. ``costs`` are
    the costs of the pools by a policy, which only the goal ``least-cost`` reads.
    """

    name: str
    alternatives: tuple[Alternative, ...]
    rows: Mask | None = None
    most: int | None = None
    costs: Ints | None = None

    @classmethod
    def of(cls, request: Request, rows: Mask | None = None, most: int | None = None) -> NodeType:
        """Return the node type of a compiled request."""
        first = Alternative(needs=request.needs, bonds=request.bonds)
        return cls(request.flavor or request.id, (first, *request.fallbacks), rows, most)

    @classmethod
    def in_context(cls, context: EvaluationContext, most: int | None = None) -> NodeType:
        """Return the node type of a request in the pools that the filters of its policy leave.

        Filters that read free capacity or the group of the request change their answers with each
        node and are passed over: a bound then counts more than the policy allows, never less.
        """
        evaluation = context.evaluation
        changing = evaluation.availability_readers | evaluation.group_state_readers
        rows = context.view.all_rows
        for filter_, verdicts in zip(context.bound.filters, evaluation.verdicts, strict=True):
            if filter_.name not in changing:
                rows = rows & verdicts
        return cls.of(context.request, rows, most)


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One alternative of a node type, prepared: its fitter, and the amounts that it takes."""

    node_type: int
    fitter: Fitter
    #: ``(resource, size of a grant, number of grants)``
    grants: tuple[tuple[str, float, int], ...]

    @property
    def demands(self) -> tuple[int, ...]:
        return tuple(demand.amount for demand in self.fitter.demands)


def variants_of(
    node_types: Sequence[NodeType], kinds: BlockKinds, budget: Budget = DEFAULT_BUDGET
) -> tuple[Variant, ...]:
    """Return the alternatives of all node types."""
    variants = []
    for number, node_type in enumerate(node_types):
        for alternative in node_type.alternatives:
            amounts = stock_amounts(alternative.needs)
            grants = [
                (resource, amount, each.count(amount))
                for resource, each in amounts.items()
                for amount in sorted(set(each))
            ]
            fitter = Fitter(alternative.needs, kinds, alternative.bonds, budget)
            variants.append(Variant(number, fitter, tuple(grants)))
    return tuple(variants)


class BlockClass(Struct, frozen=True):
    """What kinds of block have in common that look alike to all variants.

    ``gives`` is what one block gives to each demand of each variant, no more than is demanded;
    ``types`` are those of its types that some pool limits. Where classes differ by price, too,
    ``price`` is that of a block, else 0.
    """

    gives: tuple[tuple[int, ...], ...]
    types: frozenset[BlockType]
    price: int = 0

    @property
    def is_useless(self) -> bool:
        return not self.types and not any(map(any, self.gives))


@dataclass(slots=True)
class BlockClasses:
    """The block classes by number, in the order in which their kinds were met."""

    variants: tuple[Variant, ...]
    kinds: BlockKinds
    limited: frozenset[BlockType]
    by_price: bool = False
    classes: list[BlockClass] = field(default_factory=list)
    _numbers: dict[BlockClass, int] = field(default_factory=dict)
    _of_kind: dict[int, int | None] = field(default_factory=dict)

    def of_kind(self, kind: int) -> int | None:
        """Return the class of a kind of block, None if it is of no use to any variant."""
        if kind not in self._of_kind:
            self._of_kind[kind] = self._classify(kind)
        return self._of_kind[kind]

    def of_kinds(self, kinds: Iterable[int]) -> list[int | None]:
        return [self.of_kind(kind) for kind in kinds]

    def _classify(self, kind: int) -> int | None:
        gives = tuple(
            tuple(map(min, variant.fitter.gives(kind), variant.demands))
            for variant in self.variants
        )
        price = self.kinds.kinds[kind].price if self.by_price else 0
        found = BlockClass(gives, self.limited.intersection(self.kinds.kinds[kind].types), price)
        if found.is_useless:
            return None
        number = self._numbers.setdefault(found, len(self.classes))
        if number == len(self.classes):
            self.classes.append(found)
        return number
