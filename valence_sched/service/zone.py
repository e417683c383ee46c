# SPDX-License-Identifier: Apache-2.0
"""ServedZone: the zone of a service, as the zone above asks it."""

from __future__ import annotations

from typing import Protocol

from valence_sched.model.zone import OfferingZone


class ServedZone(Protocol):
    """The zone of one process; ``deadline_s`` and ``most_hops`` bound what may be asked of it."""

    @property
    def deadline_s(self) -> float: ...

    @property
    def most_hops(self) -> int: ...

    def tree(self, tenant: str) -> OfferingZone:
        """Return the zone and those below it, as they are now, asked for a tenant.

        Errors as of a state.
        """
