"""``patchgen serve add-user`` and ``add-repository``."""

from __future__ import annotations

import argparse
import getpass
import os
import sys

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_service.accounts.forge_accounts import expect_account
from patchgen_service.accounts.people import add_person
from patchgen_service.accounts.roles import set_role
from patchgen_service.cli.serving import open_site, settings_of
from patchgen_service.database.tables import Repository
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
        for name, role in (entry.rpartition("=")[::2] for entry in options.role):
            repository = session.query(Repository).filter_by(name=name).one_or_none()
            if repository is None:
                raise PatchgenError(f"there is no repository '{name}'", None, "--role takes NAME=ROLE.")
            set_role(session, person, repository, role, _ACTOR, now)
        for provider, login in accounts:
            expect_account(session, person, provider, login, _ACTOR, now)
    print(f"{options.name} can sign in.")
    return 0


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
    columns |= {"projects": options.project or ["."], "is_public": options.public}
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
        raise PatchgenError("these are two passwords")
    return password
