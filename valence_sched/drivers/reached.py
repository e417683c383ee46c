# SPDX-License-Identifier: Apache-2.0
"""A pod manager within reach: logged in to, and ready to compose in what it speaks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from valence_sched.drivers.connection import Connection
from valence_sched.drivers.dialect import told
from valence_sched.drivers.fields import Json
from valence_sched.drivers.hands import Hands
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.live import Target
from valence_sched.drivers.login import Refused
from valence_sched.drivers.patience import Patience
from valence_sched.drivers.redfish_hands import RedfishHands
from valence_sched.drivers.rsd_hands import RsdHands
from valence_sched.drivers.transport import Deadline
from valence_sched.drivers.wire import ConnectedWire
from valence_sched.errors import PodmError

AUTO = "auto"


@contextlib.contextmanager
def reached(target: Target, timeout_s: float, patience_s: float) -> Iterator[Hands]:
    """Yield the hands on a pod manager; its session is deleted afterwards.

    ``timeout_s`` is for a login, a look and a write together, ``patience_s`` for what it does
    after it has answered.

    Raises:
        PodmError: it cannot be reached, refuses the login, or speaks what cannot be composed in.
    """
    one = target.registered
    deadline = Deadline(timeout_s + patience_s)
    with Connection(one, target.password, deadline) as connection:
        root = _root(connection)
        connection.log_in(root)
        speaks = told(root or _root(connection)) if one.driver == AUTO else one.driver
        wire = ConnectedWire(connection)
        if speaks == "redfish":
            yield RedfishHands(wire, lambda: Patience(patience_s))
        elif speaks == "rsd":
            yield RsdHands(wire, lambda: Patience(patience_s))
        else:
            raise PodmError(f"driver {speaks!r} reads pod managers, and cannot compose on them")


def _root(connection: Connection) -> Json | None:
    """Return the service root, None where it can only be read after the login."""
    try:
        answer = connection.get(ROOT)
    except Refused:
        return None
    return answer.json(ROOT) if answer.status == 200 else None
