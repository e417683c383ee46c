# SPDX-License-Identifier: Apache-2.0
"""Site: pod managers at one moment, with policies and flavors; finds the targets of edits."""

import fnmatch
import functools
import operator
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from valence_sched.config.settings import Configuration
from valence_sched.core.decider import Decider
from valence_sched.errors import NothingMatches, UnknownName, suggest
from valence_sched.inventory.loader import InventoryLoader
from valence_sched.model import inventory
from valence_sched.model.codec import decode
from valence_sched.model.flavor import Flavor
from valence_sched.model.inventory import FullPodm, LeanBlock, LeanPodm
from valence_sched.model.need import has_words
from valence_sched.model.policy import Policy
from valence_sched.model.reading import Selection
from valence_sched.model.request import FlavorShare, Mix
from valence_sched.model.scenario import EditEffect, Target, Template
from valence_sched.view.block_kinds import BlockKind, BlockKinds
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import View

BASE = "base"  # the name of a site without edits


@dataclass(frozen=True, eq=False)
class Site:
    """Pod managers, policies and flavors to plan with; an edit returns another site.

    ``podms`` lack the hardware of claims. ``policy`` is the default. Edited sites share ``kinds``.
    ``skipped`` are lines about unread documents, ``effects`` those of the edits.
    """

    name: str
    podms: tuple[LeanPodm, ...]
    policies: Mapping[str, Policy]
    flavors: Mapping[str, Flavor]
    templates: Mapping[str, Template] = field(default_factory=dict)
    policy: str = "default"
    skipped: tuple[str, ...] = ()
    effects: tuple[EditEffect, ...] = ()
    kinds: BlockKinds = field(default_factory=BlockKinds, repr=False)
    _views: list[View] = field(default_factory=list, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the View, which an unpickled site builds again."""
        return {**self.__dict__, "kinds": BlockKinds(), "_views": []}

    def view(self) -> View:
        """Return the View, built once; InputError for an invalid or duplicate pod manager."""
        if not self._views:
            builder = ViewBuilder(self.kinds)
            for number, podm in enumerate(self.podms):
                builder.add(podm, f"site {self.name}", f"$.podms[{number}]")
            self._views.append(builder.view())
        return self._views[0]

    def mix(self, shares: Mapping[str, float] | None = None) -> Mix:
        """Return the mix of some flavors, by default of all, each by its share; UnknownName."""
        if shares is None:
            shares = {name: one.share for name, one in self.flavors.items() if one.share}
        if unknown := [name for name in shares if name not in self.flavors]:
            raise UnknownName("flavor", unknown[0], self.flavors)
        pairs = ((self.flavors[name], share) for name, share in shares.items())
        return Mix(tuple(FlavorShare(one.needs, one.traits, share) for one, share in pairs))

    def decider(self, *, strict: bool = False) -> Decider:
        policies = self.policies.values()
        return Decider(self.view(), policies, mix=self.mix, skipped=self.skipped, strict=strict)

    def documents(self) -> Iterator[FullPodm]:
        for number, podm in enumerate(self.podms):
            json, place = inventory.to_json(podm), f"$.podms[{number}]"
            yield decode(json, FullPodm, f"site {self.name}", place)


def load_site(loader: InventoryLoader, config: Configuration, selection: Selection) -> Site:
    """Return the present site of a selection; same errors as for its view and its files."""
    view, podms = loader.view_and_podms(selection)
    files = config.policies(selection.policy_files), config.flavors(selection.flavor_files)
    site = Site(BASE, podms, *files, skipped=tuple(loader.skipped()), kinds=view.kinds)
    site._views.append(view)
    return site


def site_of(podms: Iterable[FullPodm], config: Configuration, selection: Selection) -> Site:
    """Return the site of pod managers of another scheduler; same errors as the files."""
    lean = tuple(
        decode(inventory.to_json(podm), LeanPodm, "the service", f"$[{number}]")
        for number, podm in enumerate(podms)
    )
    files = config.policies(selection.policy_files), config.flavors(selection.flavor_files)
    return Site(BASE, lean, *files)


Matches = Callable[[Collection[str]], bool]
BlockNumbers = dict[int, Sequence[int]]  # of some blocks, by the number of their pod manager


@dataclass(frozen=True, slots=True)
class TargetMatch:
    """Pools by id, or blocks by number, of one pod manager; without both, the whole pod manager."""

    podm: int
    pools: frozenset[str] = frozenset()
    blocks: tuple[int, ...] = ()


def find_targets(podms: Sequence[LeanPodm], target: Target, kinds: BlockKinds) -> list[TargetMatch]:
    """Return the matches of a target, by pod manager; NothingMatches without a match."""
    numbers = _podms(podms, target)
    if target.selects_blocks:
        return _find_blocks(podms, numbers, target, kinds)
    if target.pool is None:
        return [TargetMatch(number) for number in numbers]
    found = [(number, _pools(podms[number], target)) for number in numbers]
    matches = [TargetMatch(number, ids) for number, ids in found if ids]
    if not matches:
        _raise_no_pool([podms[number] for number in numbers], target)
    return matches


def pools_of(podm: LeanPodm) -> tuple[inventory.Pool, ...]:
    return podm.pools or (inventory.Pool(id=inventory.WHOLE_POOL),)


def members(podm: LeanPodm, pools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids of the pools that contain a block or a stock with these ``pools``."""
    return pools if podm.pools else (inventory.WHOLE_POOL,)


def block_names(block: LeanBlock) -> tuple[str, ...]:
    names = (block.uri, inventory.uri_tail(block.uri))
    return (*names, block.name) if block.name else names


def name_matcher(wanted: str) -> Matches:
    """Return a predicate: true if one of the given names equals or matches ``wanted``."""
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
            raise NothingMatches(f"pod manager that is {'en' if target.enabled else 'dis'}abled")
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


def _find_blocks(
    podms: Sequence[LeanPodm], numbers: Sequence[int], target: Target, kinds: BlockKinds
) -> list[TargetMatch]:
    """Narrow the blocks by one condition after another; an error names the first without match."""
    found: BlockNumbers = {at: range(len(podms[at].blocks)) for at in numbers}
    if target.pool is not None or target.trait is not None:
        pools = {at: _pools(podms[at], target) for at in numbers}
        if not any(pools.values()):
            _raise_no_pool([podms[at] for at in numbers], target)
        for at, podm in ((at, podms[at]) for at in numbers):
            inside = (not pools[at].isdisjoint(members(podm, it.pools)) for it in podm.blocks)
            found[at] = [number for number, is_inside in enumerate(inside) if is_inside]
    if target.block is not None:
        is_named = name_matcher(target.block)
        named = _narrowed(podms, found, lambda block: is_named(block_names(block)), (True,))
        if not any(named.values()):
            known = {block_names(block)[1] for block in _blocks(podms, found)}
            raise NothingMatches(f"block named {target.block!r}", suggest(target.block, known))
        found = named

    def kind_of(block: LeanBlock) -> int:
        return kinds.number(block.type, block.devices, "site", "$")

    for wanted, words, values, matches in (
        (target.type, "of type", lambda kind: set(kind.types), operator.eq),
        (target.kind, "with a device of kind", _accelerator_kinds, operator.eq),
        (target.model, "with a device of model", _models, has_words),
    ):
        if wanted is not None:
            present = set(map(kind_of, _blocks(podms, found)))
            by_kind = {number: values(kinds.kinds[number]) for number in present}
            met = {
                one for one, has in by_kind.items() if any(matches(each, wanted) for each in has)
            }
            if not met:
                known = set().union(*by_kind.values())
                raise NothingMatches(f"block {words} {wanted!r}", suggest(wanted, known))
            found = _narrowed(podms, found, kind_of, met)
    if target.free is not None:
        is_free = functools.cache(lambda status: inventory.parse_status(status).slots > 0)
        free = (target.free,)
        found = _narrowed(podms, found, lambda block: is_free(bytes(block.status or b"")), free)
    if not any(found.values()):
        word = {True: " that is free", False: " that is in use", None: ""}[target.free]
        raise NothingMatches(f"block{word}")
    return [TargetMatch(at, blocks=tuple(own)) for at, own in found.items() if own]


def _blocks(podms: Sequence[LeanPodm], found: BlockNumbers) -> Iterator[LeanBlock]:
    return (podms[at].blocks[number] for at, own in found.items() for number in own)


def _narrowed(
    podms: Sequence[LeanPodm],
    found: BlockNumbers,
    key: Callable[[LeanBlock], object],
    keys: Container[object],
) -> BlockNumbers:
    """Return the blocks whose ``key`` is one of the ``keys``."""
    return {
        at: [number for number in own if key(podms[at].blocks[number]) in keys]
        for at, own in found.items()
    }


def _accelerator_kinds(kind: BlockKind) -> set[str]:
    return {line.kind for line in kind.devices.accelerators}


def _models(kind: BlockKind) -> set[str]:
    lines = (*kind.devices.processors, *kind.devices.accelerators, *kind.devices.drives)
    return {model for line in lines if (model := getattr(line, "model", None))}
