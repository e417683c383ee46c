# SPDX-License-Identifier: Apache-2.0
"""The time of every regular expression of the packages grows at most linearly with its input."""

import ast
import importlib
import itertools
import math
import re
import time
import unittest
from pathlib import Path
from re import _constants as code, _parser
from typing import NamedTuple

from valence_sched.model.redact import redact_text

ROOT = Path(__file__).parents[2]
PACKAGES = ("valence_sched", "valence_sched_cli")
METHODS = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
#: Replacements of names in an expression that is built where it is used.
SAMPLES = {
    "id_": "node-1", "key": "a#b", "path": "/redfish/*/a*b*c*", "wanted": "a*b*c*[d]*",
}  # fmt: skip
REPEATS = {code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT}
LETTERS = "aAeZ09_-. \t\n,\"'/:;@=%*[(<>+#!\0é"
FIRST, OTHERS = 1 << 10, (4 << 10, 16 << 10, 256 << 10)  # bytes
GROWTH, NOISE = 2.5, 1.6  # largest cost for twice the input, and tolerated noise, in CPU times
TRIES, SHORT_S = 3, 2e-3
#: Expressions whose methods are called in other modules.
PASSED_ON = {"_INT": frozenset({"match"})}


class Expression(NamedTuple):
    """A regular expression, and the methods that are called on it."""

    place: str
    pattern: re.Pattern
    methods: frozenset[str]


def expressions():
    """Yield each regular expression of the packages."""
    for path in sorted(each for name in PACKAGES for each in (ROOT / name).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text))) if re.search(r"^import re\b", text, re.M) else []
        calls = [node for node in nodes if isinstance(node, ast.Call)
                 and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "re"
                 and node.func.attr in METHODS | {"compile"}]  # fmt: skip
        for call in calls:
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            names = {**vars(module), **SAMPLES}
            first, *others = (_value(one, names) for one in call.args)
            place = f"{path.relative_to(ROOT)}:{call.lineno}"
            if call.func.attr == "compile":
                flags = [*others, *(_value(one.value, names) for one in call.keywords), 0][0]
                methods = _methods(nodes, call)
                yield Expression(place, re.compile(first, flags), methods)
            else:
                flags = 0
                for word in [*call.args[2:], *(one.value for one in call.keywords)]:
                    if isinstance(found := _value(word, names), re.RegexFlag):
                        flags = found
                yield Expression(place, re.compile(first, flags), frozenset({call.func.attr}))


def _value(node, names):
    try:
        return eval(compile(ast.Expression(node), "", "eval"), names)  # our own code
    except NameError:
        return "x"


def _methods(nodes, call):
    """Return the methods called on the target of an assignment; search if no use is found."""
    names = {target.id for node in nodes if isinstance(node, (ast.Assign, ast.AnnAssign))
             and node.value is call for target in getattr(node, "targets", [node])
             if isinstance(target, ast.Name)}  # fmt: skip
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name) and node.value.id in names}  # fmt: skip
    passed_on = next((PASSED_ON[name] for name in names & {*PASSED_ON}), frozenset({"search"}))
    return frozenset(used & METHODS) or passed_on


def sequences(items):
    """Yield a sequence of a parsed expression, and each one within it."""
    yield list(items)
    for kind, words in items:
        for inner in words if isinstance(words, tuple) else ():
            if isinstance(inner, _parser.SubPattern):
                yield from sequences(inner)
        if kind is code.BRANCH:
            for branch in words[1]:
                yield from sequences(branch)


def is_in(letter, kind, words):
    """Return whether a part of an expression matches a letter."""
    if kind is code.ANY:
        return letter != "\n"
    if kind in (code.LITERAL, code.NOT_LITERAL):
        return (ord(letter) == words) is (kind is code.LITERAL)
    if kind is code.RANGE:
        return words[0] <= ord(letter) <= words[1]
    if kind is code.CATEGORY:
        names = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
        name = str(words).removeprefix("CATEGORY_")
        found = bool(re.match(names[name.removeprefix("NOT_")], letter))
        return found is not name.startswith("NOT_")
    negated = words[0][0] is code.NEGATE
    return any(is_in(letter, *one) for one in words[negated:]) is not negated


