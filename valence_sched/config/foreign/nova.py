# SPDX-License-Identifier: Apache-2.0
"""Flavors of OpenStack Nova, in the format of its API or of ``openstack flavor``.

``hw:`` and ``os:`` extra specs become the traits and amounts that Nova derives from them. A key
that only tunes a virtual machine adds a remark. Any other key is an error, even if Nova ignores it.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from valence_sched.config.foreign.base import DocumentCursor, FlavorLookup
from valence_sched.errors import suggest
from valence_sched.model import extra_specs as operators, flavor as nouns
from valence_sched.model.base import Noun
from valence_sched.model.flavor import CUSTOM, Flavor, Properties
from valence_sched.model.need import NameRequirements

Amount = Annotated[int, Meta(ge=0, le=10**15)]
#: Fields of the Nova API and client that are ignored, such as access rules.
RECORD_FIELDS = {"links", "location", "original_name", "access_project_ids", "rxtx_factor"}
RECORD_FIELDS |= {"is_public", "os-flavor-access:is_public", "Is Public", "RXTX Factor"}
RECORD_FIELDS |= {"is_disabled", "OS-FLV-DISABLED:disabled"}
ALIASES = {"OS-FLV-EXT-DATA:ephemeral": "ephemeral", "properties": "extra_specs"}
ALIASES |= {name: name.lower() for name in ("ID", "Name", "RAM", "Disk", "VCPUs", "Swap")}
ALIASES |= {"Ephemeral": "ephemeral", "Properties": "extra_specs"}
KEYS = ({"vcpus", "ram"}, {"VCPUs", "RAM"})  # keys of the API and of show; keys of list
VIRTUAL_SCOPES = ("quota", "hw_rng", "hw_video", "vmware", "powervm")
REFUSED = {
    "aggregate_instance_extra_specs": "select an aggregate with --member-of, or request trait:X",
    "pci_passthrough": "request resources:PGPU=1 or resources:FPGA=1",
    "accel": "request resources:FPGA=1",
}
SCOPES = ("resources", "trait", "capabilities")
_GROUPED = re.compile(r"(resources|trait)[a-zA-Z0-9_-]+")
_TRAIT = re.compile(r"[A-Z0-9_]{1,255}")  # Placement has no other traits
HARDWARE_SCOPES = ("hw", "os")
IGNORE_HINT = "--ignore-extra-spec {key} skips it"


class NovaFlavor(Noun, frozen=True, kw_only=True):
    """A Nova flavor, with ``ram`` and ``swap`` in MiB, disks in GiB; old APIs send null fields."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    id: str | int | None = None
    description: str | None = None
    vcpus: Amount = 0
    ram: Amount = 0
    disk: Amount = 0
    ephemeral: Amount | None = 0
    swap: Amount | str | None = 0
    extra_specs: dict[str, str] = {}


class Effect(NamedTuple):
    """The requirements of one value of a key; without any, the key only tunes a virtual machine."""

    required: str | None = None
    forbidden: str | None = None
    refused: str | None = None


TUNES = Effect()
CORES = Effect("", "")  # changes the number of cores of the node, and their class
HYPERTHREADING = "HW_CPU_HYPERTHREADING"
SEV_HINT = "request trait:HW_CPU_X86_AMD_SEV=required"


