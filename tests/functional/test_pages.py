# SPDX-License-Identifier: Apache-2.0
"""``--html``: the written page, and the errors that prevent it."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

from tests.functional.browser import INTRUDERS, WIDTHS, BrowserCase
from tests.functional.programs import FLAVORS, PROGRAMS, SITE, Case, run
from tests.unit.cli.output.hostile import EVIL, raw
from tests.unit.pages.test_render import MARKUP, page
from valence_sched.pages.render import page_html

OURS = PROGRAMS[0]
LIST = ("podm", "list", "--inventory", SITE)
SCHEDULE = ("podm", "schedule", "--inventory", SITE, "--flavor", "gpu-large")
RUN = ("scheduler", "whatif", "run", "--inventory", SITE, "--flavor-file", FLAVORS, "--rate", "1/h",
       "--mix", "small=2,gpu-large=1", "--horizon", "2d", "--seed", "7")  # fmt: skip
FAIL = ("scheduler", "whatif", "fail", "gpu-east", "--inventory", SITE)
DRAIN = ("scheduler", "whatif", "drain", "gpu-west", "--inventory", SITE)
SWEEP = ("scheduler", "whatif", "sweep", "--jobs", "1", *RUN[3:-2])
REBALANCE = ("scheduler", "whatif", "rebalance", "--inventory", SITE, "--flavor", "gpu-large")
NEED = ("scheduler", "whatif", "need", "--inventory", SITE, "--flavor", "gpu-large", "--count", "5",
        "--buy", "GPU-03@gpu-east", "--buy", "Compute-02@gpu-east")  # fmt: skip
ALL = (LIST, SCHEDULE, RUN, FAIL, DRAIN, SWEEP, REBALANCE, NEED)


class TestPages(Case):
    """Pages of both commands, with both programs."""

    def page(self, *words: str, program: str = OURS, code: int = 0) -> str:
        file = self.folder / "page.html"
        file.unlink(missing_ok=True)
        done = run(program, *words, "--html", file)
        self.assertEqual(code, done.code, done.err)
        return file.read_text()

    def test_both_programs_write_the_same_bytes_and_print_their_rows(self):
        for words in (LIST, (*SCHEDULE, "--alternates", "2")):
            first, second = (self.page(*words, program=program) for program in PROGRAMS)
            self.assertEqual(first, second)
            done = run(OURS, *words, "--html", self.folder / "p.html", "-f", "json")
            self.assertEqual("gpu-east", done.data[0]["Podm"])

    def test_a_decision_that_is_refused_has_a_page_and_its_exit_code(self):
        text = self.page(*SCHEDULE, "--count", "30", code=3)
        self.assertIn("Nothing is placed: 4 of 30 nodes would fit, but all must", text)

    def test_a_list_is_of_the_pod_managers_that_its_options_name(self):
        text = self.page(*LIST, "--zone", "east-1")
        self.assertEqual({"gpu-east", "mem-1"}, set(re.findall("<h3>(.*?)</h3>", text)))

    def test_a_file_of_requests_has_one_page(self):
        requests = [{"id": name, "flavor": "small"} for name in ("one", "two")]
        file = self.write("requests.json", json.dumps({"requests": requests}))
        words = ("podm", "schedule", "--inventory", SITE, "--flavor-file", FLAVORS)
        text = self.page(*words, "--request-file", file)
        self.assertIn("Placed: 2 of 2 nodes", text)

    def test_a_replay_has_a_page_with_its_runs_and_what_they_were(self):
        words = (*RUN, "--policy", "default", "--policy", "pack", "--fail", "GPU-01@gpu-east")
        output = self.folder / "replay.json"
        text = self.page(*words, "--compare", "-o", str(output))
        replay = json.loads(output.read_bytes())
        names = re.findall('<th scope=row data-t="Run">([^<]*)</th>', text)[-4:]
        self.assertEqual(["base/default", "base/pack", "edited/default", "edited/pack"], names)
        for run_ in replay["runs"]:
            self.assertIn(run_["inventory"]["digest"], text)
        for fact in ("fail GPU-01@gpu-east: 1 podm, 1 block, 1 node lost", "<dd>7</dd>",
                     "small=2, gpu-large=1"):  # fmt: skip
            self.assertIn(fact, text)
        self.assertNotIn('<span class="mark">best</span>', text)
        done = run(PROGRAMS[1], *words, "--compare", "--html", self.folder / "second.html")
        self.assertEqual(0, done.code, done.err)
        self.assertEqual(text, (self.folder / "second.html").read_text())

    def test_a_failure_and_a_drain_have_pages_with_their_exit_codes(self):
        for words, code, lead in (
            ((*FAIL, "--clone", "gpu-east"), 0, "Every node can be re-placed: 4 nodes of gpu-east"),
            (DRAIN, 4, "1 of 3 nodes of gpu-west move away, 2 cannot"),
            (("scheduler", "whatif", "fail", "--survive", "1", "--inventory", SITE), 4,
             "The site does not survive 1 failure"),
        ):  # fmt: skip
            with self.subTest(words[:4]):
                first, second = (self.page(*words, program=program, code=code)
                                 for program in PROGRAMS)  # fmt: skip
                self.assertIn(lead, first)
                self.assertEqual(first, second)
        self.assertIn("clone gpu-east: 1 podm", self.page(*FAIL, "--clone", "gpu-east"))

    def test_a_rebalance_and_a_purchase_have_pages(self):
        for words, lead in (
            (REBALANCE, "gpu-large already fits on gpu-east/row-a: nothing has to move"),
            (NEED, "5 gpu-large fit with 1 additional block: fewer are not enough"),
        ):
            with self.subTest(words[2]):
                first, second = (self.page(*words, program=one) for one in PROGRAMS)
                self.assertIn(lead, first)
                self.assertEqual(first, second)

    def test_a_sweep_has_a_page_beside_its_file_of_runs(self):
        output = self.folder / "sweep.csv"
        words = (*SWEEP, "--seeds", "1..3", "--policy", "default", "--policy", "pack")
        text = self.page(*words, "-o", str(output))
        self.assertEqual(7, len(output.read_text().splitlines()))
        (digest,) = re.findall("<dd>([0-9a-f]{32})</dd>", text)
        self.assertEqual(3, text.count('data-t="Scenario">base</th>') // 2)
        self.assertRegex(text, "over 3 seeds")
        again = self.page(*words, program=PROGRAMS[1])
        self.assertEqual(text, again)
        self.assertIn(digest, again)

    def test_a_report_and_a_plan_can_be_written_beside_it(self):
        report, plan = self.folder / "r.json", self.folder / "plan.json"
        text = self.page(*SCHEDULE, "--report", str(report), "--plan", str(plan))
        self.assertIn(json.loads(report.read_text())["inventory"]["digest"], text)
        self.assertTrue(plan.exists())

    def test_a_name_that_is_none_and_a_place_that_is_none_are_refused(self):
        for program, words in itertools.product(PROGRAMS, ALL):
            for file, code, line in (
                ("-", 2, "--html: standard output is used for the rows: name a file"),
                ("", 2, "argument --html: an empty name: name a file"),
                (f"{self.folder}/none/p.html", 1, "no such file or directory"),
            ):
                with self.subTest(program, words=words[:2], file=file):
                    done = run(program, *words, "--html", file)
                    self.assertEqual((code, ""), (done.code, done.out), done.err)
                    self.assertIn(line, done.err.splitlines()[-1])


REPLAY = ("scheduler", "whatif", "run", "--rate", "2/h", "--mix", "small=6,gpu-large=1",
          "--lifetime", "8h", "--horizon", "7d")  # fmt: skip


class TestBrowser(BrowserCase):
    """One browser with a page for each case."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.pages = {"sections": cls.written("sections.html", page_html(page()))}
        for name, words in (
            ("list", ("podm", "list")),
            ("decision", ("podm", "schedule", "--flavor", "gpu-large", "--alternates", "1")),
            ("refused", ("podm", "schedule", "--flavor", "gpu-large", "--count", "30")),
            ("replay", (*REPLAY, "--policy", "default", "--policy", "pack", "--compare")),
            ("failure", ("scheduler", "whatif", "fail", "gpu-east", "--clone", "gpu-east")),
            ("purchase", ("scheduler", "whatif", "need", *NEED[5:])),
        ):
            cls.pages[name] = cls.folder / f"{name}.html"
            run("valence-sched", *words, "--inventory", SITE, "--html", cls.pages[name])

    @classmethod
    def written(cls, name: str, data: bytes) -> Path:
        path = cls.folder / name
        path.write_bytes(data)
        return path

    def open(self, path: Path, width: int = 1280, *, fragment: str = "", **settings: Any) -> Any:
        """Open a page in a window of this width; a network request of the page fails the test."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, **settings)
        self.addCleanup(context.close)
        opened = context.new_page()
        requests: list[str] = []
        opened.on("request", lambda request: requests.append(request.url))
        opened.on("pageerror", lambda error: requests.append(str(error)))
        opened.on("console", lambda message: requests.append(message.text))
        opened.goto(path.as_uri() + (f"#{fragment}" if fragment else ""))
        self.addCleanup(lambda: self.assertEqual([path.as_uri()], requests))
        return opened

    def test_every_page_is_accessible_and_fits_each_screen(self):
        for name, path in self.pages.items():
            opened = self.open(path)
            opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = 1)")
            for scheme in self.schemes(opened):
                with self.subTest(name, scheme=scheme):
                    self.check_accessible(opened)
                    self.check_fits(opened)
            opened.close()

    def test_a_decision_shows_its_choice_and_opens_the_rest_by_keyboard(self):
        opened = self.open(self.pages["decision"])
        self.assertEqual("Decision: gpu-large", opened.title())
        self.assertEqual("Placed: 1 of 1 node on gpu-east", opened.inner_text(".lead"))
        cards = opened.locator(".podm")
        self.assertEqual("gpu-east", cards.first.locator("h3").inner_text())
        self.assertEqual("chosen", cards.first.locator("summary .tag").first.inner_text())
        self.assertEqual(3, cards.first.locator("a.c[aria-label]").count())
        dark = cards.filter(has_text="dark-1")
        self.assertFalse(dark.locator(".pool").first.is_visible())
        dark.locator("summary").focus()
        opened.keyboard.press("Enter")
        self.assertTrue(dark.locator(".pool").first.is_visible())
        self.assertIn("status Offline", dark.inner_text())

    def test_a_reader_finds_filters_and_sorts_pod_managers_and_rows(self):
        opened = self.open(self.pages["list"])
        names = opened.locator(".podm:visible h3")
        everything = names.all_inner_texts()
        opened.get_by_label("Find a pod manager").fill("l40s")
        self.assertEqual(["gpu-west"], names.all_inner_texts())
        self.assertEqual("1 of 8 pod managers", opened.inner_text("[role=status]"))
        opened.get_by_label("Find a pod manager").fill("")
        opened.get_by_label("Show").select_option("Offline")
        self.assertEqual(["dark-1"], names.all_inner_texts())
        opened.get_by_label("Show").select_option("all")
        opened.get_by_label("Sort by").select_option("name")
        self.assertEqual(sorted(everything), names.all_inner_texts())
        opened.get_by_label("Sort by").select_option("order of the page")
        self.assertEqual(everything, names.all_inner_texts())
        table = opened.locator("section", has=opened.locator("h2:text-is('Pod managers')"))
        title = table.locator("th", has_text="Nodes")
        title.locator("button").focus()
        opened.keyboard.press("Enter")
        self.assertEqual("ascending", title.get_attribute("aria-sort"))
        self.assertEqual("dark-1", table.locator("tbody th").first.inner_text())
        opened.keyboard.press("Enter")
        self.assertEqual("dark-1", table.locator("tbody th").last.inner_text())

    def test_the_keyboard_and_a_touch_show_the_name_of_a_square(self):
        shown = "e => getComputedStyle(e, '::after').display"
        opened = self.open(self.pages["list"])
        group = opened.locator(".q", has=opened.locator("a:nth-child(3)")).first
        first, second = group.locator("a").nth(0), group.locator("a").nth(1)
        self.assertEqual("none", first.evaluate(shown))
        first.focus()
        self.assertEqual("block", first.evaluate(shown))
        opened.keyboard.press("ArrowRight")
        self.assertEqual("block", second.evaluate(shown))
        self.assertEqual("none", first.evaluate(shown))
        self.check_fits(opened)
        touched = self.open(self.pages["list"], 375, has_touch=True, is_mobile=True)
        square = touched.locator(".q a.u").first
        square.tap()
        self.assertEqual("block", square.evaluate(shown))
        self.assertRegex(square.get_attribute("aria-label") or "", "^[^:]+: in use; node ")
        self.check_fits(touched)

    def test_an_anchor_opens_what_it_names_and_of_a_large_map_its_pod_manager(self):
        opened = self.open(self.pages["decision"], fragment="dark-1/GPU-01")
        square = opened.locator("[id='dark-1/GPU-01']")
        self.assertTrue(square.is_visible())
        opened = self.open(self.pages["decision"], fragment="dark-1/none")
        self.assertTrue(opened.locator("[id=dark-1] .pool").first.is_visible())
        holds = "e => e.contains(document.activeElement)"
        self.assertTrue(opened.locator("[id=dark-1]").evaluate(holds))

    def test_values_of_charts_show_on_focus(self):
        opened = self.open(self.pages["replay"])
        points = opened.locator("figure", has_text="Refused nodes so far").locator(".point")
        text = points.nth(12).locator("text")
        visible = "e => getComputedStyle(e).visibility"
        self.assertEqual("hidden", text.evaluate(visible))
        points.first.focus()
        for _ in range(12):
            opened.keyboard.press("ArrowRight")
        self.assertEqual("visible", text.evaluate(visible))
        self.assertRegex(text.text_content() or "", r"^6.96 dbase/default \d+base/pack \d+$")

    def test_a_page_is_whole_without_its_script(self):
        opened = self.open(self.pages["list"], java_script_enabled=False)
        self.assertEqual(8, opened.locator(".podm").count())
        self.assertEqual(0, opened.locator(".tools").count())
        square = opened.locator(".q a").first
        square.focus()
        self.assertTrue(square.evaluate("e => e === document.activeElement"))
        self.assertTrue(opened.locator("tbody a:text-is('train-1')").is_visible())

    def test_a_refusal_shows_the_funnel_and_each_reason(self):
        opened = self.open(self.pages["refused"], 390)
        drops = opened.locator(".funnel .drops .what").all_inner_texts()
        self.assertEqual(["alive", "capacity", "devices"], drops)
        widths = [bar.bounding_box()["width"] for bar in opened.locator(".flow .out").all()]
        self.assertEqual(sorted(widths, reverse=True), widths)
        self.assertIn("status Offline", opened.inner_text("main"))

    def test_a_replay_shows_its_runs_side_by_side_and_over_time(self):
        opened = self.open(self.pages["replay"])
        self.assertRegex(opened.inner_text(".lead"), r"2 runs places? \d+ (to \d+ )?of \d+ ")
        refused = opened.locator("figure", has_text="Refused nodes so far")
        self.assertEqual(2, refused.locator("path.line.nofill").count())
        names = opened.locator(".legend").first.locator("li").all_inner_texts()
        self.assertEqual(["base/default", "base/pack"], names)

    def test_a_failure_shows_which_blocks_each_node_takes(self):
        opened = self.open(self.pages["failure"], 375)
        legend = opened.locator(".takers li").all_inner_texts()
        self.assertEqual(4, len(legend), legend)
        source, takes, *_ = opened.locator(".podm").all()
        self.assertIn("nodes leave", source.locator("summary").inner_text())
        self.assertIn("takes nodes", takes.locator("summary").inner_text())
        self.assertGreater(source.locator("a.o").count(), 4)
        numbers = {text for square in takes.locator("a.t").all_inner_texts()
                   for text in square.split()}  # fmt: skip
        self.assertEqual({"1", "2", "3", "4"}, numbers)
        colours = "n => getComputedStyle(n).backgroundColor"
        one, two = (takes.locator(f"a.t{number}").first for number in (0, 1))
        self.assertNotEqual(one.evaluate(colours), two.evaluate(colours))

    def test_a_replay_on_paper_is_whole_and_no_wider_than_a_sheet(self):
        opened = self.open(self.pages["replay"], 718)
        opened.emulate_media(media="print")
        content, window = opened.evaluate(WIDTHS)
        self.assertLessEqual(content, window)
        self.assertTrue(opened.get_by_text("Refused nodes so far").last.is_visible())
        self.assertTrue(opened.locator(".numbers td").first.is_visible())

    def test_the_dark_one_is_dark_and_paper_is_white_and_whole(self):
        opened = self.open(self.pages["list"], color_scheme="dark")
        luminance = (
            "n => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        )
        self.assertLess(max(opened.evaluate(luminance)[:3]), 60)
        opened.emulate_media(media="print")
        ink = opened.evaluate("getComputedStyle(document.body).color.match(/\\d+/g).map(Number)")
        self.assertLess(max(ink), 60)
        self.assertFalse(opened.locator("nav").is_visible())
        self.assertTrue(opened.locator(".g").last.is_visible())
        self.assertTrue(opened.pdf(format="A4", print_background=True).startswith(b"%PDF"))

    def test_charts_are_drawn_for_the_width_of_the_screen(self):
        for width, shown, hidden in ((1280, "wide", "narrow"), (390, "narrow", "wide")):
            opened = self.open(self.pages["sections"], width)
            figure = opened.locator("figure").first
            self.assertTrue(figure.locator(f".{shown}").is_visible())
            self.assertFalse(figure.locator(f".{hidden}").is_visible())
            size = "e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a"
            self.assertGreater(figure.locator(f".{shown} text").first.evaluate(size), 10)

    def test_hostile_names_stay_text(self):
        for name in (MARKUP, EVIL):
            path = self.written("evil.html", page_html(page(name)))
            opened = self.open(path, 390)
            self.assertEqual(0, opened.evaluate(INTRUDERS))
            self.assertEqual("", raw(opened.inner_text("body")))
            content, window = opened.evaluate(WIDTHS)
            self.assertLessEqual(content, window)
            self.check_accessible(opened)
