# SPDX-License-Identifier: Apache-2.0
"""The ``hw:`` and ``os:`` extra specs of Nova: the traits and amounts that Nova derives from them.

Nova turns these keys into traits and resources before it queries Placement. A key that Nova's own
filters use and that has no counterpart here is an error. A key that only tunes a virtual machine
adds a remark. A key that Nova does not know is an error, as in Nova's API.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from valence_sched.config.foreign.base import DocumentCursor
from valence_sched.errors import suggest

SCOPES = ("hw", "os")
IGNORE_HINT = "--ignore-extra-spec {key} skips it"


class Effect(NamedTuple):
    """The requirements of one value of a key; without requirements the key only tunes a VM."""

    required: str | None = None
    forbidden: str | None = None
    refused: str | None = None


TUNES = Effect()
CORES = Effect("", "")  # the number of cores of the node, and their class
HYPERTHREADING = "HW_CPU_HYPERTHREADING"
SEV_HINT = "request trait:HW_CPU_X86_AMD_SEV=required"
TPM_TIS = Effect(required="COMPUTE_SECURITY_TPM_TIS")


#: The requirements of each value of a key; other values are errors.
def _needs(trait: str, *names: str, **others: str) -> dict[str, Effect]:
    """Return the required trait of each value: ``trait`` plus the value or its other name."""
    traits = {name: _UNNAMED.sub("_", name.upper()) for name in names} | others
    return {name: Effect(required=f"COMPUTE_{trait}{end}") for name, end in traits.items()}


_UNNAMED = re.compile(r"[-.]")
PLACE_HINT = "a flavor of your own can require devices at one place (topology, same)"
VALUES: Mapping[str, Mapping[str, Effect]] = {
    "hw:cpu_policy": {"shared": TUNES, "dedicated": CORES, "mixed": CORES},
    "hw:emulator_threads_policy": {"share": TUNES, "isolate": CORES},
    "hw:cpu_thread_policy": {
        "prefer": TUNES,
        "require": Effect(required=HYPERTHREADING),
        "isolate": Effect(forbidden=HYPERTHREADING),
    },
    "hw:pci_numa_affinity_policy": {
        **dict.fromkeys(("legacy", "preferred"), TUNES),
        **_needs("", socket="SOCKET_PCI_NUMA_AFFINITY"),
        "required": Effect(refused=PLACE_HINT),
    },
    "hw:maxphysaddr_mode": _needs("ADDRESS_SPACE_", passthrough="PASSTHROUGH", emulate="EMULATED"),
    "hw:tpm_version": _needs("SECURITY_TPM_", "1.2", "2.0"),
    "hw:tpm_model": {"tpm-tis": TPM_TIS, **_needs("SECURITY_", "tpm-crb")},
    "hw:tpm_secret_security": _needs("SECURITY_TPM_SECRET_SECURITY_", "user", "host", "deployment"),
    "hw:viommu_model": {
        "none": TUNES,
        **_needs("VIOMMU_MODEL_", "intel", "smmuv3", "virtio", "auto"),
    },
    "hw:ephemeral_encryption_format": _needs("EPHEMERAL_ENCRYPTION_", "plain", "luks", "luksv2"),
    "hw:mem_encryption_model": dict.fromkeys(("amd-sev", "amd-sev-es"), Effect(refused=SEV_HINT)),
    "os:secure_boot": {
        **dict.fromkeys(("disabled", "optional"), TUNES),
        **_needs("", required="SECURITY_UEFI_SECURE_BOOT"),
    },
}

#: The requirements of a key that is true; a key that is false has no requirements.
SWITCHES: Mapping[str, Effect] = {
    "hw:mem_encryption": Effect(refused=SEV_HINT),
    "hw:virtio_packed_ring": Effect(required="COMPUTE_NET_VIRTIO_PACKED"),
    "hw:ephemeral_encryption": Effect(required="COMPUTE_EPHEMERAL_ENCRYPTION"),
}
TRUE, FALSE = ("1", "t", "true", "on", "y", "yes"), ("0", "f", "false", "off", "n", "no")

#: Keys whose values only affect the virtual machine, on any host.
_TUNING = """
    boot_menu cpu_cores cpu_dedicated_mask cpu_max_cores cpu_max_sockets cpu_max_threads
    cpu_realtime cpu_realtime_mask cpu_sockets cpu_threads hide_hypervisor_id locked_memory
    max_cpu_cores max_cpu_sockets max_cpu_threads maxphysaddr_bits mem_page_size pmu
    redirected_usb_ports serial_port_count vif_multiqueue_enabled watchdog_action
