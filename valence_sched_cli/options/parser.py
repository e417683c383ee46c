# SPDX-License-Identifier: Apache-2.0
"""Options, declared as usage texts: help sections, types of values, and checks of file names."""

import argparse
import functools
import math
import os
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, cast

from valence_sched import errors
from valence_sched.errors import RequestError, UnknownName, UsageError, is_not, must_be
from valence_sched_cli.late import model

#: The help sections in order: the request, its places, its group, the inventory, its edits, the
#: decision, the actions, and the output.
SECTIONS = ("what", "where", "together", "inventory", "edits", "decide", "then", "output")
_GLUE = "\N{NO-BREAK SPACE}"
FEW_OPTIONS = 6  # the usage line lists all options if there are no more than this
OPTION_SIMILARITY = 0.75  # 0 to 1: high, because options are long and start with the same words
MAX_LINES = 40  # a longer help does not list all options
#: The options that a short help lists, besides the options in the examples of the command.
COMMON = frozenset(
    (
        *("-h", "--help-all", "-f", "-c", "--inventory", "--flavor", "--cores", "--gpu", "--count"),
        *("--memory", "--drive"),
        *("--podm", "--zone", "--policy", "--owner", "--claim", "--compose", "--plan", "--explain"),
        *("--output", "--compare", "--block", "--idle", "--force", "--power-cycle"),
    )
)
_ARGPARSE = ("positional arguments", "options")  # argparse's own groups, which come first


def section(parser: argparse.ArgumentParser, name: str) -> argparse._ArgumentGroup:
    """Return the section of a parser by its name, one of SECTIONS; create it if needed."""
    groups = parser._action_groups
    for group in groups:
        if group.title == name:
            return group
    made = parser.add_argument_group(name)
    titles = (*_ARGPARSE, *SECTIONS)
    groups.sort(key=lambda one: titles.index(one.title) if one.title in titles else len(titles))
    return made


