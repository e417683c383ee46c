# SPDX-License-Identifier: Apache-2.0
"""Registrations: the URL, login and properties under which an operator registers a pod manager.

A registration never contains the password, only a reference to it.
"""

import re
from typing import Literal

from valence_sched.model.base import Fact, Noun
from valence_sched.model.inventory import SINGLE_PER_NODE, BlockType, Name, Positive

Auth = Literal["auto", "session", "basic"]
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"  # the name of an environment variable
#: The driver of a pod manager whose service root tells its dialect.
AUTO = "auto"


class PasswordReference(Noun, frozen=True, kw_only=True):
    """The source of a password: exactly one of a variable, a file and the secure file."""

    env: Name | None = None
    file: Name | None = None
    stored: bool = False

    @property
    def text(self) -> str:
        """Return the source of the password as people read it."""
        if self.env is not None:
            return f"variable {self.env}"
        return f"file {self.file}" if self.file is not None else "secure file"


def is_variable(name: str) -> bool:
    """Return whether an environment variable may have this name."""
    return re.fullmatch(VARIABLE, name) is not None


class Registration(Noun, frozen=True, kw_only=True):
    """One pod manager of the registry; ``name`` is its id in every inventory.

    ``identity`` is that of the service, None until it was read first. ``driver`` is the name of a
    dialect, or ``auto``: the service root decides. The operator sets
    the fields from ``zone`` on, which the inventory adds to what the pod manager reports.
    ``max_blocks`` is the most blocks of a type in one node; a stricter limit that the pod manager
    tells wins.
    """

    name: Name
    url: Name
    identity: Name | None = None
    driver: Name = AUTO
    username: str | None = None
    password: PasswordReference | None = None
    auth: Auth = "auto"
    cacert: str | None = None
    insecure: bool = False
    enabled: bool = True
    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    capabilities: dict[str, tuple[str, ...]] = {}
    traits: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}
    max_blocks: dict[BlockType, Positive] = {}


def max_blocks_of(number: int) -> dict[BlockType, Positive]:
    """Return the most blocks in a node where one number is given: of each whole compute unit."""
    return dict.fromkeys(SINGLE_PER_NODE, number)
