# SPDX-License-Identifier: Apache-2.0
"""Microversions of the API, as OpenStack negotiates them in a header."""

from __future__ import annotations

import re
from typing import NamedTuple

HEADER = "OpenStack-API-Version"
SERVICE_TYPE = "podm-scheduler"


class Microversion(NamedTuple):
    """A version of the API; a caller gets the one that it names, or the least."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


LEAST = Microversion(1, 0)
GREATEST = Microversion(1, 0)


def negotiated(header: str | None) -> Microversion:
    """Return the version that a header asks for, the least one where it asks for none of ours.

    Raises:
        ValueError: it names no version, or one that the service does not have.
    """
    for part in header.split(",") if header else ():
        service, _, text = part.strip().partition(" ")
        if service != SERVICE_TYPE:
            continue
        text = text.strip()
        if text == "latest":
            return GREATEST
        found = re.fullmatch(r"([1-9]\d{0,5})\.(\d{1,6})", text)
        version = Microversion(int(found[1]), int(found[2])) if found else None
        if version is None or not LEAST <= version <= GREATEST:
            raise ValueError(f"{HEADER}: {SERVICE_TYPE} {text!r}: this service has {LEAST} to "
                             f"{GREATEST}")  # fmt: skip
        return version
    return LEAST
