# SPDX-License-Identifier: Apache-2.0
"""What a zone says of itself and of what is below it."""

import unittest

from msgspec.structs import replace

from valence_sched.model.capacity import Capacity, PodmCapacity, ProvenMost
from valence_sched.model.decision import FitCounts, SilentZone
from valence_sched.model.hardware import PodmOverview, PodmSummary
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.lifecycle import Event, UnverifiedNode
from valence_sched.model.zone import ZoneSettings
from valence_sched.model.zone_registry import ZoneAmounts, ZoneInfo, info_properties
from valence_sched.zones import paths
from valence_sched.zones.report import own_amounts, zone_info
from valence_sched.zones.result import MIX_NOTE, added_capacities, added_fit_counts

NOTHING = (0, 0)
SETTINGS = ZoneSettings(name="dallas", capabilities="os=linux;windows, arch=x86")


def overview(name, *, status="Online", enabled=True, stocks=None, **amounts):
    """Return a pod manager with some amounts, each free and in total, and nothing else."""
    names = ("cores", "memory_mib", "gpus", "accelerators", "drives", "nics")
    every = {**dict.fromkeys(names, NOTHING), **amounts}
    summary = PodmSummary(blocks=NOTHING, stocks=stocks or {}, **every)
    podm = LeanPodm(id=name, status=status, enabled=enabled)
    return PodmOverview(podm=podm, amounts=summary, pool_count=1)


def info(*podms, settings=SETTINGS, reports=None, age_s=1.0):
    reports = reports or {}
    return zone_info("1f", settings, podms, reports, dict.fromkeys(reports, age_s))


class TestZoneInfo(unittest.TestCase):
    """Name, static capabilities, and the ranges of pod managers."""

    def test_a_zone_without_pod_managers_tells_its_name_and_its_own_capabilities(self):
        """S51: and S46, the static ones are those of the settings."""
        self.assertEqual(
            {"arch": "x86", "name": "dallas", "os": "linux;windows"}, {**info_properties(info())}
        )

    def test_a_zone_without_settings_has_the_default_name_and_nothing_else(self):
        """S57: the default name."""
        self.assertEqual({"name": "default"}, {**info_properties(info(settings=ZoneSettings()))})

    def test_what_hosts_report_by_service_is_shown_as_least_and_most(self):
        """S50: ``compute_cpu 0.7,0.7`` of two hosts."""
        told = {"compute": {"cpu": 0.7, "disk": 123000, "network": 800}}
        found = info(overview("h1"), overview("h2"), reports={"h1": told, "h2": told})
        self.assertEqual(
            {
                "arch": "x86",
                "compute_cpu": "0.7,0.7",
                "compute_disk": "123000,123000",
                "compute_network": "800,800",
                "name": "dallas",
                "os": "linux;windows",
            },
            {**info_properties(found)},
        )

    def test_the_ranges_of_zones_below_are_merged_with_its_own(self):
        """S77: the least and the most of all hosts below."""
        below = [ZoneInfo(name="a", capabilities={"os": ("bsd",)},
                          services={"compute_cores": (1.0, 4.0), "storage_drives": (2.0, 2.0)}),
                 ZoneInfo(name="b", services={"compute_cores": (3.0, 9.0)})]  # fmt: skip
        found = zone_info("1f", SETTINGS, [overview("h", cores=(5, 8))], {}, {}, below)
        self.assertEqual(
            {"compute_cores": (1.0, 9.0), "storage_drives": (2.0, 2.0)}, found.services
        )
        self.assertEqual(SETTINGS.capability_map, found.capabilities)

    def test_large_numbers_keep_all_their_digits(self):
        found = info(overview("h"), reports={"h": {"compute": {"memory": 12345678.0}}})
        self.assertEqual("12345678,12345678", info_properties(found)["compute_memory"])

    def test_numbers_are_reported_as_facts_as_well_and_words_are_left_out(self):
        told = {"facts": {"volume": {"free": 3, "kind": "ssd", "ready": True}}, "load": 0.5}
        self.assertEqual({"volume_free": (3.0, 3.0)},
                         info(overview("h"), reports={"h": told}).services)  # fmt: skip

    def test_a_report_that_is_older_than_three_intervals_does_not_count(self):
        """S47: none for three intervals is stale."""
        reports = {"h": {"compute": {"cpu": 0.7}}}
        for age_s, expected in ((90.0, {"compute_cpu": (0.7, 0.7)}), (90.1, {})):
            with self.subTest(age_s):
                self.assertEqual(
                    expected, info(overview("h"), reports=reports, age_s=age_s).services
                )

    def test_what_is_free_is_shown_of_those_that_have_any(self):
        podms = (
            overview("a", cores=(8, 64), gpus=(0, 4), stocks={"storage_gib": (5.0, 9.0)}),
            overview("b", cores=(32, 64), nics=(None, 2)),
        )
        self.assertEqual(
            {"compute_cores": (8, 32), "compute_gpus": (0, 0), "storage_storage_gib": (5.0, 5.0)},
            info(*podms).services,
        )

    def test_pod_managers_that_are_away_or_disabled_do_not_count(self):
        podms = (
            overview("a", cores=(1, 64), status="Offline"),
            overview("b", cores=(2, 64), enabled=False),
            overview("c", cores=(3, 64), status="Unknown"),
        )
        reports = {name: {"compute": {"cpu": 1}} for name in ("a", "b", "elsewhere")}
        self.assertEqual({"compute_cores": (3, 3)}, info(*podms, reports=reports).services)

    def test_it_has_the_id_by_which_a_circle_is_seen(self):
        self.assertEqual(ZoneInfo(id="1f", name="default"), info(settings=ZoneSettings()))


