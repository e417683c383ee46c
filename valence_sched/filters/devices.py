# SPDX-License-Identifier: Apache-2.0
"""Devices filter: keeps pools with enough free devices of each requested kind."""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched.model.need import Need
from valence_sched.model.quantity import format_size
from valence_sched.model.request import Request
from valence_sched.view.availability import sufficient, uncounted
from valence_sched.view.terms import Term, reads_podm, terms
from valence_sched.view.view import View


@reads_podm()
@terms
def devices(view: View, request: Request) -> Iterator[Term]:
    """Keeps pools with enough free devices of each requested kind."""
    for need, holds in zip(request.needs, sufficient(view, request.needs), strict=True):
        if need.measure == "devices" and holds is not view.all_rows:
            have, podm_have = view.free(need), view.free(need, "podm")
            models = functools.partial(_free_models, view, need)
            label = " of ".join((need.label, *need.sizes))
            yield Term(label, need.amount, have, holds=holds, podm_have=podm_have, instead=models,
                       uncounted=functools.partial(uncounted, view, need))  # fmt: skip


def _free_models(view: View, need: Need, row: int) -> Counter[str]:
    table, position = view.block_tables[view.podm_of[row]], int(view.position_of[row])
    blocks = zip(table.kinds, table.slots, table.pools, strict=True)
    kinds = Counter(kind for kind, slots, pools in blocks if slots > 0 and position in pools)
    models: Counter[str] = Counter()
    least = [test.attribute for test in need.tests if test.operator == "at_least"]
    wanted = {test.value for test in need.tests if test.attribute == "kind"}
    for kind, number in kinds.items():
        for device_kind, device in view.kinds.devices_of(kind):
            if device_kind != need.kind or (wanted and device.kind not in wanted):
                continue
            if need.accepts(device.condition):  # an unknown number counts as one
                models[_name(device, least)] += number * (device.count or 1)
    return models


def _name(device: Any, least: Sequence[str]) -> str:
    amounts = ((name, getattr(device, name, None)) for name in least)
    sizes = [f"of {format_size(amount, name)}" for name, amount in amounts if amount]
    return " ".join(filter(None, (getattr(device, "model", None), *sizes))) or "of unknown model"
