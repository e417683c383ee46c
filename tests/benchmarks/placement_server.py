# SPDX-License-Identifier: Apache-2.0
"""A Placement service with its own providers, served by gunicorn on loopback.

It is ``openstack-placement`` from PyPI, in the environment of the benchmark, or in that of the
Python in ``VALENCE_SCHED_PLACEMENT_PYTHON``. Its database is SQLite.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

PYTHON = os.environ.get("VALENCE_SCHED_PLACEMENT_PYTHON") or sys.executable
MISSING = (
    "no openstack-placement: pip install 'valence-sched[benchmark]', or name a Python that has it "
    "in VALENCE_SCHED_PLACEMENT_PYTHON\n"
)
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
MANAGE = "import sys; from placement.cmd.manage import main; sys.exit(main())"
VCPU, MEMORY_MB = 0, 1  # ids of the standard classes


def is_installed() -> bool:
    """Return whether Placement is installed."""
    found = subprocess.run([PYTHON, "-c", "import placement, gunicorn"], capture_output=True,
                           check=False)  # fmt: skip
    return found.returncode == 0


@contextlib.contextmanager
def placement(folder: Path, providers: int, port: int, workers: int) -> Iterator[None]:
    """Serve this number of providers of 64 cores and 256 GiB; the caller waits for an answer."""
    file = folder / f"placement-{providers}.db"
    environ = os.environ | {
        "OS_PLACEMENT_CONFIG_DIR": str(folder),
        "OS_PLACEMENT_DATABASE__CONNECTION": f"sqlite:///{file}",
        "OS_API__AUTH_STRATEGY": "noauth2",
    }
    (folder / "placement.conf").write_text(
        f"[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = sqlite:///{file}\n"
    )
    manage = [PYTHON, "-c", MANAGE, "--config-file", f"{folder}/placement.conf", "db", "sync"]
    subprocess.run(manage, check=True, capture_output=True, env=environ)
    _write_providers(file, providers)
    words = ["-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--workers", str(workers),
             "--worker-class", "gthread", "--threads", "8", "--no-control-socket",
             "--keep-alive", "120",  # clients wait for each other between two requests
             "placement.wsgi.api:application"]  # fmt: skip
    with (folder / "placement.log").open("wb") as log:
        server = subprocess.Popen([PYTHON, *words], env=environ, stdout=log, stderr=log)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def _write_providers(file: Path, count: int) -> None:
    numbers = range(1, count + 1)
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany(
            "insert into resource_providers (id, uuid, name, generation, root_provider_id) "
            "values (?, ?, ?, 0, ?)",
            [(one, str(uuid.uuid5(uuid.NAMESPACE_URL, str(one))), f"p{one}", one)
             for one in numbers],
        )  # fmt: skip
        connection.executemany(
            "insert into inventories (resource_provider_id, resource_class_id, total, reserved, "
            "min_unit, max_unit, step_size, allocation_ratio) values (?, ?, ?, 0, 1, ?, 1, 1.0)",
            [(one, kind, total, total) for one in numbers
             for kind, total in ((VCPU, 64), (MEMORY_MB, 262_144))],
        )  # fmt: skip