"""
TUNING = tuple(f"hw:{word}" for word in _TUNING.split())
MODELS = {"hw:sound_model": "COMPUTE_SOUND_MODEL_", "hw:usb_model": "COMPUTE_USB_MODEL_"}
NODES, PMEM = "hw:numa_nodes", "hw:pmem"
PER_NODE = re.compile(r"hw:numa_(?:cpus|mem)\.\d+")
KEYS = (*VALUES, *SWITCHES, *TUNING, *MODELS, NODES, PMEM)

NOT_LOOKED_AT = "not used: it tunes a virtual machine"
_CLASS_GAP = re.compile(r"[^A-Z0-9_]")


class HardwareSpecs:
    """The ``hw:`` and ``os:`` keys of one flavor, read one by one; ``cursor`` points at them."""

    def __init__(self, cursor: DocumentCursor, remarks: list[str]) -> None:
        self._cursor, self._remarks = cursor, remarks
        self._values: dict[str, str] = {}
        self.required: list[str] = []
        self.forbidden: list[str] = []
        self.amounts: Counter[str] = Counter()

    def read(self, key: str, text: str) -> None:
        """Take one extra spec; InputError if Nova does not know it or it has no counterpart."""
        cursor = self._cursor.at(key)
        self._values[key] = text
        if key in VALUES:
            if text not in VALUES[key]:
                raise cursor.error(repr(text), f"one of {', '.join(VALUES[key])}")
            self._apply(VALUES[key][text], key, text)
        elif key in SWITCHES:
            word = text.strip().lower()
            if word not in (*TRUE, *FALSE):
                raise cursor.error(repr(text), "true or false")
            self._apply(SWITCHES[key] if word in TRUE else TUNES, key, text)
        elif key in MODELS:
            self.required.append(MODELS[key] + class_word(text))
        elif key == PMEM:  # each namespace is an amount of 1 of its own class
            for label in map(str.strip, text.split(",")):
                if not label:
                    raise cursor.error(repr(text), "comma-separated labels")
                self.amounts["CUSTOM_PMEM_NAMESPACE_" + class_word(label)] += 1
        elif key == NODES:
            self._read_nodes(text, cursor)
        elif PER_NODE.fullmatch(key):
            raise cursor.error(
                "a NUMA node of its own size", "no such key", IGNORE_HINT.format(key=key)
            )
        elif key in TUNING:
            self._remarks.append(cursor.remark(NOT_LOOKED_AT))
        else:
            hint = f"{suggest(key, KEYS, 0.75)}; {IGNORE_HINT.format(key=key)}"
            raise cursor.error("an extra spec unknown to Nova", "a known extra spec", hint)

    def check(self, required: list[str], forbidden: list[str]) -> None:
        """Raise InputError if keys contradict each other, or the named traits of the flavor."""
        model, version = self._values.get("hw:tpm_model"), self._values.get("hw:tpm_version")
        if model and not version:
            raise self._cursor.at("hw:tpm_model").error("no 'hw:tpm_version'", "both keys")
        if version and not model:  # the default model of Nova
            self.required.append("COMPUTE_SECURITY_TPM_TIS")
        if model == "tpm-crb" and version != "2.0":
            raise self._cursor.at("hw:tpm_model").error(f"{model!r} of TPM {version}", "TPM 2.0")
        named = dict.fromkeys(required, "required") | dict.fromkeys(forbidden, "forbidden")
        if self._values.get("hw:cpu_thread_policy", "prefer") != "prefer":
            meant = "forbidden" if HYPERTHREADING in self.forbidden else "required"
            if named.get(HYPERTHREADING, meant) != meant:
                cursor = self._cursor.at("hw:cpu_thread_policy")
                found = f"also trait:{HYPERTHREADING}={named[HYPERTHREADING]}"
                raise cursor.error(found, "only one of them")

    def core_amounts(self, vcpus: int, named: Mapping[str, int]) -> dict[str, int]:
        """Return the amounts of VCPU and PCPU, each core counted once.

        ``named`` holds the amounts of ``resources:``: if they have either class, also with 0, the
        flavor's own ``vcpus`` do not count.

        Raises:
            InputError: a policy contradicts the amounts, or refines a policy that is not given.
        """
        policy = self._values.get("hw:cpu_policy")
        isolates = self._values.get("hw:emulator_threads_policy") == "isolate"
        explicit = {name: named[name] for name in ("VCPU", "PCPU") if name in named}
        if policy and any(explicit.values()):
            cursor = self._cursor.at("hw:cpu_policy")
            raise cursor.error("also resources:VCPU or resources:PCPU", "only one of them")
        pinned = policy in ("dedicated", "mixed") or explicit.get("PCPU")
        if isolates and not pinned:
            cursor = self._cursor.at("hw:emulator_threads_policy")
            raise cursor.error("'isolate' of shared cores", "also hw:cpu_policy=dedicated")
        if isolates and explicit and explicit.get("PCPU", 0) <= vcpus:
            cursor = self._cursor.at("hw:emulator_threads_policy")
            raise cursor.error("'isolate' without a core", f"also resources:PCPU={vcpus + 1}")
        if explicit:
            return explicit
        if policy == "dedicated":
            return {"PCPU": vcpus + isolates if vcpus else 0}
        return {"VCPU": vcpus, "PCPU": int(isolates)}

    def _apply(self, effect: Effect, key: str, text: str) -> None:
        cursor = self._cursor.at(key)
        if effect.refused is not None:
            raise cursor.error(f"{text!r}, which has no counterpart here", "", effect.refused)
        if effect.required:
            self.required.append(effect.required)
        if effect.forbidden:
            self.forbidden.append(effect.forbidden)
        if effect is TUNES:
            self._remarks.append(cursor.remark(NOT_LOOKED_AT))

    def _read_nodes(self, text: str, cursor: DocumentCursor) -> None:
        """Accept one NUMA node, which every node has; InputError for more."""
        if not (text.isascii() and text.isdecimal() and int(text)):
            raise cursor.error(repr(text), "a whole number from 1 on")
        if int(text) > 1:
            hint = f"resources:NUMA_SOCKET={int(text)} requests CPUs; "
            hint += IGNORE_HINT.format(key=NODES)
            raise cursor.error(f"{int(text)} NUMA nodes", "1", hint)
        self._remarks.append(cursor.remark(NOT_LOOKED_AT))


def class_word(text: str) -> str:
    """Return a text as a word of Placement's names: capitals, digits and underscores."""
    return _CLASS_GAP.sub("_", text.upper())
