# SPDX-License-Identifier: Apache-2.0
"""Tight weigher: fills the pools with the smallest remaining amounts."""

import functools
import operator
from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from valence_sched.model.need import MEASURES, Need, need_for_measure, need_for_stock
from valence_sched.model.request import FlavorShare, Request
from valence_sched.view.availability import weighted_sum
from valence_sched.view.block_kinds import read_only
from valence_sched.view.terms import reads, reads_podm
from valence_sched.view.view import By, Floats, View

Scale = Annotated[float, Meta(gt=0, le=10**15)]
Within = Literal["site", "podm"]

NO_SCALES: Mapping[str, Scale] = MappingProxyType({})
LEAST = 1e-300  # avoids 0 / 0: on a full pod manager all pools score the same
_ORDER = operator.attrgetter("kind", "measure", "resource")
COUNTED = tuple(need for name, need in MEASURES.items() if name != "gpus")  # GPUs are accelerators


@reads("mix", optional=True)
@reads_podm()
def tight(
    view: View, request: Request, *, within: Within = "site", of: Mapping[str, Scale] = NO_SCALES
) -> Floats:
    """Prefers pools with the smallest leftover, of requested and of all other resources.

    The score is ``1 / (1 + x)``: ``x`` is the sum of ``amount / scale`` over all resources of
    blocks, each stock, and each custom class. The amount is the free amount of a requested
    resource, and the total of any other resource, so a request without accelerators prefers pools
    without accelerators. The scale is the mean amount in a node of the mix of flavors, else the
    requested amount. A resource without a scale counts as 1 if the pool has any of it. ``of`` sets
    scales by measure or by stock resource. With ``within: podm``, ``x`` is divided by its mean over
    the pools of the pod manager, so only pools of one pod manager are compared; a single pool
    scores 0.5. Source: best fit.

    Raises:
        ValueError: a scale is not above 0.
    """
    for name, scale in of.items():
        if not scale > 0.0:
            raise ValueError(f"the scale of {name!r} must be above 0, not {scale}")
    if within == "podm" and _pool_counts(view).max(initial=1.0) == 1.0:
        return view.constant(0.5)
    digest = request.mix.digest if request.mix.shares else ""
    resources = tuple([(need.kind, need.measure, need.resource) for need in request.needs])
    kinds, names = view.kinds, tuple(view.resources)
    key = ("tight", digest, resources, names, len(kinds), *of.items())
    terms: _Terms | None = kinds.derived.get(key)
    if terms is None:
        terms = kinds.derived.store(key, _new_terms(view, request, of, key))
    if not terms.unscaled:  # the scales do not depend on the amounts of the request
        make_score = functools.partial(_score, view, terms, terms.inverse_scales, within)
        return view.memoise_free(("tight", within), key, make_score)  # type: ignore[no-any-return]
    own = _mean_amounts(FlavorShare(request.needs))
    scales = np.array([1.0 / own[one] for one in terms.needed])
    known = terms.inverse_scales > 0.0
    return _score(view, terms, np.where(known, terms.inverse_scales, scales), within)


def _score(view: View, terms: "_Terms", inverse_scales: Floats, within: Within) -> Floats:
    left = _left(view, terms, inverse_scales, "pool")
    if within == "site":
        return read_only(1.0 / (1.0 + left))
    every, pools = _left(view, terms, inverse_scales, "podm") + LEAST, _pool_counts(view)
    score: Floats = every / (every + (left * pools + LEAST))
    score[pools == 1.0] = 0.5  # even if the pod manager has hardware outside its only pool
    return read_only(score)


class _Terms(NamedTuple):
    """The terms of a pool's leftover: free amounts of ``needed``, total amounts of ``others``.

    ``key`` identifies the terms. If ``unscaled``, needed resources of inverse scale 0 get their
    scale from the request. Other resources of scale None count as 1 if the pool has any of them.
    """

    key: tuple[object, ...]
    needed: tuple[Need, ...]
    inverse_scales: Floats
    unscaled: bool
    others: tuple[tuple[Need, float | None], ...]


def _new_terms(
    view: View, request: Request, of: Mapping[str, Scale], key: tuple[object, ...]
) -> _Terms:
    own = _mean_amounts(FlavorShare(request.needs))
    scales = _mean_amounts(*request.mix.shares)
    scales |= {_named(view, name): scale for name, scale in of.items()}
    stocks = [need_for_stock(name) for name in view.resources]
    devices = [one for one in (*COUNTED, *scales) if view.kinds.amounts(one).any()]
    present = {*stocks, *devices}  # any row of the whole View can have an amount of these
    # a fixed order, because the rounding of sums depends on it
    every = sorted(present | own.keys(), key=_ORDER)
    needed = tuple([one for one in every if one in own])
    inverse = read_only(np.array([1.0 / scales[one] if one in scales else 0.0 for one in needed]))
    others = tuple([(one, scales.get(one)) for one in every if one not in own])
    return _Terms(key, needed, inverse, not inverse.all(), others)


def _mean_amounts(*shares: FlavorShare) -> dict[Need, float]:
    """Return the mean amount of each resource that a node takes, from any kind of device."""
    amounts, weights = defaultdict[Need, float](float), sum(share.weight for share in shares)
    for share in shares:
        for need in share.needs:
            if need.amount:
                resource = Need(
                    kind=need.kind, measure=need.measure, amount=0, resource=need.resource
                )
                amounts[resource] += share.weight * need.total_amount() / weights
    return dict(amounts)


def _named(view: View, name: str) -> Need:
    return need_for_stock(name) if name in view.resources else need_for_measure(name)


def _left(view: View, terms: _Terms, inverse_scales: Floats, by: By) -> Floats:
    make = functools.partial(view.free_table, terms.needed, by)
    table = view.memoise_free(("tight", by), terms.needed, make)
    free = weighted_sum(table, inverse_scales)
    return free + _others(view, terms, by) if terms.others else free


def _others(view: View, terms: _Terms, by: By) -> Floats:
    """Return the part of ``x`` for the other resources, whose totals no node changes."""

    def make() -> Floats:
        amounts = np.zeros(len(view))
        for resource, scale in terms.others:
            total = view.total(resource, by)
            amounts += total > 0.0 if scale is None else total / scale
        return amounts

    return view.memoise_selected((*terms.key, by), operator.getitem, make)  # type: ignore[no-any-return]


def _pool_counts(view: View) -> Floats:
    def make() -> Floats:
        return np.array([max(1.0, len(podm.pools)) for podm in view.podms])[view.podm_of]

    return view.memoise_selected(("tight", "pools"), operator.getitem, make)  # type: ignore[no-any-return]
