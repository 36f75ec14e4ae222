"""``patchgen serve``: the service as one process, and what looks after its data."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.project.project import Project

_ROLE: dict[str, Any] = {
    "action": "append",
    "default": [],
    "metavar": "REPOSITORY=ROLE",
    "help": "viewer, approver, admin",
}


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Run the gate for a team's repositories, remember every result, and show and report them.",
        epilog="Exit codes: 0 stopped as asked, 2 usage or configuration error.",
    )
    add = parser.add_argument
    add("--data", type=Path, metavar="FOLDER", default=Path("patchgen-data"), help="folder of the service's data")
    add("--config", type=Path, metavar="FILE", help="its settings (default: service.toml in that folder)")
    add("--host", help="address to listen at (default: 127.0.0.1, this machine only)")
    add("--port", type=int, help="port to listen at (default: 8765)")
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", help="default: serve until told to stop")
    _add_people(commands)
    _add_keeping(commands)
    parser.set_defaults(json=False, no_color=False)
    return parser


def run(options: argparse.Namespace, project: Project | None) -> int:
    """Carry out one of its commands; returns the exit code. A PatchgenError where the database cannot be used."""
    from sqlalchemy.exc import DatabaseError

    from patchgen_service.database.engine import UNAVAILABLE, describe_cause

    gc.enable()  # the command turns it off, being over soon
    try:
        return _carry_out(options)
    except DatabaseError as error:
        if not isinstance(error, UNAVAILABLE) and type(error) is not DatabaseError:  # that of a damaged file
            raise
        raise PatchgenError(f"the database cannot be used: {describe_cause(error)}") from None


def _carry_out(options: argparse.Namespace) -> int:
    if options.action == "add-user":
        from patchgen_service.cli.people import add_user

        return add_user(options)
    if options.action == "change-user":
        from patchgen_service.cli.people import change_user

        return change_user(options)
    if options.action == "add-repository":
        from patchgen_service.cli.people import add_repository_of

        return add_repository_of(options)
    if options.action in ("backup", "restore", "migrate"):
        from patchgen_service.cli.keeping import keep

        return keep(options)
    from patchgen_service.cli.serving import serve, work

    return work(options) if options.action == "worker" else serve(options)


def _add_people(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "add-user",
        help="add a person who signs in",
        description=(
            "Add a person. The command asks for their password, or reads it from standard input or PATCHGEN_PASSWORD."
        ),
    )
    parser.add_argument("name")
    parser.add_argument("--email", default="")
    parser.add_argument("--admin", action="store_true", help="may do everything in this service")
    parser.add_argument("--role", **_ROLE)
    parser.add_argument(
        "--account",
        action="append",
        default=[],
        metavar="FORGE=LOGIN",
        help="may sign in with this account, such as github=ada, and then needs no password",
    )
    parser = commands.add_parser(
        "change-user",
        help="change a person's password or roles, or lock them out",
        description="Change a person. The command asks for a new password, or reads it as add-user does.",
    )
    parser.add_argument("name")
    parser.add_argument("--password", action="store_true", help="set a new one, and sign them out everywhere")
    parser.add_argument("--role", **_ROLE)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--keep-out", action="store_true", help="lock them and their tokens out")
    way.add_argument("--let-in", action="store_true", help="let them in again")
    parser = commands.add_parser("add-repository", help="add a git repository", description="Add a git repository.")
    parser.add_argument("name", help="its name on pages, and its path on its forge, such as acme/models")
    parser.add_argument("url", help="git address, or a folder")
    parser.add_argument("--forge", default="none", choices=("none", "github", "gitlab", "forgejo"))
    parser.add_argument("--branch", default="main", help="its default branch")
    parser.add_argument("--project", action="append", help="folder with a [tool.patchgen] (default: its root)")
    parser.add_argument("--constraints", default="", metavar="FILE", help="constraints of its environment")
    parser.add_argument(
        "--require", action="append", metavar="PACKAGE", help="what its environment has besides the gate's own needs"
    )
    parser.add_argument("--poll", type=int, default=0, metavar="SECONDS", help="how often to look for pushes")
    parser.add_argument("--public", action="store_true", help="everybody who can reach the service may look")
    parser.add_argument("--trusted", action="store_true", help="run its code without isolation")


def _add_keeping(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("backup", help="write everything to one file", description="Write a backup.")
    parser.add_argument("file", type=Path)
    parser = commands.add_parser("restore", help="fill an empty service from a backup", description="Read a backup.")
    parser.add_argument("file", type=Path)
    parser = commands.add_parser(
        "migrate",
        help="bring the database to this version, or copy it to PostgreSQL",
        description="Bring the database to this version's tables, as 'serve' does automatically; or copy it.",
    )
    parser.add_argument(
        "--to", metavar="URL", default="", help="an empty database, such as postgresql://user@host/name"
    )
    parser = commands.add_parser(
        "worker",
        help="execute runs for a service elsewhere",
        description="Carry out runs of a service elsewhere: what is to be run comes from its database on PostgreSQL, "
        "the code from its git address, and results and files are handed in at the service's address. No folder is "
        "shared.",
    )
    parser.add_argument("--service", metavar="URL", help="address of the service (default: public_url)")
    parser.add_argument("--name", default="", help="the same after a restart (default: the machine's)")
