# SPDX-License-Identifier: Apache-2.0
"""Serves pod managers and a service under load, and queries all expressions through Prometheus.

Runs in a folder with a copy of examples/monitoring, a certificate of ``localhost`` and an extracted
Prometheus. Exits with 1 if an expression returns no data, or an alert is not raised.
"""

import base64
import contextlib
import functools
import json
import random
import re
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bcrypt
import yaml

TIMEOUT_S = 180.0  # time in which each expression must have data
SITE = Path(__file__).parents[2] / "examples" / "site.json"
STATE = "state.sqlite"
SMALL = {"request": {"flavor": "small", "podms": ["general-1"]}}
CLAIMED = {"request": {"flavor": "small", "podms": ["gpu-east"]}}
HUGE = {"request": {"properties": {"processor": {"total_cores": 10**9}}}}
DEAD = {"request": {"flavor": "small", "podms": ["dead"]}}
#: The alerts that the load raises. The others need a service that is down, or minutes.
RAISED = {
    "ValenceSchedulerDecisionsUndecided",
    "ValenceSchedulerLoginsRefused",
    "ValenceSchedulerPodmFailing",
    "ValenceSchedulerRowUndecodable",
}
#: The values of the variables of the dashboard.
VARIABLES = {"$job": "valence-scheduler", "$instance": ".*", "$__rate_interval": "15s"}
BETWEEN = re.compile(r"\b(?:and|unless)(?: ignoring \([\w, ]*\))?\s")
COMPARISON = re.compile(r"(==|>|<) *(?=[\d.]+\s*$)")


