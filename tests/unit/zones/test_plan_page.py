# SPDX-License-Identifier: Apache-2.0
"""The plan on paper of what a tree carries: its figures follow from the constants beside them."""

import re
import unittest
from pathlib import Path

PAGE = Path(__file__).parents[3] / "doc" / "source" / "howto" / "zones.rst"
PODMS, READ_S, PRESET_S, KIB_A_GIB = 1_000_000, 900, 60, 1 << 20
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def section() -> str:
    """Return the plan."""
    return PAGE.read_text().partition("\nWhat a tree carries\n")[2].partition("\nA tree on one")[0]


def tables(text: str) -> list[list[list[str]]]:
    """Return the rows of each table of a text, each a list of cells."""
    found = []
    for table in text.split(".. list-table::")[1:]:
        lines = [line for line in table.splitlines() if line.startswith(("   * - ", "     - "))]
        rows: list[list[str]] = []
        for line in lines:
            if line.startswith("   * "):
                rows.append([])
            rows[-1].append(line[7:])
        found.append(rows)
    return found


def numbers(text: str) -> list[float]:
    return [float(word.replace(",", "")) for word in _NUMBER.findall(text)]


class TestPlan(unittest.TestCase):
    """What is derived is what the formulas of the page make of the constants."""

    maxDiff = None

    def setUp(self):
        constants, plan = tables(section())
        found = {cells[0]: numbers(cells[2]) for cells in constants[1:]}
        ((self.o,), (self.d, self.e), (self.r, self.c)) = (
            found[name] for name in ("``o``", "``d``, ``e``", "``r``, ``c``")
        )
        ((self.p,), (self.l,), (self.m,)) = (found[f"``{name}``"] for name in "plm")
        self.many_bytes, self.one_bytes = found["``b``"][2:4]  # of a zone with one level below
        self.rows = {cells[0]: cells[1:] for cells in plan}
        self.fan_outs = [int(cell) for cell in self.rows["Children of each zone, ``F``"]]

    def check(self, title, *formulas):
        """Compare a row with what each formula makes of the children of a zone, as it is shown."""
        for fan_out, cell in zip(self.fan_outs, self.rows[title], strict=True):
            shown = _NUMBER.findall(cell)
            self.assertEqual(len(formulas), len(shown), cell)
            for formula, text in zip(formulas, shown, strict=True):
                digits = len(text.partition(".")[2])
                expected = f"{formula(fan_out) + 1e-9:,.{digits}f}"
                self.assertEqual(expected, text, f"{title}, F = {fan_out}: {cell}")

    def podms(self, fan_out):
        return PODMS / fan_out**2

    def lowest_ms(self, fan_out):
        return self.o + self.d + self.e * self.podms(fan_out) / 1000

    def router_ms(self, fan_out):
        return self.r + self.c * fan_out

    def test_zones_and_pod_managers(self):
        self.check("Zones in all", lambda f: 1 + f + f * f)
        self.check("Pod managers of a lowest zone", self.podms)

    def test_times_of_a_decision(self):
        self.check("A lowest zone, for a new request", self.lowest_ms)
        self.check("A router, for a decision", self.router_ms)
        self.check("Time of a decision", lambda f: self.lowest_ms(f) + 2 * self.router_ms(f))
        self.check(
            "Decisions a second: lowest zones, routers",
            lambda f: 1000 / self.lowest_ms(f),
            lambda f: 1000 / self.router_ms(f),
        )

    def test_answers(self):
        self.check("Answers that the top reads for a decision", lambda f: self.one_bytes * f / 1000)
        self.check("The same for 100 nodes", lambda f: self.many_bytes * f / 10_000)

    def test_polls_memory_and_readings(self):
        self.check("A poll of a lowest zone", lambda f: self.podms(f) * self.p / 1000)
        self.check(
            "Memory of each of its processes, more than a router",
            lambda f: self.podms(f) * self.m / KIB_A_GIB,
        )
        self.check(
            "Processors that read, of each lowest zone",
            lambda f: self.podms(f) * self.l / 1000 / READ_S,
        )
        all_s = PODMS * self.l / 1000
        text = (
            f"{all_s / READ_S:.1f} processors in all at 15 minutes, {all_s / PRESET_S:.0f} at one"
        )
        self.assertIn(text, " ".join(section().split()))
