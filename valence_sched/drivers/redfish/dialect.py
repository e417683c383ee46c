# SPDX-License-Identifier: Apache-2.0
"""The dialect of DMTF Redfish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valence_sched.drivers.composer import Composer, Session
from valence_sched.drivers.dialect import Dialect
from valence_sched.drivers.http.exchange import MakePatience
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.drivers.redfish.schema import ServiceRoot
from valence_sched.drivers.redfish.stocks import PERSISTENT, STORAGE, VOLATILE

if TYPE_CHECKING:
    from valence_sched.drivers.redfish.methods import ChangeMethod, ComposeMethod


def redfish(
    methods: tuple[ComposeMethod, ...] = (), changes: tuple[ChangeMethod, ...] = ()
) -> Dialect:
    """DMTF Redfish with any version of the CompositionService.

    The compose ``methods`` of a vendor, and its ``changes`` of the blocks of a node, are tried
    before the standard methods.
    """

    def composer(session: Session, patience: MakePatience) -> Composer:
        from valence_sched.drivers.redfish.composer import RedfishComposer  # not needed to read

        return RedfishComposer(session, patience, methods, changes)

    return Dialect(
        "redfish",
        ServiceRoot,
        read_podm,
        composer=composer,
        amounts=frozenset((VOLATILE, PERSISTENT, STORAGE)),
        services=(ServiceRoot.composition,),
        bare_blocks=(ServiceRoot.blocks,),
        hosts=(ServiceRoot.hosts,),
    )
