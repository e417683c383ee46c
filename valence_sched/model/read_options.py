# SPDX-License-Identifier: Apache-2.0
"""Read options: which live pod managers one command reads, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from valence_sched.model.zone_settings import ZoneSettings  # annotations are read

if TYPE_CHECKING:
    from valence_sched.model.registration import Registration


class ReadOptions(Struct, frozen=True, kw_only=True):
    """The sources of live pod managers, and how they are read.

    ``state`` is the URL of the state, None for the default. ``catalogue`` are the pod managers that
    a cloud lists, None if it is not asked. ``only`` are the names of those to read, all if it is
    empty. A reading older than ``max_age_s`` is not decided on, and of one older than
    ``warn_age_s`` there is a warning. ``liveness`` is the plug-in that
    decides whether pod managers that are not read are alive, as ``NAME`` or ``NAME:ARGUMENT``;
    with None they keep their status. With ``stored`` no pod manager is read: what the state knows
    of them counts, as a reader keeps it. With ``subtract_claims`` the amounts that claims hold are
    subtracted from recorded pod managers, too.
    """

    podm_files: tuple[str, ...] = ()
    state: str | None = None
    catalogue: tuple[Registration, ...] | None = None
    only: tuple[str, ...] = ()
    timeout_s: float = 30.0
    parallel: int = 4
    full: bool = False
    max_age_s: float | None = None
    warn_age_s: float | None = None
    liveness: str | None = None
    subtract_claims: bool = False
    stored: bool = False

    @property
    def selects_live(self) -> bool:
        """Return whether live pod managers were selected, also in addition to recorded ones."""
        return bool(self.podm_files) or self.catalogue is not None


DEFAULT_READ_OPTIONS = ReadOptions()


class Selection(Struct, frozen=True, kw_only=True):
    """The inputs of one decision: the inventories and the files that the caller names.

    ``sources`` are inventories (empty: those of the environment, else the live pod managers that
    ``live`` names). ``near_maps`` say where external resources are. With ``strict`` a document or
    pod manager that cannot be read is an error. With ``no_cache`` inventory files are read whole,
    whether or not their views are cached. ``zones`` are the settings of this zone, None: those of
    the user's own file. With ``dispatches`` each decision that is claimed is queued for the
    controller of the service. ``stated`` are by source the capabilities that zones state of its pod
    managers.
    """

    sources: tuple[str, ...] = ()
    strict: bool = False
    resource_files: tuple[str, ...] = ()
    flavor_files: tuple[str, ...] = ()
    policy_files: tuple[str, ...] = ()
    near_maps: tuple[str, ...] = ()
    live: ReadOptions = DEFAULT_READ_OPTIONS
    no_cache: bool = False
    zones: ZoneSettings | None = None
    dispatches: bool = False
    stated: dict[str, dict[str, tuple[str, ...]]] = {}


DEFAULT_SELECTION = Selection()
