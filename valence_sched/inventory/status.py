# SPDX-License-Identifier: Apache-2.0
"""How pod managers stand beyond what they told: what is held of them, and whether they are alive.

Only what is decided on is changed so. What is stored, recorded or claimed of is as it was told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from valence_sched.core import plugins
from valence_sched.errors import PluginError, one_line
from valence_sched.inventory.registry import Registry
from valence_sched.model.age import age_s
from valence_sched.model.inventory import LeanPodm, PodmStatus
from valence_sched.model.liveness import Sign
from valence_sched.model.usage import NOTHING_HELD, Held, less

Told = tuple[str, str | None]  # the id of a pod manager, and when it was read


def stood(
    podms: Sequence[LeanPodm],
    registry: Registry,
    *,
    kept: Collection[str],
    statuses: dict[str, PodmStatus],
) -> Iterator[LeanPodm]:
    """Yield pod managers without what claims hold of the ``kept`` ones, and with their status.

    Raises:
        StoreError: the state cannot be read.
    """
    held = _held(registry, [podm.id for podm in podms if podm.id in kept])
    for podm in podms:
        status = statuses.get(podm.id, podm.status)
        one = podm if status == podm.status else msgspec.structs.replace(podm, status=status)
        yield less(one, held.get(podm.id, NOTHING_HELD))


def statuses(
    liveness: str | None, told: Iterable[Told], registry: Registry, now: datetime
) -> dict[str, PodmStatus]:
    """Return who of those that were not read is Online and who Offline, by id.

    Raises:
        UnknownName: nobody of this name says who is alive.
        PluginError: who says it broke the contract.
        UsageError: its argument is not what it must be.
        StoreError: the state cannot be read.
    """
    if not liveness:
        return {}
    name, _, argument = liveness.partition(":")
    judge = plugins.installed(plugins.LIVENESS).get(name, "--liveness")
    beats = _beats(registry)
    signs = [Sign(id_, age_s(read_at, now), beats.get(id_)) for id_, read_at in told]
    with plugins.blamed(f"liveness {name!r}"):
        found = judge(signs, argument, now)
    known = {sign.id for sign in signs}
    try:
        return {id_: "Online" if alive else "Offline" for id_, alive in found.items()
                if id_ in known}  # fmt: skip
    except (AttributeError, TypeError, ValueError) as error:
        raise PluginError(one_line(f"liveness {name!r} returned no map: {error}")) from None


def _held(registry: Registry, names: list[str]) -> dict[str, Held]:
    if not names or registry.empty:
        return {}
    with registry.store() as store:
        return store.held(names)


def _beats(registry: Registry) -> dict[str, float]:
    if registry.empty:
        return {}
    with registry.store() as store:
        return store.beats()
