"""``patchgen serve add-user``, ``change-user`` and ``add-repository``."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_service.accounts.forge_accounts import expect_account
from patchgen_service.accounts.people import add_person, find_person, set_active, set_password
from patchgen_service.accounts.roles import set_role
from patchgen_service.cli.serving import open_site, settings_of
from patchgen_service.database.tables import Person, Repository
from patchgen_service.database.words import ROLES
from patchgen_service.records.repositories import add_repository
from patchgen_service.web.sign_in_forges import sign_in_forges
from patchgen_service.web.site import Site

_ACTOR = "command line"


def add_user(options: argparse.Namespace) -> int:
    """Add a person who signs in with a password, or an account on a forge; returns the exit code."""
    site = open_site(settings_of(options))
    password = os.environ.get("PATCHGEN_PASSWORD", "") if options.account else _read_password()
    accounts = [(_find_provider(site, entry), entry.partition("=")[2]) for entry in options.account]
    with site.transactions() as session:
        now = site.clock()
        person = add_person(session, options.name, _ACTOR, now, password, options.email, options.admin)
        _set_roles(session, person, options.role, now)
        for provider, login in accounts:
            expect_account(session, person, provider, login, _ACTOR, now)
    print(f"{options.name} can sign in.")
    return 0


def change_user(options: argparse.Namespace) -> int:
    """Change a person's password or roles, or whether they are let in; returns the exit code."""
    if not (options.password or options.role or options.keep_out or options.let_in):
        hint = "Give --password, --role, --keep-out or --let-in."
        raise PatchgenError(f"nothing to change for '{options.name}' was given", None, hint)
    site = open_site(settings_of(options))
    password = _read_password() if options.password else ""
    with site.transactions() as session:
        now, person = site.clock(), find_person(session, options.name)
        if options.password:
            set_password(session, person, password, _ACTOR, now)
        if options.keep_out or options.let_in:
            set_active(session, person, options.let_in, _ACTOR, now)
        _set_roles(session, person, options.role, now)
    print(f"{options.name} is locked out." if options.keep_out else f"{options.name} is changed.")
    return 0


def _set_roles(session: Session, person: Person, entries: Sequence[str], now: datetime) -> None:
    """Give a person roles, each as ``REPOSITORY=ROLE``; with no role they have none there any more."""
    for name, word in (entry.rpartition("=")[::2] for entry in entries):
        repository = session.query(Repository).filter_by(name=name).one_or_none()
        if repository is None:
            raise PatchgenError(f"there is no repository '{name}'", None, "--role takes NAME=ROLE.")
        role = next((role for role in ROLES if role == word), None)
        if word and role is None:
            hint = did_you_mean(word, ROLES) or f"Roles: {', '.join(ROLES)}."
            raise PatchgenError(f"there is no role '{word}'", None, hint)
        set_role(session, person, repository, role, _ACTOR, now)


def _find_provider(site: Site, entry: str) -> str:
    name, _, login = entry.partition("=")
    forges = {forge.name: forge for forge in sign_in_forges(site.settings)}
    if name not in forges or not login:
        known = f"Forges to sign in with: {', '.join(forges)}." if forges else "The settings name none: [[sign_in]]."
        raise PatchgenError(
            f"'{entry}' is no account on a forge to sign in with", None, did_you_mean(name, forges) or known
        )
    return forges[name].provider


def add_repository_of(options: argparse.Namespace) -> int:
    """Add a repository; returns the exit code."""
    site = open_site(settings_of(options))
    columns = {"name": options.name, "url": options.url, "forge": options.forge, "is_trusted": options.trusted}
    columns |= {"default_branch": options.branch, "poll_seconds": options.poll, "constraints": options.constraints}
    columns |= {"projects": options.project or ["."], "extras": options.require or [], "is_public": options.public}
    with site.transactions() as session:
        repository = add_repository(session, site.secrets, _ACTOR, site.clock(), **columns)
    print(_next_steps(site, repository))
    return 0


def _next_steps(site: Site, repository: Repository) -> str:
    if repository.forge == "none":
        return f"'{repository.name}' is added: number {repository.id}."
    return f"'{repository.name}' is added. Its webhook goes to {site.settings.base_url}/hooks/{repository.id}"


def _read_password() -> str:
    """From the environment, from a pipe, or asked for twice."""
    if password := os.environ.get("PATCHGEN_PASSWORD", ""):
        return password
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    password = getpass.getpass("Password: ")
    if password != getpass.getpass("The same again: "):
        raise PatchgenError("the passwords differ")
    return password
