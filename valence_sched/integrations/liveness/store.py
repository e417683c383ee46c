# SPDX-License-Identifier: Apache-2.0
"""Liveness by store: a pod manager is alive if it reported to the store recently."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from valence_sched.model.reading import Sign, parse_limit, within


def store(signs: Sequence[Sign], argument: str, now: datetime) -> Mapping[str, bool]:
    """Checks the last report of each pod manager: ``store:AGE``, by default 10m."""
    limit_s = parse_limit(argument, "store")
    return {sign.id: within(sign.beat_s, limit_s) for sign in signs}
