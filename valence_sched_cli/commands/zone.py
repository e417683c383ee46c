# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler zone add, list, show, set, delete, info, tree``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.commands.podm_registry import CERTIFICATE, LOGIN, login_changes
from valence_sched_cli.late import model, words
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import given, nonempty_name, number
from valence_sched_cli.output import cells

LIST_COLUMNS = ("ID", "Name", "Own Name", "Is Active", "Capabilities", "API URL")
LONG_COLUMNS = ("Enabled", "Failures", "Heard", "Reason")
SHOW_COLUMNS = (
    *("ID", "Name", "Own Name", "API URL", "Enabled", "Is Active", "Reason", "Failures"),
    *("Capabilities", "Services", "Weight Scale", "Weight Offset", "Login", "Username"),
    *("Password", "Auth URL", "Project", "User Domain", "Project Domain", "CA Cert"),
    *("Client Cert", "Heard", "Polled"),
)
_KEYSTONE = ("auth_url", "project", "user_domain", "project_domain")
_FIELDS = ("username", *_KEYSTONE, "weight_scale", "weight_offset")  # that options name

#: Options for the connection to a zone and for its scores.
_OPTIONS = f"""\
what --username <username>: user name at the service of the zone
{LOGIN}
what --auth-url <url>: URL of the Keystone that issues the tokens of the user
what --project <project>: project of the tokens
what --user-domain <domain>: domain of the user (default: Default)
what --project-domain <domain>: domain of the project (default: Default)
what --cacert <file>: certificates to trust, in PEM
{CERTIFICATE}
decide --weight-scale <number>: factor for the scores of the zone (default: 1)
decide --weight-offset <number>: offset that is added to the scaled scores (default: 0)"""
_OPTION_SETTINGS = {"<number>": number("a number from -1000 to 1000", -1000, 1000)} | dict.fromkeys(
    ("url", "username", "auth_url", "user_domain", "project_domain"), nonempty_name
)


def zone_cells(zone: model.zone_registry.ZoneOverview) -> dict[str, Any]:
    one, report = zone.registration, zone.report
    info, password, keystone = report.info, one.password, one.keystone
    services = info.services.items() if info else ()
    ranges = {name: model.zone_registry.range_text(pair) for name, pair in services}
    return {
        "ID": zone.id,
        "Own Name": info and info.name,
        "API URL": one.url,
        **cells.fields(one, "Name", "Enabled", "Login", "Username", "Auth URL", "Project"),
        **cells.fields(one, "Weight Scale", "Weight Offset"),
        **cells.fields(report, "Is Active", "Reason", "Failures"),
        "Capabilities": cells.Pairs(info.capabilities if info else {}),
        "Services": cells.PairLines(ranges),
        "Password": password and password.text,
        "User Domain": keystone and keystone.user_domain,
        "Project Domain": keystone and keystone.project_domain,
        "CA Cert": one.cacert,
        "Client Cert": one.cert,
        "Heard": cells.time_cell(zone.heard_at, zone.heard_age_s),
        "Polled": cells.time_cell(zone.polled_at, zone.polled_age_s),
    }


class AddZone(base.ShowOne):
    """Add a child zone.

    The zone is only stored. The service of this zone connects to the new zone and polls it later.
    """

    examples = (
        "east http://10.1.0.1:8790",
        "west https://west:8790 --username up --password-env WEST_PASSWORD --weight-scale 0.5",
        "north https://north:8790 --auth-url https://keystone:5000/v3 --username up "
        "--project service --password-env NORTH_PASSWORD",
    )
    arguments = """
        <name>: name of the zone
        <url>: URL of the service of the zone: http://HOST:PORT"""
    option_settings = {**_OPTION_SETTINGS, "url": {}}
    option_groups = (_OPTIONS, inventory.STATE)
    known_columns = SHOW_COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        if not args.name:
            raise UsageError("an empty name")
        scheduler, here = self.scheduler(args), self.scheduler_app.service is None
        changes = given(args, *_FIELDS) | login_changes(args, here=here)
        wanted = model.zone_registry.ZoneRegistration(name=args.name, url=args.url, **changes)
        zone = scheduler.add_zone(wanted)
        self.closing += words.phrases.unencrypted_lines(zone.registration)
        return SHOW_COLUMNS, zone_cells(zone)


class ListZone(base.Lister):
    """List the child zones."""

    nouns, next_step = "zones", "scheduler zone add adds one"
    arguments = "output --long: list more columns"

    def take_action(self, args: base.Args) -> base.Table:
        columns = LIST_COLUMNS + (LONG_COLUMNS if args.long else ())
        zones = self.scheduler(args).zones()
        self.closing += [
            f"{one.registration.name}: not active: {one.report.reason}"
            for one in zones
            if one.registration.enabled and not one.report.is_active
        ]
        return columns, map(zone_cells, zones)


