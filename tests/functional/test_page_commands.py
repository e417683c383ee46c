# SPDX-License-Identifier: Apache-2.0
"""Each command on a page is run, in the order of the page, on a site served for it."""

import re
import shlex
import shutil
import unittest

from tests.functional.programs import ROOT, SITE, Done, run
from tests.functional.renew_golden import README, transcripts
from tests.functional.test_docs import COMMAND_LINE, PAGES
from tests.functional.test_live import Live
from tests.service.serving import serving
from tests.unit.integrations.test_dispatchers import controller
from valence_sched.service.settings import ServiceSettings

#: Commands that need more than a site, and the tests that run them.
ELSEWHERE = {
    "podm serve": "tests.functional.test_serve",  # a signal of the test ends it
    "podm watch": "tests.functional.test_watch",
    "--policy quiet": "tests.functional.test_plugins",  # needs installed plug-ins
    "rack_csv:": "tests.functional.test_dialects",
    "sled.yaml": "tests.functional.test_dialects",
    "rack-9": "tests.functional.test_dialects",
    "bmc-17": "tests.functional.test_compose",
    "--from-catalog": "tests.functional.test_catalog",  # needs a cloud
    "--nova-flavor": "tests.functional.test_nova_flavor",
    "--password-prompt": "tests.functional.test_registry",
    "--auth-url": "tests.service.test_zone_keystone",
    "--backend dask": "tests.functional.test_whatif_sweep",
}
#: Files of a page, and the files of the repository that replace them.
FILES = {
    "site.json": "examples/site.json",
    "site.jsonl": "doc/source/examples/inventory-lines.jsonl",
    "workload.csv": "examples/workload.csv",
    "scenarios.yaml": "examples/scenarios.yaml",
}
TRACE = """\
creation_time,deletion_time,cpu_milli,memory_mib,num_gpu
0,600,4000,16384,1
60,900,8000,32768,0
"""
#: Commands that would take too long in a test.
SHORTER = {"--horizon 30d": "--horizon 1d", "--horizon 7d": "--horizon 1d", "1..20": "1..2"}
NAMES = {"--flavor node": "--flavor small"}  # the page describes the file
#: Commands that fail on the page: nodes that cannot be re-placed, or a small site.
EXIT_CODES = {"scheduler whatif fail": 4, "site.jsonl": 3}
#: The pod managers that a page registers: the first ones of the site.
NEW = ("https://podm-east.example.com:8443", "http://podm-east.example.com:9443")
NODE = re.compile(r"\bvs-[0-9a-f]{16}\b")


def commands() -> dict[str, list[str]]:
    """Return the commands of each page that are in no transcript."""
    replayed = "\n".join(path.read_text() for path in transcripts())
    found: dict[str, list[str]] = {}
    for page in (README, *PAGES):
        for line in COMMAND_LINE.findall(re.sub(r"\\\n +", " ", page.read_text())):
            words = re.sub(r" +", " ", line)
            if words not in replayed and not any(text in words for text in ELSEWHERE):
                found.setdefault(page.name, []).append(words)
    return found


class TestPages(Live):
    def setUp(self):
        super().setUp()
        (self.folder / "examples").symlink_to(ROOT / "examples")
        self.write("trace.csv", TRACE)
        recorded = ROOT / "tests" / "recorded" / "rack-mockup"
        shutil.make_archive(str(self.folder / "capture"), "zip", recorded)
        self.write("config/valence-sched/zones.yaml", "enable_zone_routing: true\n")
        self.environ = {
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "HOOK_KEY": "a key of the page",
            "EAST_PASSWORD": "a password of the page",
            "PODM_EAST_PASSWORD": "another",
        }

    def world(self, page: str) -> None:
        """Serve a site and a scheduler for a page, with a new state."""
        for name, source in FILES.items():
            shutil.copy(ROOT / source, self.folder / name)
        self.state = self.folder / f"{page}.sqlite"
        self.found = self.serve()
        self.register(dict(list(self.found.items())[len(NEW) :]))
        settings = ServiceSettings(inventories=(SITE,), state=f"sqlite:///{self.folder}/{page}.db")
        self.service = self.enterContext(serving(settings, self.environ))
        self.receiver = self.enterContext(controller())
        self.file(self.urls(self.found))

    def localised(self, line: str) -> str:
        """Return a command with the addresses and names of the served site."""
        for url, one in zip(NEW, self.found.values(), strict=False):
            line = line.replace(url, one.url)
        line = re.sub(r"https?://(?:east\.|10\.1)\S+", self.service, line)
        line = re.sub(r"https://controller\S+", f"{self.receiver.url}/decisions", line)
        for text, other in (SHORTER | NAMES).items():
            line = line.replace(text, other)
        if NODE.search(line):
            self.run_line("podm schedule --flavor small --compose")
            name = self.run_line("podm node list -f value -c Node").out.split()[0]
            line = NODE.sub(name, line)
        return line

    def run_line(self, line: str) -> Done:
        words = shlex.split(re.split(r" >>? | \| ", line)[0])
        environ = self.environ | {"VALENCE_SCHED_STATE": str(self.state)}
        return run("valence-sched", *words, folder=self.folder, **environ)

    def test_each_command_does_what_its_page_says(self):
        pages = commands()
        self.assertGreater(sum(map(len, pages.values())), 30)
        for page, lines in pages.items():
            self.world(page)
            for line in lines:
                with self.subTest(page=page, line=line):
                    done = self.run_line(self.localised(line))
                    wanted = next((code for text, code in EXIT_CODES.items() if text in line), 0)
                    self.assertEqual(wanted, done.code, done)
                    self.assertNotIn("Traceback", done.err)


class TestElsewhere(unittest.TestCase):
    def test_the_tests_that_run_the_other_commands_exist(self):
        for module in ELSEWHERE.values():
            with self.subTest(module):
                self.assertTrue((ROOT / f"{module.replace('.', '/')}.py").is_file())
