# SPDX-License-Identifier: Apache-2.0
"""The loss of each shipped policy on generated sites.

The loss is the percentage of the nodes of the optimum that a policy does not place one by one, on
the sites of :mod:`tests.benchmarks.sites`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.benchmarks.measure import Measurement, against, sized
from tests.benchmarks.placing import POLICIES
from tests.benchmarks.sites import lost, sites
from tests.benchmarks.trace import built_in

MOST_MEAN, MOST_WORST = 3.0, 5.0  # percent lost
ORDERS = sized(2, 1)  # orders in which the nodes of a site are requested


def comparing() -> Iterator[Measurement]:
    """Generated sites by policy: the mean, and the worst site."""
    every, ways = built_in(), [(site, order) for site in sites() for order in range(ORDERS)]
    for name in POLICIES:
        found = [lost(site, every[name], order) for site, order in ways]
        for where, value, most in (
            ("generated sites", statistics.mean(found), MOST_MEAN),
            ("generated sites, worst", max(found), MOST_WORST),
        ):
            yield against(f"comparing: {where}, {name}", value, most, 1.0, "% lost")
