# SPDX-License-Identifier: Apache-2.0
"""Runs the service of an image with runc, as the image and the Compose file define it.

``run_image.py STORAGE IMAGE PROGRAM``: the arguments of buildah for its storage, the image, and the
program ``valence-sched``, which serves a pod manager.
"""

import argparse
import contextlib
import json
import os
import secrets
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bcrypt
import yaml

TOP, SCRATCH = Path(os.environ["TOP"]), Path(os.environ["SCRATCH"])
COMPOSE = TOP / "examples" / "service" / "compose.yaml"
POSTGRESQL = os.environ.get(
    "VALENCE_SCHED_TEST_POSTGRESQL", "postgresql://root@127.0.0.1:5432/test"
)
URL = "http://127.0.0.1:8790"
PASSWORD = "a password"
ANN = {"VALENCE_SCHED_URL": URL, "VALENCE_SCHED_USER": "ann", "VALENCE_SCHED_PASSWORD": PASSWORD}
PODMS = {"gpu-east": 8121, "gpu-north": 8122}
STOP_S = 45


def check(condition: object, text: str) -> None:
    if not condition:
        sys.exit(f"image: {text}")
    sys.stdout.write(f"  {text}: ok\n")


def output(*words: object, **options: Any) -> str:
    return subprocess.run(
        [str(one) for one in words], check=True, stdout=subprocess.PIPE, text=True, **options
    ).stdout


class Service(NamedTuple):
    """The parts of a container: the configuration and root of its image, its folders, a command."""

    image: Mapping[str, Any]
    root: Path
    volume: Path
    secrets: Path
    command: Sequence[str]


class Container:
    """A started container, whose root is read-only but for one volume."""

    def __init__(self, name: str, service: Service) -> None:
        image = service.image
        self._id = f"valence-{name}-{os.getpid()}"
        self._bundle = SCRATCH / self._id
        self._bundle.mkdir()
        subprocess.run(["runc", "spec"], cwd=self._bundle, check=True)
        path = self._bundle / "config.json"
        spec = json.loads(path.read_text())
        user, _, group = image["User"].partition(":")
        (target,) = image["Volumes"]
        process = spec["process"]
        process["terminal"] = False
        process["user"] = {"uid": int(user), "gid": int(group)}
        process["args"] = list(service.command)
        process["env"] = image["Env"]
        process["capabilities"] = {}
        process["cwd"] = image.get("WorkingDir") or "/"
        spec["root"] = {"path": str(service.root), "readonly": True}
        for destination, source, option in (
            (target, service.volume, "rw"),
            ("/run/secrets", service.secrets, "ro"),
        ):
            options = ["bind", option]
            spec["mounts"].append(
                {"destination": destination, "source": str(source), "options": options}
            )
        # The network of the machine, where the database and the pod managers are.
        spec["linux"]["namespaces"] = [
            one for one in spec["linux"]["namespaces"] if one["type"] != "network"
        ]
        path.write_text(json.dumps(spec))
        self.log = self._bundle / "log"
        with self.log.open("wb") as stream:
            self._process = subprocess.Popen(
                ["runc", "run", "--bundle", self._bundle, self._id], stdout=stream, stderr=stream
            )
        self._health = image["Healthcheck"]["Test"][1:]

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        options = [word for key, value in environ.items() for word in ("--env", f"{key}={value}")]
        command = ["runc", "exec", *options, self._id, *words]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    def command(self, *words: str) -> str:
        done = self.run("valence-sched", *words, **ANN)
        if done.returncode:
            sys.exit(f"image: {shlex.join(words)}: {done.stderr}")
        sys.stdout.write(f"  {shlex.join(words)}: ok\n")
        return done.stdout

    def await_health(self) -> None:
        until = time.monotonic() + 120
        while self.run(*self._health).returncode:
            if self._process.poll() is not None or time.monotonic() > until:
                sys.exit(f"image: the health check fails\n{self.log.read_text()}")
            time.sleep(1)
        check(True, "the health check of the image passes")

    def stop(self) -> None:
        subprocess.run(["runc", "kill", self._id, "TERM"], check=True)
        check(self._process.wait(STOP_S) == 0, f"SIGTERM ends it within {STOP_S} s")

    def kill(self) -> None:
        if self._process.poll() is None:
            subprocess.run(["runc", "kill", self._id, "KILL"], check=False)
            self._process.wait()


