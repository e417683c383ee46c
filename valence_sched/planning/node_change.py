# SPDX-License-Identifier: Apache-2.0
"""Chooses the parts that a living node keeps, gets and gives away, on the reach of its host.

Also places nodes on blocks that shrinkable nodes do not need, if nothing else is free.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from valence_sched.errors import ClaimLost, RequestError, UnknownName
from valence_sched.model.claim import ComposedNode, Grant, NodeShrink
from valence_sched.model.decision import DecisionResult
from valence_sched.model.inventory import (
    DECLARED_SCHEME,
    FREE_STATUS,
    NO_DEVICES,
    FullBlock,
    FullPodm,
    Limit,
    Pool,
    Status,
    Stock,
    to_a_billionth,
    uri_tail,
    uri_tails,
)
from valence_sched.model.need import TAINTED, Need, Toleration, taint_key
from valence_sched.model.node_change import BlockChange
from valence_sched.model.quantity import format_count
from valence_sched.model.registration import RESERVED_BY
from valence_sched.model.request import Request

#: Decides on a request for one pod manager.
Decide = Callable[[FullPodm, Request], DecisionResult]
MOST_NAMED = 3  # largest number of blocks in one line
MOST_SUMS = 1_000  # totals of amounts that are remembered
Chain = tuple[Grant, Any] | None  # the last of some amounts, and the chain of the others
_FIXED_TYPES = frozenset(("Compute", "ComputerSystem"))
#: The fields of a request that are requirements on the pod manager, which a node keeps.
PLACE = ("zone", "aggregates", "locations", "near", "where", "traits", "capabilities", "attributes")


class NodeAmounts:
    """The memory chunks and volumes of a node and its pod manager, without declared stocks."""

    def __init__(self, node: ComposedNode, stocks: Iterable[Stock]) -> None:
        self._node, every = node, tuple(stocks)
        self.stocks = [one for one in every if not one.uri.startswith(DECLARED_SCHEME)]
        self._declared = {it.resource for it in every} - {it.resource for it in self.stocks}
        known = {stock.uri: stock for stock in self.stocks}
        own: list[Grant] = []
        for one, grant in zip(node.amounts, node.grants_of(node.amounts), strict=True):
            stock = known.get(grant.uri)
            resource = grant.resource or (stock.resource if stock else "")
            unit = grant.unit or (stock.unit if stock else "")
            own.append(replace(one, resource=resource, unit=unit))
        #: The amounts of the node with the resource and the unit of their stocks.
        self.own = tuple(own)

    def missing(self, request: Request, *, own: bool = True) -> Request:
        """Return a request with the part of each amount that the node lacks.

        Without ``own``, the node keeps its amounts, and lacks all. RequestError for a declared
        amount, unless the request of the node has it as well.
        """
        kept = self._node.request.needs if own and self._node.request is not None else ()
        return request.with_needs(lambda needs: self._missing(needs, kept, own))

    def _missing(self, needs: Iterable[Need], kept: Collection[Need], own: bool) -> Iterator[Need]:
        left = _totals(self.own) if own else {}
        for need in needs:
            if need.kind != "stock":
                yield need
            elif need.resource in self._declared:
                if need not in kept:
                    what = f"{need.resource} is an amount that the operator declared"
                    text = f"{what}: it cannot be attached to a node or detached from it"
                    raise RequestError(text)
            else:
                wanted, has = need.total_amount(), left.get(need.resource, 0.0)
                left[need.resource] = to_a_billionth(max(0.0, has - wanted))
                if not has:
                    yield need
                elif (lack := to_a_billionth(wanted - has)) > 0:
                    count = math.ceil(lack / need.amount - 1e-9)
                    yield replace(need, count=count, amount=to_a_billionth(lack / count))

    def idle(self, needs: Iterable[Need], granted: Iterable[Grant] = ()) -> tuple[Grant, ...]:
        """Return the amounts that the node does not need besides ``granted``, the most possible."""
        wanted: dict[str, float] = {}
        for need in needs:
            if need.kind == "stock":
                wanted[need.resource] = wanted.get(need.resource, 0.0) + need.total_amount()
        for resource, amount in _totals(granted).items():
            wanted[resource] = wanted.get(resource, 0.0) - amount
        kept: set[str] = set()
        for resource in {one.resource for one in self.own}:
            every = [one for one in self.own if one.resource == resource]
            some = smallest_amounts(every, wanted.get(resource, 0.0))
            kept.update(one.uri for one in (every if some is None else some))
        return tuple(one for one in self.own if one.uri not in kept)

    def leaving(self, needs: Iterable[Need], besides: Collection[str] = ()) -> tuple[Grant, ...]:
        """Return amounts, not those ``besides``, that meet the needs; RequestError if too few."""
        found: list[Grant] = []
        rest = [one for one in self.own if one.uri not in besides]
        for need in needs:
            left = [it for it in rest if it.resource == need.resource and it not in found]
            some = smallest_amounts(left, need.total_amount())
            if some is None:
                has = sum(it.amount for it in left)
                unit = next((f" {it.unit}" for it in left if it.unit), "")
                what = f"has {has:g}{unit} of {need.resource}, expected {need.total_amount():g}"
                raise RequestError(f"node {self._node.id} {what} or more")
            found += some
        return tuple(found)


def smallest_amounts(amounts: Sequence[Grant], wanted: float) -> tuple[Grant, ...] | None:
    """Return the fewest amounts with the least total of at least ``wanted``; None if too little.

    With many amounts, the total is small, but not always the least.
    """
    if wanted <= 0:
        return ()
    best: tuple[float, int, Chain] | None = None
    sums: dict[float, tuple[int, Chain]] = {0.0: (0, None)}  # the fewest amounts of each total
    for one in sorted(amounts, key=lambda it: (-it.amount, it.uri)):
        for total, (count, chain) in [*sums.items()]:
            reached, more = to_a_billionth(total + one.amount), count + 1
            if reached + 1e-6 >= wanted:
                if best is None or (reached, more) < best[:2]:
                    best = reached, more, (one, chain)
            elif reached not in sums or more < sums[reached][0]:
                sums[reached] = more, (one, chain)
        if len(sums) > MOST_SUMS:  # the largest total has all amounts so far
            sums = dict(sorted(sums.items(), key=lambda item: -item[0])[:MOST_SUMS])
    if best is None:
        return None
    found, chain = list[Grant](), best[2]
    while chain is not None:
        one, chain = chain
        found.append(one)
    return tuple(reversed(found))


def grants_in(decision: DecisionResult) -> tuple[Grant, ...]:
    """Return the grants of the placed node."""
    placements = decision.report.placements
    refs = placements[0].chosen.grants if placements else ()
    return tuple(Grant(it.uri, float(it.amount), it.resource, it.unit) for it in refs)


def _totals(grants: Iterable[Grant]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in grants:
        found[one.resource] = to_a_billionth(found.get(one.resource, 0.0) + one.amount)
    return found


class ChosenParts(NamedTuple):
    """The parts to attach and detach; ``decision`` has the reasons if nothing fits.

    ``grants`` are amounts to attach, ``amounts`` those to detach. ``no_room`` is the reason to
    detach before attaching, empty if blocks can be attached first.
    """

    attach: tuple[str, ...] = ()
    detach: tuple[str, ...] = ()
    decision: DecisionResult | None = None
    grants: tuple[Grant, ...] = ()
    amounts: tuple[Grant, ...] = ()
    no_room: str = ""

    @property
    def fits(self) -> bool:
        return self.decision is None or bool(self.decision.report.placements)

    @property
    def uris(self) -> tuple[str, ...]:
        """The URIs of the blocks and amounts to detach."""
        return (*self.detach, *(one.uri for one in self.amounts))

    @property
    def are_needed(self) -> bool:
        return bool(self.attach or self.grants or self.uris)


class ChangePlanner:
    """Plans changes of a node on a reading of its pod manager without the hardware of claims.

    The reach of a node is the pools that have all blocks of its host, or of the node without a
    host, and the fabrics of its host. What is part of a host is neither attached nor detached.
    """

    def __init__(self, podm: FullPodm, node: ComposedNode, decide: Decide) -> None:
        self._podm, self._node, self._decide = podm, node, decide
        self._blocks: Mapping[str, FullBlock] = {block.uri: block for block in podm.blocks}
        own = [self._blocks[uri] for uri in node.blocks if uri in self._blocks]
        self._fixed = {block.uri for block in own if is_host_part(block)}
        self._movable = [block for block in own if block.uri not in self._fixed]
        rooted = [block for block in own if block.uri in self._fixed] or own
        pools = [pool.id for pool in podm.pools if all(pool.id in it.pools for it in rooted)]
        self._reach = frozenset(pools)
        places = [block.places or {} for block in rooted if block.uri in self._fixed]
        self._fabrics = {place["fabric"] for place in places if "fabric" in place}
        self.amounts = NodeAmounts(node, podm.stocks)

    def changes(self, uris: Iterable[str]) -> tuple[BlockChange, ...]:
        """Return blocks with their devices."""
        found = ((uri, self._blocks.get(uri)) for uri in uris)
        return tuple(
            BlockChange(uri, block.devices or NO_DEVICES if block else NO_DEVICES)
            for uri, block in found
        )

    def attach(
        self, request: Request, leaving: Collection[str] = (), coming: Collection[str] = ()
    ) -> ChosenParts:
        """Choose free blocks and stocks for the node.

        Its blocks that are ``leaving`` make room; those that are ``coming`` take room.
        """
        request = _for_one(self.amounts.missing(request, own=False))
        free = (block for block in self._free() if block.uri not in coming)
        decision = self._decide(self._with(free, leaving, coming), request)
        if not decision.report.placements:
            return ChosenParts(decision=self._with_distant(decision, request, ()))
        return ChosenParts(_blocks_of(decision), decision=decision, grants=grants_in(decision))

    def detach(self, request: Request, leaving: Collection[str] = ()) -> ChosenParts:
        """Choose parts of the node that are not yet ``leaving``; RequestError if it has too few."""
        request = _for_one(self.amounts.missing(request, own=False))
        devices = tuple(need for need in request.needs if need.kind != "stock")
        stocks = (need for need in request.needs if need.kind == "stock")
        amounts = self.amounts.leaving(stocks, leaving)
        chosen: tuple[str, ...] = ()
        if devices:
            rest = [block for block in self._movable if block.uri not in leaving]
            decision = self._decide(self._alone(rest), replace(request, needs=devices))
            if not (chosen := _blocks_of(decision)):
                names = uri_tails(block.uri for block in rest) or "nothing"
                found = f"lacks these devices (can be detached: {names})"
                raise RequestError(f"node {self._node.id} {found}")
        return ChosenParts(detach=chosen, amounts=amounts)

    def without_idle(self) -> ChosenParts:
        """Choose the blocks and amounts that the request of the node does not need."""
        if (wanted := self._node.request) is None:
            raise RequestError(f"node {self._node.id} has no request: name a block or devices")
        names = (name for name in wanted.__struct_fields__ if name not in PLACE)
        request = Request(**{name: getattr(wanted, name) for name in names})
        found = self.become(request, free=False)
        return ChosenParts(detach=found.detach, amounts=found.amounts)

    def become(self, request: Request, *, free: bool = True) -> ChosenParts:
        """Choose the smallest change after which the node fulfils a request.

        If its own parts suffice, the others are detached; else, with ``free``, those that are
        needed are attached.
        """
        every = _for_one(request)
        request = _for_one(self.amounts.missing(request))
        if not free:
            request = request.with_needs(lambda some: (it for it in some if it.kind != "stock"))
        own = [*(self._blocks[uri] for uri in sorted(self._fixed)), *self._movable]
        added: list[FullBlock] = []
        decision = self._decide(self._alone(own, self._stocks()), request)
        if free and not _blocks_of(decision):
            decision = self._decide(self._with([*own, *self._free()]), request)
            known = set(self._node.blocks)
            added = [self._blocks[it] for it in _blocks_of(decision) if it not in known]
            for block in tuple(added):
                rest = [one for one in added if one is not block]
                smaller = self._decide(self._with([*own, *rest]), request)
                if _blocks_of(smaller):
                    added, decision = rest, smaller
        chosen = set(_blocks_of(decision))
        if not chosen:
            distant = self._with_distant(decision, request, own) if free else decision
            return ChosenParts(decision=distant)
        attach = tuple(block.uri for block in added if block.uri in chosen)
        detach = tuple(block.uri for block in self._movable if block.uri not in chosen)
        grants = grants_in(decision)
        choice = decision.report.placements[0].choice
        idle = self.amounts.idle(every.alternatives[choice - 1].needs, grants)
        return ChosenParts(attach, detach, decision, grants, idle)

    def no_room(self, attach: Sequence[str], detach: Sequence[str]) -> str:
        """Return why blocks must be detached before others are attached, empty if they need not."""
        before = (*self._node.blocks, *attach)
        after = [uri for uri in before if uri not in detach]
        if not (attach and detach and (reason := self._lack(before))) or self._lack(after):
            return ""
        return reason

    def _lack(self, uris: Iterable[str]) -> str:
        """Return why no pool of the reach may have a node of these blocks, empty if one may."""
        blocks = [self._blocks[uri] for uri in dict.fromkeys(uris) if uri in self._blocks]
        counts = Counter(kind for block in blocks for kind in block.type)
        reasons = []
        for pool in (it for it in self._podm.pools if it.id in self._reach):
            lacks = [
                f"a node in {pool.id} has at most {format_count(limit.max, f'{kind} block')}"
                for kind, limit in pool.limits.items()
                if limit.max is not None and counts[kind] > limit.max
            ]
            far = (it.uri for it in blocks if pool.id not in it.pools)
            lacks += [f"{pool.id} does not have {uri}" for uri in far]
            if not lacks:
                return ""
            reasons.append(lacks[0])
        return reasons[0] if reasons else ""

    def free_named(
        self, names: Sequence[str], tolerations: Sequence[Toleration] = ()
    ) -> tuple[str, ...]:
        """Return free blocks of the reach by URI or its last part.

        UnknownName for another name, RequestError for a block that the node cannot get or whose
        taint is not tolerated, ClaimLost for a block in use.
        """
        return tuple(dict.fromkeys(self._free_named(name, tolerations) for name in names))

    def amounts_named(self, names: Sequence[str]) -> tuple[Grant, ...]:
        """Return amounts of the node by URI or its last part; UnknownName for another name."""
        known = {one.uri: one for one in self.amounts.own}
        what = f"memory chunk or volume of node {self._node.id}"
        return tuple(dict.fromkeys(known[_find(name, known, what)] for name in names))

    def grants_named(self, grants: Iterable[Grant]) -> tuple[Grant, ...]:
        """Return grants as their stocks name them; RequestError for a stock beyond the reach."""
        near = {stock.uri: stock for stock in self._stocks()}
        found = []
        for one in grants:
            if (stock := near.get(one.uri)) is None:
                where = f"node {self._node.id} reaches {self._where}"
                raise RequestError(f"{where}, but no stock {one.uri} there")
            found.append(replace(one, resource=stock.resource, unit=stock.unit))
        return tuple(found)

    def own_named(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return blocks of the node by name; UnknownName or RequestError for another block."""
        uris = [_find(name, self._node.blocks, f"block of node {self._node.id}") for name in names]
        for uri in uris:
            if uri in self._fixed:
                raise RequestError(f"{uri} is part of the host, and cannot be detached")
        return tuple(dict.fromkeys(uris))

    def _free_named(self, name: str, tolerations: Sequence[Toleration]) -> str:
        uri = _find(name, self._blocks, f"block of pod manager {self._podm.id}")
        block = self._blocks[uri]
        if uri in self._node.blocks:
            return uri
        if not self._reaches(block):
            fabric = (block.places or {}).get("fabric")
            found = f"is in {', '.join(block.pools) or 'no pool'}"
            if fabric is not None and self._fabrics and fabric not in self._fabrics:
                found = f"is in fabric {fabric}"
            raise RequestError(f"node {self._node.id} reaches {self._where}, but {uri} {found}")
        if is_host_part(block) and self._fixed:
            raise RequestError(f"{uri} is part of another host, and cannot be attached")
        status = block.status or FREE_STATUS
        if not status.slots:
            raise ClaimLost(
                f"{self._podm.id}: {uri}: found {status.summary}, expected a free block"
            )
        for taint in status.taints:
            if not any(one.tolerates(taint) for one in tolerations):
                hint = f"use --tolerate {taint_key(taint)}"
                raise RequestError(f"{uri} is {TAINTED}{taint}: {hint}, or another block")
        return uri

    def _with_distant(
        self, decision: DecisionResult, request: Request, own: Sequence[FullBlock]
    ) -> DecisionResult:
        """Return a decision with a warning if blocks and stocks beyond the reach would fit."""
        blocks = [*own, *self._free(everywhere=True)]
        alone = self._alone(own, self.amounts.stocks)
        anywhere = replace(alone, blocks=tuple(replace(it, pools=()) for it in blocks))
        chosen = self._decide(anywhere, request)
        found = (self._blocks[uri] for uri in _blocks_of(chosen))
        distant = [it.uri for it in found if it not in own and not self._reaches(it)]
        near = {stock.uri for stock in self._stocks()}
        distant += [it.uri for it in grants_in(chosen) if it.uri not in near]
        if not distant:
            return decision
        names = ", ".join(sorted(distant)[:MOST_NAMED])
        text = f"{names} would fit, but the node reaches {self._where} only"
        warnings = (*decision.report.warnings, f"{self._podm.id}: {text}")
        return replace(decision, report=replace(decision.report, warnings=warnings))

    @property
    def _where(self) -> str:
        fabrics = ", ".join(sorted(self._fabrics))
        return ", ".join(sorted(self._reach)) or fabrics or "no pool"

    def _reaches(self, block: FullBlock) -> bool:
        """Return whether a pool and, if both are known, the fabric of a block reach the host."""
        fabric = (block.places or {}).get("fabric")
        in_fabric = fabric is None or not self._fabrics or fabric in self._fabrics
        return in_fabric and (not self._podm.pools or not self._reach.isdisjoint(block.pools))

    def _free(self, *, everywhere: bool = False) -> Iterator[FullBlock]:
        """Yield the blocks of the reach, in use or free, that can be attached."""
        own = set(self._node.blocks)
        for block in self._podm.blocks:
            is_other_host = bool(self._fixed) and is_host_part(block)
            near = everywhere or self._reaches(block)
            if block.uri not in own and near and not is_other_host:
                yield block

    def _stocks(self) -> tuple[Stock, ...]:
        """Return the stocks of the reach, each in the pools of the reach that it is in."""
        every = self.amounts.stocks
        if not self._podm.pools:
            return tuple(every)
        near = (tuple(it for it in stock.pools if it in self._reach) for stock in every)
        return tuple(
            replace(stock, pools=pools) for stock, pools in zip(every, near, strict=True) if pools
        )

    def _with(
        self,
        blocks: Iterable[FullBlock],
        leaving: Collection[str] = (),
        coming: Collection[str] = (),
    ) -> FullPodm:
        """Return the pod manager with only these blocks; those of the node are free.

        Its other blocks, but not those ``leaving``, and those ``coming`` count for the limits.
        """
        own, pools = set(self._node.blocks), tuple(sorted(self._reach))
        found = tuple(
            replace(it, status=freed(it.status), pools=pools)
            if it.uri in own
            else replace(it, pools=tuple(pool for pool in it.pools if pool in self._reach))
            for it in blocks
        )
        limited = {block.uri for block in found if block.uri in own}.union(leaving)
        here = [pool for pool in self._podm.pools if pool.id in self._reach]
        kept = [it for it in dict.fromkeys((*self._node.blocks, *coming)) if it not in limited]
        rest = tuple(replace(pool, limits=self._limits(pool, kept)) for pool in here)
        return replace(self._podm, blocks=found, pools=rest, stocks=self._stocks(), nodes=())

    def _limits(self, pool: Pool, kept: Iterable[str]) -> dict[str, Limit]:
        """Return how many more blocks of each type the node may have besides the ``kept`` ones."""
        types = [self._blocks[uri].type for uri in kept if uri in self._blocks]
        return {
            kind: Limit(0, max(0, limit.max - sum(kind in one for one in types)))
            for kind, limit in pool.limits.items()
            if limit.max is not None
        }

    def _alone(self, blocks: Iterable[FullBlock], stocks: Iterable[Stock] = ()) -> FullPodm:
        """Return the pod manager with only these blocks of the node, free and in one pool."""
        found = tuple(replace(it, status=freed(it.status), pools=()) for it in blocks)
        shared = tuple(replace(stock, pools=()) for stock in stocks)
        return replace(self._podm, blocks=found, pools=(), stocks=shared, nodes=())


