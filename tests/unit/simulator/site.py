# SPDX-License-Identifier: Apache-2.0
"""A small pod manager for tests: two compute blocks, a shared drive, a GPU, two zones."""

import requests

ROOT = "/redfish/v1"
SERVICE = f"{ROOT}/CompositionService"
BLOCKS, ZONES = f"{SERVICE}/ResourceBlocks", f"{SERVICE}/ResourceZones"
SYSTEMS = f"{ROOT}/Systems"
COMPOSE = f"{ROOT}/CompostionService/Actions/CompositionService.Compose"  # misspelt on purpose


def link(uri):
    return {"@odata.id": uri}


def links(*uris):
    return [link(uri) for uri in uris]


def collection(uri, *members, **more):
    return {"@odata.id": uri, "Name": uri, "Members@odata.count": len(members),
            "Members": links(*members), **more}  # fmt: skip


def block(name, kind, zones, status=None, **devices):
    return {
        "@odata.type": "#ResourceBlock.v1_4_3.ResourceBlock",
        "@odata.id": f"{BLOCKS}/{name}",
        "Id": name,
        "Name": name,
        "ResourceBlockType": [kind],
        "Status": {"State": "Enabled", "Health": "OK"},
        "CompositionStatus": {"CompositionState": "Unused", "Reserved": False, **(status or {})},
        "Links": {"Zones": links(*(f"{ZONES}/{zone}" for zone in zones))},
        **devices,
    }


SHARED = {"SharingCapable": True, "SharingEnabled": True, "MaxCompositions": 2,
          "NumberOfCompositions": 0}  # fmt: skip


def documents():
    """Return the documents of the pod manager by URI."""
    blocks = {
        "C1": block("C1", "Compute", "A", Processors=links(f"{BLOCKS}/C1/Processors/1"),
                    Memory=links(f"{BLOCKS}/C1/Memory/1")),
        "C2": block("C2", "Compute", "AB", Processors=links(f"{BLOCKS}/C2/Processors/1")),
        "D1": block("D1", "Storage", "AB", SHARED, Drives=links(f"{BLOCKS}/D1/Drives/1")),
        "G1": block("G1", "Expansion", "B", Processors=links(f"{BLOCKS}/G1/Processors/1")),
        "X1": block("X1", "Storage", "A", {"CompositionState": "Failed"}),
        "R1": block("R1", "Storage", "A", {"Reserved": True}),
    }  # fmt: skip
    limits = {"MinCompute": 1, "MaxCompute": 1}
    capability = {
        "CapabilitiesObject": link(f"{SYSTEMS}/Capabilities"),
        "UseCase": "ComputerSystemComposition",
        "Links": {"TargetCollection": link(SYSTEMS)},
    }
    constrained = {**capability, "UseCase": "ComputerSystemConstrainedComposition"}
    found = {
        ROOT: {
            "@odata.id": ROOT, "Id": "Root", "Name": "Root",
            "CompositionService": link(SERVICE), "Systems": link(SYSTEMS),
        },
        SERVICE: {
            "@odata.type": "#CompositionService.v1_2_3.CompositionService",
            "@odata.id": SERVICE, "Id": "CompositionService", "Name": "Composition",
            "ResourceBlocks": link(BLOCKS), "ResourceZones": link(ZONES),
            "ReservationDuration": "PT1H",
            "Actions": {"#CompositionService.Compose": {"target": COMPOSE}},
        },
        BLOCKS: collection(BLOCKS, *(f"{BLOCKS}/{name}" for name in blocks)),
        ZONES: collection(ZONES, f"{ZONES}/A", f"{ZONES}/B"),
        SYSTEMS: collection(SYSTEMS, **{
            "@Redfish.CollectionCapabilities": {"Capabilities": [capability, constrained]}
        }),
        f"{SYSTEMS}/Capabilities": {
            "@odata.id": f"{SYSTEMS}/Capabilities", "Id": "Capabilities", "Name": "Limits",
            "@Redfish.ResourceBlockLimits": limits,
        },
        f"{BLOCKS}/C1/Processors/1": {"TotalCores": 8, "TotalThreads": 16, "Model": "M"},
        f"{BLOCKS}/C1/Memory/1": {"CapacityMiB": 4096},
        f"{BLOCKS}/C2/Processors/1": {"TotalCores": 16, "TotalThreads": 32, "Model": "M"},
        f"{BLOCKS}/D1/Drives/1": {"CapacityBytes": 10**12},
        f"{BLOCKS}/G1/Processors/1": {"ProcessorType": "GPU", "TotalCores": 1536, "Model": "G"},
    }  # fmt: skip
    for name, json in blocks.items():
        found[f"{BLOCKS}/{name}"] = json
    for zone in "AB":
        inside = [f"{BLOCKS}/{name}" for name, json in blocks.items()
                  if link(f"{ZONES}/{zone}") in json["Links"]["Zones"]]  # fmt: skip
        found[f"{ZONES}/{zone}"] = {
            "@odata.id": f"{ZONES}/{zone}", "Id": zone, "Name": zone,
            "ZoneType": "ZoneOfResourceBlocks", "Links": {"ResourceBlocks": links(*inside)},
        }  # fmt: skip
    return found


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now_s = 1_700_000_000.0

    def __call__(self):
        return self.now_s


class Client:
    """A client of a served pod manager."""

    def __init__(self, podm, **headers):
        self.base = podm.url.removesuffix(ROOT)
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers.update(headers)

    def ask(self, method, path, json=None, timeout=20, **headers):
        return self.session.request(
            method, self.base + path, json=json, headers=headers, timeout=timeout
        )

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)

    def post(self, path, json, **headers):
        return self.ask("POST", path, json, **headers)

    def compose(self, *names, **headers):
        body = {"Name": "node", "Links": {"ResourceBlocks": links(*(
            f"{BLOCKS}/{name}" for name in names
        ))}}  # fmt: skip
        return self.post(SYSTEMS, body, **headers)

    def state(self, name):
        return self.get(f"{BLOCKS}/{name}").json()["CompositionStatus"]["CompositionState"]


def message_key(answer):
    """Return the last part of the message id of a refusal."""
    return answer.json()["error"]["@Message.ExtendedInfo"][0]["MessageId"].rpartition(".")[2]
