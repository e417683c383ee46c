# SPDX-License-Identifier: Apache-2.0
"""Handler of events that pod managers send."""

from __future__ import annotations

from valence_sched.service.call import Call, CallResult


def receive(call: Call) -> CallResult:
    """Take an event of the pod manager whose token this is, as a hint to read it."""
    events = call.parts.events
    assert events is not None, "else no token is one"
    events.take(call.user.name, call.body.records)
    return CallResult(status=204)
