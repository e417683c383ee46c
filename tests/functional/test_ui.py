# SPDX-License-Identifier: Apache-2.0
"""The pages of the service in headless Chromium, on live pod managers and two tenants."""

import contextlib
from typing import Any

import bcrypt
import requests

from tests.functional.browser import INTRUDERS, BrowserCase
from tests.functional.programs import SITE
from tests.service.serving import serving
from tests.unit.cli.output.hostile import EVIL, raw
from valence_sched.model.registration import Registration
from valence_sched.service.settings import RateSettings, ServiceSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import served

SMALL = {"request": {"flavor": "small"}}
LARGE = {"request": {"flavor": "gpu-large", "alternates": 1}, "keep": True}
CORES = {"processor": {"total_cores": 8}}
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>"
DARK = "Math.max(...getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number))"


class TestUi(BrowserCase):
    """A service with an admin ``ann`` and the tenants ``mo`` and ``eve``."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        podms = stack.enter_context(served(SITE))
        state = f"sqlite:///{cls.folder}/ui.sqlite"
        with Store(state) as store:
            for name, podm in podms.items():
                store.register(Registration(name=name, url=podm.url))
        users = cls.folder / "users"
        hashed = {name: bcrypt.hashpw(name.encode(), bcrypt.gensalt(4)).decode()
                  for name in ("ann", "mo", "eve")}  # fmt: skip
        users.write_text(f"ann:{hashed['ann']}:admin\nmo:{hashed['mo']}\neve:{hashed['eve']}\n")
        users.chmod(0o600)
        limits = RateSettings(failures="1000/minute")  # other users fail here on purpose
        settings = ServiceSettings(
            state=state, auth="basic", users_file=str(users), rate_limits=limits
        )
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        environ = dict.fromkeys(homes, str(cls.folder))
        cls.url = stack.enter_context(serving(settings, environ))
        claim = cls.ask("mo", "/v1/claims", SMALL).json()["claim"]
        cls.claim, cls.claimed = claim["id"], claim["parts"][0]["podm"]
        cls.ask("mo", "/v1/nodes", SMALL)
        many = {"request": {"flavor": "gpu-large", "count": 30}, "keep": True}
        named = {"request": {"id": MARKUP, "properties": CORES}, "keep": True}
        answers = [cls.ask("mo", "/v1/select_destinations", body) for body in (LARGE, many, named)]
        kept = [answer.headers["Content-Location"] for answer in answers]
        cls.placed, cls.refused, cls.hostile = (path.replace("/v1/", "/ui/") for path in kept)

    @classmethod
    def ask(cls, user: str, path: str, body: Any) -> requests.Response:
        answer = requests.post(f"{cls.url}{path}", json=body, auth=(user, user), timeout=60)
        answer.raise_for_status()
        return answer

    def open(
        self, path: str, user: str = "ann", width: int = 1280, *, init: str = "", **settings: Any
    ) -> Any:
        """Open a page as a user; requests for anything but pages fail the test."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 900},
            http_credentials={"username": user, "password": user},
            **settings,
        )
        self.addCleanup(context.close)
        opened = context.new_page()
        others: list[str] = []
        opened.on("request", lambda one: others.append(one.resource_type))
        opened.on("pageerror", lambda error: others.append(str(error)))
        if init == "clock":
            opened.clock.install()
        else:  # no page reads itself again while a slow machine checks it
            opened.add_init_script("try { sessionStorage.refresh = 'no' } catch {}")
        opened.goto(f"{self.url}{path}")
        self.addCleanup(lambda: self.assertEqual({"document"}, {*others}))
        return opened

    def test_every_page_is_accessible_and_fits_each_screen(self):
        for path in ("/ui", "/ui/podms/gpu-east", "/ui/blocks/GPU-01?podm=gpu-east",
                     "/ui/fit?flavor=gpu-large", "/ui/decisions", self.placed, self.refused,
                     "/ui/claims?ended=true", f"/ui/claims/{self.claim}", "/ui/nodes",
                     "/ui/claims/nope"):  # fmt: skip
            opened = self.open(path)
            opened.evaluate("document.querySelectorAll('details').forEach(d => d.open = 1)")
            for scheme in self.schemes(opened):
                with self.subTest(path, scheme=scheme):
                    self.check_accessible(opened)
                    self.check_fits(opened)
                    self.assertEqual(scheme == "dark", opened.evaluate(DARK) < 60)
            opened.close()  # or it would read itself again

    def test_links_lead_from_the_site_to_a_claim_and_back(self):
        opened = self.open("/ui?search=gpu-")
        self.assertEqual("gpu-", opened.input_value("[name=search]"))
        names = opened.locator("tbody th a").all_inner_texts()
        self.assertEqual(["gpu-east", "gpu-north", "gpu-west"], sorted(names))
        claimed = self.ask("mo", "/v1/claims", {"request": {"flavor": "small", "podms": ["mem-1"]}})
        claim = claimed.json()["claim"]["id"]
        opened.fill("[name=search]", "mem-1")
        opened.click("button")
        opened.click("a:text-is('mem-1')")
        self.assertEqual("Podm mem-1", opened.inner_text("h1"))
        opened.click(f"a:text-is('{claim}') >> nth=0")
        self.assertEqual(f"Claim {claim}", opened.inner_text("h1"))
        opened.click(".site a:text-is('Site')")
        self.assertEqual("Site", opened.inner_text("h1"))
        self.assertEqual("Site", opened.inner_text("[aria-current]"))

    def test_the_form_says_where_a_node_would_go_and_why_not_elsewhere(self):
        opened = self.open("/ui", "mo")
        opened.click(".site a:text-is('Would it fit?')")
        opened.get_by_label("Flavor").select_option("gpu-large")
        opened.click("button:text-is('Decide')")
        self.assertRegex(opened.inner_text(".lead"), "^Placed: 1 of 1 node on [a-z]")
        self.assertEqual("gpu-large", opened.input_value("[name=flavor]"))
        opened.get_by_label("Flavor").select_option("")
        opened.get_by_label("or cores").fill("100000")
        opened.click("button:text-is('Decide')")
        self.assertRegex(opened.inner_text(".lead"), "^Nothing fits")
        self.assertIn("of 100,000 cores", opened.inner_text("main"))

    def test_a_page_reads_itself_again_and_keeps_what_is_open(self):
        opened = self.open("/ui/podms/gpu-east", init="clock")
        opened.evaluate("document.querySelector('details.podm').open = false; window.same = 1")
        opened.clock.run_for(31_000)
        opened.wait_for_function("!window.same")
        self.assertFalse(opened.evaluate("document.querySelector('details.podm').open"))
        opened.evaluate("window.same = 1")
        opened.get_by_label("every 30 s").uncheck()
        opened.evaluate("document.activeElement.blur()")
        opened.clock.run_for(61_000)
        self.assertEqual(1, opened.evaluate("window.same"))

    def test_a_square_leads_to_the_page_of_its_block_and_on_to_its_node(self):
        opened = self.open("/ui/podms/gpu-east")
        opened.locator(".q a.u").first.click()
        self.assertRegex(opened.inner_text("h1"), "^Block ")
        opened.locator("section", has_text="Nodes").locator("tbody a").first.click()
        self.assertRegex(opened.inner_text("h1"), "^Node ")
        self.check_accessible(opened)
        opened.click("tbody a:text-is('gpu-east')")
        self.assertEqual("Podm gpu-east", opened.inner_text("h1"))

    def test_a_decision_shows_its_choice_and_a_refusal_its_funnel(self):
        opened = self.open("/ui/decisions", "mo")
        opened.click("tbody tr:has-text('gpu-large'):has-text('1 of 1') a")
        self.assertRegex(opened.inner_text(".lead"), "^Placed: 1 of 1 node on [a-z]")
        self.assertEqual("chosen", opened.locator(".podm summary .tag").first.inner_text())
        refused = self.open(self.refused, "mo", 375)
        self.assertIn("devices", refused.locator(".funnel .drops .what").all_inner_texts())

    def test_a_tenant_sees_its_own_only(self):
        for path, words in (
            ("/ui/claims", self.claim),
            ("/ui/claims?owner=mo", self.claim),
            ("/ui/decisions", "gpu-large"),
            (f"/ui/podms/{self.claimed}", self.claim),
        ):
            with self.subTest(path):
                self.assertIn(words, self.text_of(path, "mo"))
                self.assertNotIn(words, self.text_of(path, "eve"))
        for path in (self.placed, f"/ui/claims/{self.claim}"):
            self.assertRegex(self.text_of(path, "eve"), "no (claim|decision) named")

    def text_of(self, path: str, user: str) -> str:
        """Return the body of a page without its script, and without a browser."""
        answer = requests.get(f"{self.url}{path}", auth=(user, user), timeout=60)
        return answer.text.partition("<body")[2].partition("<script")[0]

    def test_who_is_not_known_gets_a_page_and_is_asked_for_a_password(self):
        answer = requests.get(f"{self.url}/ui", timeout=60)
        self.assertEqual(401, answer.status_code)
        self.assertIn("Basic", answer.headers["WWW-Authenticate"])
        self.assertIn("text/html", answer.headers["Content-Type"])
        self.assertNotIn("gpu-east", answer.text)

    def test_a_page_runs_its_own_script_only_and_stands_in_no_frame(self):
        answer = requests.get(f"{self.url}/ui", auth=("ann", "ann"), timeout=60)
        policy = answer.headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertRegex(policy, "script-src 'sha256-[^ ']+';")
        self.assertIn("frame-ancestors 'none'", policy)
        self.assertEqual("no-store", answer.headers["Cache-Control"])
        opened = self.open("/ui")
        tag = "document.body.append(Object.assign(document.createElement('script'), {text: 'x=1'}))"
        opened.evaluate(tag)
        self.assertEqual("undefined", opened.evaluate("typeof x"))

    def test_hostile_names_stay_text(self):
        stats = {"stats": {"zone": EVIL, "pools": [{"id": MARKUP}], "blocks": [
            {"uri": f"/b/{MARKUP}", "type": ["Compute"], "pools": [MARKUP],
             "devices": {"processors": [{"cores": 1}]}}]}}  # fmt: skip
        name = f"a/{MARKUP}"
        path = f"/v1/podms/-/stats?name={requests.utils.quote(name, safe='')}"
        self.ask("ann", path, stats)
        self.addCleanup(
            lambda: requests.delete(f"{self.url}{path}", auth=("ann", "ann"), timeout=60)
        )
        for path in ("/ui", "/ui/decisions", self.hostile):
            opened = self.open(path, width=375)
            self.assertEqual(0, opened.evaluate(INTRUDERS))
            self.assertEqual("", raw(opened.inner_text("body")))
            self.assertIn("<script>", opened.evaluate("document.body.textContent"))
            self.check_fits(opened)
        opened = self.open("/ui", width=1280)
        opened.click("a:has-text('onerror')")
        self.assertEqual(
            f"Podm {name}", opened.evaluate("document.querySelector('h1').textContent")
        )
        self.assertEqual(0, opened.evaluate(INTRUDERS))

    def test_paper_has_the_whole_page_and_no_form(self):
        opened = self.open("/ui", width=718, color_scheme="dark")
        opened.emulate_media(media="print")
        self.assertFalse(opened.locator("form").is_visible())
        self.assertTrue(opened.locator(".g").last.is_visible())
        self.check_fits(opened)
