# SPDX-License-Identifier: Apache-2.0
"""Fragmentation of a site: the share of its free accelerators that the mix has no use for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from valence_sched.model.request import Mix
from valence_sched.view.fragmentation import (
    ACCELERATORS,
    flavor_mix,
    has_accelerators,
    useless_and_free,
)
from valence_sched.view.view import Floats, View


class MixFragmentation:
    """Measures a View that nodes are taken from; only the podms that changed are measured again.

    It is the measure of the weigher ``fragmentation``, added up over all pools. ``changed`` are
    the numbers of podms that changed since the last measurement; the caller adds to it.
    """

    resource = ACCELERATORS

    def __init__(self, view: Callable[[], View], mix: Mix) -> None:
        self._view = view
        first = view()
        self._workload = flavor_mix(first, mix, ACCELERATORS) if mix.shares else None
        self.changed = set(range(len(first.podms)))
        self._useless: Floats = np.zeros(len(first))
        self._free: Floats = np.zeros(len(first))
        self._share = 0.0
        supplied = bool(self._workload) and has_accelerators(first)
        self._absent = not supplied

    def share(self) -> float | None:
        """Return the share from 0 to 1; None without accelerators, or flavors that need any."""
        if self._absent:
            return None
        if self.changed:
            self._measure()
            free = float(self._free.sum())
            self._share = float(self._useless.sum()) / free if free > 0.0 else 0.0
        return self._share

    def _measure(self) -> None:
        view, workload = self._view(), self._workload
        assert workload is not None, "without a mix the share is absent"
        first = view.first_row
        podms = sorted(self.changed)
        rows = np.concatenate([np.arange(first[podm], first[podm + 1]) for podm in podms])
        self._useless[rows], self._free[rows] = useless_and_free(view, rows, workload)
        self.changed.clear()
