# SPDX-License-Identifier: Apache-2.0
"""Targets: finds the pod managers, pools and blocks of a site that an edit is applied to."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from valence_sched.errors import NothingMatches, suggest
from valence_sched.model.inventory import WHOLE_POOL, LeanBlock, LeanPodm, Pool, parse_status
from valence_sched.model.need import has_words
from valence_sched.model.scenario import Target
from valence_sched.view.block_kinds import BlockKind, BlockKinds

Matches = Callable[[Collection[str]], bool]
BlockText = tuple[tuple[Any, ...], bytes]  # the types of a block, and its devices undecoded
Values = Callable[[BlockKind], set[str]]  # that a kind of block has, of which one may be wanted


@dataclass(frozen=True, slots=True)
class TargetMatch:
    """What of one pod manager a target selects.

    ``podm`` is its number in the site; ``pools`` are ids, ``blocks`` numbers of blocks. Where the
    target is pools there are no blocks, and where it is the whole pod manager there are neither.
    """

    podm: int
    pools: frozenset[str] = frozenset()
    blocks: tuple[int, ...] = ()


def find_targets(podms: Sequence[LeanPodm], target: Target, kinds: BlockKinds) -> list[TargetMatch]:
    """Return what a target selects, in the order of the pod managers.

    Raises:
        NothingMatches: no pod manager, pool or block meets each condition.
    """
    numbers = _podms(podms, target)
    if target.selects_blocks:
        return _BlockFinder(podms, target, kinds).find(numbers)
    if target.pool is None:
        return [TargetMatch(number) for number in numbers]
    found = [(number, _pools(podms[number], target)) for number in numbers]
    matches = [TargetMatch(number, ids) for number, ids in found if ids]
    if not matches:
        _raise_no_pool([podms[number] for number in numbers], target)
    return matches


def pools_of(podm: LeanPodm) -> tuple[Pool, ...]:
    """Return the pools of a pod manager; one that lists none is one pool."""
    return podm.pools or (Pool(id=WHOLE_POOL),)


def members(podm: LeanPodm, pools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids of the pools that a block or a stock with these pools is in."""
    return pools if podm.pools else (WHOLE_POOL,)


def block_names(block: LeanBlock) -> tuple[str, ...]:
    """Return the names of a block: its URI, the last part of that, and what people call it."""
    names = (block.uri, block.uri.rstrip("/").rpartition("/")[2])
    return (*names, block.name) if block.name else names


def name_matcher(wanted: str) -> Matches:
    """Return whether one of several names is the wanted one, or matches it as a pattern."""
    if wanted == "*":
        return bool
    if not re.search(r"[*?\[]", wanted):
        return lambda names: wanted in names
    match = re.compile(fnmatch.translate(wanted)).match
    return lambda names: any(name == wanted or match(name) is not None for name in names)


def _podms(podms: Sequence[LeanPodm], target: Target) -> list[int]:
    numbers = list(range(len(podms)))
    trait = None if target.selects_blocks or target.selects_pools else target.trait
    for wanted, words, values in (
        (target.podm, "named", lambda podm: (podm.id, podm.name) if podm.name else (podm.id,)),
        (target.zone, "in zone", lambda podm: (podm.zone,) if podm.zone else ()),
        (target.aggregate, "in aggregate", lambda podm: podm.aggregates),
        (target.status, "with status", lambda podm: (podm.status,)),
        (trait, "with trait", lambda podm: podm.traits),
    ):
        if wanted is not None:
            matches = name_matcher(wanted)
            found = [number for number in numbers if matches(values(podms[number]))]
            if not found:
                known = {value for number in numbers for value in values(podms[number])}
                raise NothingMatches(f"pod manager {words} {wanted!r}", suggest(wanted, known))
            numbers = found
    if target.enabled is not None:
        numbers = [number for number in numbers if podms[number].enabled is target.enabled]
        if not numbers:
            word = "enabled" if target.enabled else "disabled"
            raise NothingMatches(f"pod manager that is {word}")
    return numbers


def _pools(podm: LeanPodm, target: Target) -> frozenset[str]:
    named = name_matcher(target.pool) if target.pool is not None else None
    has = name_matcher(target.trait) if target.trait is not None else None
    return frozenset(
        pool.id
        for pool in pools_of(podm)
        if (named is None or named((pool.id, pool.name) if pool.name else (pool.id,)))
        and (has is None or has((*podm.traits, *pool.traits)))
    )


