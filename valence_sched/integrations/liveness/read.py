# SPDX-License-Identifier: Apache-2.0
"""Liveness by read: a pod manager is alive if it was read or reported recently."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from valence_sched.model.reading import Sign, parse_limit, within


def read(signs: Sequence[Sign], argument: str, now: datetime) -> Mapping[str, bool]:
    """Checks the last reading of each pod manager: ``read:AGE``, by default 10m."""
    limit_s = parse_limit(argument, "read")
    return {sign.id: within(sign.read_s, limit_s) for sign in signs}
