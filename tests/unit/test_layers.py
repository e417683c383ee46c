# SPDX-License-Identifier: Apache-2.0
"""The structure: rooms import in one direction, without cycles, and class names are unique."""

import functools
import sys
import unittest
from collections.abc import Callable, Iterable, Iterator

from tests.unit.structure import PACKAGES, ROOT, Import, every_import, every_module, public_classes

# A new room is a new line here, with the rooms that it may import to its right; some rooms are
# listed before they have a file. A room may import itself; ``core/policy`` is that one module of
# the room.
MAY_IMPORT = {
    "errors": set(),
    "streams": {"errors"},
    "calls": {"errors", "model"},  # in parallel, on daemon threads
    "files": {"errors", "model"},  # it also writes an inventory
    "model": {"errors"},
    "words": {"errors", "model"},  # sentences about nouns, for screens, pages and messages
    "view": {"errors", "model"},
    "filters": {"errors", "model", "view"},
    "weighers": {"errors", "model", "view"},
    "integrations": {"errors", "model", "view", "remote"},  # dispatchers share its HTTP session
    "core": {"errors", "model", "view", "words"},
    "schedulers": {"model", "view", "core", "planning"},
    "drivers": {"errors", "model", "files"},
    "store": {"errors", "model", "words"},
    "simulator": {"errors", "model", "drivers"},
    "config": {"errors", "model", "files", "core/plugins", "core/policy"},  # resolvers are plug-ins
    # many requests, or a changed site
    "planning": {"errors", "model", "view", "core", "config", "inventory", "files", "words"},
    # claimed pod managers are read first: the intake of the lifecycle reads the inventory
    "lifecycle": {
        "errors",
        "calls",
        "model",
        "view",
        "core",
        "drivers",
        "store",
        "config",
        "inventory",
        "planning",
        "words",
    },
    "inventory": {"errors", "model", "view", "core/plugins", "drivers", "store", "config", "files"},
    "engine": {
        "errors",
        "model",
        "view",
        "core",
        "store",
        "config",
        "inventory",
        "lifecycle",
        "planning",
        "zones",
    },
    "messaging": {"errors", "model"},  # hints over the broker of a site
    "remote": {"errors", "model"},  # the verbs of a scheduler over HTTP
    # HTTP to any scheduler; its settings are a file, and a browser sees its pages
    "service": {"errors", "model", "files", "pages", "store", "words"},
    "zones": {
        "errors",
        "calls",
        "model",
        "planning/batch_orders",
        "core/explain",
        "core/policy",
        "core/ranking",
        "remote",
        "store",
    },
    "pages": {"errors", "model", "words"},  # for a browser; the commands reach it through the app
}
# The application connects all rooms, and test helpers may use any. The commands use neither store
# nor view: a scheduler elsewhere can answer them too.
MAY_IMPORT["app"] = set(MAY_IMPORT)
MAY_IMPORT["testing"] = set(MAY_IMPORT)
MAY_IMPORT["client"] = {"errors", "model", "app", "remote"}  # the only interface of a caller
MAY_IMPORT["server"] = {
    "errors",
    "calls",
    "files",
    "model",
    "app",
    "engine",
    "inventory",
    "messaging",
    "service",
    "store",
    "streams",
    "words",
    "zones",
}  # processes that serve the service
MAY_IMPORT["valence_sched_cli"] = {"errors", "model", "words", "app", "streams", "pages"}

#: The largest number of floors of imports inside a room, 6 by default. Modules that import no other
#: module of the room are the first floor. A room inside a room counts separately.
FLOORS = {"simulator/server": 7}
MOST_FLOORS = 6
#: The licence, and the beginning of the docstring.
HEAD = r'\A# SPDX-License-Identifier: Apache-2\.0\n(?:# .*\n)*r?"""\S'