def _raise_no_pool(podms: Sequence[LeanPodm], target: Target) -> None:
    wanted = target.pool if target.pool is not None else "*"
    matches = name_matcher(wanted)
    pools = [(podm, pool) for podm in podms for pool in pools_of(podm)]
    ids = {pool.id for _, pool in pools}
    if target.trait is None or not matches(ids):
        raise NothingMatches(f"pool named {wanted!r}", suggest(wanted, ids))
    traits = {trait for podm, pool in pools for trait in (*podm.traits, *pool.traits)}
    raise NothingMatches(f"pool with trait {target.trait!r}", suggest(target.trait, traits))


class _BlockFinder:
    """Finds blocks; what concerns a kind or a status is answered once for each distinct text."""

    def __init__(self, podms: Sequence[LeanPodm], target: Target, kinds: BlockKinds) -> None:
        self._podms, self._target, self._kinds = podms, target, kinds
        self._in_pool = target.pool is not None or target.trait is not None
        self._is_named = name_matcher(target.block) if target.block is not None else None
        conditions: list[tuple[str | None, str, Values]] = [
            (target.type, "of type", _types),
            (target.kind, "with a device of kind", _device_kinds),
            (target.model, "with a device of model", _models),
        ]
        self._conditions = [
            (wanted, words, values) for wanted, words, values in conditions if wanted is not None
        ]
        self._kind_meets: dict[BlockText, bool] = {}
        self._free: dict[bytes, bool] = {}

    def find(self, numbers: Sequence[int]) -> list[TargetMatch]:
        blocks = ((number, tuple(self._blocks(self._podms[number]))) for number in numbers)
        found = [TargetMatch(number, blocks=some) for number, some in blocks if some]
        if not found:
            self._raise_nothing([self._podms[number] for number in numbers])
        return found

    def _blocks(self, podm: LeanPodm) -> Iterator[int]:
        free = self._target.free
        pools = _pools(podm, self._target) if self._in_pool else None
        for number, block in enumerate(podm.blocks):
            if pools is not None and pools.isdisjoint(members(podm, block.pools)):
                continue
            if self._is_named is not None and not self._is_named(block_names(block)):
                continue
            if self._conditions:
                text = _text_of(block)
                if text not in self._kind_meets:
                    kind = self._kind(text)
                    met = (_is_met(kind, wanted, values) for wanted, _, values in self._conditions)
                    self._kind_meets[text] = all(met)
                if not self._kind_meets[text]:
                    continue
            if free is not None:
                status = bytes(block.status or b"")
                if status not in self._free:
                    self._free[status] = parse_status(status).slots > 0
                if self._free[status] is not free:
                    continue
            yield number

    def _kind(self, text: BlockText) -> BlockKind:
        types, devices = text
        return self._kinds.kinds[self._kinds.number(types, msgspec.Raw(devices), "site", "$")]

    def _raise_nothing(self, podms: Sequence[LeanPodm]) -> None:
        target, blocks = self._target, [(podm, block) for podm in podms for block in podm.blocks]
        if self._in_pool:
            pools = {podm.id: _pools(podm, target) for podm in podms}
            if not any(pools.values()):
                _raise_no_pool(podms, target)
            blocks = [
                (podm, block)
                for podm, block in blocks
                if not pools[podm.id].isdisjoint(members(podm, block.pools))
            ]
        if self._is_named is not None and target.block is not None:
            names = {block_names(block)[1] for _, block in blocks}
            blocks = [(podm, block) for podm, block in blocks if self._is_named(block_names(block))]
            if not blocks:
                raise NothingMatches(f"block named {target.block!r}", suggest(target.block, names))
        kinds = [self._kind(text) for text in {_text_of(block) for _, block in blocks}]
        for wanted, words, values in self._conditions:
            known = set().union(*map(values, kinds))
            kinds = [kind for kind in kinds if _is_met(kind, wanted, values)]
            if not kinds:
                raise NothingMatches(f"block {words} {wanted!r}", suggest(wanted, known))
        word = {True: " that is free", False: " that is in use", None: ""}[target.free]
        raise NothingMatches(f"block{word}")


def _text_of(block: LeanBlock) -> BlockText:
    return block.type, bytes(block.devices or b"")


def _types(kind: BlockKind) -> set[str]:
    return set(kind.types)


def _device_kinds(kind: BlockKind) -> set[str]:
    return {line.kind for line in kind.devices.accelerators}


def _models(kind: BlockKind) -> set[str]:
    have = kind.devices
    models = [line.model for line in have.processors]
    models += [line.model for line in have.accelerators]
    models += [line.model for line in have.drives]
    return set(filter(None, models))


def _is_met(kind: BlockKind, wanted: str, values: Values) -> bool:
    if values is _models:
        return any(has_words(model, wanted) for model in _models(kind))
    return wanted in values(kind)
