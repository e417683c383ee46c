# SPDX-License-Identifier: Apache-2.0
"""Every effect on hardware passes the guard: no other code reaches it."""

import ast
import inspect
import textwrap
import unittest
from collections.abc import Iterator

from tests.unit.structure import Module, every_import, every_module
from valence_sched.drivers.composer import AmountChanger, AmountReads, Composer, ComposerReads
from valence_sched.lifecycle.guard import GuardedComposer

WRITES = {"post", "patch", "put", "delete", "write"}
#: Code that sends anything but reads to a pod manager, through drivers/http. A new entry is a part
#: of a composer, or states here why it changes no hardware.
WRITERS = {
    "drivers/composer": "sends each write of a composer",
    "drivers/session": "the session that composers write with",
    "drivers/events": "asks for events",
    "drivers/actions": "a part of each composer: power",
    "drivers/redfish/amounts": "a part of a composer: memory chunks and volumes",
    "drivers/redfish/connections": "a part of a composer: connections of amounts",
    "drivers/redfish/change": "a part of each composer: the blocks of a node",
    "drivers/redfish/composer": "a composer",
    "drivers/rsd/composer": "a composer",
}
#: Code that gets a composer that can change hardware, or connects to one.
SEES_CHANGES = {
    ("lifecycle/access", "valence_sched.drivers.connect.connect"),  # and guards it
    ("lifecycle/change", "valence_sched.drivers.composer.Composer"),
    ("lifecycle/compose", "valence_sched.drivers.composer.Composer"),
    ("lifecycle/guard", "valence_sched.drivers.composer.Composer"),
}
#: Each effect: the function that has it, and the verb of a composer. A new effect is a new line.
EFFECTS = {
    ("lifecycle/change", "_change_once", "change"),
    ("lifecycle/change", "_change_amounts", "attach_amounts"),
    ("lifecycle/change", "_change_amounts", "detach_amounts"),
    ("lifecycle/change", "power_off", "set_power"),
    ("lifecycle/change", "power_on", "set_power"),
    ("lifecycle/compose", "_remove", "remove"),
    ("lifecycle/compose", "_reserve_and_compose", "reserve"),
    ("lifecycle/compose", "_reserve_and_compose", "compose"),
    ("lifecycle/compose", "_abandon", "remove"),
    ("lifecycle/compose", "_abandon", "unreserve"),
    ("lifecycle/reconcile", "_decompose", "remove"),
    ("lifecycle/reconcile", "_detach", "change"),
    ("lifecycle/reconcile", "_detach", "detach_amounts"),
    ("lifecycle/reconcile", "_end_undo", "change"),
    ("lifecycle/reconcile", "_find_result", "unreserve"),
    ("lifecycle/reconcile", "_power_on", "set_power"),
}
#: Classes with verbs of the same names, which pass the guard themselves.
NODE_COMPOSERS = {"self.composer", "access.composer", "changer"}


def verbs(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


READS = verbs(ComposerReads) | verbs(AmountReads)
CHANGES = verbs(Composer) | verbs(AmountChanger)


class TestEffects(unittest.TestCase):
    """The source, parsed as a tree."""

    def test_a_guarded_composer_has_all_that_reads_and_nothing_that_changes(self):
        self.assertTrue(CHANGES.isdisjoint(READS))
        self.assertEqual({"amount_reads", "may_change"}, verbs(GuardedComposer))
        source = textwrap.dedent(inspect.getsource(GuardedComposer))
        fields = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.AnnAssign)]
        self.assertEqual(["self.reads: ComposerReads = composer"], list(map(ast.unparse, fields)))
        self.assertEqual(AmountReads, GuardedComposer.amount_reads.fget.__annotations__["return"])

    def test_only_the_guard_and_what_it_lets_pass_see_a_composer_that_changes(self):
        names = {"valence_sched.drivers.connect.connect", "valence_sched.drivers.composer.Composer",
                 "valence_sched.drivers.connect", "valence_sched.drivers.composer"}  # fmt: skip
        imports = (one for one in every_import() if one.module.room != "drivers")
        found = {(one.module.address, one.name) for one in imports if one.name in names}
        self.assertEqual(SEES_CHANGES, found)

    def test_each_change_is_made_by_what_may_change_has_returned(self):
        found = set()
        for module in every_module():
            if module.room in ("lifecycle", "engine", "inventory", "server", "service", "zones"):
                found |= set(self.effects(module))
        self.assertEqual(EFFECTS, found)

    def test_nothing_but_a_composer_writes_to_a_pod_manager(self):
        found = {module.address for module in every_module()
                 if module.room in ("drivers", "lifecycle", "inventory", "engine")
                 and not module.address.startswith("drivers/http/")
                 and any(map(_writes, ast.walk(module.tree)))}  # fmt: skip
        self.assertEqual(set(WRITERS), found)

    def effects(self, module: Module) -> Iterator[tuple[str, str, str]]:
        fields = {
            f"self.{ast.unparse(node.target)}"
            for node in ast.walk(module.tree)
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "Composer"
        }
        for function in ast.walk(module.tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            typed = (arg for arg in function.args.args if arg.annotation is not None)
            permitted = {it.arg for it in typed if ast.unparse(it.annotation) == "Composer"}
            permitted |= fields
            permitted |= {
                ast.unparse(target)
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and _permits(node.value)
                for target in node.targets
            }
            permitted |= {
                ast.unparse(target)
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and _part_of(node.value) in permitted
                for target in node.targets
            }
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Attribute(value=receiver, attr=verb)) if (
                        verb in CHANGES and self.composes(function, receiver)
                    ):
                        ok = _permits(receiver) or ast.unparse(receiver) in permitted
                        self.assertTrue(ok, f"{module.at(node.lineno)}: {ast.unparse(node)}")
                        yield module.address, function.name, verb

    def composes(self, function: ast.FunctionDef, receiver: ast.expr) -> bool:
        """Return whether the receiver of a call may be a composer; lists and others are not."""
        text = ast.unparse(receiver)
        return text not in NODE_COMPOSERS and ("compose" in text or "change" in text)


def _permits(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".may_change")


def _part_of(node: ast.AST) -> str:
    """Return the composer that a call of ``amount_changer`` narrows, else an empty text."""
    match node:
        case ast.Call(func=ast.Name(id="amount_changer"), args=[composer]):
            return ast.unparse(composer)
    return ""


def _writes(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=receiver, attr=verb):
            of = ast.unparse(receiver).rpartition(".")[2].lstrip("_")
            return verb in WRITES and of in ("session", "connection", "transport", "composer")
        case ast.Constant(value=str(word)):
            return word.lower() in WRITES and word.isupper()
    return False