class TestOwnAmounts(unittest.TestCase):
    """The sums of a zone."""

    def test_amounts_are_the_sums_and_unknown_where_one_is(self):
        found = own_amounts(
            [overview("a", cores=(1, 8)), overview("b", cores=(2, 8), gpus=(None, 4))]
        )
        self.assertEqual((2, (3, 16), (None, 4)),
                         (found.podms, found.amounts["cores"], found.amounts["gpus"]))  # fmt: skip

    def test_a_zone_without_pod_managers_has_no_amounts(self):
        self.assertEqual(ZoneAmounts(), own_amounts([]))


AWAY = SilentZone(zone="west", reason="it is away")


def capacity(podm: str, nodes: int = 1, **words: object) -> Capacity:
    return Capacity(name="small", podms=(PodmCapacity(podm=podm, nodes=nodes),), **words)


class TestFitCounts(unittest.TestCase):
    """Nodes of one request."""

    def test_each_zone_adds_its_own_by_their_paths(self):
        found = added_fit_counts({
            "": FitCounts(podms=(("a", 1),), warnings=("old",)),
            "east": FitCounts(podms=(("b", 2), ("deep/c", 3)), warnings=("old", "old"),
                              undecided=("b",), silent=(AWAY,)),
        }, [AWAY])  # fmt: skip
        self.assertEqual((("a", 1), ("east/b", 2), ("east/deep/c", 3)), found.podms)
        self.assertEqual(("old", "zone east: old"), found.warnings)
        self.assertEqual(("east/b",), found.undecided)
        self.assertEqual(["west", "east/west"], [one.zone for one in found.silent])


class TestCapacities(unittest.TestCase):
    """Nodes of one flavor, or of a mix."""

    OWN = capacity("a", 2, podm_sums=3, site_sums=4, proven=ProvenMost(bound=2, found=2),
                   by_flavor={"small": 2}, refused="large", warnings=("old",))  # fmt: skip
    EAST = capacity("b", 5, podm_sums=6, site_sums=9, proven=ProvenMost(bound=8, found=7),
                    by_flavor={"small": 4, "large": 1}, undecided=("b",),
                    silent=(AWAY,))  # fmt: skip

    def test_the_own_pod_managers_alone_are_as_they_are(self):
        self.assertIs(self.OWN, added_capacities("", {"": self.OWN}))
        self.assertEqual((AWAY,), added_capacities("", {"": self.OWN}, [AWAY]).silent)

    def test_several_zones_are_added_up(self):
        found = added_capacities("none", {"": self.OWN, "east": self.EAST}, [AWAY])
        self.assertEqual(("small", 7, 9), (found.name, found.nodes, found.podm_sums))
        self.assertEqual(["a", "east/b"], [one.podm for one in found.podms])
        self.assertEqual(ProvenMost(bound=10, found=9), found.proven)
        self.assertEqual({"small": 6, "large": 1}, found.by_flavor)
        self.assertEqual((None, None), (found.site_sums, found.refused))
        self.assertEqual((("old",), ("east/b",)), (found.warnings, found.undecided))
        self.assertEqual(["west", "east/west"], [one.zone for one in found.silent])

    def test_what_one_zone_does_not_know_is_not_known_of_all(self):
        unknown = capacity("c")
        found = added_capacities("", {"": self.OWN, "east": unknown})
        self.assertEqual((None, None), (found.podm_sums, found.proven))

    def test_a_single_zone_below_keeps_what_it_says_of_itself(self):
        found = added_capacities("", {"east": self.OWN})
        self.assertEqual(("east/a", 4, "large", ("zone east: old",)), (
            found.podms[0].podm, found.site_sums, found.refused, found.warnings,
        ))  # fmt: skip
        self.assertEqual(self.OWN.proven, found.proven)

    def test_a_mix_is_counted_by_each_zone_and_nothing_is_proven(self):
        found = added_capacities("", {"": self.OWN, "east": self.EAST}, mix=True)
        self.assertEqual((None, ("old", MIX_NOTE)), (found.proven, found.warnings))
        alone = added_capacities("", {"east": self.EAST}, mix=True)
        self.assertEqual((None, ()), (alone.proven, alone.warnings))

    def test_without_an_answer_nothing_is_known(self):
        found = added_capacities("small", {}, [AWAY])
        self.assertEqual(("small", 0, None, None, None), (
            found.name, found.nodes, found.site_sums, found.proven, found.refused,
        ))  # fmt: skip


class TestPaths(unittest.TestCase):
    """Names of what could not be verified, and of what events are about."""

    def test_events_name_what_they_are_about_by_its_way(self):
        about = Event(at=1.0, kind="held", words="x", claim="c", podm="p")
        named, nothing = paths.events_below("east", [about, replace(about, claim=None, podm=None)])
        self.assertEqual(("east/c", "east/p"), (named.claim, named.podm))
        self.assertEqual((None, None), (nothing.claim, nothing.podm))

    def test_one_that_is_still_composing_has_its_way_in_front(self):
        node = UnverifiedNode(message="it composes", still_composing=True, node="n", podm="p",
                              claim="c")  # fmt: skip
        self.assertEqual(
            UnverifiedNode(message="zone east: it composes", still_composing=True, node="east/n",
                           podm="east/p", claim="east/c"),
            paths.unverified_below("east", node),
        )  # fmt: skip
        plain = paths.unverified_below("east", UnverifiedNode(message="it stays"))
        self.assertEqual(UnverifiedNode(message="zone east: it stays"), plain)
