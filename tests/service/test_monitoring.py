# SPDX-License-Identifier: Apache-2.0
"""The alerts, their tests and the dashboard, and the page that describes them."""

import inspect
import itertools
import json
import re
import unittest
from pathlib import Path

import yaml

from valence_sched.service import metrics
from valence_sched.service.routes import ROUTES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "monitoring"
PAGE = (ROOT / "doc" / "source" / "howto" / "monitoring.rst").read_text(encoding="utf-8")
METRIC = re.compile(r"\bvalence_scheduler_\w+")


def text(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def alerts():
    (group,) = yaml.safe_load(text("alerts.yaml"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard():
    return json.loads(text("dashboard.json"))


def shown_metrics():
    """Return the names of all metrics of the service, as Prometheus shows them."""
    one = metrics.Metrics(lambda: None)
    one.count("GET", "/", 200, 0.1)
    one.note_changes(1)
    shown = one.text()[1].decode()
    samples = re.findall(r"^(valence_scheduler_\w+?)(?:_created)?(?:{.*})? ", shown, re.MULTILINE)
    return {*samples, *re.findall(r'_gauge\(\s*"(\w+)"', inspect.getsource(metrics))}


class TestAlerts(unittest.TestCase):
    def test_each_fires_and_stays_quiet_in_a_test(self):
        fires, quiet = set(), set()
        for test in yaml.safe_load(text("alerts-test.yaml"))["tests"]:
            for one in test["alert_rule_test"]:
                (fires if one.get("exp_alerts") else quiet).add(one["alertname"])
        self.assertEqual(({*alerts()},) * 2, (fires, quiet))

    def test_the_page_describes_each(self):
        described = re.findall(r"^   \* - ``(ValenceScheduler\w+)``$", PAGE, re.MULTILINE)
        self.assertEqual([*alerts()], described)

    def test_each_has_a_severity_and_a_summary_of_one_line(self):
        for name, rule in alerts().items():
            with self.subTest(name):
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                self.assertIn("{{ $labels.instance }}", rule["annotations"]["summary"])
                self.assertNotIn("\n", rule["annotations"]["summary"])


class TestExpressions(unittest.TestCase):
    def test_each_metric_exists_and_is_on_the_page(self):
        exist = shown_metrics()
        for name in ("alerts.yaml", "alerts-test.yaml", "dashboard.json"):
            used = {*METRIC.findall(text(name))}
            self.assertTrue(used)
            self.assertEqual(set(), used - exist, name)
        described = {*re.findall(r"^   \* - ``(valence_scheduler_\w+)``$", PAGE, re.MULTILINE)}
        exist = {re.sub("_(bucket|count|sum)$", "", name) for name in exist}
        self.assertEqual(exist - {"valence_scheduler_requests", "valence_scheduler_decisions"},
                         described)  # fmt: skip

    def test_each_route_exists(self):
        paths = {route.path for route in ROUTES}
        used = 0
        for name in ("alerts.yaml", "dashboard.json"):
            for operator, pattern in re.findall(r'route(=~|!~)\\?"([^"\\]+)', text(name)):
                used += 1
                self.assertTrue([path for path in paths if re.fullmatch(pattern, path)], operator)
        self.assertEqual(5, used)


class TestDashboard(unittest.TestCase):
    def test_no_panel_covers_another(self):
        cells = []
        for panel in dashboard()["panels"]:
            place = panel["gridPos"]
            columns = range(place["x"], place["x"] + place["w"])
            self.assertLessEqual(columns.stop, 24, panel["title"])
            cells += itertools.product(columns, range(place["y"], place["y"] + place["h"]))
        self.assertTrue(cells)
        self.assertEqual(len(cells), len({*cells}))

    def test_each_panel_has_its_own_id_and_title_and_the_chosen_data_source(self):
        panels = dashboard()["panels"]
        for name in ("id", "title", "description"):
            self.assertEqual(len(panels), len({panel[name] for panel in panels}), name)
        for one in (*panels, *(target for panel in panels for target in panel["targets"])):
            self.assertEqual({"type": "prometheus", "uid": "${datasource}"}, one["datasource"])

    def test_each_expression_is_limited_to_the_chosen_instances(self):
        variables = {one["name"] for one in dashboard()["templating"]["list"]}
        for panel in dashboard()["panels"]:
            for target in panel["targets"]:
                with self.subTest(panel["title"]):
                    expression = target["expr"]
                    selectors = re.findall(r"\w+{([^}]*)}", expression)
                    self.assertTrue(selectors)
                    for selector in selectors:
                        self.assertIn('job="$job", instance=~"$instance"', selector)
                    used = {*re.findall(r"\$(\w+)", expression)} - {"__rate_interval"}
                    self.assertLessEqual(used, variables)


if __name__ == "__main__":
    unittest.main()