def sample(items, letter):
    """Return a short text that an expression matches, with this letter in all possible places."""
    text = ""
    for kind, words in items:
        if kind is code.LITERAL:
            text += chr(words)
        elif kind in (code.ANY, code.IN, code.NOT_LITERAL):
            text += next((one for one in letter + LETTERS if is_in(one, kind, words)), "")
        elif kind in REPEATS:
            text += sample(words[2], letter) * max(1, min(words[0], 100))
        elif kind is code.BRANCH:
            text += sample(words[1][0], letter)
        elif kind is code.SUBPATTERN:
            text += sample(words[3], letter)
        elif kind is code.ATOMIC_GROUP:
            text += sample(words, letter)
    return text


def attacks(pattern):
    """Return prefixes and repeated parts of texts that may take long to match."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    tree = _parser.parse(text, pattern.flags & ~re.UNICODE)
    singles = [one for items in sequences(tree) for one in items
               if one[0] in (code.IN, code.ANY, code.LITERAL, code.NOT_LITERAL)]  # fmt: skip
    letters = dict.fromkeys(LETTERS + "".join(chr(one[1]) for one in singles
                                              if one[0] is code.LITERAL))  # fmt: skip
    alike = {(letter.isalnum(), *(is_in(letter, *one) for one in singles)): letter
             for letter in letters}  # fmt: skip
    found = {}
    for letter, items in itertools.product(alike.values(), list(sequences(tree))):
        for end in range(len(items) + 1):
            again = end < len(items) and items[end][0] in REPEATS
            if again or (end == len(items) and (items is tree or REPEATS & {*dict(items)})):
                before = sample(items[:end], letter)
                pumps = [("", before), ("", before + letter), (before, letter)][: 3 if again else 1]
                found.update(dict.fromkeys(one for one in pumps if one[1]))
    return list(found)


def cost(run, attack, size, encode, most=0.0):
    """Return the CPU time of an attack: the first one up to ``most``, or the least of some."""
    head, pump = attack
    text = (head + pump * (size // len(pump)))[: size - 1] + "\0"
    text = text.encode("latin-1", "replace") if encode else text
    least = float("inf")
    for _ in range(TRIES):
        begun = time.thread_time()
        run(text)
        least = min(least, time.thread_time() - begun)
        if least <= most:
            break
    return least


def runs(expression):
    """Yield the uses of an expression, as functions of a text."""
    pattern = expression.pattern
    replacement = b"" if isinstance(pattern.pattern, bytes) else ""
    for name in sorted(expression.methods):
        method = getattr(pattern, name)
        if name in ("sub", "subn"):
            yield lambda text, method=method: method(replacement, text)
        elif name == "finditer":
            yield lambda text, method=method: list(method(text))
        else:
            yield method


class TestExpressions(unittest.TestCase):
    """The cost of an attack is compared over enough doublings that noise does not matter."""

    def check(self, run, attack, encode=False):
        """Check that twice the input takes at most GROWTH times as long."""
        first = max(cost(run, attack, FIRST, encode), 2e-6)
        for size in OTHERS:
            most = first * NOISE * GROWTH ** math.log2(size / FIRST)
            self.assertLessEqual(cost(run, attack, size, encode, most), most, (attack, size))

    def test_no_expression_takes_longer_than_its_input_grows(self):
        found = list(expressions())
        self.assertGreater(len(found), 90)
        for expression in found:
            encode = isinstance(expression.pattern.pattern, bytes)
            with self.subTest(expression.place, pattern=expression.pattern.pattern):
                self.check_expression(expression, attacks(expression.pattern), encode)

    def check_expression(self, expression, found, encode):
        for run in runs(expression):
            for size, attack in itertools.product(range(16, 36, 4), found):
                least = cost(run, attack, size, encode, SHORT_S)
                self.assertLessEqual(least, SHORT_S, attack)  # it doubles with each character
            costs = {attack: cost(run, attack, FIRST, encode, SHORT_S) for attack in found}
            for attack in sorted(costs, key=costs.get)[-2:]:
                self.check(run, attack, encode)

    def test_expressions_that_grow_too_fast_are_found(self):
        for text in (r"\w+@", r"(a+)+b", r"(?i)[\w-]*token=", r"\beyJ[\w-]{8,}\.", r"(\.x)+$"):
            with self.subTest(text), self.assertRaises(AssertionError):
                expression = Expression("", re.compile(text), frozenset({"search"}))
                self.check_expression(expression, attacks(expression.pattern), encode=False)

    def test_redaction_takes_no_longer_than_its_input_grows(self):
        for part in ("token", "a", "-", "//", "//a", "a:", "!", "eyJ-", "eyJaaaaaaaa.", "basic ",
                     "%40", "-----BEGIN ", "password=\"", "user:x@"):  # fmt: skip
            with self.subTest(part):
                self.check(redact_text, ("", part))
