# SPDX-License-Identifier: Apache-2.0
"""A page is complete, has one script and the same bytes each time, and is safe for any name."""

import base64
import hashlib
import html.parser
import re
import unittest

import jinja2

from tests.unit.cli.output.hostile import EVIL, raw
from valence_sched.model.decision import FunnelStep
from valence_sched.model.page import (
    BarComparison,
    ChartGrid,
    ChartSeries,
    FunnelChart,
    HardwareMap,
    Lines,
    MapBlock,
    MapGroup,
    MapPodm,
    MapPool,
    Measure,
    Page,
    PageTable,
    TableCell,
    TimeChart,
)
from valence_sched.pages import render
from valence_sched.pages.render import page_html
from valence_sched.pages.tables import MOST_CHARACTERS

MARKUP = "</title></style></svg><script>alert(1)</script><img src=x onerror=alert(1)>\"'`&{{7*7}}"
NAMES = (MARKUP, EVIL, 'a" onmouseover="alert(1)', "javascript:alert(1)", "]]>-->", "%s{0}")


def page(name: str = "name") -> Page:
    """Return a page with every kind of section, and with this name in every field."""
    squares = tuple(MapBlock(name, use, role) for use in ("free", "shared", "used", "unusable")
                    for role in ("", "chosen", "alternate"))  # fmt: skip
    pool = MapPool(name=name, role="chosen", text=name,
                   groups=(MapGroup(label=name, blocks=squares),))  # fmt: skip
    podm = MapPodm(name=name, pools=(pool, MapPool(name=name)), uses={"free": 3, "used": 1},
                   role="rejected", text=name, labels=(name,))  # fmt: skip
    chart = TimeChart(title=name, unit=name, text=name, series=(
        ChartSeries(name=name, points=((0, 1), (7200, None), (9000, 4))),
        ChartSeries(name="other", points=((0, 2), (9000, 3)))))  # fmt: skip
    return Page(title=name, lead=name, tone="good", facts=((name, name),), sections=(
        PageTable(title=name, text=name, columns=(name, "n"), numbers=frozenset(("n",)),
                  rows=((name, TableCell(text=name, share=0.5, best=True)),)),
        HardwareMap(title=name, text=name, podms=(podm,)),
        FunnelChart(title=name, text=name, steps=(
            FunnelStep(filter=name, came_in=3, went_on=1, undecided=1),
            FunnelStep(filter=name, came_in=1, went_on=1))),
        chart,
        ChartGrid(title=name, text=name, charts=(chart, chart)),
        BarComparison(title=name, names=(name, "b"), text=name, measures=(
            Measure(name=name, unit=name, values=(1.5, None), better="higher"),)),
        Lines(title=name, lines=(name,)),
    ))  # fmt: skip


class Reader(html.parser.HTMLParser):
    """Collects the elements of a page, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


class TestPage(unittest.TestCase):
    """The bytes of a page."""

    def test_the_same_page_gives_the_same_bytes(self):
        self.assertEqual(page_html(page()), page_html(page()))

    def test_nothing_is_loaded_and_nothing_runs_but_the_script_that_the_policy_names(self):
        text = page_html(page()).decode()
        elements = Reader(text).elements
        self.assertEqual([{}], [attributes for tag, attributes in elements if tag == "script"])
        (script,) = re.findall("<script>(.*)</script>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        (policy,) = [one["content"] or "" for _, one in elements
                     if one.get("http-equiv") == "Content-Security-Policy"]  # fmt: skip
        self.assertIn(f"script-src 'sha256-{digest}';", policy)
        self.assertIn("default-src 'none'", policy)
        for tag, attributes in elements:
            self.assertNotIn(tag, ("link", "img", "iframe", "object", "use", "base"))
            self.assertEqual([], [name for name in attributes if name.startswith("on")])
            for name in ("src", "href", "xlink:href", "action"):
                self.assertTrue((attributes.get(name) or "#").startswith("#"), attributes)
        self.assertNotRegex(text, r"https?://|@import|url\(")

    def test_a_name_stays_text_in_every_field(self):
        plain = [tag for tag, _ in Reader(page_html(page()).decode()).elements]
        for name in NAMES:
            with self.subTest(name):
                text = page_html(page(name)).decode()
                reader = Reader(text)
                self.assertEqual(plain, [tag for tag, _ in reader.elements])
                self.assertEqual("", raw(text))
                self.assertIn(render.shown(name), reader.texts)
                for _, attributes in reader.elements:
                    self.assertEqual([], [one for one in attributes if one.startswith("on")])

    def test_a_name_without_end_is_cut(self):
        size = len(page_html(page()))
        self.assertLess(len(page_html(page("x" * 1_000_000))), size + 100 * MOST_CHARACTERS)

    def test_ids_are_there_once_and_every_link_leads_to_one(self):
        elements = Reader(page_html(page()).decode()).elements
        ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
        self.assertEqual(len(set(ids)), len(ids))
        links = {(attributes["href"] or "")[1:] for tag, attributes in elements if tag == "a"}
        self.assertEqual(len(page().sections) + 1, len(links), "the squares are of one name")
        self.assertLessEqual(links, set(ids))

    def test_a_part_that_a_template_misspells_is_an_error(self):
        template = render._environment().from_string("{{ page.nosuch }}")
        with self.assertRaises(jinja2.UndefinedError):
            template.render(page=page())


class TestSections(unittest.TestCase):
    """The content of a section."""

    def text(self, section) -> str:
        return re.sub(r"\s+", " ", page_html(Page(title="t", sections=(section,))).decode())

    def test_the_filters_of_a_funnel_that_drop_nothing_are_one_line(self):
        steps = (FunnelStep(filter="enabled", came_in=9, went_on=9),
                 FunnelStep(filter="alive", came_in=9, went_on=4),
                 FunnelStep(filter="zone", came_in=4, went_on=4))  # fmt: skip
        text = self.text(FunnelChart(title="f", steps=steps))
        self.assertIn("Kept all pools: enabled, zone.", text)
        self.assertEqual(2, text.count("<li"), "one for all, one for the filter that drops")
        self.assertIn("4 of 9", text)

    def test_an_empty_section_says_so(self):
        for section in (PageTable(title="t", columns=("a",), rows=()),
                        HardwareMap(title="m", podms=())):  # fmt: skip
            with self.subTest(section.title):
                self.assertIn("None.", self.text(section))
        for section in (FunnelChart(title="f", steps=()), Lines(title="l", lines=()),
                        TimeChart(title="t", unit="", series=()), ChartGrid(title="g", charts=()),
                        BarComparison(title="b", names=(), measures=())):  # fmt: skip
            self.assertIn("</section>", self.text(section))

    def test_a_long_table_is_folded(self):
        for rows, folded in ((render.MOST_OPEN_ROWS, False), (render.MOST_OPEN_ROWS + 1, True)):
            table = PageTable(title="t", columns=("a",), rows=(("x",),) * rows)
            self.assertEqual(folded, "<summary>All" in self.text(table))

    def test_a_small_map_is_open_and_of_a_decision_what_it_takes(self):
        free = MapPodm(name="a", uses={"free": 1})
        self.assertEqual(12, self.text(HardwareMap(title="m", podms=(free,) * 12)).count(" open>"))
        self.assertEqual(0, self.text(HardwareMap(title="m", podms=(free,) * 13)).count(" open>"))
        roles = ("chosen", "alternate", "candidate", "rejected")
        podms = tuple(MapPodm(name=role, role=role) for role in roles)
        text = self.text(HardwareMap(title="m", podms=podms))
        self.assertEqual(2, text.count(" open>"))
        self.assertIn("does not fit", text)
