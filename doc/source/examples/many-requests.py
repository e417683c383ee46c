# SPDX-License-Identifier: Apache-2.0
import sys

from valence_sched import App, FilterScheduler, Ledger, Request, bind, sealed

main = App()
ledger = Ledger(main.view(["examples/site.json"]))
bound = bind(main.policies()["fragmentation"])
for name in ("gpu-small", "medium", "small"):
    flavor = main.flavors()[name]
    request = sealed(Request(needs=flavor.needs, mix=main.mix(), policy="fragmentation"))
    placed = FilterScheduler().schedule(ledger.context(request, bound)).nodes
    if placed:
        ledger.take(placed[0].chosen)
        sys.stdout.write(f"{name} {ledger.view.podm(placed[0].chosen.row).id}\n")
