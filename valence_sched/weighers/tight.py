# SPDX-License-Identifier: Apache-2.0
"""Tight weigher: fills the pools with the fewest free scarce resources."""

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
    """Prefers pools where least is free of what is scarce, whatever is asked for.

    ``1 / (1 + x)``, where ``x`` is the sum of ``free / scale`` over the things that ``of`` names
    with their scale: ``accelerators``, ``cores``, ``memory_mib``, or a stock resource, which
    goes before a measure of the same name. By default one accelerator weighs as much as 1,000
    cores, so that cores, then memory, decide between equal numbers of it. Source: best fit.

    Raises:
        ValueError: a scale is not above 0.
    """
    free = np.zeros(len(view))
    for name, scale in of.items():
        if not scale > 0.0:
            raise ValueError(f"the scale of {name!r} must be above 0, not {scale}")
        stock = Need(kind="stock", measure="amount", amount=0, resource=name)
        free += view.free(stock if name in view.resources else SCARCE.get(name, stock)) / scale
    score: Floats = 1.0 / (1.0 + free)
    return score
