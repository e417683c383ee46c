# SPDX-License-Identifier: Apache-2.0
"""A node as the store remembers it: what was composed for which claim."""

from __future__ import annotations

from valence_sched.model.inventory import Name
from valence_sched.model.noun import Noun


class Composed(Noun, frozen=True, kw_only=True):
    """A node on one pod manager; ``id`` is ours, ``uri`` the pod manager's.

    ``created_at`` is seconds since 1970 by the clock of the database.
    """

    id: Name
    podm: Name
    uri: Name
    claim: Name
    name: str | None = None
    owner: str | None = None
    group: str | None = None
    pool: str | None = None
    blocks: tuple[str, ...] = ()
    created_at: float = 0.0
