# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks: ``python -m tests.benchmarks [NAME…]``, one line of JSON per measurement.

With ``VALENCE_SCHED_BENCH=tiny`` in the environment, each benchmark runs once in its smallest size.
The figures then mean nothing, but a benchmark that no longer runs is noticed.
"""

from __future__ import annotations

import os
import sys

from tests.benchmarks import (
    batching,
    caching,
    changing,
    claiming,
    comparing,
    deciding,
    disrupting,
    editing,
    hard,
    holding,
    live,
    living,
    machines,
    optimising,
    over_http,
    placing,
    reading,
    replaying,
    serving,
    starting,
    sweeping,
    trace,
    waiting,
    zoning,
    zoning_over_http,
)

ALL = {
    "amounts": deciding.amounts,
    "amounts-five": deciding.amounts_five,
    "flavors": deciding.flavors,
    "flavors-five": deciding.flavors_five,
    "weighers": deciding.weighers,
    "mixed": deciding.mixed,
    "hard": hard.hard,
    "optimising": optimising.optimising,
    "batching": batching.batching,
    "trace": trace.trace,
    "placing": placing.placing,
    "living": living.living,
    "machines": machines.machines,
    "comparing": comparing.comparing,
    "claiming": claiming.claiming,
    "holding": holding.holding,
    "looking": claiming.looking,
    "changing": changing.changing,
    "live": live.live,
    "reading": reading.reading,
    "reading-hosts": reading.hosts,
    "caching": caching.caching,
    "replaying": replaying.replaying,
    "editing": editing.editing,
    "whatif-fail": disrupting.disrupting,
    "serving": serving.serving,
    "sweeping": sweeping.sweeping,
    "over-http": over_http.over_http,
    "starting": starting.starting,
    "waiting": waiting.waiting,
    "zoning": zoning.zoning,
    "zoning-over-http": zoning_over_http.zoning_over_http,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.stderr.write(f"no benchmark {unknown[0]!r}: choose from {', '.join(ALL)}\n")
        return 2
    # As with installed programs, programs that a benchmark starts find their bytecode from the
    # second run on.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in names or ALL:
        for measurement in ALL[name]():
            sys.stdout.write(measurement.line() + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