# Libraries that all rooms may use; for every other library, the rooms that may use it.
FOR_ALL = {"msgspec"}
ONLY_IN = {
    "aiohttp": {"simulator"},
    "alembic": {"store"},
    "argcomplete": {"valence_sched_cli/late"},
    "bcrypt": {"service/users"},
    "cliff": {"valence_sched_cli"},
    "cmd2": {"valence_sched_cli/shell"},
    "falcon": {"service"},
    "distributed": {"planning/sweep"},
    "gunicorn": {"server/worker"},
    "highspy": {"core/fit/optimiser"},
    "itsdangerous": {"zones/tokens"},
    "httptools": {"drivers/http/stdlib_transport"},
    "jinja2": {"pages/render"},
    "joblib": {"planning/sweep"},
    "keystoneauth1": {"integrations", "server/keystone", "valence_sched_cli", "zones/logins"},
    "keystonemiddleware": {"server/keystone"},
    "openstack": {"integrations", "valence_sched_cli"},
    "limits": {"service/call"},
    "markupsafe": {"pages"},
    "numpy": {"core", "filters", "schedulers", "testing", "view", "weighers", "planning"},
    "osc_lib": {"valence_sched_cli"},
    "oslo_config": {"messaging", "server/access_rules", "server/keystone"},
    "oslo_messaging": {"messaging"},
    "oslo_policy": {"server/access_rules"},
    "platformdirs": {"config"},
    "prometheus_client": {"service/metrics", "server/worker"},
    "pyarrow": {"planning/sweep"},
    "pygal": {"pages/charts"},
    "requests": {"integrations", "drivers", "remote"},
    "rich": {"valence_sched_cli"},
    "sqlalchemy": {"store"},
    "stevedore": {"core/plugins", "valence_sched_cli/shell"},
    "sushy": {"drivers"},
    "tabulate": {"valence_sched_cli"},
    "urllib3": {"integrations", "drivers/http/sushy_transport", "remote/connection"},
    "yaml": {"model/codec", "model/plain_yaml"},
    "zstandard": {"drivers", "files", "testing"},
}


class TestLayers(unittest.TestCase):
    """Imports point in one direction."""

    maxDiff = None

    def test_a_room_imports_only_the_rooms_below_it(self):
        self.check(_room_problem)

    def test_every_room_stands_in_the_map(self):
        rooms = {module.room for module in every_module()} - {""}
        self.assertEqual(set(), rooms - set(MAY_IMPORT))

    def test_an_outside_library_is_used_only_where_the_map_says(self):
        self.check(_library_problem)

    def test_packages_import_nothing_themselves(self):
        # test_public_names.py checks the public names of the root.
        exempt = {"valence_sched", "valence_sched.testing"}
        wrong = [
            str(each)
            for each in every_import()
            if each.module.path.name == "__init__.py" and each.module.name not in exempt
        ]
        self.assertEqual([], wrong)

    def check(self, problem: Callable[[Import], str | None]) -> None:
        """Fail with a line for each wrong import."""
        self.assertEqual("", "\n".join(text for each in every_import() if (text := problem(each))))

    def test_the_map_has_no_circle(self):
        def below(room, path=()):
            self.assertNotIn(room, path)
            for lower in MAY_IMPORT[room]:
                below(lower.partition("/")[0], (*path, room))

        for room in MAY_IMPORT:
            below(room)

    def test_no_modules_import_each_other_around_a_circle(self):
        """Imports inside functions and for types count too."""
        imports: dict[str, dict[str, Import]] = {module.name: {} for module in every_module()}
        for each in every_import():
            if each.target and each.target != each.module and each.module.name != "valence_sched":
                imports[each.module.name].setdefault(each.target.name, each)
        self.assertEqual("", "\n".join(_circle_text(imports, one) for one in _circles(imports)))

    def test_a_room_has_no_more_floors_of_imports_than_its_number(self):
        for room in {one.address.rpartition("/")[0] for one in every_module()} - {""}:
            floors = _floors(room)
            highest = max(floors.values())
            names = sorted(name for name, floor in floors.items() if floor == highest)
            with self.subTest(room):
                most = FLOORS.get(room, MOST_FLOORS)
                self.assertLessEqual(highest, most, f"top floor: {_listed(names)}")


