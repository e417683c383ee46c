# SPDX-License-Identifier: Apache-2.0
"""Edits: another site of a site: what fails, is drained, removed, added, cloned or changed.

A block or a stock fails, drains or goes with a pool if it is in no other pool; one that is also in
others only leaves the pool. All pools of a pod manager are the pod manager itself.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from valence_sched.errors import NothingMatches, SchedulerError, UsageError, one_line, suggest
from valence_sched.model.inventory import (
    FREE_STATUS,
    NO_DEVICES,
    LeanBlock,
    LeanPodm,
    Node,
    Status,
    Stock,
    parse_status,
    to_json,
)
from valence_sched.model.quantity import format_count
from valence_sched.model.scenario import (
    AddBlocks,
    Clone,
    Drain,
    Edit,
    EditEffect,
    Fail,
    Remove,
    SetAttributes,
    Target,
    edit_text,
    parse_target,
)
from valence_sched.planning.site import (
    Site,
    TargetMatch,
    block_names,
    find_targets,
    members,
    name_matcher,
    pools_of,
)

MAX_NEW_BLOCKS = 1_000_000  # of one edit on a whole site
BLOCKS_URI = "/redfish/v1/CompositionService/ResourceBlocks/"

StatusChange = Callable[[Status], Status]
Counts = dict[str, int]  # of what an edit touched
BlockOrStock = TypeVar("BlockOrStock", LeanBlock, Stock)


class StatusChanges:
    """Changes statuses; equal ones are decoded, changed and encoded once for each ``key``."""

    def __init__(self) -> None:
        self._changed: dict[tuple[Hashable, bytes], Raw | None] = {}

    def apply(self, block: LeanBlock, change: StatusChange, key: Hashable = None) -> LeanBlock:
        """Return a block with its status changed; ``key`` tells changes of one function apart."""
        text = bytes(block.status or b"")
        at = (key or change, text)
        if at not in self._changed:
            status = change(parse_status(text))
            self._changed[at] = None if status == FREE_STATUS else Raw(to_json(status))
        return replace(block, status=self._changed[at])


def failed(status: Status) -> Status:
    """Return the status of a block after it failed: no node has it or can have it."""
    return replace(status, state="Failed", health="Critical", active=False, compositions=0)


def drained(status: Status) -> Status:
    """Return the status of a block that takes no new node; its present nodes stay."""
    return replace(status, enabled=False)


def fresh(status: Status) -> Status:
    """Return the status of a new block of the same kind: it works and is free."""
    return Status(shareable=status.shareable, max_compositions=status.max_compositions)


DisruptionRule = Callable[[LeanPodm, "Scope", StatusChanges], LeanPodm | None]


def _fail(podm: LeanPodm, scope: Scope, statuses: StatusChanges) -> LeanPodm:
    """Return a pod manager after blocks failed; nodes on them are lost, and their others free.

    A stock that failed has nothing left. A pod manager that failed is Offline as well.
    """
    nodes, released = _lost_nodes(podm, scope)
    blocks = []
    for number, block in enumerate(podm.blocks):
        if number in scope.blocks:
            blocks.append(statuses.apply(block, failed))
        else:
            blocks.append(_release(scope.outside(block), released, statuses))
    stocks = [
        replace(one, total=0.0, used=0.0) if one.uri in scope.stocks else scope.outside(one)
        for one in podm.stocks
    ]
    status = "Offline" if scope.whole else podm.status
    return replace(podm, status=status, blocks=tuple(blocks), stocks=tuple(stocks), nodes=nodes)


def _drain(podm: LeanPodm, scope: Scope, statuses: StatusChanges) -> LeanPodm:
    """Return a pod manager of which blocks take no new node; nodes that are there stay.

    A stock that is drained has nothing free. A pod manager that is drained is disabled as well.
    """
    blocks = tuple(
        statuses.apply(block, drained) if number in scope.blocks else scope.outside(block)
        for number, block in enumerate(podm.blocks)
    )
    stocks = []
    for stock in podm.stocks:
        if stock.uri in scope.stocks:
            stocks.append(replace(stock, total=stock.total and min(stock.total, stock.used)))
        else:
            stocks.append(scope.outside(stock))
    enabled = podm.enabled and not scope.whole
    return replace(podm, enabled=enabled, blocks=blocks, stocks=tuple(stocks))


def _remove(podm: LeanPodm, scope: Scope, statuses: StatusChanges) -> LeanPodm | None:
    """Return a pod manager without blocks and their nodes; the other blocks of these are free."""
    if scope.whole:
        return None
    nodes, released = _lost_nodes(podm, scope)
    kept = (one for number, one in enumerate(podm.blocks) if number not in scope.blocks)
    return replace(
        podm,
        pools=tuple(pool for pool in podm.pools if pool.id not in scope.pools),
        blocks=tuple(_release(scope.outside(block), released, statuses) for block in kept),
        stocks=tuple(scope.outside(one) for one in podm.stocks if one.uri not in scope.stocks),
        nodes=nodes,
    )


@dataclass(frozen=True, slots=True)
class Scope:
    """What of a pod manager is concerned: numbers of blocks, URIs of stocks, ids of pools.

    Blocks and stocks are those that are in no other pool.
    """

    whole: bool
    pools: frozenset[str]
    blocks: frozenset[int]
    stocks: frozenset[str]

    @classmethod
    def of(cls, podm: LeanPodm, match: TargetMatch) -> Scope:
        if match.blocks:
            return cls(False, frozenset(), frozenset(match.blocks), frozenset())
        pools = frozenset(pool.id for pool in pools_of(podm))
        if not match.pools or match.pools == pools:
            every = frozenset(range(len(podm.blocks)))
            return cls(True, pools, every, frozenset(stock.uri for stock in podm.stocks))

        @functools.cache
        def alone(names: tuple[str, ...]) -> bool:
            return bool(names) and match.pools.issuperset(members(podm, names))

        return cls(
            False,
            match.pools,
            frozenset(number for number, block in enumerate(podm.blocks) if alone(block.pools)),
            frozenset(stock.uri for stock in podm.stocks if alone(stock.pools)),
        )

    def outside(self, one: BlockOrStock) -> BlockOrStock:
        """Return a block or a stock that stays, without the pools that are concerned."""
        if self.pools.isdisjoint(one.pools):
            return one
        return replace(one, pools=tuple(pool for pool in one.pools if pool not in self.pools))


def _lost_nodes(podm: LeanPodm, scope: Scope) -> tuple[tuple[Node, ...], Counter[str]]:
    if scope.whole:
        return (), Counter()
    gone = {podm.blocks[number].uri for number in scope.blocks}
    left = tuple(node for node in podm.nodes if gone.isdisjoint(node.blocks))
    lost = (node for node in podm.nodes if not gone.isdisjoint(node.blocks))
    return left, Counter(uri for node in lost for uri in set(node.blocks))


def _release(block: LeanBlock, released: Counter[str], statuses: StatusChanges) -> LeanBlock:
    nodes = released.get(block.uri)
    if nodes is None:
        return block
    return statuses.apply(block, lambda status: status.released(nodes), ("released", nodes))


_DISRUPTIONS: dict[type[Edit], DisruptionRule] = {Fail: _fail, Drain: _drain, Remove: _remove}


def edited(site: Site, edits: Iterable[Edit]) -> Site:
    """Return a site after edits, each applied to what those before it made.

    NothingMatches: the target of an edit is nothing that is there; the message begins with the
    edit and has the nearest name. UsageError: blocks of several kinds have the name of new ones.
    """
    return functools.reduce(apply_edit, edits, site)


def apply_edit(site: Site, edit: Edit, place: str = "") -> Site:
    """Return a site after one edit, whose effect it has last; errors as of :func:`edited`.

    Errors begin with ``place``, else with the edit.
    """
    text = edit_text(edit)
    try:
        matches = find_targets(site.podms, edit.target, site.kinds)
        match edit:
            case Clone():
                podms, counts = _clone(site, edit, matches)
            case AddBlocks():
                podms, counts = _add(site, edit, matches)
            case SetAttributes():
                podms, counts = _set(site, edit, matches)
            case _:
                podms, counts = _disrupt(site, _DISRUPTIONS[type(edit)], matches)
    except SchedulerError as error:
        raise error.at(place or text) from None
    effects = (*site.effects, EditEffect(edit=text, **counts))
    return dataclasses.replace(site, podms=tuple(podms), effects=effects)


def _disrupt(
    site: Site, rule: DisruptionRule, matches: Sequence[TargetMatch]
) -> tuple[list[LeanPodm], Counts]:
    statuses = StatusChanges()
    scopes = {match.podm: Scope.of(site.podms[match.podm], match) for match in matches}
    podms: list[LeanPodm] = []
    nodes = 0
    for number, podm in enumerate(site.podms):
        after = rule(podm, scopes[number], statuses) if number in scopes else podm
        nodes += len(podm.nodes) - (len(after.nodes) if after else 0)
        podms += [after] if after else []
    parts = list(scopes.values())
    counts = {"podms": len(parts), "pools": sum(len(one.pools) for one in parts), "nodes": nodes}
    counts["blocks"] = sum(len(one.blocks) for one in parts)
    return podms, {**counts, "stocks": sum(len(one.stocks) for one in parts)}


def _clone(
    site: Site, edit: Clone, matches: Sequence[TargetMatch]
) -> tuple[list[LeanPodm], Counts]:
    taken, statuses = {podm.id for podm in site.podms}, StatusChanges()
    numbers = {match.podm for match in matches}
    podms: list[LeanPodm] = []
    new: list[LeanPodm] = []
    _check_size(edit.times * sum(len(site.podms[number].blocks) for number in numbers))
    for number, podm in enumerate(site.podms):
        podms.append(podm)
        if number in numbers:
            copies = list(_clones(podm, edit.times, taken, statuses))
            taken.update(copy.id for copy in copies)
            podms += copies
            new += copies
    counts = {"podms": len(new), "pools": sum(len(pools_of(podm)) for podm in new)}
    counts["blocks"] = sum(len(podm.blocks) for podm in new)
    return podms, {**counts, "stocks": sum(len(podm.stocks) for podm in new)}


def _add(
    site: Site, edit: AddBlocks, matches: Sequence[TargetMatch]
) -> tuple[list[LeanPodm], Counts]:
    new = NewBlocks(edit, site)
    podms = list(site.podms)
    pools = sum(len(match.pools) for match in matches)
    _check_size(edit.count * max(pools, len(matches)))
    blocks = 0
    for match in matches:
        podms[match.podm] = new.added(match)
        blocks += len(podms[match.podm].blocks) - len(site.podms[match.podm].blocks)
    return podms, {"podms": len(matches), "pools": pools, "blocks": blocks}


def _set(
    site: Site, edit: SetAttributes, matches: Sequence[TargetMatch]
) -> tuple[list[LeanPodm], Counts]:
    podms, changes, statuses = list(site.podms), edit.changes, StatusChanges()

    def change(status: Status) -> Status:
        return replace(status, **changes)

    for match in matches:
        podm = podms[match.podm]
        if match.blocks:
            blocks = list(podm.blocks)
            for number in match.blocks:
                blocks[number] = statuses.apply(blocks[number], change)
            podms[match.podm] = replace(podm, blocks=tuple(blocks))
        elif match.pools and podm.pools:
            pools = list(podm.pools)
            for number, pool in enumerate(pools):
                if pool.id in match.pools:
                    pools[number] = replace(pool, **changes)
            podms[match.podm] = replace(podm, pools=tuple(pools))
        else:  # also the traits of the pool of a pod manager that lists none
            podms[match.podm] = replace(podm, **_podm_changes(podm, changes))
    counts = {"podms": len(matches), "pools": sum(len(match.pools) for match in matches)}
    return podms, {**counts, "blocks": sum(len(match.blocks) for match in matches)}


def _podm_changes(podm: LeanPodm, changes: dict[str, Any]) -> dict[str, Any]:
    new = dict(changes)
    if "facts" in new:
        facts = podm.facts | new["facts"]
        new["facts"] = {key: value for key, value in facts.items() if value is not None}
    if "capabilities" in new:
        given = new["capabilities"].items()
        given = {key: (value,) if isinstance(value, str) else value for key, value in given}
        capabilities = podm.capabilities | given
        new["capabilities"] = {key: values for key, values in capabilities.items() if values}
    return new


def _clones(
    podm: LeanPodm, times: int, taken: Collection[str], statuses: StatusChanges
) -> Iterator[LeanPodm]:
    """Yield so many copies of a pod manager: Online and enabled, all of its hardware working.

    They share its blocks, have no nodes, and neither its URL nor its identity. They are named by
    the next numbers that are not ``taken``.
    """
    copy = replace(
        podm,
        url=None,
        identity=None,
        status="Online",
        enabled=True,
        blocks=tuple(_fresh(block, statuses) for block in podm.blocks),
        stocks=tuple(replace(stock, used=0.0) if stock.used else stock for stock in podm.stocks),
        nodes=(),
    )
    numbers = (n for n in itertools.count(2) if f"{podm.id}-{n}" not in taken)
    for number in itertools.islice(numbers, times):
        name = f"{podm.name} ({number})" if podm.name else None
        yield replace(copy, id=f"{podm.id}-{number}", name=name)


def _check_size(blocks: int) -> None:
    if blocks > MAX_NEW_BLOCKS:
        most = f"at most {MAX_NEW_BLOCKS:,} may be added by one edit"
        hint = "lower the number or select fewer pod managers"
        raise UsageError(f"{blocks:,} new blocks, and {most}: {hint}")


class NewBlocks:
    """Makes the blocks that one edit adds to pod managers."""

    def __init__(self, edit: AddBlocks, site: Site) -> None:
        self._edit, self._podms, self._kinds = edit, site.podms, site.kinds
        self._templates, self._statuses = site.templates, StatusChanges()
        template = site.templates.get(edit.add)
        self._block: LeanBlock | None = None
        if template is not None:
            most = template.max_compositions
            status = Status(shareable=template.shareable, max_compositions=most)
            devices = template.devices
            self._block = LeanBlock(
                uri=re.sub(r"[^\w.-]+", "-", template.name),
                type=template.type,
                places=template.places,
                status=None if status == FREE_STATUS else Raw(to_json(status)),  # type: ignore[arg-type]
                devices=None if devices == NO_DEVICES else Raw(to_json(devices)),  # type: ignore[arg-type]
            )
        self._podm: LeanPodm | None = None  # of the block that new ones are like
        if template is None and "@" in edit.add:
            self._podm, self._block = self._block_at(parse_target(edit.add))

    def added(self, match: TargetMatch) -> LeanPodm:
        """Return a pod manager with the new blocks: so many in each pool that is matched, else all.

        NothingMatches, UsageError: the block that they are like is unknown, or ambiguous.
        """
        podm = self._podms[match.podm]
        alike, block = self._block_for(podm)
        everywhere = tuple(pool.id for pool in podm.pools)
        if not match.pools:
            regions = [block.pools if alike is podm else everywhere]
        elif podm.pools:
            regions = [(pool,) for pool in everywhere if pool in match.pools]
        else:
            regions = [()]
        if alike is not podm:
            # the URI as it would be in this pod manager
            first = podm.blocks[0].uri if podm.blocks else BLOCKS_URI
            uri = first[: first.rstrip("/").rfind("/") + 1] + block_names(block)[1]
            block = replace(block, uri=uri)
            block = block if alike is None else replace(block, places=None)
        copies = _copies(block, podm, from_template=alike is None)
        new = (
            replace(copy, pools=pools)
            for pools in regions
            for copy in itertools.islice(copies, self._edit.count)
        )
        return replace(podm, blocks=(*podm.blocks, *new))

    def _block_for(self, podm: LeanPodm) -> tuple[LeanPodm | None, LeanBlock]:
        """Return a new block, and the pod manager that has the one that it is like."""
        if self._block is not None:
            return self._podm, self._block
        is_named = name_matcher(self._edit.add)
        found = [block for block in podm.blocks if is_named(block_names(block))]
        if found:
            return podm, self._only(found, podm)
        known = {block_names(block)[1] for block in podm.blocks} | set(self._templates)
        what = f"template, and no block of pod manager {podm.id!r}, named {self._edit.add!r}"
        raise NothingMatches(what, suggest(self._edit.add, known))

    def _block_at(self, target: Target) -> tuple[LeanPodm, LeanBlock]:
        if not target.selects_blocks:
            expected = "expected a template, a block of the pod manager or BLOCK@PODM"
            raise UsageError(one_line(f"{self._edit.add!r} is no block: {expected}"))
        matches = find_targets(self._podms, target, self._kinds)
        podm, pairs = self._podms[matches[0].podm], ((one.podm, one.blocks) for one in matches)
        found = [self._podms[at].blocks[number] for at, blocks in pairs for number in blocks]
        return podm, self._only(found, podm)

    def _only(self, blocks: Sequence[LeanBlock], podm: LeanPodm) -> LeanBlock:
        """Return the first of some blocks, a new one of its kind; UsageError if they differ."""
        number = self._kinds.number
        distinct = {number(one.type, one.devices, "site", "$") for one in blocks}
        if len(distinct) > 1:
            names = ", ".join(block_names(one)[1] for one in blocks[:4])
            which = f"{format_count(len(distinct), 'kind')} are named {self._edit.add!r} ({names})"
            raise UsageError(one_line(f"blocks of {which}: name one of them"))
        return _fresh(blocks[0], self._statuses)


def _fresh(block: LeanBlock, statuses: StatusChanges) -> LeanBlock:
    return statuses.apply(block, fresh) if block.status else block


def _copies(block: LeanBlock, podm: LeanPodm, *, from_template: bool) -> Iterator[LeanBlock]:
    """Yield copies of a block whose URIs the pod manager does not have, numbered on."""
    taken = {one.uri for one in podm.blocks}
    uri = block.uri.rstrip("/")
    for number in itertools.count(1 if from_template else 2):
        if f"{uri}-{number}" not in taken:
            name = f"{block.name} ({number})" if block.name else None
            yield replace(block, uri=f"{uri}-{number}", name=name)
