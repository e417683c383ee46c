# SPDX-License-Identifier: Apache-2.0
import sys

from valence_sched import App, FilterScheduler, Ledger, Request, Selection, bind, sealed

app = App()
ledger = Ledger(app.loader.view(Selection(sources=("examples/site.json",))))
bound = bind(app.config.policies()["fragmentation"])
for name in ("gpu-small", "medium", "small"):
    flavor = app.config.flavors()[name]
    request = sealed(Request(needs=flavor.needs, mix=app.config.mix(), policy="fragmentation"))
    placed = FilterScheduler().schedule(ledger.context(request, bound)).nodes
    if placed:
        ledger.take(placed[0].chosen)
        sys.stdout.write(f"{name} {ledger.view.podm(placed[0].chosen.row).id}\n")