class CommandHelp(argparse.HelpFormatter):
    """Formats the help of a command; indented paragraphs keep their line breaks.

    ``examples`` are arguments of the command; they are listed after the usage. A long usage line
    names only the required options. Unless it is ``whole``, a help of more than ``MAX_LINES`` lines
    has only the required options, the options in COMMON, and those in the examples.
    """

    def __init__(
        self, prog: str, *args: Any, examples: Sequence[str] = (), whole: bool = False, **named: Any
    ) -> None:
        super().__init__(prog, *args, **named)
        self._examples, self._whole, self._is_short = examples, whole, False

    def format_help(self) -> str:
        text = super().format_help()
        if self._whole or text.count("\n") <= MAX_LINES:
            return text
        self._is_short = True
        common = COMMON.union(*(example.split() for example in self._examples))
        root, actions = self._root_section, []
        for item in root.items.copy():
            section: Any = getattr(item[0], "__self__", self)
            if section is not self and section.heading != "examples":
                actions += [args[0] for form, args in section.items if form == self._format_action]
                root.items.remove(item)
            elif actions and "\n" in next(iter(item[1])):  # an epilog besides the plug-in's name
                root.items.remove(item)
        shown = [it for it in actions if it.required or not common.isdisjoint(it.option_strings)]
        self.start_section("options")
        self.add_arguments(shown)
        self.end_section()
        self.add_text(f"{len(actions) - len(shown)} more options: {self._prog} --help-all")
        return super().format_help()

    def _expand_help(self, action: argparse.Action) -> str:
        """Return the help of an option, in a short help cut to one line."""
        text = super()._expand_help(action)
        width = self._width - self._max_help_position
        if not self._is_short or len(text) <= width:
            return text
        starts = (text.partition(mark)[0] for mark in (" (", ";", ":"))
        clauses = (text[: match.start()] for match in reversed([*re.finditer(", ", text)]))
        fitting = (start for start in (*starts, *clauses) if len(start) <= width)
        return next(fitting, text)

    def _format_text(self, text: str) -> str:
        """Return a text, in a short help only its first paragraph and the exit codes."""
        if self._is_short and "\n\n" in text:
            summary, _, rest = text.partition("\n\n")
            exits = re.search(r"Exit.*", rest, re.DOTALL)
            text = f"{summary}\n\n{exits[0].partition(chr(10) * 2)[0]}" if exits else summary
        return super()._format_text(text)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        options = [action for action in actions if action.option_strings]
        if len(options) > FEW_OPTIONS:
            groups = [group for group in groups if group.required]
            either = {id(action) for group in groups for action in group._group_actions}
            shown = [
                action
                for action in options
                if action.required or id(action) in either or "--help" in action.option_strings
            ]
            others = argparse.Action([], "options", metavar="[options]", required=True)
            arguments = [action for action in actions if not action.option_strings]
            actions = [*shown, others, *arguments]
        super().add_usage(usage, actions, groups, prefix)
        if self._examples:
            self.start_section("examples")
            for example in self._examples:
                self._add_item(self._example, [example])
            self.end_section()

    def _example(self, words: str) -> str:
        """Return the lines of an example, with backslashes at the line ends."""
        glued = re.sub(r" (?!-)", _GLUE, words)  # keep an option and its value on one line
        width = self._width - self._current_indent - len(" \\")
        fold = textwrap.TextWrapper(
            width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
        indent = " " * self._current_indent
        lines = f" \\\n{indent}".join(fold.wrap(f"{self._prog} {glued}"))
        return f"{indent}{lines}\n".replace(_GLUE, " ")

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = []
        for part in text.split("\n\n"):
            if not part.startswith("  "):
                parts.append(super()._fill_text(part, width, indent))
                continue
            fold = textwrap.TextWrapper(width, break_on_hyphens=False)
            lines = []
            for line in part.split("\n"):
                first = re.match(r"  (?:\S ?)*\s+", line)
                fold.subsequent_indent = " " * len(first[0] if first else "    ")
                lines.append(fold.fill(line))
            parts.append("\n".join(lines))
        return "\n\n".join(parts)


Value = TypeVar("Value")
E = TypeVar("E", bound=BaseException)

#: The keyword arguments of argparse for an option, or its type alone.
Setting = Mapping[str, Any] | Callable[[str], Any] | None

#: The setting of an option that repeats, if its help does not mention this.
LISTED: Mapping[str, Any] = {"action": "append", "default": []}
_USAGE = re.compile(
    r"(?:(?P<place>\w+) )?(?P<mark>\|!? )?(?P<names>-[-,\w]+)? ?(?P<value>\[?<[^>]+>)?"
    r"(?:=(?P<default>\S+?))?(?P<dots>\.{3})?\]?: (?P<help>.*)"
)


def add_options(parser: argparse._ActionsContainer, text: str, **settings: Setting) -> None:
    """Add an option or argument for each line of a text; indented lines continue the line above.

    A line is a usage and its help, as in ``what --podm <podm>...: only this``; ``what`` is the
    section of the option, and dots make a list. An option without a value or ``settings`` is a
    flag; ``--limit <n>=100`` has a default, and ``[<name>]`` is optional. Lists and defaults are
    mentioned in the help automatically. Lines with ``|`` before the option exclude each other; with
    ``|!``, one of them is required. Settings are keyed by the name of an option, or by its value
    such as ``<podm>``; TYPES has their defaults.
    """
    exclusive: argparse._ActionsContainer | None = None
    for line in re.sub(r"\n +", " ", textwrap.dedent(text).strip()).split("\n"):
        match = _USAGE.fullmatch(line)
        assert match is not None, line
        place, mark, names, value, default, several, words = match.groups()
        group = section(cast(argparse.ArgumentParser, parser), place) if place else parser
        if mark:
            needed = mark.startswith("|!")
            group = exclusive = exclusive or group.add_mutually_exclusive_group(required=needed)
        else:
            exclusive = None
        name = (names or value).partition(",")[0].strip("[<->")
        setting = settings.get(name.replace("-", "_"), settings.get(value, {}))
        known: dict[str, Any] = {"metavar": value.strip("[")} if value else {}
        if parse := TYPES.get(names, TYPES.get(value)) if names else FILE_TYPES.get(value):
            known["type"] = parse
        known |= setting if isinstance(setting, Mapping) else {"type": setting}
        if names is None:
            names = known.pop("dest", name)
            if several or value.startswith("["):
                known["nargs"] = "?" if not several else "*" if value.startswith("[") else "+"
        elif several:
            known |= {"action": "append", "default": []}
            words += "" if "repeat" in words else " (repeat for several)"
        elif not known:
            known["action"] = "store_true"
        if default:
            known["default"] = default  # argparse converts it to the type
            words += "" if "(default: " in words else f" (default: {default})"
        if known.get("type"):
            known["type"] = functools.partial(parsed, known["type"])
        group.add_argument(*names.split(","), help=words, **known)


def nonempty(hint: str = "") -> Callable[[str], str]:
    """Return the type of a nonempty name; the error about an empty name ends with ``hint``."""

    def parse(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(f"an empty name: {hint}".removesuffix(": "))
        return text

    return parse


nonempty_name = nonempty()


class HelpAll(argparse.Action):
    """Prints the help with all options, and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        formatter: Any = parser.formatter_class
        parser.formatter_class = functools.partial(formatter, whole=True)
        parser.print_help()
        parser.exit()


class StoreOnce(argparse._StoreAction):
    """Stores the value of an option, and refuses a second value."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *args: Any, **_: Any
    ) -> None:
        if self.option_strings:
            stored: set[str] = namespace.__dict__.setdefault("_stored_once", set())
            if self.dest in stored:
                raise argparse.ArgumentError(self, "given twice: it takes one value")
            stored.add(self.dest)
        super().__call__(parser, namespace, *args)


def by_name(
    option: str, pairs: Iterable[tuple[str, Value]], hint: str = "give it once"
) -> dict[str, Value]:
    """Return the values of a ``NAME=VALUE`` option by name; UsageError for a repeated name."""
    named: dict[str, Value] = {}
    for name, value in pairs:
        if name in named:
            raise UsageError(f"{option}: {name!r} twice: {hint}")
        named[name] = value
    return named


def given(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the values of those options that the user gave, by their argparse destinations."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def whole(text: str) -> int:
    """Parse a whole number of at most 18 digits."""
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise must_be("a whole number of at most 18 digits", text)
    return int(text)


def natural(text: str, least: int = 0, most: int = 1_000_000) -> int:
    """Parse a whole number from 0 on."""
    if not re.fullmatch(r"[0-9]{1,7}", text) or not least <= int(text) <= most:
        raise must_be(f"{least} to {most:,}", text)
    return int(text)


positive = functools.partial(natural, least=1)


def parsed(parse: Callable[[str], Value], text: str) -> Value:
    """Parse a text; a parse error becomes an error of the option with the same message."""
    try:
        return parse(text)
    except (ValueError, RequestError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parsed_by(name: str) -> Callable[[str], Any]:
    """Return the type that a function of the model parses; ``name`` is MODULE:FUNCTION."""

    def parse(text: str) -> Any:
        return pkgutil.resolve_name(f"valence_sched.model.{name}")(text)

    return parse


def number(form: str, least: float, most: float) -> Callable[[str], float]:
    """Return the type of a number within a range, which ``form`` describes."""

    def parse(text: str) -> float:
        if not least <= (found := model.quantity.as_number(text)) <= most:
            raise must_be(form, text)
        return found

    return parse


seconds = number("seconds above 0 and at most 86,400", math.ulp(0.0), 86_400)


def named_number(
    form: str, least: float, most: float, *, first: bool = False
) -> Callable[[str], tuple[str, float]]:
    """Return the type of ``NAME=NUMBER`` within a range, split at the last or ``first`` ``=``."""

    def parse(text: str) -> tuple[str, float]:
        name, _, number = text.partition("=") if first else text.rpartition("=")
        if not name or not least <= model.quantity.as_number(number) <= most:
            raise is_not(form, text)
        return name, float(number)

    return parse


def key_and_value(form: str) -> Callable[[str], tuple[str, str]]:
    """Return the type of ``KEY=VALUE``, both nonempty, which ``form`` describes."""

    def parse(text: str) -> tuple[str, str]:
        key, _, value = (part.strip() for part in text.partition("="))
        if not key or not value:
            raise is_not(form, text)
        return key, value

    return parse


def trace_column(text: str) -> tuple[str, Any]:
    """Parse ``FIELD=COLUMN`` for the column of a trace."""
    field, column = key_and_value("FIELD=COLUMN, as in arrival=creation_time")(text)
    return field, model.request_spec.parse_trace_column(column)


_FILE = nonempty("name a file")
#: The types of files and URLs, by their names in usage texts.
FILE_TYPES: Mapping[str, Callable[[str], str]] = {
    **dict.fromkeys(("<file>", "<inventory>", "<old>", "<new>", "<plan>", "<report>"), _FILE),
    "<path>": nonempty("name a file or a folder"),
    "<dir>": nonempty("name a folder"),
    "<url>": nonempty("name a URL"),
}
#: The type of an option's value, by the value's name in usage texts.
TYPES: Mapping[str, Callable[[str], Any]] = {
    **FILE_TYPES,
    "<seconds>": seconds,
    "<age>": parsed_by("quantity:parse_age"),
    "<weigher=number>": named_number("WEIGHER=N with N from 0 to 1000", 0, 1000, first=True),
    "--warn-age": parsed_by("quantity:parse_age_limit"),
    "<flavor=share,...>": parsed_by("request_spec:parse_shares"),
    "<field=column>": trace_column,
    "<n/period>": parsed_by("request_spec:parse_rate"),
    "<duration>": parsed_by("request_spec:parse_time_span"),
    **dict.fromkeys(("<n>", "<requests>", "<failures>"), positive),
    **dict.fromkeys(("<m>", "<k>"), natural),
    **dict.fromkeys(("<zone>", "<trait>", "<driver>", "<policy>", "<project>"), nonempty_name),
}

#: Options and arguments that take a path or ``-``; ``_ARGUMENTS`` has the names of arguments.
_READ = (
    *("inventory", "podm_file", "source", "flavor", "flavor_file", "policy_file", "resource_file"),
    *("request_file", "scenario", "workload", "map_file", "baseline", "file", "old", "new"),
    "planned",
)
_ARGUMENTS = {"source": "path", "file": "file", "old": "old", "new": "new", "planned": "plan"}
_READ_AND_NO_STDIN = ("zone_file", "near_map")
#: Options that name output files; the files of ``_WRITTEN_BESIDE`` must not be input files.
_WRITTEN_BESIDE = ("report", "html", "plan", "junit")
_WRITTEN = (*_WRITTEN_BESIDE, "output")


def check_file_names(args: argparse.Namespace) -> None:
    """Raise UsageError if stdin is read twice, a file written twice, or an input overwritten."""
    _check_zone_file(args)
    readers = [option_name(name) for name in _READ for word in _words(args, name) if word == "-"]
    if len(readers) > 1:  # the second reader would find standard input empty
        raise UsageError(f"only one may be standard input (-): {', '.join(readers)}")
    if "-" in _words(args, "near_map"):
        raise UsageError("--near-map: cannot be read from standard input: name a file")
    for name in ("html", "plan", "junit"):
        if getattr(args, name, None) == "-":
            raise UsageError(f"--{name}: standard output is used for the rows: name a file")
    written: dict[str, str] = {}
    for name in _WRITTEN:
        for file in _words(args, name):
            if file in ("", "-") or (os.path.exists(file) and not os.path.isfile(file)):
                continue  # writing to a pipe or a device creates no file
            place = os.path.realpath(file)
            if place in written:
                other = f"{option_name(written[place])} writes {file}, too"
                raise UsageError(f"{option_name(name)}: {other}: name another file")
            written[place] = name
    for name in (*_READ, *_READ_AND_NO_STDIN):
        for file in _words(args, name):
            writer = written.get(os.path.realpath(file.partition("#")[0]))
            if writer in _WRITTEN_BESIDE:
                reader = f"{option_name(name)} reads {file}"
                raise UsageError(f"{option_name(writer)}: {reader}: name another file")


def _check_zone_file(args: argparse.Namespace) -> None:
    """Raise UsageError for a zone file with other sources of pod managers, or with --plan."""
    if getattr(args, "zone_file", None) is None:
        return
    if getattr(args, "plan", None) is not None:
        hint = "omit --zone-file, and name the inventories of that zone"
        raise UsageError(f"--plan: a plan covers one zone: {hint}")
    if args.inventory or args.podm_file or args.from_catalog:
        hint = "omit --inventory, --podm-file and --from-catalog"
        raise UsageError(f"--zone-file names all inventories: {hint}")


def _words(args: argparse.Namespace, name: str) -> Iterator[str]:
    value: Any = getattr(args, name, None)
    words = value if isinstance(value, list) else [value]
    return (word for word in words if isinstance(word, str))


def with_file_hint(error: E, args: argparse.Namespace) -> E | UnknownName:
    """Return an error; if the name of an unknown policy is a file, suggest --policy-file."""
    name = getattr(error, "name", None) if isinstance(error, UnknownName) else None
    named = (*_words(args, "policy"), *_words(args, "policies"))
    if name not in named or not os.path.isfile(name):
        return error
    hint = "it is a file: name it with --policy-file, and one of its policies here"
    return UnknownName("policy", name, (), hint=hint)


def option_name(name: str) -> str:
    """Return an option or argument as users write it, by its argparse destination."""
    return f"<{_ARGUMENTS[name]}>" if name in _ARGUMENTS else f"--{name.replace('_', '-')}"


def refuse_first_words(parser: Any) -> None:
    """Let a parser take no whole word for a longer option: --podm is not --podm-file.

    It may be an option of another command.
    """
    abbreviated = parser._get_option_tuples

    def longer(text: str) -> list[Any]:
        word = f"{text.partition('=')[0]}-"
        return [found for found in abbreviated(text) if not found[1].startswith(word)]

    parser._get_option_tuples = longer


def read_value(parser: argparse.ArgumentParser, action: argparse.Action, text: str) -> Any:
    """Return the value of an option; only the name of a file may have bytes that are not text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        if action.metavar not in FILE_TYPES and not os.path.exists(text):
            raise argparse.ArgumentError(action, f"{text!r} is not text in UTF-8") from None
    return argparse.ArgumentParser._get_value(parser, action, text)


def read_values(parser: Any, action: argparse.Action, texts: list[str]) -> Any:
    """Return the values of an option; of --owner=--, Python before 3.13 drops the value."""
    if not (action.option_strings and texts == ["--"]):
        return argparse.ArgumentParser._get_values(parser, action, texts)
    value = parser._get_value(action, texts[0])
    parser._check_value(action, value)
    return value if action.nargs is None else [value]


def refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """Exit 2 with one line about wrong arguments, which suggests a similar option or choice."""
    option, found, rest = message.partition(": invalid choice: ")
    value, _, listed = rest.rpartition(" (choose from ")
    if choices := re.findall("'([^']*)'", listed):
        message = f"{option}{found}{value} ({errors.suggest(value[1:-1], choices)})"
    if unknown := re.match(r"unrecognized arguments: (--[^\s=]+)", message):
        options = parser._option_string_actions
        longer = [name for name in options if name.startswith(f"{unknown[1]}-")]
        hint = errors.suggest(unknown[1], longer or options, 0 if longer else OPTION_SIMILARITY)
        message += f" ({hint})" if hint.startswith("did") else ""
    parser.exit(2, errors.one_line(f"{parser.prog}: {message}; see {parser.prog} --help") + "\n")
