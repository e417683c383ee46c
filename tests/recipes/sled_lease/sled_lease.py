# SPDX-License-Identifier: Apache-2.0
"""The dialect of pod managers that lease sleds."""

from __future__ import annotations

from collections.abc import Callable

from valence_sched.drivers.composer import Composer, Session
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.fields import Json
from valence_sched.drivers.http.exchange import Patience

from .reader import LeaseRoot, read_podm


def sled_lease() -> Dialect:
    """Sleds that are leased whole."""
    return Dialect("sled_lease", LeaseRoot, read_podm, leases_sleds, _composer)


def leases_sleds(root: Json) -> bool:
    """Return whether a service root belongs to a pod manager that leases sleds."""
    oem = root.get("Oem")
    return isinstance(oem, dict) and "SledLease" in oem


def _composer(session: Session, patience: Callable[[], Patience]) -> Composer:
    from .composer import LeaseComposer  # not needed to read

    return LeaseComposer(session)
