# SPDX-License-Identifier: Apache-2.0
"""The pod managers and requests on which the contract is checked."""

from __future__ import annotations

from typing import Any

_CPU = {"processors": [{"count": 2, "cores": 16, "model": "Intel Xeon Gold 6338"}]}
_CPU_AND_MEMORY = {**_CPU, "memory": [{"count": 8, "capacity_mib": 16384, "type": "DDR4"}]}
_GPU = {"accelerators": [{"kind": "GPU", "model": "NVIDIA A100 80GB", "memory_mib": 81920}]}
_UNTOLD = {
    "processors": [{}],
    "memory": [{"count": 4}],
    "accelerators": [{"kind": "GPU"}],
    "drives": [{"count": 2}],
    "nics": [{}],
}

#: Pod managers that differ in everything a plug-in can look at, in the inventory's JSON form.
PODMS: tuple[dict[str, Any], ...] = (
    {
        "id": "plain",
        "name": "Plain",
        "driver": "redfish",
        "zone": "az1",
        "aggregates": ["rack-1", "ssd"],
        "capabilities": {"hypervisor": ["kvm", "xen"], "os": ["linux"]},
        "traits": ["COOLED"],
        "facts": {
            "year": 2024,
            "noise_db": 40.5,
            "owner": "physics",
            "labels": ["a", "b"],
            "location": ["dc1/row-3/rack-7", "hall-1"],
            "rack": 7,
            "health": "OK",
        },
        "generation": 7,
        "blocks": [
            {"uri": "c1", "type": ["Compute"], "devices": _CPU_AND_MEMORY},
            {"uri": "c2", "type": ["Compute"], "devices": _CPU_AND_MEMORY},
            {"uri": "g1", "type": ["Processor"], "devices": _GPU},
            {
                "uri": "d1",
                "type": ["Storage"],
                "devices": {"drives": [{"count": 4, "capacity_bytes": 10**12, "media": "SSD"}]},
            },
            {"uri": "n1", "type": ["Network"], "devices": {"nics": [{"speed_mbps": 25000}]}},
        ],
        "stocks": [
            {"uri": "s1", "resource": "storage_gib", "unit": "GiB", "total": 1000, "used": 250}
        ],
        "nodes": [{"uri": "n", "blocks": ["c2"], "owner": "physics", "group": "web"}],
    },
    {
        "id": "pools",
        "zone": "az2",
        "aggregates": ["rack-2"],
        "capabilities": {"os": ["windows"], "reserved_for": ["physics", "chemistry"]},
        "facts": {
            "year": 2016,
            "noise_db": 71,
            "location": ["dc1/row-3", "dc2", "hall-1"],
            "rack": "8",
            "health": "Critical",
            "quarantine": "no",
        },
        "pools": [
            {"id": "1", "limits": {"Compute": {"min": 1, "max": 1}}, "traits": ["CXL"]},
            {"id": "2", "traits": ["WARM"]},
            {"id": "3"},
        ],
        "blocks": [
            {"uri": "c1", "type": ["Compute"], "pools": ["1"], "devices": _CPU_AND_MEMORY},
            {"uri": "c2", "type": ["Compute"], "pools": ["1", "2"], "devices": _CPU},
            {
                "uri": "c3",
                "type": ["Compute", "Storage"],
                "pools": ["2"],
                "status": {"reserved": True},
                "devices": _CPU_AND_MEMORY,
            },
            {
                "uri": "g1",
                "type": ["Processor"],
                "pools": ["1", "2"],
                "status": {
                    "state": "ComposedAndAvailable",
                    "shareable": True,
                    "max_compositions": 4,
                    "compositions": 1,
                },
                "devices": _GPU,
            },
            {
                "uri": "g2",
                "type": ["Processor"],
                "pools": ["2"],
                "status": {"state": "Composed", "compositions": 1},
                "devices": _GPU,
            },
        ],
        "stocks": [
            {
                "uri": "s1",
                "resource": "storage_gib",
                "pools": ["1", "2"],
                "total": 640,
                "used": 64,
                "min": 64,
                "max": 256,
                "step": 64,
            },
            {"uri": "s2", "resource": "cxl_memory_mib", "pools": ["2"], "total": 65536},
        ],
    },
    {
        "id": "untold",
        "status": "Unknown",
        "blocks": [
            {"uri": "x1", "type": ["Compute"], "devices": _UNTOLD},
            {"uri": "x2", "devices": _UNTOLD},
        ],
        "stocks": [{"uri": "s1", "resource": "storage_gib"}],
    },
    {
        "id": "offline",
        "status": "Offline",
        "zone": "az1",
        "facts": {"year": "long ago", "noise_db": -3, "quarantine": "smells", "failures": 9},
        "blocks": [{"uri": "c1", "type": ["Compute"], "devices": _CPU_AND_MEMORY}],
    },
    {
        "id": "full",
        "zone": "az1",
        "aggregates": ["rack-1"],
        "facts": {"year": 1e9, "noise_db": 0},
        "blocks": [
            {
                "uri": "c1",
                "type": ["Compute"],
                "status": {"state": "Composed", "compositions": 1},
                "devices": _CPU_AND_MEMORY,
            }
        ],
        "stocks": [{"uri": "s1", "resource": "storage_gib", "total": 10, "used": 10}],
    },
    {"id": "bare", "enabled": False, "pools": [{"id": "a"}, {"id": "b"}]},
)

