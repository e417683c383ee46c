# SPDX-License-Identifier: Apache-2.0
"""Report of a zone: what it tells above of itself."""

import unittest

from valence_sched.model.inventory import LeanPodm
from valence_sched.model.podm_overview import PodmOverview, PodmSummary
from valence_sched.model.zone_registry import ZoneAmounts, ZoneInfo, info_properties
from valence_sched.model.zone_settings import ZoneSettings
from valence_sched.zones.report import own_amounts, zone_info

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
