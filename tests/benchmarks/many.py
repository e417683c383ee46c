# SPDX-License-Identifier: Apache-2.0
"""Reads the pod managers at the URLs of a file, one name per line, and prints the peak MiB.

A separate program, so that its memory can be measured. The registry would refuse two names for one
address, and a machine cannot run more than some dozens of simulated pod managers.
"""

import os
import sys
from pathlib import Path

import msgspec

from tests.benchmarks.measure import peak_mib
from valence_sched.core import plugins
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.model.inventory import LeanPodm, to_json
from valence_sched.model.registration import Registration
from valence_sched.view.builder import ViewBuilder


def main(file: str, user: str, variable: str) -> None:
    urls = Path(file).read_text().split()
    targets = [
        ReadTarget(
            Registration(name=f"podm-{number}", url=url, username=user), os.environ[variable]
        )
        for number, url in enumerate(urls)
    ]
    builder, decoder = ViewBuilder(), msgspec.json.Decoder(LeanPodm)
    dialects = plugins.InstalledPlugins(plugins.DIALECTS)
    for reading in read(targets, dialects, ReadSettings(raw=False)):
        if reading.failure:
            raise SystemExit(reading.failure)
        builder.add(decoder.decode(to_json(reading.podm)), "live")
    assert len(builder.view().podms) == len(urls)
    sys.stdout.write(f"{peak_mib()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
