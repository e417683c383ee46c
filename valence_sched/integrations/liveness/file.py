# SPDX-License-Identifier: Apache-2.0
"""Liveness by file: a pod manager is alive if its file was written recently."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from valence_sched.errors import UsageError
from valence_sched.model.quantity import parse_age
from valence_sched.model.reading import DEFAULT_LIMIT_S, Sign, within


def file(signs: Sequence[Sign], argument: str, now: datetime) -> Mapping[str, bool]:
    """Checks the age of each pod manager's file: ``file:FOLDER`` or ``file:FOLDER:AGE``.

    A file has the name of its pod manager, with ``%2F`` for a slash. The default age is 10m.
    """
    folder, limit_s = Path(os.path.expanduser(argument)), DEFAULT_LIMIT_S
    name, colon, age = argument.rpartition(":")
    if colon and not os.path.isdir(argument):
        with suppress(ValueError):  # the colon belongs to the folder
            folder, limit_s = Path(os.path.expanduser(name)), parse_age(age)
    if not argument or not os.path.isdir(folder):
        raise UsageError(f"file: {argument or 'nothing'!r} is not a folder")
    files = {sign.id: folder / quote(sign.id, safe="") for sign in signs}
    return {id_: within(_age_s(file, now), limit_s) for id_, file in files.items()}


def _age_s(path: Path, now: datetime) -> float | None:
    try:
        return max(0.0, now.timestamp() - path.stat().st_mtime) if path.is_file() else None
    except OSError:
        return None
