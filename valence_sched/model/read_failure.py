# SPDX-License-Identifier: Apache-2.0
"""Read failure: why a pod manager is not read at present, and since when."""

from valence_sched.model.base import Noun
from valence_sched.model.inventory import PodmStatus


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
