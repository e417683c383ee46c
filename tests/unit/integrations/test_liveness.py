# SPDX-License-Identifier: Apache-2.0
"""All three sources of liveness behave alike: the same tests run on each."""

import os
import tempfile
import unittest
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.unit.store.site import CORES, claimer, podm
from valence_sched import files
from valence_sched.app import App
from valence_sched.engine import Engine
from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.store.store import Store
from valence_sched.testing import request


class Case(unittest.TestCase):
    """Two pod managers in the state that no process reads."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()), "site")
        self.folder.mkdir()
        self.state = f"sqlite:///{self.folder}/state.sqlite"
        self.later = timedelta(0)
        self.app = App(
            environ={"XDG_CONFIG_HOME": str(self.folder)},
            now=lambda: datetime.now(UTC) + self.later,
        )

    def scheduler(self, live: ReadOptions | None = None) -> Engine:
        return self.app.engine(Selection(live=live or ReadOptions(state=self.state)))

    def live(self, named: str) -> ReadOptions:
        return ReadOptions(state=self.state, liveness=named)

    def statuses(self, named: str) -> dict[str, str]:
        view = self.app.loader.view(Selection(live=self.live(named)))
        return {podm.id: podm.status for podm in view.podms}

    def report(self, *names: str) -> None:
        blocks = [{"uri": "c", "type": ["Compute"], "devices": {"processors": [{"cores": 8}]}}]
        for name in names:
            self.scheduler().update_resource_stats(name, {"blocks": blocks})


class Alike:
    """S22: tests for any source; ``named`` returns an age, ``beat`` and ``age`` act."""

    def setUp(self):
        super().setUp()
        self.report("a", "host/b")

    def test_who_was_heard_of_just_now_is_online(self):
        self.beat("a", "host/b")
        self.assertEqual({"a": "Online", "host/b": "Online"}, self.statuses(self.named("10m")))

    def test_who_was_not_heard_of_for_long_is_offline_until_the_next_time(self):
        self.beat("a", "host/b")
        self.grow_old("a", "host/b")
        self.assertEqual({"a": "Offline", "host/b": "Offline"}, self.statuses(self.named("10m")))
        self.assertEqual({"a": "Online", "host/b": "Online"}, self.statuses(self.named("2h")))
        self.beat("host/b")
        self.assertEqual({"a": "Offline", "host/b": "Online"}, self.statuses(self.named("10m")))

    def test_an_offline_one_is_not_chosen_and_not_claimed_of(self):
        self.beat("a", "host/b")
        self.grow_old("a")
        live = self.live(self.named("10m"))
        chosen = self.scheduler(live).select_destinations(request(CORES)).report
        self.assertEqual(["host/b"], [one.chosen.podm for one in chosen.placements])
        claim = self.scheduler(live).claim(request(CORES)).claim
        self.assertEqual(("host/b",), claim.podms)
        self.assertIsNone(self.scheduler(live).claim(request(CORES)).claim)
        with self.app.registry(self.state).store() as store:
            self.assertEqual({"Online"}, {one.status for one in store.load_podms().values()})

    def test_an_age_that_is_none_is_refused(self):
        with self.assertRaisesRegex(UsageError, "^--liveness: "):
            self.statuses(self.named("soon"))


class TestRead(Alike, Case):
    """The time of the last reading or report."""

    def named(self, age: str) -> str:
        return f"read:{age}"

    def beat(self, *names: str) -> None:
        self._read(timedelta(0), *names)

    def grow_old(self, *names: str) -> None:
        self._read(timedelta(hours=1), *names)

    def _read(self, ago: timedelta, *names: str) -> None:
        with self.app.registry(self.state).store() as store, store._database.writer.begin() as one:
            for name in names:
                at = (datetime.now(UTC) - ago).isoformat()
                one.exec_driver_sql("UPDATE podms SET read_at = ? WHERE name = ?", (at, name))


class TestStore(Alike, Case):
    """The time of the last report, by the clock of the database."""

    def named(self, age: str) -> str:
        return f"store:{age}"

    def beat(self, *names: str) -> None:
        for name in names:
            self.scheduler().update_resource_stats(name, {})

    def grow_old(self, *names: str) -> None:
        with self.app.registry(self.state).store() as store, store._database.writer.begin() as one:
            for name in names:
                one.exec_driver_sql(
                    "UPDATE podms SET stats = CAST(json_set(stats, '$.at', "
                    "json_extract(stats, '$.at') - 3600) AS BLOB) WHERE name = ?",
                    (name,),
                )


class TestFile(Alike, Case):
    """The modification time of its file."""

    def named(self, age: str) -> str:
        return f"file:{self.folder}:{age}"

    def path(self, name: str) -> Path:
        return self.folder / name.replace("/", "%2F")

    def beat(self, *names: str) -> None:
        for name in names:
            self.path(name).touch()

    def grow_old(self, *names: str) -> None:
        for name in names:
            then = datetime.now(UTC).timestamp() - 3600
            os.utime(self.path(name), (then, then))

    def test_who_has_no_file_is_offline(self):
        self.assertEqual({"a": "Offline", "host/b": "Offline"}, self.statuses(self.named("10m")))

    def test_no_name_leads_out_of_the_folder(self):
        self.report("..", "../a")
        (self.folder.parent / "a").touch()
        found = self.statuses(self.named("10m"))
        self.assertEqual(("Offline", "Offline"), (found[".."], found["../a"]))


class TestWhom(Case):
    """The pod managers that are checked."""

    def test_recorded_ones_are_judged_by_when_they_were_read(self):
        old = podm("old", read_at="2020-01-01T00:00:00Z")
        new = podm("new", read_at=datetime.now(UTC).isoformat())
        file = str(self.folder / "x.json")
        files.write_inventory([old, new], file)
        view = self.app.loader.view(
            Selection(sources=(file,), live=ReadOptions(liveness="read:1h"))
        )
        self.assertEqual(["Offline", "Online"], [one.status for one in view.podms])
        view = self.app.loader.view(Selection(sources=(file,)))
        self.assertEqual(["Online", "Online"], [one.status for one in view.podms])

    def test_the_environment_names_one(self):
        self.report("a")
        self.app.config.environ["VALENCE_SCHED_LIVENESS"] = f"file:{self.folder}"
        view = self.app.loader.view(Selection(live=ReadOptions(state=self.state)))
        self.assertEqual(["Offline"], [one.status for one in view.podms])

    def test_a_name_that_nobody_has_is_refused(self):
        self.report("a")
        with self.assertRaisesRegex(UnknownName, "did you mean 'store'"):
            self.statuses("stor:5m")

    def test_what_is_stored_keeps_the_status_it_told(self):
        self.report("a")
        self.assertEqual({"a": "Offline"}, self.statuses(f"file:{self.folder}"))
        with Store(self.state) as store:
            self.assertEqual("Online", store.load_podms()["a"].status)
            mine = claimer(store)
            self.assertEqual(1, len(mine.select_destinations(request(CORES)).placements))