def is_host_part(block: FullBlock) -> bool:
    """Return whether a block is the processors and memory of a host, which cannot move."""
    if block.type:
        return not _FIXED_TYPES.isdisjoint(block.type)
    return bool(block.devices and block.devices.processors)


def _find(name: str, known: Collection[str], what: str) -> str:
    if name in known:
        return name
    named = [uri for uri in known if uri.endswith(f"/{name}")]
    if len(named) != 1:
        raise UnknownName(what, name, map(uri_tail, known))
    return named[0]


def _blocks_of(decision: DecisionResult) -> tuple[str, ...]:
    placements = decision.report.placements
    return tuple(block.uri for block in placements[0].chosen.blocks) if placements else ()


def freed(status: Status | None) -> Status:
    """Return the status of a block as if its node did not use it; bad health remains."""
    before = status or FREE_STATUS
    state = before.state if before.state in ("Failed", "Unavailable") else "Unused"
    return replace(before, state=state, reserved=False, active=False, compositions=0, taints=())


def _for_one(request: Request) -> Request:
    return replace(
        request, count=1, min_count=None, alternates=0, podms=(), exclude_podms=(), group=None
    )


#: Decides on a request for all pod managers.
DecideAll = Callable[[Mapping[str, FullPodm]], DecisionResult]
Surplus = dict[str, tuple[str, ...]]  # the blocks that each node can lose, by its id


