# SPDX-License-Identifier: Apache-2.0
"""Fragmentation weigher: leaves scarce resources usable for the usual mix of flavors."""

import functools
from collections.abc import Callable, Hashable
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from valence_sched.model.need import Need
from valence_sched.model.request import FlavorShare, Mix, MixSupplies, Request
from valence_sched.view.availability import feasible_rows
from valence_sched.view.block_kinds import BoundedMemo, read_only
from valence_sched.view.fragmentation import FlavorMix, MixSupply, flavor_mix, may_have
from valence_sched.view.leftover import Leftover, leftover
from valence_sched.view.reads import completes_mix, reads, reads_podm
from valence_sched.view.view import Floats, Ints, Labels, Mask, View

MOST_GROWTHS = 16  # nodes whose growth is remembered
#: Returns the weight of the use of rows with these traits.
Weighted = Callable[[Labels], Floats]


class _Site(Struct, frozen=True, eq=False):
    """The rows to score, the compiled mix, the weight of its use, and a key of mix and weight."""

    view: View
    workload: FlavorMix
    key: Hashable
    weighted: Weighted

    def free(self, part: View) -> Leftover:
        """Return the free amounts of the resources of the mix on some rows."""
        workload = self.workload
        return leftover(part, workload.resources, blocks=workload.uses_blocks)


class _ScarceRows(Struct, frozen=True, eq=False):
    """Rows that have any of the scarce resource, with their free amounts.

    The mix has no use for ``lost`` of them. ``growth`` has, for the needs of recent nodes, the rows
    where the node may fit and the growth of ``F`` on them.
    """

    rows: Ints
    free: Leftover
    supply: MixSupply
    lost: Floats
    weights: Floats
    growth: BoundedMemo[tuple[Need, ...], tuple[Ints, Floats]]


def mix_supplies(
    view: View, mix: Mix, *, of: str = "accelerators", step: float = 0.0, protect: bool = False
) -> MixSupplies:
    """Return the supply of the scarce resource to the shares of a mix by all pools of a View.

    The first half has for each share the free amount in all pools that it can use. With ``protect``
    the second half has the amount that it could use, free or in use. The result is empty if the mix
    has its scarcity, or if no share requires traits, models or other attributes of devices, or,
    with ``protect``, several devices.
    """
    if mix.scarcity:
        return ()
    compiled = flavor_mix(view, mix, of)
    if not compiled.may_be_scarce(protect=protect):
        return ()
    return compiled.supplies(view, protect=protect)


def with_scarcity(
    mix: Mix,
    supplies: MixSupplies,
    *,
    of: str = "accelerators",
    step: float = 0.0,
    protect: bool = False,
) -> Mix:
    """Return a mix with the scarcity of its shares, from the supplies of all pools.

    Source of the formula: :func:`valence_sched.view.fragmentation.scarcity`.
    """
    if not supplies:
        return mix
    scarcity = FlavorMix(mix.shares, of).scarcity(supplies, protect=protect)
    return msgspec.structs.replace(mix, scarcity=scarcity) if scarcity else mix


