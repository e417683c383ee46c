# SPDX-License-Identifier: Apache-2.0
"""``podm serve`` as a program: its output, its end, and its refusals."""

import json
import signal
import socket
import subprocess

import requests

from tests.functional.programs import BIN, ROOT, SITE, Case, environment, run

SERVE = ("podm", "serve")


class TestServe(Case):
    def start(self, *words, program="valence-sched", **more):
        process = subprocess.Popen(
            [str(BIN / program), *SERVE, *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=ROOT, env=environment(**more),
        )  # fmt: skip
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def get(self, url, **words):
        session = requests.Session()
        session.trust_env = False
        return session.get(url, timeout=20, **words)

    def urls(self, process, count):
        return dict(process.stdout.readline().split() for _ in range(count))

    def test_it_prints_a_line_a_podm_once_all_listen_and_ends_well_when_told_to(self):
        for program, number in (("valence-sched", signal.SIGTERM), ("openstack", signal.SIGINT)):
            with self.subTest(program):
                process = self.start(SITE, "--port", "0", program=program)
                urls = self.urls(process, 8)
                self.assertIn("gpu-east", urls)
                for url in urls.values():
                    self.assertRegex(url, r"\Ahttp://127\.0\.0\.1:[0-9]+/redfish/v1\Z")
                    self.assertEqual(200, self.get(url).status_code)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
                self.assertEqual((0, "", ""), (process.returncode, out, err))

    def test_what_it_serves_is_listed_like_the_inventory_it_was_made_of(self):
        names = ["--podm", "gpu-east", "--podm", "store-1"]
        process = self.start(SITE, *names, "--port", "0")
        urls = self.urls(process, 2)
        podms = {"podms": {name: {"url": url} for name, url in urls.items()}}
        file = self.write("podms.yaml", json.dumps(podms))
        columns = ["-f", "json", *(f"-c{name}" for name in (
            "Podm", "Pools", "Total Blocks", "Free Blocks", "Free Cores", "Free Memory MiB",
            "Free GPUs",
        ))]  # fmt: skip
        live = run("valence-sched", "podm", "list", "--long", "--podm-file", file, *columns)
        self.assertEqual(0, live.code, live)
        told = run("valence-sched", "podm", "list", "--long", "--inventory", SITE, *columns)
        self.assertEqual([row for row in told.data if row["Podm"] in urls], live.data)

    def test_a_login_is_asked_for_and_its_password_is_nowhere(self):
        canary = "canary-7e3b"
        file = self.write("password", f"{canary}\n")
        (self.folder / "password").chmod(0o600)
        process = self.start(SITE, "--port", "0", "--username", "ann", "--password-file", file)
        url = self.urls(process, 8)["gpu-east"]
        self.assertEqual(401, self.get(f"{url}/Systems").status_code)
        self.assertEqual(200, self.get(f"{url}/Systems", auth=("ann", canary)).status_code)
        process.terminate()
        out, err = process.communicate(timeout=60)
        self.assertNotIn(canary, out + err)

    def test_the_same_in_a_variable(self):
        process = self.start(SITE, "--port", "0", "--username", "ann", "--password-env", "WORD",
                             WORD="sesame")  # fmt: skip
        url = self.urls(process, 8)["gpu-east"]
        self.assertEqual(200, self.get(f"{url}/Systems", auth=("ann", "sesame")).status_code)

    def test_what_cannot_be_served_is_told_in_one_line(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        open_to_all = self.write("open", "word\n")
        (self.folder / "open").chmod(0o644)
        for code, said, *words in (
            (1, "did you mean 'steal'?", SITE, "--fail", "stale:BLOCK"),
            (1, "no resource block named 'nosuch'", SITE, "--fail", "steal:nosuch"),
            (2, "expected hang:WHERE", SITE, "--fail", "hang"),
            (1, "did you mean 'gpu-west'?", SITE, "--fail", "refuse@gpu-wst"),
            (1, "did you mean 'gpu-west'?", SITE, "--podm", "gpu-wst"),
            (1, "address already in use: use another --port", SITE, "--port", port),
            (2, "8 ports from there exceed 65535", SITE, "--port", 65530),
            (1, "no such file", "nowhere.json"),
            (2, "a login needs --username", SITE, "--username", "ann"),
            (1, "is not set", SITE, "--username", "ann", "--password-env", "NO_SUCH"),
            (1, "other users can read", SITE, "--username", "ann", "--password-file", open_to_all),
        ):
            with self.subTest(said):
                done = run("valence-sched", *SERVE, *words)
                self.assertEqual((code, ""), (done.code, done.out), done)
                self.assertIn(said, done.err)
                self.assertEqual(1, done.err.count("\n"), done.err)

    def test_with_strict_a_document_that_cannot_be_read_ends_it_before_it_serves(self):
        tree = {"/redfish/v1": {"@odata.id": "/redfish/v1"}, "/redfish/v1/Systems": 7}
        file = self.write("broken.json", json.dumps(tree))
        done = run("valence-sched", *SERVE, file, "--port", "0", "--strict")
        self.assertEqual((5, ""), (done.code, done.out), done)

    def test_without_the_web_framework_it_says_what_to_install(self):
        self.write("aiohttp.py", "raise ModuleNotFoundError('no', name='aiohttp')\n")
        done = run("valence-sched", *SERVE, SITE, PYTHONPATH=str(self.folder))
        text = "podm serve needs aiohttp: pip install 'valence-sched[serve]'\n"
        self.assertEqual((1, "", text), (done.code, done.out, done.err))

    def test_help_lists_the_fault_rules_a_line_each(self):
        done = run("valence-sched", *SERVE, "--help-all")
        self.assertRegex(done.out, r"\n  die-after:N +after N writes")
