# SPDX-License-Identifier: Apache-2.0
"""Shadow prices: what hardware that flavors name costs requests that need not use it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from valence_sched.view.view import Floats

#: How far apart prices may be between which requests that name nothing still choose either.
TEMPERATURE = 0.2
ROUNDS = 50  # of the fixed point: it only grows, and to a bound


def shadow_prices(demand: Sequence[float], supply: Sequence[float]) -> Floats:
    """Return the price of each kind of hardware that flavors name: 0, nobody lacks it, to 1.

    ``demand`` is the part of all that is asked for that names the kind, ``supply`` the part of all
    that is free that is of it. As much is taken to be asked for as is free. A kind of which that
    names more than there is costs 1: each unit that another request takes is refused to one that
    names it. Requests that name nothing take a kind by its supply, times ``exp(-price /
    TEMPERATURE)``, and where a price is above 0 that is just what the others leave. These are the
    dual prices of the transport of requests to kinds, made smooth; kinds that share hardware are
    counted as if they did not.

    Example: 20 % of what is asked for names a kind that is 25 % of the site::

        >>> shadow_prices([0.2], [0.25]).round(2).tolist()
        [0.32]
    """
    asked, free = np.asarray(demand, dtype=float), np.asarray(supply, dtype=float)
    left = 1.0 - asked / free
    lacking = left <= 0.0
    unnamed = max(1.0 - asked.sum(), 1e-9)
    others = max(1.0 - free.sum(), 0.0)
    rate, prices = unnamed, np.ones(len(free))
    for _ in range(ROUNDS):
        ratio = rate / np.where(lacking, 1.0, left)
        prices = np.where(lacking, 1.0, np.clip(TEMPERATURE * np.log(ratio), 0.0, 1.0))
        taken = others + (free * np.exp(-prices / TEMPERATURE)).sum()
        rate = unnamed / max(taken, 1e-9)
    return prices