#: The pod managers of each View: all, some in another order, one with pools, one without blocks.
PODM_SETS: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3, 4, 5), (5, 3, 1, 0), (1,), (5,), (2, 4))

_NODE: dict[str, Any] = {"processor": {"total_cores": 16}, "memory": {"capacity_mib": 32768}}

#: Flavor properties, and the other fields of the request.
REQUESTS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    (_NODE, {}),
    ({"processor": {"sockets": 1}}, {"zone": "az1", "exclude_podms": ["plain"]}),
    ({**_NODE, "accelerators": [{"model": "A100"}, {"count": 2}]}, {"podms": ["Plain", "pools"]}),
    (
        {"drives": [{"count": 2, "media": "SSD", "capacity_gib": 100}], "nics": [{}]},
        {"aggregates": ["rack-1"], "capabilities": {"os": ["linux", "windows"]}},
    ),
    (
        {"stocks": [{"resource": "storage_gib", "amount": 100, "count": 2}], **_NODE},
        {"traits": {"required": ["CXL"], "forbidden": ["WARM"]}},
    ),
    (
        {"processor": {"sockets": 1}},
        {
            "attributes": {
                "year": ">= 2020",
                "facts.labels": "<or> a <or> c",
                "capabilities.os": "<in> in",
                "zone": "s!= az9",
                "status": "Online",
                "driver": "redfish",
            }
        },
    ),
    (
        {"processor": {"sockets": 1}},
        {
            "locations": ["dc1/row-3"],
            "where": [
                "and",
                ["or", [">=", "$facts.year", 2020], ["not", ["=", "$zone", "az1", "az2"]]],
                ["in", "$capabilities.os", "linux", "$driver", "$facts.labels"],
                ["<=", "$free.cores", "$facts.noise_db"],
                [">", "$total.storage_gib", "$free.storage_gib"],
                ["!=", "$traits", "$aggregates"],
                ["=", "$enabled", True],
            ],
        },
    ),
    (
        {"processor": {"sockets": 1}},
        {
            "near": [
                {"thing": "volume a", "zone": "az1", "facts": {"labels": ["b", "z"], "year": 2024}},
                {"thing": "volume b", "aggregates": ["ssd", "rack-2"], "soft": True},
                {"thing": "port c", "zone": "az2", "facts": {"noise_db": 71}, "soft": True},
            ]
        },
    ),
    ({"stocks": [{"resource": "nobody_has_it", "amount": 1.5}]}, {"count": 3}),
    (_NODE, {"owner": "physics", "company": {"owned": {"plain": 2, "full": 1}}}),
    (_NODE, {"owner": "biology", "group": {"name": "web"}}),
    (
        _NODE,
        {
            "group": {
                "name": "web",
                "affinity": ["location"],
                "anti_affinity": ["podm"],
                "at_most": {"aggregate": 2, "facts.rack": 1},
                "spread": [{"over": "zone"}],
            },
            "company": {
                "members": {
                    "location": {"hall-1": 2, "row-7": 1},
                    "podm": {"plain": 1, "gone": 1},
                    "aggregate": {"rack-1": 2, "ssd": 1},
                    "zone": {"az1": 2},
                },
                "open": {"zone": ["az1", "az2", "az3"]},
            },
        },
    ),
    (
        _NODE,
        {
            "group": {
                "name": "web",
                "soft_affinity": ["zone", "facts.labels"],
                "soft_anti_affinity": ["location"],
                "spread": [{"over": "aggregate", "max_skew": 2, "soft": True}],
            },
            "company": {
                "members": {
                    "zone": {"az2": 3},
                    "location": {"hall-1": 1},
                    "aggregate": {"rack-1": 5, "rack-2": 1},
                },
                "open": {"aggregate": ["rack-1", "rack-2", "ssd"]},
            },
        },
    ),
    ({"processor": {"total_cores": 10**6}}, {"zone": "nowhere", "aggregates": ["none"]}),
)
