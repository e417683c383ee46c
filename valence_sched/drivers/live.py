# SPDX-License-Identifier: Apache-2.0
"""Live pod managers: read in parallel, each within a deadline, none in the way of another."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from valence_sched.drivers.fields import Json
from valence_sched.model.inventory import FullPodm
from valence_sched.model.registered import Registered


@dataclass(frozen=True, slots=True)
class Target:
    """A pod manager to read, and the password it is read with; never printed."""

    registered: Registered
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """How to read: seconds for each pod manager, and parallel requests to each.

    ``cache`` is a folder that keeps documents which rarely change; ``full`` reads them again.
    """

    timeout_s: float = 30.0
    parallel: int = 4
    full: bool = False
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading one pod manager.

    When it could not be read, ``podm`` has status Offline (it does not answer) or Unknown (it
    does, and cannot be understood) and nothing to hand out, and ``failure`` says why in one
    line. ``problems`` are lines as for a recorded tree. ``documents`` are what was read, by URI.
    """

    podm: FullPodm
    failure: str | None = None
    problems: list[str] = field(default_factory=list)
    documents: dict[str, Json] = field(default_factory=dict, repr=False)
    requests: int = 0
    seconds: float = 0.0
