# SPDX-License-Identifier: Apache-2.0
"""Read failure: why a pod manager is not read at present; and what a reading is compared with."""

from typing import Any, NamedTuple, Self

from valence_sched.model.base import Noun
from valence_sched.model.inventory import WHOLE_POOL, Node, Podm, PodmStatus
from valence_sched.model.quantity import format_count


class ReadFailure(Noun, frozen=True, kw_only=True):
    """Why the last reading of a pod manager failed; ``reason`` is one line without its name.

    ``status`` is Offline where it did not answer, Unknown where its answer could not be read.
    Readings fail since ``since``, in seconds since 1970 by the clock of the store. Where it is
    ``refused``, another service answers: nothing that was read under the name may be used.
    """

    reason: str
    status: PodmStatus = "Offline"
    since: float = 0.0
    refused: bool = False


#: The share of the blocks of the last reading below which those that are gone are noted.
LEAST_FOUND = 0.9


class PreviousReading(NamedTuple):
    """The last reading of a pod manager: the URIs of its blocks, ids of its pools, its nodes."""

    blocks: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    nodes: tuple[Node, ...] = ()

    @classmethod
    def of(cls, podm: Podm[Any, Any]) -> Self:
        """Return what a pod manager has."""
        blocks, pools = (it.uri for it in podm.blocks), (it.id for it in podm.pools)
        return cls(frozenset(blocks), frozenset(pools), podm.nodes)

    def loss(self, podm: Podm[Any, Any]) -> str:
        """Return in words which blocks the next reading lacks, empty where it lacks only few."""
        gone = sorted(self.blocks.difference(block.uri for block in podm.blocks))
        found = len(self.blocks) - len(gone)
        if found >= LEAST_FOUND * len(self.blocks):
            return ""
        count = f"{found} of the {format_count(len(self.blocks), 'block')} of the last reading"
        more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
        return f"found {count}, without {', '.join(gone[:3])}{more}"

    @property
    def has_zones(self) -> bool:
        """Whether the pod manager told its pools."""
        return not self.pools <= {WHOLE_POOL}