class TestNames(unittest.TestCase):
    """A name has one meaning."""

    maxDiff = None

    def test_a_public_class_has_a_name_of_its_own(self):
        places: dict[str, list[str]] = {}
        for name, module, line in public_classes():
            places.setdefault(name, []).append(module.at(line))
        doubles = [
            f"{name}: {' and '.join(where)}" for name, where in sorted(places.items()) if where[1:]
        ]
        self.assertEqual("", "\n".join(doubles))


def _room_problem(each: Import) -> str | None:
    """Return the error of an import of another room, None if the map allows it."""
    room, target = each.module.room, each.target
    if not target or not room:
        return None
    allowed = {room, *MAY_IMPORT.get(room, ())}
    if {target.room, "/".join(target.address.split("/")[:2])} & allowed:
        return None
    return f"{each}: {room} may import {_listed(MAY_IMPORT.get(room, ()))}, not {target.room}"


def _floors(room: str) -> dict[str, int]:
    """Return the floor of each module that is directly in a room."""
    inside = {one.name for one in every_module() if one.address.rpartition("/")[0] == room}
    below: dict[str, set[str]] = {name: set() for name in inside}
    for each in every_import():
        if each.module.name in inside and each.target and each.target.name in inside:
            below[each.module.name].add(each.target.name)

    @functools.cache
    def floor(name: str) -> int:
        return 1 + max((floor(one) for one in below[name] - {name}), default=0)

    return {name: floor(name) for name in inside}


def _library_problem(each: Import) -> str | None:
    """Return the error of an import of another project, None if the map allows it."""
    if each.library in {*PACKAGES, *FOR_ALL, *sys.stdlib_module_names}:
        return None
    rooms = ONLY_IN.get(each.library, set())
    if {each.module.room, each.module.address} & rooms:
        return None
    return f"{each}: {each.library} is for {_listed(rooms)}, not for {each.module.address}"


def _listed(names: Iterable[str]) -> str:
    return " ".join(sorted(names)) or "none"


def _circles(imports: dict[str, dict[str, Import]]) -> Iterator[list[str]]:
    """Yield the groups of modules in which each imports each other, directly or indirectly."""
    reached = {name: _reached(imports, name) for name in imports}
    grouped: set[str] = set()
    for name in imports:
        group = [other for other in sorted(reached[name]) if name in reached[other]]
        if group and name not in grouped:
            grouped.update(group)
            yield group


def _reached(imports: dict[str, dict[str, Import]], start: str) -> set[str]:
    reached: set[str] = set()
    open_ends = list(imports[start])
    while open_ends:
        name = open_ends.pop()
        if name not in reached:
            reached.add(name)
            open_ends += imports[name]
    return reached


def _circle_text(imports: dict[str, dict[str, Import]], names: list[str]) -> str:
    edges = [imports[one][other] for one in names for other in names if other in imports[one]]
    return f"{' <-> '.join(names)}:\n    " + "\n    ".join(map(str, edges))


class TestFiles(unittest.TestCase):
    """Requirements on every file."""

    def test_every_file_names_its_licence_and_says_what_it_is(self):
        for package in ("valence_sched", "valence_sched_cli", "tests", "tools"):
            for path in sorted((ROOT / package).rglob("*.py")):
                if text := path.read_text(encoding="utf-8"):
                    with self.subTest(str(path.relative_to(ROOT))):
                        self.assertRegex(text[:400], HEAD)

    def test_every_folder_of_tests_is_a_package_or_its_tests_would_not_be_found(self):
        for path in sorted((ROOT / "tests").rglob("test_*.py")):
            for folder in path.relative_to(ROOT).parents[:-1]:
                with self.subTest(str(folder)):
                    self.assertTrue((ROOT / folder / "__init__.py").exists())


class TestOwners(unittest.TestCase):
    """CODEOWNERS names existing files."""

    def test_each_pattern_is_a_path(self):
        lines = (ROOT / "CODEOWNERS").read_text().splitlines()
        patterns = [line.split()[0] for line in lines if line and not line.startswith("#")]
        self.assertEqual("*", patterns.pop(0))
        self.assertEqual([], [one for one in patterns if not (ROOT / one.strip("/")).exists()])
