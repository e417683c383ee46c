# SPDX-License-Identifier: Apache-2.0
"""The deployment examples: units, container, other servers and their settings."""

import ast
import configparser
import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import requests
import yaml

from tests.service.application import EXAMPLE, SMALL, ApplicationCase
from tests.unit.test_entry_points import declared
from valence_sched import errors
from valence_sched.server import main
from valence_sched.service.settings import DEFAULT_SETTINGS, Limits

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "service"
UNITS = sorted(
    path for path in FOLDER.iterdir() if path.suffix in (".service", ".socket", ".timer")
)
BIN = "/opt/valence-sched/bin/"
JSON = {"Content-Type": "application/json"}


def text(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def unit(path):
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read(path)
    return parser


class TestSettings(ApplicationCase):
    def test_each_example_of_settings_passes_the_check(self):
        users, key = self.users_file("ann:admin"), self.folder / "zone-key"
        key.write_text("k" * 64)
        key.chmod(0o600)
        for example in (
            FOLDER / "service.yaml",
            FOLDER / "container.yaml",
            ROOT / "debian" / "service.yaml",
        ):
            with self.subTest(example):
                settings = yaml.safe_load(example.read_text())
                settings |= {"users_file": users, "state": self.state}
                (reference,) = settings["zones"]["secrets"]
                reference["file"] = str(key)
                for word in ("certificate", "private_key"):
                    if word in settings:
                        settings[word] = self.pem(word)
                path = self.folder / example.name
                path.write_text(yaml.safe_dump(settings))
                code, out, err = self.run_program("check-config", "--config", str(path))
                self.assertEqual(0, code, err)
                self.assertIn("workers: 2", out)

    def test_a_key_of_another_certificate_is_named(self):
        certificate, key = self.pem("certificate"), self.folder / "other"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        path = self.folder / "service.yaml"
        path.write_text(f"state: {self.state}\ncertificate: {certificate}\nprivate_key: {key}\n")
        code, _, err = self.run_program("check-config", "--config", str(path))
        self.assertEqual(1, code)
        self.assertIn(f"found no certificate for the key {key}", err)

    def pem(self, word):
        if not (self.folder / "private_key").exists():
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes",
                 "-subj", "/CN=localhost", "-keyout", self.folder / "private_key",
                 "-out", self.folder / "certificate"],
                check=True, capture_output=True,
            )  # fmt: skip
        return str(self.folder / word)


