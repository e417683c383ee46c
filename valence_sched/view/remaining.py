# SPDX-License-Identifier: Apache-2.0
"""The remaining amounts of a pool or pod manager, in nodes of the mix of flavors."""

import functools
import operator
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from valence_sched.model.need import MEASURES, Need, measures, need_for_measure, need_for_stock
from valence_sched.model.request import FlavorShare, Request
from valence_sched.view.availability import weighted_sum
from valence_sched.view.block_kinds import read_only
from valence_sched.view.view import By, Floats, View

Scale = Annotated[float, Meta(gt=0, le=10**15)]
Within = Literal["site", "podm"]
#: Returns the remaining amounts by row, of the pool or of the pod manager.
Remaining = Callable[[By], Floats]

NO_SCALES: Mapping[str, Scale] = MappingProxyType({})
ORDER = operator.attrgetter("kind", "measure", "resource")
COUNTED = tuple(need for name, need in MEASURES.items() if name != "gpus")  # GPUs are accelerators


def score_remaining(
    view: View,
    request: Request,
    score: Callable[[View, Remaining], Floats],
    key: Hashable,
    of: Mapping[str, Scale] = NO_SCALES,
    *,
    only_requested: bool = False,
) -> Floats:
    """Return a score of the remaining amounts of every row; the View memoises it by ``key``.

    The remaining amount is the sum of ``amount / scale`` over all resources, or the requested ones
    only: the free amount of a requested resource, the total of another. The scale is the mean
    amount in a node of the mix, else the requested amount, or set by ``of`` (measure or stock). A
    resource without a scale counts as 1 if the row has any of it.
    """
    digest = request.mix.digest if request.mix.shares else ""
    kinds, names, measured = view.kinds, tuple(view.resources), measures(request.needs)
    terms_key = ("remaining", digest, measured, names, len(kinds), only_requested, *of.items())
    terms: _Terms | None = kinds.derived.get(terms_key)
    if terms is None:
        terms = kinds.derived.store(terms_key, _new_terms(view, request, of, only_requested))

    def make(inverse_scales: Floats = terms.inverse_scales) -> Floats:
        return read_only(score(view, functools.partial(_remaining, view, terms, inverse_scales)))

    if not terms.unscaled:  # the scales do not depend on the amounts of the request
        return view.memoise_free(key, terms, make)  # type: ignore[no-any-return]
    own = mean_amounts(FlavorShare(request.needs))
    scales = np.array([1.0 / own[one] for one in terms.needed])
    return make(np.where(terms.inverse_scales > 0.0, terms.inverse_scales, scales))


class _Terms(Struct, frozen=True, eq=False):
    """The terms of the remaining amounts: free amounts of ``needed``, total amounts of ``others``.

    If ``unscaled``, an inverse scale of 0 is replaced by the request's.
    """

    needed: tuple[Need, ...]
    inverse_scales: Floats
    unscaled: bool
    others: list[tuple[Need, float | None]]


def _new_terms(
    view: View, request: Request, of: Mapping[str, Scale], only_requested: bool
) -> _Terms:
    own = mean_amounts(FlavorShare(request.needs))
    scales = mean_amounts(*request.mix.shares)
    scales |= {_named(view, name): scale for name, scale in of.items()}
    stocks = [need_for_stock(name) for name in view.resources]
    devices = [one for one in (*COUNTED, *scales) if view.kinds.amounts(one).any()]
    present = {*stocks, *devices}  # any row of the whole View can have an amount of these
    # a fixed order, because the rounding of sums depends on it
    every = sorted(present | own.keys(), key=ORDER)
    needed = tuple([one for one in every if one in own])
    inverse = read_only(np.array([1.0 / scales[one] if one in scales else 0.0 for one in needed]))
    others = [] if only_requested else [one for one in every if one not in own]
    return _Terms(needed, inverse, not inverse.all(), [(one, scales.get(one)) for one in others])


def mean_amounts(*shares: FlavorShare) -> dict[Need, float]:
    """Return the mean amount of each measure or stock in a node of the shares."""
    amounts, weights = defaultdict[Need, float](float), sum(share.weight for share in shares)
    for share in shares:
        for need in share.needs:
            if need.amount:
                amounts[need.as_measure] += share.weight * need.total_amount() / weights
    return dict(amounts)


def _named(view: View, name: str) -> Need:
    return need_for_stock(name) if name in view.resources else need_for_measure(name)


def _remaining(view: View, terms: _Terms, inverse_scales: Floats, by: By) -> Floats:
    free = weighted_sum(view.free_table(terms.needed, by), inverse_scales)
    return free + _others(view, terms, by) if terms.others else free


def _others(view: View, terms: _Terms, by: By) -> Floats:
    """Return the part of the other resources, whose totals no node changes."""

    def make() -> Floats:
        amounts = np.zeros(len(view))
        for resource, scale in terms.others:
            total = view.total(resource, by)
            amounts += total > 0.0 if scale is None else total / scale
        return amounts

    return view.memoise_selected(("remaining", terms, by), operator.getitem, make)  # type: ignore[no-any-return]


def pool_counts(view: View) -> Floats:
    """Return the number of pools of the pod manager of each row, at least 1."""

    def make() -> Floats:
        return np.array([max(1.0, len(podm.pools)) for podm in view.podms])[view.podm_of]

    return view.memoise_selected(("remaining", "pools"), operator.getitem, make)  # type: ignore[no-any-return]