def shrink(
    podms: Mapping[str, FullPodm],
    nodes: Sequence[ComposedNode],
    floors: Mapping[str, Request],
    decide_one: Decide,
    decide_all: DecideAll,
) -> tuple[DecisionResult, tuple[NodeShrink, ...]] | None:
    """Return a decision that takes blocks from few nodes, and these blocks; None if nothing fits.

    ``podms`` are readings without the hardware of claims. A node keeps what its floor needs, the
    request in ``floors`` by its id, else its own request.
    """
    known = {node.id: node for node in nodes if node.podm in podms}
    surplus: Surplus = {}
    for node in known.values():
        planner, floor = ChangePlanner(podms[node.podm], node, decide_one), floors.get(node.id)
        with contextlib.suppress(RequestError):  # a floor with amounts, or no request
            spare = planner.become(floor, free=False) if floor else planner.without_idle()
            if spare.fits and spare.detach:
                surplus[node.id] = spare.detach

    def decide(offered: Surplus) -> DecisionResult | None:
        released = dict(podms)
        for id_, blocks in offered.items():
            name = known[id_].podm
            podm = released[name]
            after = (_released(one) if one.uri in blocks else one for one in podm.blocks)
            released[name] = replace(podm, blocks=tuple(after))
        found = decide_all(released)
        return found if found.report.placements else None

    if not surplus or (decision := decide(surplus)) is None:
        return None
    for id_ in sorted(surplus, key=lambda id_: (-len(surplus[id_]), id_)):
        rest = {other: blocks for other, blocks in surplus.items() if other != id_}
        if (found := decide(rest)) is not None:
            surplus, decision = rest, found
    chosen = {
        (one.chosen.podm, block.uri)
        for one in decision.report.placements
        for block in one.chosen.blocks
    }
    shrinks = []
    for id_, blocks in surplus.items():
        node = known[id_]
        taken = tuple(uri for uri in blocks if (node.podm, uri) in chosen)
        if taken:
            before, cycle = node.parts, node.power_cycle
            shrinks.append(
                NodeShrink(node=id_, podm=node.podm, blocks=taken, before=before, power_cycle=cycle)
            )
    return decision, tuple(shrinks)


def _released(block: FullBlock) -> FullBlock:
    before = block.status or FREE_STATUS
    reserved = (before.client or "").startswith(RESERVED_BY)
    return replace(block, status=replace(freed(before), reserved=reserved, taints=before.taints))