class TestUnits(unittest.TestCase):
    def commands(self):
        for path in UNITS:
            for name, line in unit(path).items("Service") if path.suffix == ".service" else ():
                if name.startswith("Exec") and BIN in line:
                    yield path.name, shlex.split(line)

    def test_each_command_is_one(self):
        scripts = declared()["console_scripts"]
        found = 0
        for name, (path, *words) in self.commands():
            with self.subTest(name, words=words):
                program = path.removeprefix(BIN)
                self.assertIn(program, scripts)
                if program == "valence-scheduler":
                    main.parser().parse_args(words)
                else:
                    self.assertIn("_".join(words), declared()["openstack.podm.v1"])
                found += 1
        self.assertEqual(4, found)

    def test_a_stop_waits_longer_than_the_service_needs(self):
        service = unit(FOLDER / "valence-scheduler.service")["Service"]
        self.assertGreater(int(service["TimeoutStopSec"]), DEFAULT_SETTINGS.stop_s)
        grace = yaml.safe_load(text("compose.yaml"))["services"]["scheduler"]["stop_grace_period"]
        self.assertGreater(int(grace.removesuffix("s")), DEFAULT_SETTINGS.stop_s)
        (apache,) = re.findall(r"shutdown-timeout=(\d+)", text("apache.conf"))
        (uwsgi,) = re.findall(r"worker-reload-mercy = (\d+)", text("uwsgi.ini"))
        self.assertGreater(min(int(apache), int(uwsgi)), DEFAULT_SETTINGS.stop_s)

    def test_systemd_takes_them(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("there is no systemd-analyze")
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for path in UNITS:
            replaced = re.sub(re.escape(BIN) + r"\S+", "/bin/true", path.read_text())
            (folder / path.name).write_text(replaced)
        done = subprocess.run(["systemd-analyze", "verify", *sorted(folder.iterdir())],
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual((0, ""), (done.returncode, done.stderr))


class TestServers(unittest.TestCase):
    def test_other_servers_find_the_application(self):
        ((module, name),) = re.findall(
            r"^module = ([\w.]+):(\w+)$", text("uwsgi.ini"), re.MULTILINE
        )
        spec = importlib.util.find_spec(module)
        tree = ast.parse(Path(spec.origin).read_text())
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        self.assertIn(name, functions)
        self.assertIn(module.replace(".", "/") + ".py", text("apache.conf"))

    def test_they_take_as_large_a_body_as_the_service(self):
        for name, pattern in (
            ("uwsgi.ini", r"limit-post = (\d+)"),
            ("apache.conf", r"LimitRequestBody (\d+)"),
        ):
            (size,) = re.findall(pattern, text(name))
            self.assertEqual(Limits().body_bytes, int(size))


class TestUwsgi(unittest.TestCase):
    """The example of uWSGI, run with other paths and another address."""

    def setUp(self):
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        program = shutil.which("uwsgi", path=path)
        if program is None:
            self.skipTest("no uwsgi: pip install pyuwsgi, or put one in the PATH")
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        (folder / "metrics").mkdir()
        (folder / "service.yaml").write_text(
            f"inventories: [{EXAMPLE}]\nstate: {folder}/state.sqlite\nreader: off\n"
        )
        example = text("uwsgi.ini").replace("127.0.0.1:8790", f"127.0.0.1:{self.port}")
        example = example.replace("/opt/valence-sched", sys.prefix)
        example = example.replace("/etc/valence-sched/", f"{folder}/")
        example = example.replace("/run/valence-sched/metrics", f"{folder}/metrics")
        (folder / "uwsgi.ini").write_text(example)
        homes = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), str(folder))
        environ = {**os.environ, **homes, "PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path[1:])),
                   "VALENCE_SCHEDULER_CONFIG": str(folder / "service.yaml"),
                   "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")}  # fmt: skip
        self.log = folder / "log"
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen([program, "--ini", str(folder / "uwsgi.ini")],
                                            stdout=stream, stderr=stream, env=environ)  # fmt: skip
        self.addCleanup(self.process.wait, 60)
        self.addCleanup(self.process.terminate)
        self.url = f"http://127.0.0.1:{self.port}"
        for _ in range(600):
            self.assertIsNone(self.process.poll(), self.log.read_text())
            with contextlib.suppress(requests.ConnectionError):
                if requests.get(f"{self.url}/healthcheck", timeout=30).ok:
                    return
            time.sleep(0.05)
        self.fail(self.log.read_text())

    def test_it_decides_logs_and_counts_over_its_processes(self):
        for _ in range(8):
            answer = requests.post(f"{self.url}/v1/select_destinations", json=SMALL, timeout=30)
            self.assertEqual(
                (200, "placed"), (answer.status_code, answer.json()["report"]["outcome"])
            )
        metrics = requests.get(f"{self.url}/metrics", timeout=30).text
        line = 'route="/v1/select_destinations",status="200"} 8.0'
        self.assertIn(line, metrics)
        lines = [json.loads(one) for one in self.log.read_text().splitlines() if one[:1] == "{"]
        ids = [one["request_id"] for one in lines if one.get("path") == "/v1/select_destinations"]
        self.assertIn(answer.headers["X-Openstack-Request-Id"], ids)
        self.assertEqual(8, len(ids))
        chunked = requests.post(f"{self.url}/v1/select_destinations", data=iter([b"{}"]),
                                headers=JSON, timeout=30)  # fmt: skip
        self.assertEqual((411, "http_411"), (chunked.status_code, chunked.json()["code"]))
        self.process.terminate()
        self.process.wait(60)
        self.assertNotIn("Traceback", self.log.read_text())