@completes_mix(mix_supplies, with_scarcity)
@reads("mix", optional=True)
@reads_podm("traits")
def fragmentation(
    view: View,
    request: Request,
    *,
    of: str = "accelerators",
    step: Annotated[float, Meta(ge=0, le=1)] = 0.0,
    protect: bool = False,
) -> Floats:
    """Prefers pools whose scarce resource loses least of its use for the mix of flavors.

    ``F`` is the expected free amount on a pool without a use for the mix, the mean over the flavors
    by weight. If the pool cannot make the node of a flavor, all of it is useless. Else the useless
    parts are of another kind, in too small pieces, or beyond two and a half times the amount that
    ``m`` nodes take: ``m`` is the least of ``free / needed`` over the other needs of the node, not
    rounded.

    The score is ``0.5 - g / (2 * (|g| + one))``, where ``g`` is the growth of ``F`` by this node:
    0.5 if no use is lost, less if use is lost, more if useless rests are used up. The scarce
    resource is ``accelerators`` of blocks, or ``of`` names a stock resource; ``one`` is one device,
    or the largest amount that a flavor asks of one stock. Growths that round to one multiple of
    ``step``, in parts of ``one``, are equal. A pool without the scarce resource, or with too little
    for one of the needs, scores 0.5. A request without a mix is its own mix.

    If flavors name traits, models or other attributes, ``F`` multiplies the use of such a flavor by
    its scarcity: the supply of the best supplied flavor on all pools divided by its own. With
    ``protect`` all flavors of such a mix are scarce, more if their supply runs out sooner. Flavors
    are also scarce if the mix may ask for more of their nodes than there is room for. A pool with
    traits that flavors name also counts for the needs of all flavors, with five times the weight of
    the flavors that name the traits.

    If several needs could share blocks, the blocks of a node are estimated: the cheapest ones for
    each need in turn. Source: the fragmentation gradient of "Beware of Fragmentation" (USENIX ATC
    2023), here of a pool's blocks and stocks, and absolute. There, hardware that can take one node
    is of use as a whole. The bound by the resource that runs out first is ours: two and a half
    times the amount that this flavor alone could use, because nodes of other flavors need less of
    the other resources.
    """
    if not may_have(view, of):
        return view.constant(0.5)
    mix = request.mix if request.mix.shares else Mix((FlavorShare(request.needs, request.traits),))
    workload = flavor_mix(view, mix, of)
    if not workload:
        return view.constant(0.5)
    candidates = feasible_rows(view, request.needs)
    weighted = functools.partial(workload.weights, scarcity=mix.scarcity, protect=protect)
    site = _Site(view, workload, (mix.digest, of, mix.scarcity, protect), weighted)
    rows, growth = _growth(site, request, candidates)
    if not len(rows):
        return view.constant(0.5)
    growth = growth / workload.largest_request
    if step:
        growth = np.rint(np.round(growth / step, 6)) * step
    score = np.full(len(view), 0.5)
    score[rows] = 0.5 - growth / (2.0 * (np.abs(growth) + 1.0))
    return score


def _growth(site: _Site, request: Request, candidates: Mask) -> tuple[Ints, Floats]:
    """Return the candidates with any of the scarce resource, and the growth of ``F`` on each."""
    view, needs = site.view, tuple(map(site.view.kinds.whole_amount, request.needs))
    if 2 * np.count_nonzero(candidates) < len(view):
        scarce = _scarce_rows(site, candidates.nonzero()[0])
        return scarce.rows, _growth_on(scarce, site.workload, needs, None)
    # the next request probably needs all of it, too
    make = functools.partial(_scarce_rows, site, None)
    scarce = view.memoise_latest("fragmentation", site.key, make)
    known = scarce.growth.get(needs)  # the same blocks satisfy equal needs: the rows are the same
    if known is None:
        feasible = None if candidates is view.all_rows else candidates[scarce.rows]
        rows = scarce.rows if feasible is None else scarce.rows[feasible]
        growth = _growth_on(scarce, site.workload, needs, feasible)
        known = scarce.growth.store(needs, (rows, read_only(growth)))
    rows, growth = known
    return rows, growth


def _growth_on(
    scarce: _ScarceRows, workload: FlavorMix, needs: tuple[Need, ...], feasible: Mask | None
) -> Floats:
    """Return the growth of ``F`` on the ``feasible`` rows of some; None: on all of them."""
    if not len(scarce.rows):
        return np.empty(0)
    after = workload.supply_after(scarce.supply, scarce.free, needs, feasible)
    growth: Floats = workload.fragmentation(after, scarce.weights) - scarce.lost
    return growth if feasible is None else growth[feasible]


def _scarce_rows(site: _Site, rows: Ints | None) -> _ScarceRows:
    """Return the rows, of these or of all, that have any of the scarce resource."""
    free, traits = site.free(site.view), site.view.traits
    if rows is not None:
        free, traits = free.take(rows), traits.select(rows)
    supply = site.workload.supply(free)
    scarce = (supply.free > 0.0).nonzero()[0]
    rows = scarce if rows is None else rows[scarce]
    if len(scarce) < len(supply.free):
        free, supply, traits = free.take(scarce), supply.columns(scarce), traits.select(scarce)
    weights = site.weighted(traits)
    lost = site.workload.fragmentation(supply, weights)
    return _ScarceRows(rows, free, supply, lost, weights, BoundedMemo(MOST_GROWTHS))
