# SPDX-License-Identifier: Apache-2.0
"""The cost of reading: 10,000 podms of 100 blocks into a View, and 10,000 plain hosts of a BMC."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tests.benchmarks.measure import Measurement, against, median_ms, peak_mib, sized
from valence_sched.app import App
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import Selection

PODMS, BLOCKS, SEED = sized(10_000, 40), sized(100, 10), 1
HOSTS, SYSTEMS = sized(10_000, 20), f"{ROOT}/Systems"


def reading() -> Iterator[Measurement]:
    """At most 3.5 times the typed decoding of the same lines, and at most 0.5 GiB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "inventory.jsonl")
        _python("-m", "valence_sched.testing.generate", "--podms", str(PODMS),
                "--blocks", str(BLOCKS), "--seed", str(SEED), "--output", str(path))  # fmt: skip
        figures = [_figures(path) for _ in range(sized(3, 1))]
    columns = map(sorted, zip(*figures, strict=True))
    read, decode, memory = (column[len(column) // 2] for column in columns)
    yield against("reading: inventory into a View", read, decode, 3.5)
    yield against("reading: peak memory", memory, 0.5 * 1024, 1.0, "MiB")


def hosts() -> Iterator[Measurement]:
    """At most 1.2 times the CPU time of a document of the same servers as blocks.

    The tree of blocks has one more document for each server, which is read as quickly as a list.
    """
    servers, figures = _servers(), list[tuple[float, float]]()
    blocks = servers | _blocks()
    for _ in range(sized(5, 1)):
        figures.append((_us_a_document(servers), _us_a_document(blocks)))
    plain, composed = (sorted(column)[len(column) // 2] for column in zip(*figures, strict=True))
    yield against("reading: a document of a plain host", plain, composed, 1.2, "us")


def _us_a_document(documents: Mapping[str, Json]) -> float:
    """Return the CPU time of reading a pod manager, divided by the documents that it read."""
    read: set[str] = set()

    def get(uri: str) -> Json | None:
        read.add(uri)
        return documents.get(uri)

    service, started = LinkedDocuments(get, NO_NOTES, documents), time.process_time()
    found = read_podm(service, "p", "redfish")
    took = time.process_time() - started
    assert len(found.blocks) == HOSTS, len(found.blocks)
    return took * 1e6 / len(read)


def _servers() -> dict[str, Json]:
    """Return a service of servers with two processors, two modules and a NIC, and no blocks."""
    of_host: dict[str, list[Json]] = {
        "Processors": [{"ProcessorType": "CPU", "Model": "EPYC 9354", "TotalCores": 32}] * 2,
        "Memory": [{"CapacityMiB": 131072, "MemoryDeviceType": "DDR5"}] * 2,
        "EthernetInterfaces": [{"SpeedMbps": 25000}],
    }
    documents: dict[str, Json] = {ROOT: {"Name": "BMC", "Systems": {"@odata.id": SYSTEMS}}}
    listed = []
    for number in range(HOSTS):
        uri = f"{SYSTEMS}/{number}"
        listed.append({"@odata.id": uri})
        links = {name: {"@odata.id": f"{uri}/{name}"} for name in of_host}
        documents[uri] = {
            "@odata.id": uri,
            "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
            "Name": f"host-{number}",
            "SystemType": "Physical",
            "PowerState": "On",
            "Status": {"State": "Enabled", "Health": "OK"},
            **links,
        }
        for name, devices in of_host.items():
            uris = [f"{uri}/{name}/{place}" for place in range(len(devices))]
            documents |= {
                one: {"@odata.id": one, "Name": one[-1], **device}
                for one, device in zip(uris, devices, strict=True)
            }
            documents[f"{uri}/{name}"] = {"Members": [{"@odata.id": one} for one in uris]}
    documents[SYSTEMS] = {"Members": listed}
    return documents


def _blocks() -> dict[str, Json]:
    """Return a composition service in which each of these servers is a block."""
    service = f"{ROOT}/CompositionService"
    uris = [f"{service}/ResourceBlocks/{number}" for number in range(HOSTS)]
    status = {"CompositionState": "Unused", "Reserved": False}
    documents: dict[str, Json] = {
        uri: {
            "@odata.id": uri,
            "ResourceBlockType": ["ComputerSystem"],
            "CompositionStatus": status,
            "Status": {"State": "Enabled", "Health": "OK"},
            "ComputerSystems": [{"@odata.id": f"{SYSTEMS}/{number}"}],
        }
        for number, uri in enumerate(uris)
    }
    return documents | {
        ROOT: {"Systems": {"@odata.id": SYSTEMS}, "CompositionService": {"@odata.id": service}},
        service: {"ResourceBlocks": {"@odata.id": f"{service}/ResourceBlocks"}},
        f"{service}/ResourceBlocks": {"Members": [{"@odata.id": uri} for uri in uris]},
    }


def _figures(path: Path) -> tuple[float, float, float]:
    """Return the ms to read, the ms to decode, and the peak MiB of a process that only reads."""
    decode = float(_python("-m", "tests.benchmarks.reading", "decode", str(path)))
    read, memory = _python("-m", "tests.benchmarks.reading", "read", str(path)).split()
    return float(read), decode, float(memory)


def _python(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return done.stdout


def _decode(path: str) -> None:
    decoder = msgspec.json.Decoder(FullPodm)
    with open(path, "rb") as stream:
        next(stream)
        for line in stream:
            decoder.decode(line)


if __name__ == "__main__":
    what, name = sys.argv[1:]
    if what == "decode":
        sys.stdout.write(f"{median_ms(lambda: _decode(name), 1)}\n")
    else:
        took = median_ms(lambda: App(environ={}).loader.view(Selection(sources=(name,))), 1)
        sys.stdout.write(f"{took} {peak_mib()}\n")
