# SPDX-License-Identifier: Apache-2.0
"""Composes on served pod managers and kills itself at a marked point."""

import os
import signal

from tests.unit.lifecycle.site import Site, request
from valence_sched.store.store import Store


class At:
    """The address of a served pod manager."""

    def __init__(self, url: str) -> None:
        self.url = url


def main(point: str, count: int, state: str, *podms: str) -> None:
    """Compose nodes and delete one of them; with 0, claim and compose without a provisioner."""

    def mark(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    urls = dict(zip(podms[::2], podms[1::2], strict=True))
    with Store(state) as store:
        site = Site(
            {name: At(url) for name, url in urls.items()}, store, checkpoint=mark, ttl_s=0.2
        )
        if count:
            nodes = site.provisioner.provision(request(count=count), ttl_s=1.0).nodes
        else:
            claim = site.claimer.claim(request(), ttl_s=1.0).claim
            nodes = [site.composer.compose(claim)]
        site.composer.remove(nodes[0])
