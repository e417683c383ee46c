# SPDX-License-Identifier: Apache-2.0
"""Tight weigher: fills the pools with the fewest scarce resources."""

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import numpy as np
from msgspec import Meta

from valence_sched.model.need import MEASURES, Need
from valence_sched.model.request import Request
from valence_sched.view.podm_fields import reads_podm
from valence_sched.view.view import Floats, View

Scale = Annotated[float, Meta(gt=0, le=10**15)]

_SCALES = {"accelerators": 1.0, "cores": 1e3, "memory_mib": 1e7}
SCARCITY: Mapping[str, Scale] = MappingProxyType(_SCALES)
SCARCE = {name: MEASURES[name] for name in SCARCITY}  # what is no measure is a stock


@reads_podm()
def tight(view: View, request: Request, *, of: Mapping[str, Scale] = SCARCITY) -> Floats:
    """Prefers pools where least is free of what is asked for, and least there of what is not.

    ``1 / (1 + x)``, where ``x`` is the sum of ``amount / scale`` over the things that ``of`` names
    with their scale: ``accelerators``, ``cores``, ``memory_mib``, or a stock resource, which
    goes before a measure of the same name. The amount of a thing that the request needs is what is
    free of it, of any other all that there is, in use or not: what asks for no accelerator goes
    where none ever were. By default one accelerator weighs as much as 1,000 cores, so that cores,
    then memory, decide between equal numbers of it. Source: best fit.

    Raises:
        ValueError: a scale is not above 0.
    """
    amount = np.zeros(len(view))
    needed = {(need.kind, need.resource) for need in request.needs if need.amount > 0}
    for name, scale in of.items():
        if not scale > 0.0:
            raise ValueError(f"the scale of {name!r} must be above 0, not {scale}")
        thing = _stock(name) if name in view.resources else SCARCE.get(name) or _stock(name)
        counted = view.free if (thing.kind, thing.resource) in needed else view.total
        amount += counted(thing) / scale
    score: Floats = 1.0 / (1.0 + amount)
    return score


@functools.lru_cache(256)
def _stock(name: str) -> Need:
    return Need(kind="stock", measure="amount", amount=0, resource=name)