def operands(expression: str) -> Iterator[str]:
    """Yield the parts of an alert, which return 0 or 1 for each series also if it is quiet."""
    for part in BETWEEN.split(expression):
        yield COMPARISON.sub(r"\1 bool ", part.strip())


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression of the alerts and of the dashboard after the name of its place."""
    alerts = yaml.safe_load(Path("alerts.yaml").read_text())
    for rule in alerts["groups"][0]["rules"]:
        for part in operands(rule["expr"]):
            yield rule["alert"], part
    dashboard = json.loads(Path("dashboard.json").read_text())
    found = [(panel["title"], one["expr"]) for panel in dashboard["panels"]
             for one in panel["targets"]]  # fmt: skip
    found += [(one["name"], one["expr"]) for one in dashboard["annotations"]["list"]]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            query = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
            assert query is not None, variable["query"]
            found.append((variable["name"], f"group by ({query[2]}) ({query[1]})"))
    for name, shown in found:
        expression = shown
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        yield name, expression


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@contextlib.contextmanager
def running(*words: str, log: str, ready: Callable[[], bool]) -> Iterator[None]:
    """Run a program that is ready to be used when the context begins."""
    with open(log, "wb") as stream:
        process = subprocess.Popen(words, stdout=stream, stderr=stream)
    try:
        wait_for(log, lambda: process.poll() is not None or ready())
        if process.poll() is not None:
            sys.exit(f"{' '.join(words)} ended: {Path(log).read_text()}")
        yield
    finally:
        process.terminate()
        process.wait(60)


def run(*words: str) -> None:
    done = subprocess.run(words, text=True, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"{what}: not ready after {TIMEOUT_S:g} s (KEEP=1 keeps the logs)")
        time.sleep(0.2)


class Client:
    """A client of one server; ``user`` logs in with the own name as password."""

    def __init__(self, url: str) -> None:
        self._url = url
        context = ssl.create_default_context(cafile="ca.pem")
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def call(self, path: str, body: Any = None, user: str = "", password: str = "") -> Any:
        """Return the JSON answer, or the status of a refusal."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data)
        request.add_header("Content-Type", "application/json")
        if user:
            login = base64.b64encode(f"{user}:{password or user}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        try:
            with self._opener.open(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None


def hard_podm() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a pod manager of different blocks, and a request that exceeds the budget on it."""
    numbers = random.Random(4)
    cores = [numbers.randint(10**5, 10**6) for _ in range(44)]
    blocks = [
        {"uri": f"b{number:02}", "type": ["Compute"], "pools": ["p"],
         "devices": {"processors": [{"cores": one}], "memory": [{"capacity_mib": 10**6 - one}]}}
        for number, one in enumerate(cores)
    ]  # fmt: skip
    asked = sum(sorted(cores)[11:33]) + 7
    properties = {
        "processor": {"total_cores": asked},
        "memory": {"capacity_mib": 22 * 10**6 - asked},
    }
    podm = {"pools": [{"id": "p", "limits": {"Compute": {"max": 22}}}], "blocks": blocks}
    return podm, {"request": {"properties": properties, "policy": "tight", "podms": ["hard"]}}


def configure(port: int, dead_port: int) -> None:
    """Write the users, the settings and a policy of the service, and register pod managers."""
    users = {"prometheus": ("monitor", "reader"), "ann": ("ann", "admin")}
    lines = [f"{name}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}:{role}\n"
             for name, (password, role) in users.items()]  # fmt: skip
    users_file = Path("users")
    users_file.write_text("".join(lines))
    users_file.chmod(0o600)
    policy = {
        "name": "tight",
        "filters": ["alive", "target", "capacity", "devices"],
        "weighers": ["pack"],
        "budget": {"pool_states": 300, "decision_states": 0},
    }
    Path("policy.json").write_text(json.dumps(policy))
    settings = {
        "host": "127.0.0.1", "port": port, "workers": 2, "state": STATE,
        "certificate": "ca.pem", "private_key": "key.pem",
        "auth": "basic", "users_file": "users", "policy_files": ["policy.json"],
        "rate_limits": {"failures": "1000/minute"},
        "reader": {"interval_s": 2, "max_interval_s": 4},
        "dispatch": {"target": f"webhook=http://127.0.0.1:{dead_port}/"},
    }  # fmt: skip
    Path("service.yaml").write_text(yaml.safe_dump(settings))
    for url in Path("podms.log").read_text().splitlines():
        name, address = url.split()
        run("valence-sched", "podm", "create", name, address, "--state", STATE)
    dead = f"http://127.0.0.1:{dead_port}"
    run("valence-sched", "podm", "create", "dead", dead, "--no-check", "--state", STATE)


def load(service: Client, undecodable: str) -> None:
    """Send decisions, claims, wrong passwords, and requests that fail on the side of the service.

    HTTP 503: the named pod manager was never read. HTTP 500: the claim is undecodable.
    """
    for path, body, wanted in (
        ("/v1/select_destinations", SMALL, "placed"),
        ("/v1/select_destinations", hard_podm()[1], "undecided"),
        ("/v1/select_destinations", HUGE, "nothing_fits"),
        ("/v1/select_destinations", DEAD, 503),
        (f"/v1/claims/{undecodable}", None, 500),
        ("/v1/claims", CLAIMED, None),
    ):
        found = service.call(path, body, "ann")
        outcome = found["report"]["outcome"] if is_answer(found) and "report" in found else found
        if wanted not in (None, outcome):
            sys.exit(f"{path} with {body}: {outcome}, not {wanted}")
    for _ in range(5):
        service.call("/v1/podms", None, "ann", "wrong")


def main() -> None:
    port, dead_port, prometheus_port = free_port(), free_port(), free_port()
    service = Client(f"https://localhost:{port}")
    prometheus = Client(f"http://127.0.0.1:{prometheus_port}/api/v1")
    podms = ("--podm", "gpu-east", "--podm", "general-1")
    settings = Path("prometheus.yaml").read_text().replace("15s", "1s")
    Path("here.yaml").write_text(
        settings.replace("scheduler.example.org:8790", f"localhost:{port}")
    )
    with contextlib.ExitStack() as stack:
        words = ("valence-sched", "podm", "serve", str(SITE), "--port", "0", *podms)
        urls = Path("podms.log")
        stack.enter_context(
            running(*words, log=urls.name, ready=lambda: urls.read_text().count("\n") >= 2)
        )
        configure(port, dead_port)
        words = ("valence-scheduler", "serve", "--config", "service.yaml")
        stack.enter_context(
            running(
                *words, log="service.log", ready=lambda: is_answer(service.call("/healthcheck"))
            )
        )
        service.call("/v1/podms/hard/stats", {"stats": hard_podm()[0]}, "ann")
        claim = service.call("/v1/claims", CLAIMED, "ann")["claim"]["id"]
        with contextlib.closing(sqlite3.connect(STATE)) as state, state:
            state.execute("update claims set document = '[' where id = ?", (claim,))
        words = ("usr/bin/prometheus", "--config.file=here.yaml", "--storage.tsdb.path=data",
                 f"--web.listen-address=127.0.0.1:{prometheus_port}")  # fmt: skip
        stack.enter_context(
            running(
                *words, log="prometheus.log", ready=lambda: is_answer(prometheus.call("/alerts"))
            )
        )
        query_all(functools.partial(load, service, claim), prometheus)


def is_answer(found: Any) -> bool:
    return isinstance(found, dict)


def query_all(load: Callable[[], None], prometheus: Client) -> None:
    """Repeat the load until each expression has data and each alert of the load is raised."""
    missing, raised = dict.fromkeys(expressions()), set[str]()
    count = len(missing)

    def queried() -> bool:
        load()
        for name, expression in [*missing]:
            answer = prometheus.call("/query?" + urllib.parse.urlencode({"query": expression}))
            if not is_answer(answer):
                sys.exit(f"{name}: {expression}: Prometheus answers {answer}")
            if answer["data"]["result"]:
                del missing[name, expression]
        alerts = prometheus.call("/alerts")["data"]["alerts"]
        raised.update(one["labels"]["alertname"] for one in alerts)
        return not missing and raised >= RAISED

    until = time.monotonic() + TIMEOUT_S
    while not queried() and time.monotonic() < until:
        time.sleep(0.2)
    for name, expression in missing:
        print(f"no data: {name}: {expression}", file=sys.stderr)
    for alert in sorted(RAISED - raised):
        print(f"not raised: {alert}", file=sys.stderr)
    if missing or raised < RAISED:
        sys.exit(1)
    print(f"{count} expressions have data; raised: {', '.join(sorted(raised))}")


if __name__ == "__main__":
    main()
