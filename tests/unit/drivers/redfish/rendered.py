# SPDX-License-Identifier: Apache-2.0
"""Reads rendered documents back, and lists the losses of the round trip."""

from collections.abc import Iterable, Mapping

import msgspec

from valence_sched.drivers.dialect import root_identity
from valence_sched.drivers.fields import NO_NOTES, Json, Notes
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.drivers.redfish.render import documents_of
from valence_sched.model.inventory import FullPodm

_KEYS = {"pools": "id", "blocks": "uri", "stocks": "uri", "nodes": "uri"}


def read_back(documents: Mapping[str, Json], id_: str, notes: Notes = NO_NOTES) -> FullPodm:
    """Return the pod manager that the ``redfish`` driver reads from documents."""
    return read_podm(LinkedDocuments(documents.get, notes, documents), id_, "redfish")


def round_trip_losses(podm: FullPodm) -> list[str]:
    """Return the losses of reading the documents, as lines ``FIELD: was, is``."""
    documents = documents_of(podm)
    identity = root_identity(documents[ROOT])
    again = msgspec.structs.replace(read_back(documents, podm.id), identity=identity)
    pairs = [(name, getattr(podm, name), getattr(again, name)) for name in podm.__struct_fields__]
    return [line for pair in pairs if pair[1] != pair[2] for line in _loss_lines(*pair)]


def _loss_lines(name: str, was: object, is_: object) -> Iterable[str]:
    if isinstance(was, tuple) and isinstance(is_, tuple) and name in _KEYS:
        now = {getattr(item, _KEYS[name]): item for item in is_}
        for item in was:
            if item != (other := now.get(getattr(item, _KEYS[name]))):
                now_json = "none" if other is None else msgspec.json.encode(other).decode()
                yield f"{name}: {msgspec.json.encode(item).decode()}, {now_json}"
    else:
        encoded = [msgspec.json.encode(value).decode() for value in (was, is_)]
        yield f"{name}: {', '.join(encoded)}"
