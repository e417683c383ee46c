# SPDX-License-Identifier: Apache-2.0
"""Recorded racks, and their readings after a change."""

import copy
import random

from tests.unit.drivers.files.test_tree import documents_of, read_map
from valence_sched.model.diagnostic import Diagnostics

V = "/redfish/v1"
SYSTEMS, NODES = f"{V}/Systems", f"{V}/Nodes"
PCIE, NETWORK = "rsd-pcie.json", "rsd-network.json"
BAYS, FPGAS = f"{V}/Chassis/pcie-1/Drives", f"{V}/Chassis/fpga-box/Processors"
POOL = f"{V}/StorageServices/nvme-1/StoragePools/1"
GROUP = f"{V}/Services/rss/LogicalDrives/group-1"


class Rack:
    """The documents of a recording, which a test may change, and their reading."""

    def __init__(self, name: str) -> None:
        self.documents = documents_of(name)
        self.diagnostics = Diagnostics()

    def __setitem__(self, uri: str, json):
        self.documents[uri] = json

    def __getitem__(self, uri: str):
        return self.documents[uri]

    def read(self):
        self.diagnostics = Diagnostics()
        self.podm = read_map(self.documents, self.diagnostics)
        self.blocks = {block.uri: block for block in self.podm.blocks}
        self.stocks = {stock.uri: stock for stock in self.podm.stocks}
        return self.podm

    def status(self, uri: str):
        self.read()
        return self.blocks[uri].status

    def slots(self, uri: str) -> int:
        return self.status(uri).slots

    def noted(self, word: str) -> bool:
        return any(word in problem for problem in self.diagnostics.lines())

    def add(self, collection: str, name: str, **json) -> str:
        uri = f"{collection}/{name}"
        self.documents[uri] = {"@odata.id": uri, "Name": name, **json}
        self.documents[collection]["Members"].append({"@odata.id": uri})
        return uri

    def spoil(self, rng: random.Random, count: int) -> None:
        """Replace this number of values, anywhere except in the root."""
        others = (None, "x", -1, [], {}, True, [None], {"a": 1}, 2**70)
        for _ in range(count):
            spot = self.documents[rng.choice([uri for uri in self.documents if uri != V])]
            while isinstance(spot, dict | list) and spot:
                key = rng.choice(list(spot)) if isinstance(spot, dict) else rng.randrange(len(spot))
                if not isinstance(spot[key], dict | list) or rng.random() < 0.3:
                    spot[key] = copy.deepcopy(rng.choice(others))  # avoids cycles
                    break
                spot = spot[key]
