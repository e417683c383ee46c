# SPDX-License-Identifier: Apache-2.0
"""The entry point of ``valence-sched``: it sets the garbage collector up for a short run."""

from __future__ import annotations

import gc
from collections.abc import Sequence

COLLECT_AFTER = 200_000  # new objects: a command ends soon, and makes few that are garbage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    gc.set_threshold(COLLECT_AFTER)  # before what is imported makes most of the objects
    from valence_sched_cli import shell

    try:
        return shell.main(argv)
    finally:
        gc.freeze()  # what is left ends with the process: its end need not search it for cycles
