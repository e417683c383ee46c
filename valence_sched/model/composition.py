# SPDX-License-Identifier: Apache-2.0
"""Making a node: what is wanted of a pod manager, and what came of it by reading back."""

from __future__ import annotations

from typing import Literal

from valence_sched.model.claim import Grant
from valence_sched.model.inventory import Devices
from valence_sched.model.noun import Noun

#: What is there after a write, whatever the answer to it was.
#:
#: composed  the node is there, of all its blocks
#: absent    no node, and nothing of ours in its blocks
#: left      something is there that is not the node: it must be taken back
#: unknown   it could not be read back, so anything may be there
State = Literal["composed", "absent", "left", "unknown"]


class Wanted(Noun, frozen=True, kw_only=True):
    """A node to make of these very blocks and amounts; ``name`` is found nowhere else.

    ``devices`` are those of the blocks together, for pod managers that choose blocks themselves.
    """

    name: str
    pool: str | None = None
    blocks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    devices: Devices = Devices()


class Outcome(Noun, frozen=True, kw_only=True):
    """What a pod manager has after a write.

    ``node`` is the URI of the node, ``blocks`` what it is really made of. ``reason`` says in
    words what was refused, what is left, or why it cannot be known. It ``works`` when it will
    change by itself.
    """

    state: State
    node: str | None = None
    blocks: tuple[str, ...] = ()
    reason: str = ""
    works: bool = False