class TestContainer(unittest.TestCase):
    def test_images_have_plain_names(self):
        services = yaml.safe_load(text("compose.yaml"))["services"].values()
        images = [one["image"] for one in services if "image" in one]
        images += re.findall(r"^ARG BASE=(\S+)", text("Containerfile"), re.MULTILINE)
        self.assertEqual(2, len(images))
        for image in images:
            self.assertRegex(image, r"^[a-z]+:[a-z\d.]+(-slim)?$")

    def test_it_has_two_workers_over_one_database(self):
        document = yaml.safe_load(text("compose.yaml"))
        scheduler = document["services"]["scheduler"]
        self.assertEqual("examples/service/Containerfile", scheduler["build"]["dockerfile"])
        (command,) = scheduler["command"]
        words = shlex.split(command.partition(BIN)[2])
        self.assertEqual("valence-scheduler", words[0])
        main.parser().parse_args(words[1:])
        settings = yaml.safe_load(text("container.yaml"))
        self.assertEqual(2, settings["workers"])
        secrets = {f"/run/secrets/{name}" for name in scheduler["secrets"]}
        self.assertIn(settings["users_file"], secrets)
        self.assertIn(settings["zones"]["secrets"][0]["file"], secrets)
        self.assertIn(re.search(r"cat (\S+)\)", command)[1], secrets)
        self.assertLessEqual({*scheduler["secrets"]}, {*document["secrets"]})
        self.assertTrue(all(port.startswith("127.0.0.1:") for port in scheduler["ports"]))
        self.assertTrue(scheduler["read_only"])
        (volume,) = re.findall(r"^VOLUME (\S+)", text("Containerfile"), re.MULTILINE)
        self.assertEqual([volume], [one.partition(":")[2] for one in scheduler["volumes"]])


class TestContainerfile(unittest.TestCase):
    """The files and programs of the image exist; the service runs as a separate user."""

    def setUp(self):
        lines = re.sub(r"\\\n", "", text("Containerfile")).splitlines()
        self.steps = [line.split(None, 1) for line in lines if line and line[0] != "#"]

    def of(self, name):
        return [rest for kind, rest in self.steps if kind == name]

    def test_each_step_is_one_that_a_builder_knows(self):
        known = {"ARG", "FROM", "RUN", "COPY", "ENV", "VOLUME", "USER", "EXPOSE", "HEALTHCHECK",
                 "STOPSIGNAL", "ENTRYPOINT", "CMD"}  # fmt: skip
        self.assertEqual(known, {name for name, _ in self.steps})
        stages = [rest.split(" AS ")[1] for rest in self.of("FROM") if " AS " in rest]
        self.assertEqual(["build"], stages)

    def test_what_is_copied_is_there(self):
        copied = [shlex.split(rest) for rest in self.of("COPY")]
        self.assertEqual(3, len(copied))
        for *options, source, _ in copied:
            if options:
                self.assertEqual(["--from=build"], options)
                self.assertIn(f"venv {source} ", " ".join(self.of("RUN")))
            else:
                self.assertTrue((ROOT / source).exists(), source)

    def test_what_is_installed_is_there(self):
        (run,) = (rest for rest in self.of("RUN") if " pip install " in rest.replace("/", " "))
        words = shlex.split(run.rpartition("pip install ")[2])
        constraints = words[words.index("--constraint") + 1]
        self.assertTrue((ROOT / constraints.removeprefix("/source/")).is_file(), constraints)
        self.assertEqual("/source[${EXTRAS}]", words[-1])
        ((_, extras),) = (one.split("=") for one in self.of("ARG") if one.startswith("EXTRAS"))
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg")
        self.assertLessEqual({*extras.split(",")}, {*config["options.extras_require"]})

    def test_what_runs_exists_and_finds_its_settings(self):
        (program,) = json.loads(self.of("ENTRYPOINT")[0])
        self.assertIn(program.removeprefix(BIN), declared()["console_scripts"])
        arguments = main.parser().parse_args(json.loads(self.of("CMD")[0]))
        targets = {shlex.split(rest)[-1] for rest in self.of("COPY")}
        self.assertIn(arguments.config, targets)
        (user,) = (one.partition(":")[0] for one in self.of("USER"))
        (home,) = self.of("VOLUME")
        (made,) = (
            run for run in self.of("RUN") if f"useradd --uid {user} --home-dir {home} " in run
        )
        self.assertIn(f" -g valence-sched {home}", made)
        port = str(yaml.safe_load(text("container.yaml"))["port"])
        self.assertEqual([port], self.of("EXPOSE"))


