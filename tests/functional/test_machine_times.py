# SPDX-License-Identifier: Apache-2.0
"""JSON output has times, not ages: it is the same an hour later."""

import contextlib
import datetime
import importlib.metadata
from collections.abc import Iterator
from unittest import mock

import sqlalchemy as sa

from tests.functional.programs import FLAVORS, PROGRAMS, SITE, Case, run
from tests.unit.store.site import CORES, claimer, podm
from valence_sched.inventory import sources
from valence_sched.model.diagnostic import AuditLine
from valence_sched.model.zone_registry import ZoneInfo, ZoneRegistration, ZoneReport
from valence_sched.store import expiry
from valence_sched.store.store import Store
from valence_sched.store.zones import PolledZone
from valence_sched.testing import request
from valence_sched.testing.served import served

LATER_S = 3661.0
DAY_S = 86400.0
#: Commands on a recorded site, except for files of zones, flavors and policies.
RECORDED = {
    "podm list": ("--long", "--capabilities"),
    "podm show": ("mem-1",),
    "podm block list": ("--long",),
    "podm block show": ("GPU-03", "--podm", "gpu-east"),
    "podm pool list": (),
    "podm device list": (),
}
#: Commands on a state.
STORED = {
    "podm list": ("--long",),
    "podm show": ("told",),
    "podm block list": (),
    "podm pool list": (),
    "podm device list": (),
    "podm stats show": ("told",),
    "podm claim list": ("--all", "--long"),
    "podm claim show": ("{claim}",),
    "scheduler audit list": ("--long",),
    "scheduler quota list": (),
    "scheduler quota show": ("ana",),
    "scheduler zone list": ("--long",),
    "scheduler zone show": ("east",),
    "scheduler zone info": (),
    "scheduler zone tree": (),
}
#: Commands on configured or composed objects.
OTHERS = {
    "podm flavor list": ("--flavor-file", FLAVORS),
    "podm flavor show": ("small",),
    "scheduler config show": (),
    "scheduler policy list": (),
    "scheduler policy show": ("default",),
    "scheduler filter list": (),
    "scheduler weigher list": (),
    "podm node list": ("--long", "--state", "{composed}"),
    "podm node show": ("{node}", "--state", "{composed}"),
}
NOUNS = ("list", "show", "info", "tree")


@contextlib.contextmanager
def clocks(ahead_s: float) -> Iterator[None]:
    """Advance the clocks of the process and of each database."""

    def now() -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead_s)

    def connected(connection, _record):
        def julianday(_text):
            return now().timestamp() / DAY_S + 2440587.5

        connection.create_function("julianday", 1, julianday)

    sa.event.listen(sa.engine.Engine, "connect", connected)
    try:
        with (
            mock.patch.object(sources, "_utc_now", now),
            mock.patch.object(expiry.ClockWatch, "jump_s", lambda *_: 0.0),  # not a jump
        ):
            yield
    finally:
        sa.event.remove(sa.engine.Engine, "connect", connected)


class TestMachineTimes(Case):
    """Every command that lists or shows objects."""

    def setUp(self):
        self.state = f"sqlite:///{self.folder}/{self.id()}.sqlite"
        with Store(self.state) as store:
            store.remember(podm("rack-1", 4))
            held = claimer(store).claim(request(CORES, owner="ana"), ttl_s=30 * DAY_S).claim
            store.update_stats("told", {"load": 0.5})
            store.quotas.change("ana", {"cores": 300}, keep=False)
            store.audit.add(
                [
                    AuditLine(
                        user="ana",
                        owner="ana",
                        request_id="r",
                        verb="claims:create",
                        object=f"claims/{held.id}",
                        outcome="done",
                    )
                ]
            )
            zone = store.zones.add(ZoneRegistration(name="east", url="http://127.0.0.1:9"))
            known = ZoneReport(is_active=True, info=ZoneInfo(name="dallas"), reason="")
            store.zones.record([PolledZone(zone, known)])
        self.words = {"claim": held.id, "composed": self.state.replace(".sqlite", "-2.sqlite")}

    def test_all_of_them_are_here(self):
        commands = {
            one.name.replace("_", " ")
            for one in importlib.metadata.entry_points(group="openstack.podm.v1")
        }
        listing = {name for name in commands if name.rpartition(" ")[2] in NOUNS}
        self.assertEqual(listing, {*RECORDED, *STORED, *OTHERS})

    def test_an_hour_later_programs_read_the_same(self):
        state = ("--state", self.state)
        with served(SITE) as podms:
            here = ("--state", self.words["composed"])
            run(PROGRAMS[0], "podm", "create", "gpu-east", podms["gpu-east"].url, *here)
            words = ("schedule", "--flavor", "small", "--compose", "-f", "json", *here)
            (row,) = run(PROGRAMS[0], "podm", *words).data
            self.words["node"] = row["Node"]
            for options, commands in ((("--inventory", SITE), RECORDED), (state, STORED),
                                      ((), OTHERS)):  # fmt: skip
                for name, words in commands.items():
                    self.check(name, *(word.format(**self.words) for word in words), *options)

    def check(self, name, *words):
        for form in ("json", "yaml", "csv", "value"):
            if form == "csv" and name.rpartition(" ")[2] in ("show", "info"):
                continue
            with self.subTest(name, form=form):
                said = (*name.split(), *words, "-f", form)
                first = run(PROGRAMS[0], *said)
                self.assertEqual(0, first.code, first.err)
                with clocks(LATER_S):
                    later = run(PROGRAMS[0], *said)
                self.assertEqual(first.out, later.out, later.err)
