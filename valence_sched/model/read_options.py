# SPDX-License-Identifier: Apache-2.0
"""Read options: which live pod managers one command reads, and how."""

from __future__ import annotations

from msgspec import Struct

from valence_sched.model.registration import Registration


class ReadOptions(Struct, frozen=True, kw_only=True):
    """Where live pod managers are named, and how they are read.

    ``state`` is the URL of the state, None for the usual one. ``catalogue`` is what a cloud
    names, None when it is not asked. ``only`` are the names of those that are read, all when it
    is empty. What is older than ``max_age_s`` is not decided on. ``liveness`` says who tells
    whether those are alive that are not read, as ``NAME`` or ``NAME:ARGUMENT``; None where they
    say so themselves. With ``holds`` what claims hold is taken off recorded ones, too.
    """

    podm_files: tuple[str, ...] = ()
    state: str | None = None
    catalogue: tuple[Registration, ...] | None = None
    only: tuple[str, ...] = ()
    timeout_s: float = 30.0
    parallel: int = 4
    full: bool = False
    max_age_s: float | None = None
    liveness: str | None = None
    subtract_claims: bool = False

    @property
    def selects_live(self) -> bool:
        """Return whether somebody chose live pod managers, also beside recorded ones."""
        return bool(self.podm_files) or self.catalogue is not None


DEFAULT_READ_OPTIONS = ReadOptions()


class Selection(Struct, frozen=True, kw_only=True):
    """What one decision is made on: the inventories and the files of a person, by name.

    ``sources`` are inventories (empty: those of the environment, else the live pod managers that
    ``live`` names). With ``strict`` whatever could not be read is an error.
    """

    sources: tuple[str, ...] = ()
    strict: bool = False
    resource_files: tuple[str, ...] = ()
    flavor_files: tuple[str, ...] = ()
    policy_files: tuple[str, ...] = ()
    live: ReadOptions = DEFAULT_READ_OPTIONS