def _class_word(text: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", text.upper())


def _needs(trait: str, *names: str, **others: str) -> dict[str, Effect]:
    """Return the required trait of each value: ``trait`` plus the value as Placement names it."""
    traits = {name: _class_word(name) for name in names} | others
    return {name: Effect(required=f"COMPUTE_{trait}{end}") for name, end in traits.items()}


PLACE_HINT = "a valence-sched flavor can require devices in one place (topology, same)"
#: The requirements of each value of a key; other values are errors.
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
    "hw:tpm_model": _needs("SECURITY_", "tpm-tis", "tpm-crb"),
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
#: The requirements of a key with the value true; the value false has no requirements.
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
HARDWARE_KEYS = (*VALUES, *SWITCHES, *TUNING, *MODELS, NODES, PMEM)


class _ExtraSpecs:
    """The requirements of the extra specs of one flavor; ``read`` adds a key.

    ``traits`` are those that the flavor names. Nova derives the ``implied`` traits and the amounts
    of ``pmem`` from other keys.
    """

    def __init__(self, cursor: DocumentCursor) -> None:
        self.cursor = cursor
        self.amounts: dict[str, int] = {}
        self.pmem: Counter[str] = Counter()
        self.attributes: dict[str, str] = {}
        self.traits: dict[str, list[str]] = {"required": [], "forbidden": []}
        self.implied: dict[str, list[str]] = {"required": [], "forbidden": []}
        self._hardware: dict[str, str] = {}

    def read(self, key: str, text: str) -> None:
        cursor = self.cursor.at(key)
        scope, colon, name = key.partition(":")
        if key in self.cursor.ignored:
            cursor.remark("not used: --ignore-extra-spec names it")
        elif key == "hide_hypervisor_id" or (scope in VIRTUAL_SCOPES and name):
            self._apply(TUNES, text, cursor)
        elif not colon or not name:
            hint = f"capabilities:{key} is a capability, trait:NAME a trait"
            if key == "group_policy":
                hint = "resource groups are not supported"
            hint = f"{hint}; {IGNORE_HINT.format(key=key)}"
            raise cursor.error("an extra spec without a scope", "SCOPE:NAME", hint)
        elif scope == "resources":
            if problem := nouns.resource_class_problem(name):
                raise cursor.error(problem)
            if not re.fullmatch(r"[0-9]{1,15}", text):
                raise cursor.error(repr(text), "a whole number from 0 on")
            self.amounts[name] = int(text)
        elif scope == "trait":
            if not _TRAIT.fullmatch(name):
                expected = "upper-case letters, digits or _, at most 255 characters"
                raise cursor.error("an invalid trait name", expected)
            if text not in self.traits:
                raise cursor.error(repr(text), "'required' or 'forbidden'")
            self.traits[text].append(name)
        elif scope == "capabilities":
            attribute = key.replace(":", ".", 1)
            if problem := operators.condition_problem(attribute, text):
                raise cursor.error(problem)
            self.attributes[attribute] = text
        elif scope in HARDWARE_SCOPES:
            self._hardware[key] = text
            self._read_hardware(key, text, cursor)
        else:
            known = (*SCOPES, *HARDWARE_SCOPES, *VIRTUAL_SCOPES)
            hint = REFUSED.get(scope) or suggest(scope, known)
            if grouped := _GROUPED.fullmatch(scope):
                hint = f"resource groups are not supported: write {grouped[1]}:"
            raise cursor.error(f"an extra spec of scope {scope!r}", "a known scope", hint)

    def _read_hardware(self, key: str, text: str, cursor: DocumentCursor) -> None:
        if key in VALUES:
            if text not in VALUES[key]:
                raise cursor.error(repr(text), f"one of {', '.join(VALUES[key])}")
            self._apply(VALUES[key][text], text, cursor)
        elif key in SWITCHES:
            word = text.strip().lower()
            if word not in (*TRUE, *FALSE):
                raise cursor.error(repr(text), "true or false")
            self._apply(SWITCHES[key] if word in TRUE else TUNES, text, cursor)
        elif key in MODELS:
            self.implied["required"].append(MODELS[key] + _class_word(text))
        elif key == PMEM:  # each label requests 1 of the resource class of its name
            for label in map(str.strip, text.split(",")):
                if not label:
                    raise cursor.error(repr(text), "comma-separated labels")
                self.pmem["CUSTOM_PMEM_NAMESPACE_" + _class_word(label)] += 1
        elif key == NODES and not (text.isascii() and text.isdecimal() and int(text)):
            raise cursor.error(repr(text), "a whole number from 1 on")
        elif key == NODES and int(text) > 1:
            hint = f"resources:NUMA_SOCKET={int(text)} requests CPUs"
            hint = f"{hint}; {IGNORE_HINT.format(key=NODES)}"
            raise cursor.error(f"{int(text)} NUMA nodes", "1", hint)
        elif key == NODES or key in TUNING:  # every node has a NUMA node
            self._apply(TUNES, text, cursor)
        elif PER_NODE.fullmatch(key):
            ignore = IGNORE_HINT.format(key=key)
            raise cursor.error("the size of one NUMA node", "no such key", ignore)
        else:
            hint = f"{suggest(key, HARDWARE_KEYS, 0.75)}; {IGNORE_HINT.format(key=key)}"
            raise cursor.error("an extra spec unknown to Nova", "a known extra spec", hint)

    def _apply(self, effect: Effect, text: str, cursor: DocumentCursor) -> None:
        if effect.refused is not None:
            raise cursor.error(f"{text!r}, which is not supported", "", effect.refused)
        if effect.required:
            self.implied["required"].append(effect.required)
        if effect.forbidden:
            self.implied["forbidden"].append(effect.forbidden)
        if effect is TUNES:
            cursor.remark("not used: it tunes a virtual machine")

    def check(self) -> None:
        """Raise InputError if keys contradict each other or the traits of the flavor."""
        model, version = self._hardware.get("hw:tpm_model"), self._hardware.get("hw:tpm_version")
        if model and not version:
            raise self.cursor.at("hw:tpm_model").error("no 'hw:tpm_version'", "both keys")
        if version and not model:  # Nova then uses its default model, TIS
            self.implied["required"].append("COMPUTE_SECURITY_TPM_TIS")
        if model == "tpm-crb" and version != "2.0":
            raise self.cursor.at("hw:tpm_model").error(f"{model!r} of TPM {version}", "TPM 2.0")
        named = {name: word for word, names in self.traits.items() for name in names}
        if self._hardware.get("hw:cpu_thread_policy", "prefer") != "prefer":
            meant = "forbidden" if HYPERTHREADING in self.implied["forbidden"] else "required"
            if (other := named.get(HYPERTHREADING, meant)) != meant:
                found = f"also trait:{HYPERTHREADING}={other}"
                raise self.cursor.at("hw:cpu_thread_policy").error(found, "only one of them")

    def core_amounts(self, vcpus: int, named: Mapping[str, int]) -> dict[str, int]:
        """Return the amounts of VCPU and PCPU; amounts in ``named``, even 0, override ``vcpus``."""
        policy = self._hardware.get("hw:cpu_policy")
        isolates = self._hardware.get("hw:emulator_threads_policy") == "isolate"
        isolation = self.cursor.at("hw:emulator_threads_policy")
        explicit = {name: named[name] for name in ("VCPU", "PCPU") if name in named}
        if policy and any(explicit.values()):
            cursor = self.cursor.at("hw:cpu_policy")
            raise cursor.error("also resources:VCPU or resources:PCPU", "only one of them")
        pinned = policy in ("dedicated", "mixed") or explicit.get("PCPU")
        if isolates and not pinned:
            raise isolation.error("'isolate' of shared cores", "also hw:cpu_policy=dedicated")
        if isolates and explicit and explicit.get("PCPU", 0) <= vcpus:
            raise isolation.error("'isolate' without a core", f"also resources:PCPU={vcpus + 1}")
        if explicit:
            return explicit
        if policy == "dedicated":
            return {"PCPU": vcpus + isolates if vcpus else 0}
        return {"VCPU": vcpus, "PCPU": int(isolates)}

    def properties(self, template: NovaFlavor, named: Mapping[str, int]) -> Properties:
        """Return the properties of a template, in which ``named`` amounts override its own."""
        amounts = {"MEMORY_MB": template.ram, **self.pmem, **named}
        amounts |= self.core_amounts(template.vcpus, named)
        properties = nouns.compile_amounts({name: one for name, one in amounts.items() if one})
        if nouns.DRIVE in named:
            return properties
        sizes = filter(None, (template.disk, template.ephemeral))
        drives = tuple(nouns.DriveSpec(capacity_gib=size) for size in sizes)
        return replace(properties, drives=drives)


def recognises(document: Any) -> bool:
    """Return whether a document is a Nova flavor, or an answer of the API with a flavor."""
    if not isinstance(document, dict):
        return False
    return _is_wrapped(document) or not all(keys.isdisjoint(document) for keys in KEYS)


def parse_flavor(document: Any, cursor: DocumentCursor, known: FlavorLookup) -> Flavor:
    """Parse a Nova flavor, which may refer to a ``known`` one; InputError for unsupported keys."""
    if _is_wrapped(document):
        document, cursor = document["flavor"], cursor.at("flavor")
    for alias, name in ALIASES.items():
        if alias in document and name in document:
            raise cursor.at(alias).error(f"the same field as {name!r}", "only one of them")
    if not KEYS[1].isdisjoint(document) and "Properties" not in document:
        hint = "openstack flavor list --long prints them"
        raise cursor.error("no 'Properties'", "the extra specs of each flavor", hint)
    fields = ((key, value) for key, value in document.items() if key not in RECORD_FIELDS)
    body = {ALIASES.get(key, key): value for key, value in fields}
    written = [key for key in ("properties", "Properties") if key in document]
    specs_cursor = cursor.at(written[0] if written else "extra_specs")
    # convert the extra specs first, so that an error names their key as the document has it
    specs_cursor.convert(body.get("extra_specs", {}), dict[str, str])
    template = cursor.convert(body, NovaFlavor)
    if template.swap not in (0, "", "0", None):
        cursor.at("swap").remark("not used: the node configures its own swap space")
    specs = _ExtraSpecs(specs_cursor)
    for key, text in template.extra_specs.items():
        specs.read(key, text)
    specs.check()
    return _compile(template, specs, known)


def _is_wrapped(document: dict[Any, Any]) -> bool:
    return set(document) == {"flavor"} and isinstance(document["flavor"], dict)


def _compile(template: NovaFlavor, specs: _ExtraSpecs, known: FlavorLookup) -> Flavor:
    traits = {it: (*dict.fromkeys(specs.traits[it] + specs.implied[it]),) for it in specs.traits}
    flavor = Flavor(
        name=template.name,
        uuid=None if template.id is None else str(template.id),
        description=template.description or "",
        attributes=specs.attributes,
        traits=NameRequirements(traits["required"], traits["forbidden"]),
    )
    named = specs.amounts
    if named.get("VCPU") == 0 and named.get("MEMORY_MB") == 0 and not named.get("PCPU"):
        classes = [name for name, one in named.items() if one == 1 and name.startswith(CUSTOM)]
        bare = [name for name in classes if name.startswith("CUSTOM_BAREMETAL")] or classes
        if len(bare) == 1:
            return _compile_bare_metal(flavor, template, specs, bare[0], known)
    return replace(flavor, properties=specs.properties(template, named))


def _compile_bare_metal(
    flavor: Flavor, template: NovaFlavor, specs: _ExtraSpecs, bare_metal: str, known: FlavorLookup
) -> Flavor:
    cursor = specs.cursor.at(f"resources:{bare_metal}")
    amounts = {name: amount for name, amount in specs.amounts.items() if amount}
    del amounts[bare_metal]
    flavors, word = known(), bare_metal.removeprefix(CUSTOM)
    alike = (flavors[name] for name in sorted(flavors) if _class_word(name) == word)
    if ours := flavors.get(bare_metal) or next(alike, None):
        if others := (*amounts, *specs.pmem):
            raise cursor.error(f"also {others[0]}", f"only the resources of flavor {ours.name!r}")
        cursor.remark(f"read as flavor {ours.name!r}")
        traits, attributes = ours.traits.plus(flavor.traits), ours.attributes | flavor.attributes
        ours = replace(ours, name=flavor.name, uuid=flavor.uuid, traits=traits)
        description = flavor.description or ours.description
        return replace(ours, description=description, attributes=attributes)
    our_name = word.lower().replace("_", "-")
    if not (template.vcpus or template.ram or template.disk or template.ephemeral):
        hint = "or set vcpus, ram and disk in the Nova flavor"
        raise cursor.error("no flavor of that name", f"a flavor such as {our_name!r}", hint)
    asked = "the flavor's own vcpus, ram and disk are used"
    cursor.remark(f"no flavor is named {our_name!r}: {asked}")
    return replace(flavor, properties=specs.properties(template, amounts))