class ShowZone(base.ShowOne):
    """Show a child zone."""

    arguments = "<zone>: child zone (name or ID)"

    def take_action(self, args: base.Args) -> base.Table:
        return SHOW_COLUMNS, zone_cells(self.scheduler(args).zone(args.zone))


class SetZone(base.Command):
    """Set properties of a child zone.

    A new URL or login discards the zone's stored capabilities until the next poll.
    """

    examples = ("east --weight-scale 2", "east --url https://east:8790 --disable")
    arguments = """
        <zone>: child zone (name or ID)
        what --url <url>: new URL of the service of the zone"""
    option_settings = _OPTION_SETTINGS
    option_groups = (
        _OPTIONS,
        """
        what --no-login: remove the login
        decide | --enable: poll the zone, and request offers from it
        decide | --disable: do not poll the zone or request offers from it""",
        inventory.STATE,
    )

    def take_action(self, args: base.Args) -> None:
        scheduler, here = self.scheduler(args), self.scheduler_app.service is None
        changes = given(args, "url", *_FIELDS) | login_changes(args, here=here)
        if args.enable or args.disable:
            changes["enabled"] = args.enable
        if args.no_login:
            login = ("username", "password", *_KEYSTONE, "cert", "key")
            if changes.keys() & set(login):
                raise UsageError("--no-login excludes the login options")
            changes |= dict.fromkeys(login)
        if not changes:
            raise UsageError("nothing to set: name a property")
        zone = scheduler.change_zone(args.zone, model.zone_registry.ZoneChange(**changes))
        self.closing += words.phrases.unencrypted_lines(zone.registration)


class DeleteZone(base.Command):
    """Delete child zones.

    Only the records of this zone are deleted, not the zones themselves. A zone with claims or nodes
    of this zone is not deleted.
    """

    arguments = "<zone>...: child zone (name or ID; repeat for several)"

    def take_action(self, args: base.Args) -> None:
        self.log_errors(self.scheduler(args).delete_zones(args.zone))


class _OwnZone(base.Lister):
    """A command about this zone itself, which reads only the state, not the pod managers."""

    def selection(self, args: base.Args, only: Sequence[str] = ()) -> model.reading.Selection:
        live = model.reading.ReadOptions(state=args.state, stored=True)
        return model.reading.Selection(live=live)


class InfoZone(_OwnZone):
    """Show the name and the capabilities of this zone.

    The operator sets capabilities in the settings. Also shows the minimum and the maximum of each
    reported amount over the pod managers of this zone and of the zones below.
    """

    def take_action(self, args: base.Args) -> base.Table:
        info = self.scheduler(args).zone_info()
        return ("Property", "Value"), model.zone_registry.info_properties(info).items()


class TreeZone(_OwnZone):
    """Show the free resources of the tree of zones.

    The tree is this zone and the zones below it. All are queried in parallel. A zone that does not
    answer has a row with the reason.
    """

    examples = ("--timeout 5", "--long -f json")
    arguments = """
        output --long: list more columns
        decide --timeout <seconds>=30: how long to wait for the zones below"""

    def take_action(self, args: base.Args) -> base.Table:
        columns = ["Zone", "Podms", "Free Cores", "Free Memory MiB", "Free GPUs"]
        if args.long:
            columns += ["Total Cores", "Total Memory MiB", "Total GPUs", "Free Drives"]
            columns += ["Total Drives", "Free NICs", "Total NICs"]
        tree = self.scheduler(args).zone_tree(deadline_s=min(args.timeout, 600.0))
        rows = list(_rows(tree, ()))
        if silent := sum(bool(row["Problem"]) for row in rows):
            zones = model.quantity.format_count(silent, "zone")
            self.closing.append(f"{zones} did not answer: free resources there are not counted")
        return [*columns, "Read At", "Problem"], rows


def _rows(node: model.zone_registry.ZoneNode, above: Sequence[str]) -> Iterator[dict[str, Any]]:
    name = node.known_as or node.name
    path = (*above, name)
    also = f" ({node.name})" if node.name not in ("", name) else ""
    row: dict[str, Any] = {
        "Zone": cells.Shown(path, lambda path: "  " * len(above) + path[-1] + also, "/".join),
        "Podms": None if node.silent else node.own.podms,
        "Read At": cells.time_cell(node.read_at, node.age_s),
        "Problem": node.silent,
    }
    for name, title in output.hardware.AMOUNTS.items():
        free, total = node.own.amounts.get(name, (None, None))
        row |= {f"Free {title}": free, f"Total {title}": total}
    yield row
    for child in node.children:
        yield from _rows(child, path)
