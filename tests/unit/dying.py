# SPDX-License-Identifier: Apache-2.0
"""Composes on one served pod manager and kills itself at a marked point; run as a program."""

import os
import signal
import sys

from tests.unit.site import Site, request
from valence_sched.store.store import Store


class At:
    """Where a served pod manager listens."""

    def __init__(self, url: str) -> None:
        self.url = url


def main(point: str, name: str, podm_url: str, state: str) -> None:
    def mark(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with Store(state) as store:
        site = Site({name: At(podm_url)}, store, mark=mark, ttl_s=0.2)
        claim = site.claimant.claim(request(podms=[name]), ttl_s=0.2).claim
        node = site.composer.compose(claim)
        site.composer.remove(node)


if __name__ == "__main__":
    main(*sys.argv[1:])
