# SPDX-License-Identifier: Apache-2.0
"""Clock: lets the ends of claims follow the clock of a machine whose store is embedded.

A server has one clock for all schedulers. A store in a file has that of the machine, which may be
set while claims are held. Each boot has a row with what its clock was ahead of its uptime: where
that is another now, the clock jumped, and every end moves by as much, so that no claim ends sooner
or later for it. On a machine that was started anew, time goes on from what was noted last.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from valence_sched.errors import StoreError
from valence_sched.model.claim import ACTIVE_STATES
from valence_sched.model.quantity import format_count
from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.tables import now

TOLERANCE_S = 5.0  # clocks are set by less than this all the time
KEEP_S = 90 * 86400.0  # rows of earlier boots
_clocks, _claims = tables.clocks, tables.claims


class Boot(NamedTuple):
    """A boot of the machine, and the seconds since it, suspended or not."""

    id: str
    uptime_s: float


def read_boot() -> Boot | None:
    """Return the present boot, None where the kernel is not Linux and does not tell it."""
    try:
        id_ = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return Boot(id_, float(Path("/proc/uptime").read_text().split()[0]))
    except (OSError, ValueError, IndexError):
        return None


class ClockWatch:
    """Compares the clock of the machine with its uptime before transactions of an embedded store.

    ``ahead`` is cheap, and tells when to compare. ``remark`` takes a line about what was moved.
    """

    def __init__(
        self,
        remark: Callable[[str], object] = lambda _line: None,
        boot: Callable[[], Boot | None] = read_boot,
        ahead: Callable[[], float] = lambda: time.time() - time.monotonic(),
    ) -> None:
        self._remark, self._boot, self._ahead = remark, boot, ahead
        self._compared: float | None = None

    def __call__(self, database: Database) -> None:
        """Let the ends of claims follow the clock where it was set since the last comparison."""
        ahead, doing = self._ahead(), "comparing clocks"
        if self._compared is not None and abs(ahead - self._compared) <= TOLERANCE_S / 2:
            return
        if database.run_unwatched(self.jump_s, doing, write=False) != 0.0:
            with contextlib.suppress(StoreError):  # a user who may only read
                if line := database.run_unwatched(self.follow, doing, write=True):
                    self._remark(f"{database.address}: {line}")
        self._compared = ahead

    def jump_s(self, connection: sa.Connection) -> float | None:
        """Return by how much the clock jumped, None where it is not known to this store yet."""
        boot = self._boot()
        if boot is None:
            return 0.0
        stored = connection.scalar(sa.select(_clocks.c.ahead_s).where(_clocks.c.boot == boot.id))
        if stored is None:
            return None
        jump = _wall_s(connection) - boot.uptime_s - stored
        return jump if abs(jump) > TOLERANCE_S else 0.0

    def follow(self, connection: sa.Connection) -> str:
        """Move the ends of claims by the jump of the clock; return what was done, if anything."""
        boot, jump = self._boot(), self.jump_s(connection)
        if boot is None or jump == 0.0:
            return ""
        wall = _wall_s(connection)
        if jump is None:
            seen = (tables.events.c.at, _claims.c.created_at, _clocks.c.noted_at)
            times = [connection.scalar(sa.select(sa.func.max(column))) or 0.0 for column in seen]
            jump = min(0.0, wall - max(times) + TOLERANCE_S)
        connection.execute(sa.delete(_clocks).where(_clocks.c.boot == boot.id))
        connection.execute(sa.delete(_clocks).where(_clocks.c.noted_at < wall - KEEP_S))
        row = {"boot": boot.id, "ahead_s": wall - boot.uptime_s, "noted_at": wall}
        connection.execute(sa.insert(_clocks).values(row))
        return _move_ends(connection, jump) if jump else ""


def _wall_s(connection: sa.Connection) -> float:
    return float(connection.scalar(sa.select(now())) or 0.0)


def _move_ends(connection: sa.Connection, jump_s: float) -> str:
    of = _claims.c
    ends = sa.and_(of.state.in_(ACTIVE_STATES), of.expires_at.is_not(None))
    swept = sa.case((of.sweep_at > 0, of.sweep_at + jump_s), else_=of.sweep_at)
    update = sa.update(_claims).where(ends)
    moved = connection.execute(update.values(expires_at=of.expires_at + jump_s, sweep_at=swept))
    lease_end = tables.leases.c.expires_at
    connection.execute(sa.update(tables.leases).values(expires_at=lease_end + jump_s))
    way = "ahead" if jump_s > 0 else "back"
    if not moved.rowcount:
        return ""
    return (f"the clock of this machine went {way} by {abs(jump_s):,.0f} s: the ends of "
            f"{format_count(moved.rowcount, 'claim')} moved with it")  # fmt: skip