class TestChart(unittest.TestCase):
    """What the chart repeats of the image; ``make release-check STEPS=chart`` renders it."""

    FOLDER = ROOT / "examples" / "helm"

    def test_it_has_the_user_the_port_and_the_volume_of_the_image(self):
        template = (self.FOLDER / "templates" / "deployment.yaml").read_text()
        image = text("Containerfile")
        (user,) = re.findall(r"^USER (\d+):\1$", image, re.MULTILINE)
        for word in ("runAsUser", "runAsGroup", "fsGroup"):
            self.assertIn(f"{word}: {user}\n", template)
        for pattern, word in (
            (r"^EXPOSE (\d+)", "containerPort"),
            (r"^VOLUME (\S+)", "name: state, mountPath"),
        ):
            (value,) = re.findall(pattern, image, re.MULTILINE)
            self.assertIn(f"{word}: {value}", template)
        (grace,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", template)
        self.assertGreater(int(grace), DEFAULT_SETTINGS.stop_s)

    def test_its_image_is_that_of_the_release(self):
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg")
        chart = yaml.safe_load((self.FOLDER / "Chart.yaml").read_text())
        self.assertEqual(config["metadata"]["version"], chart["appVersion"])


class TestDebianPackage(unittest.TestCase):
    """What the package repeats; ``make release-check STEPS=deb`` installs it."""

    FOLDER = ROOT / "debian"

    def test_it_backs_up_the_state_of_its_settings(self):
        settings = yaml.safe_load((self.FOLDER / "service.yaml").read_text())
        postinst = (self.FOLDER / "valence-sched.postinst").read_text()
        self.assertIn(f"state={settings['state']}\n", postinst)

    def test_what_it_installs_exists(self):
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg")
        (extras,) = re.findall(
            r"^EXTRAS := (.*)", (self.FOLDER / "rules").read_text(), re.MULTILINE
        )
        self.assertLessEqual({*extras.split()}, {*config["options.extras_require"]})
        for line in (self.FOLDER / "valence-sched.install").read_text().splitlines():
            self.assertTrue([*ROOT.glob(line.split()[0])], line)
        shared = {*config["options.data_files"]}
        for line in (self.FOLDER / "valence-sched.links").read_text().splitlines():
            path = line.split()[0].removeprefix("opt/valence-sched/")
            if path.startswith("bin/"):
                self.assertIn(path.removeprefix("bin/"), declared()["console_scripts"])
            else:
                self.assertTrue({path, path.rpartition("/")[0]} & shared, line)


class TestPage(unittest.TestCase):
    PAGE = (ROOT / "doc" / "source" / "howto" / "deploy.rst").read_text(encoding="utf-8")

    def test_it_shows_every_example(self):
        for path in FOLDER.iterdir():
            with self.subTest(path.name):
                self.assertIn(path.stem.removesuffix(".service"), self.PAGE)

    def test_the_codes_that_it_names_exist(self):
        paged = self.PAGE.partition("When you are paged")[2]
        codes = re.findall(r"503, ``(\w+)``", paged)
        self.assertEqual(2, len(codes))
        known = {kind.code for kind in vars(errors).values()
                 if isinstance(kind, type) and issubclass(kind, errors.SchedulerError)}  # fmt: skip
        self.assertLessEqual({*codes}, known)
