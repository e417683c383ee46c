# SPDX-License-Identifier: Apache-2.0
"""Preparation of a process that answers in several threads: what must happen in one of them."""

from __future__ import annotations

import importlib

from valence_sched.app import import_late_modules
from valence_sched.model.preparation import ROOM, prepare_nouns

#: Imported late by their callers; they define, or import, what a request decodes.
MODULES = ("service.idempotency", "service.operations")


def prepare_process() -> int:
    """Prepare every noun that a request may decode; return how many there are."""
    import_late_modules()
    for name in MODULES:
        importlib.import_module(ROOM + name)
    return prepare_nouns()
