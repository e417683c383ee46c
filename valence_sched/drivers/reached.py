# SPDX-License-Identifier: Apache-2.0
"""A pod manager within reach: logged in to, and ready to compose in what it speaks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from valence_sched.drivers.connection import Connection
from valence_sched.drivers.dialect import told
from valence_sched.drivers.entrance import entered
from valence_sched.drivers.hands import Hands
from valence_sched.drivers.live import Target
from valence_sched.drivers.patience import Patience
from valence_sched.drivers.redfish_hands import RedfishHands
from valence_sched.drivers.rsd_hands import RsdHands
from valence_sched.drivers.transport import Deadline
from valence_sched.drivers.wire import ConnectedWire
from valence_sched.errors import InputError, PodmError

AUTO = "auto"


@contextlib.contextmanager
def reached(target: Target, timeout_s: float, patience_s: float) -> Iterator[Hands]:
    """Yield the hands on a pod manager; its session is deleted afterwards.

    ``timeout_s`` is for the login and for each request, ``patience_s`` for what it does after it
    has answered.

    Raises:
        PodmError: it cannot be reached, refuses the login, or speaks what cannot be composed in.
    """
    one = target.registered
    with Connection(one, target.password, Deadline(timeout_s)) as connection:
        try:
            root = entered(connection)
        except InputError as error:
            raise PodmError(str(error)) from None
        speaks = told(root) if one.driver == AUTO else one.driver
        wire = ConnectedWire(connection, timeout_s)
        if speaks == "redfish":
            yield RedfishHands(wire, lambda: Patience(patience_s))
        elif speaks == "rsd":
            yield RsdHands(wire, lambda: Patience(patience_s))
        else:
            raise PodmError(f"driver {speaks!r} reads pod managers, and cannot compose on them")