def check_confinement(container: Container, volume: Path) -> None:
    check(container.run("id", "-u").stdout.strip() == "8790", "the user is not root")
    written = container.run("sh", "-c", "touch /etc/a || touch /opt/a || touch /tmp/a || touch /a")
    check(written.returncode, f"the root is read-only ({written.stderr.splitlines()[0]})")
    check(any(volume.iterdir()), "the volume is writable")


def check_log(container: Container) -> None:
    """The answer to a request has the ID of its line in the log."""
    request = urllib.request.Request(f"{URL}/v1/podms")
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(request)
        sys.exit("image: a request without a login is answered")
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as answer:
        check(answer.code == 401, "a request without a login is refused")
        id_ = answer.headers["X-Openstack-Request-Id"]
    lines = [json.loads(line) for line in container.log.read_text().splitlines()]
    (found,) = [line for line in lines if line.get("request_id") == id_]
    check(found["status"] == 401, f"the log has JSON lines with request IDs ({len(lines)} lines)")


def check_service(name: str, service: Service) -> None:
    """The service claims hardware, and knows the claim after a restart."""
    container = Container(f"{name}-1", service)
    try:
        container.await_health()
        check_confinement(container, service.volume)
        for podm, port in PODMS.items():
            container.command("podm", "create", podm, f"http://127.0.0.1:{port}")
        container.command("podm", "schedule", "--flavor", "small", "--claim")
        check_log(container)
        container.stop()
        container = Container(f"{name}-2", service)
        container.await_health()
        claims = json.loads(container.command("podm", "claim", "list", "-f", "json"))
        check(len(claims) == 1, "the claim is in the state after a restart")
        container.stop()
    finally:
        container.kill()
    is_file = (service.volume / "state.sqlite").exists()
    check(is_file == (name == "sqlite"), f"the state is in {name}")


@contextlib.contextmanager
def pod_managers(program: str) -> Iterator[None]:
    words = [word for name in PODMS for word in ("--podm", name)]
    port = str(min(PODMS.values()))
    process = subprocess.Popen(
        [program, "podm", "serve", TOP / "examples" / "site.json", "--port", port, *words],
        stdout=subprocess.PIPE,
    )
    try:
        for _ in PODMS:
            check(process.stdout and process.stdout.readline(), "a pod manager is served")
        yield
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def database() -> Iterator[str]:
    """Yield the URL of a new database on the server."""
    name = f"scratch_{os.getpid()}"
    output("psql", "--quiet", "--command", f"CREATE DATABASE {name}", POSTGRESQL)
    try:
        yield f"{POSTGRESQL.rpartition('/')[0]}/{name}"
    finally:
        output("psql", "--quiet", "--command", f"DROP DATABASE {name}", POSTGRESQL)


def private(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o400)
    os.chown(path, 8790, 8790)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("storage", "image", "program"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    buildah = ["buildah", *shlex.split(arguments.storage)]
    described = json.loads(output(*buildah, "inspect", "--type", "image", arguments.image))
    image = described["Docker"]["config"]
    working = output(*buildah, "from", arguments.image).strip()
    root = Path(output(*buildah, "mount", working).strip())
    compose = yaml.safe_load(COMPOSE.read_text())["services"]["scheduler"]
    check(compose["read_only"], "the Compose file has a read-only root")
    with database() as url, pod_managers(arguments.program):
        composed = [*compose["entrypoint"], *compose["command"]]
        composed = [word.replace("$$", "$") for word in composed]
        for name, command in (
            ("sqlite", image["Entrypoint"] + image["Cmd"]),
            ("postgresql", composed),
        ):
            sys.stdout.write(f"{name}:\n")
            folder, volume = SCRATCH / f"{name}-secrets", SCRATCH / f"{name}-volume"
            folder.mkdir()
            volume.mkdir(mode=0o700)
            os.chown(volume, 8790, 8790)
            hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4))
            private(folder / "users", f"ann:{hashed.decode()}:admin\n")
            private(folder / "zone-key", secrets.token_hex(32))
            private(folder / "state-url", url)
            check_service(name, Service(image, root, volume, folder, command))


if __name__ == "__main__":
    main()
