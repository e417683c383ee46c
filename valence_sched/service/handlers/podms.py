# SPDX-License-Identifier: Apache-2.0
"""Handlers of pod managers: their blocks, usage, reports, registrations and events."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from valence_sched.errors import InputError
from valence_sched.model.hardware import BlockFilter, BlockOverview, BlockUsage, PodmOverview
from valence_sched.model.inventory import OTHERS
from valence_sched.model.registration import PasswordReference, RegisteredPodm
from valence_sched.model.verbs import Generation
from valence_sched.model.zone import ZonedList, listed, silent_zones
from valence_sched.service.call import Call, CallResult, listed_result
from valence_sched.service.settings import is_source


def listed_podms(call: Call) -> Sequence[PodmOverview]:
    """Return the pod managers that are decided on, with the zones that the list lacks."""
    with call.reading() as scheduler:
        return scheduler.podms()


def blocks(call: Call) -> CallResult:
    """List the blocks that the query describes."""
    with call.reading() as scheduler:
        found = listed(scheduler.blocks(call.query_noun(BlockFilter)))
    visible = (visible_block(call, one) for one in found)
    return listed_result(ZonedList(visible, silent_zones(found)))


def block(call: Call) -> BlockOverview:
    """Show a block."""
    with call.reading() as scheduler:
        return visible_block(call, scheduler.block(call.name(), call.text("podm")))


def block_usage(call: Call) -> BlockUsage:
    """Show which blocks of a pod manager are in use, and by which claims."""
    owner = call.user.owner
    with call.parts.schedulers.changing() as scheduler:
        found = scheduler.block_usage(call.name())
        own = {one.id for one in scheduler.claims(owner=owner)} if owner is not None else set()
    if owner is None:
        return found
    held = {uri: ids if ids in own else OTHERS for uri, ids in found.held.items()}
    return replace(found, held=held)


def register(call: Call) -> CallResult:
    """Register a pod manager."""
    body = call.body
    with call.parts.schedulers.changing() as scheduler:
        _refuse_stored(body.registration.password)
        found = scheduler.register(body.registration, check=body.check, timeout_s=body.timeout_s)
    return CallResult(found, 201)


def change_registration(call: Call) -> RegisteredPodm:
    """Change the registration of a pod manager."""
    with call.parts.schedulers.changing() as scheduler:
        _refuse_stored(call.body.password)
        return scheduler.change_registration(call.name(), call.body)


def _refuse_stored(reference: object) -> None:
    if isinstance(reference, PasswordReference) and not is_source(reference):
        raise InputError("the body", "$.password", "no reference", "exactly one of env and file")


def update_resource_stats(call: Call) -> Generation:
    """Store the statistics that a pod manager reports."""
    with call.parts.schedulers.changing() as scheduler:
        return Generation(generation=scheduler.update_resource_stats(call.name(), call.body.stats))


def visible_block(call: Call, block: BlockOverview) -> BlockOverview:
    """Return a block without the names of its nodes, which may be another user's."""
    return block if call.user.owner is None else replace(block, nodes=())


def receive(call: Call) -> CallResult:
    """Take an event of the pod manager whose token this is, as a hint to read it."""
    events = call.parts.events
    assert events is not None, "else no token is one"
    events.take(call.user.name, call.body.records)
    return CallResult(status=204)
