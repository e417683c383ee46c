# SPDX-License-Identifier: Apache-2.0
"""The moment in which a fresh inventory takes over counting what a claim composed."""

from __future__ import annotations

import sqlalchemy as sa

from valence_sched.model.inventory import FullPodm


def settled(connection: sa.Connection, podm: FullPodm) -> list[str]:
    """Settle the claims whose composed node this reading shows; return their ids."""
    return []
