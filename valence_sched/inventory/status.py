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
from valence_sched.model.usage import NO_USAGE, Usage, subtract_usage

PodmReadTime = tuple[str, str | None]  # the id of a pod manager, and when it was read


def with_status(
    podms: Sequence[LeanPodm],
    registry: Registry,
    *,
    stored: Collection[str],
    statuses: dict[str, PodmStatus],
) -> Iterator[LeanPodm]:
    """Yield pod managers without what claims hold of the ``kept`` ones, and with their status.

    Raises:
        StoreError: the state cannot be read.
    """
    held = _usages(registry, [podm.id for podm in podms if podm.id in stored])
    for podm in podms:
        status = statuses.get(podm.id, podm.status)
        one = podm if status == podm.status else msgspec.structs.replace(podm, status=status)
        yield subtract_usage(one, held.get(podm.id, NO_USAGE))


def statuses(
    liveness: str | None, told: Iterable[PodmReadTime], registry: Registry, now: datetime
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
    judge = plugins.load(plugins.LIVENESS).get(name, "--liveness")
    beats = _report_ages_s(registry)
    signs = [Sign(id_, age_s(read_at, now), beats.get(id_)) for id_, read_at in told]
    with plugins.plugin_errors(f"liveness {name!r}"):
        found = judge(signs, argument, now)
    known = {sign.id for sign in signs}
    try:
        return {id_: "Online" if alive else "Offline" for id_, alive in found.items()
                if id_ in known}  # fmt: skip
    except (AttributeError, TypeError, ValueError) as error:
        raise PluginError(one_line(f"liveness {name!r} returned no map: {error}")) from None


def _usages(registry: Registry, names: list[str]) -> dict[str, Usage]:
    if not names or registry.empty:
        return {}
    with registry.store() as store:
        return store.usages(names)


def _report_ages_s(registry: Registry) -> dict[str, float]:
    if registry.empty:
        return {}
    with registry.store() as store:
        return store.report_ages_s()
