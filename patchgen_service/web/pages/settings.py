"""The page of settings: one's own tokens, repositories, people, and what the service was told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from patchgen_core.errors import PatchgenError
from patchgen_service.accounts.people import find_person
from patchgen_service.accounts.roles import set_role
from patchgen_service.accounts.tokens import SCOPES, add_token, remove_token
from patchgen_service.database.tables import Membership, Person, Repository, Token
from patchgen_service.database.words import ROLES, Role
from patchgen_service.records.repositories import add_repository, change_repository, remove_repository
from patchgen_service.settings import ServiceSettings
from patchgen_service.views.rows import read_as
from patchgen_service.web.pages.actions import posted
from patchgen_service.web.rendering import render, without_user
from patchgen_service.web.sign_in_forges import SignInForge, sign_in_forges
from patchgen_service.web.site import Site
from patchgen_service.web.visits import LARGEST_KEY, Visit, Visitor, open_visit

_FIELDS = ("name", "url", "forge", "forge_url", "default_branch", "python", "constraints", "schedule")
_LISTS = ("branches", "projects", "extras", "checks")
_FLAGS = ("is_active", "is_public", "is_trusted")
_SECRETS = ("webhook_secret", "forge_token")
_OF_SERVICE = ("name", "url", "forge", "forge_url", "python", "is_trusted", "owners")
"""What an administrator of the service changes alone: it says what is sent where, and what runs can see here."""
_TOKEN_DAYS = 365


@dataclass(frozen=True)
class TokenLine:
    """A token, as far as it may be shown."""

    id: int
    name: str
    repository: str | None
    scopes: list[str]
    created: datetime
    expires: datetime | None
    used: datetime | None


@dataclass(frozen=True)
class MemberLine:
    """What a person may do in a repository."""

    repository_id: int
    person: str
    role: str


def show_settings(request: Request) -> Response:
    """What the visitor may see and change."""
    with open_visit(request) as visit:
        if not visit.visitor.name:
            raise HTTPException(403, "Sign in to see settings.")
        return _page(request, visit)


def make_token_page(request: Request, fields: Mapping[str, str]) -> Response:
    """Make a token; the page that answers is the only one that shows it."""
    visitor = _signed_in(request)
    site: Site = request.app.state.site
    scopes = [scope for scope in SCOPES if fields.get(f"scope-{scope}")]
    now = site.clock()
    try:
        with site.transactions() as session:
            person = session.get_one(Person, visitor.person_id)
            name = fields.get("name", "").strip() or "token"
            secret = add_token(session, person, name, scopes, now, expires=now + timedelta(days=_TOKEN_DAYS))
    except PatchgenError as error:
        return _again(request, str(error))
    with open_visit(request) as visit:
        return _page(request, visit, secret=secret)


def end_token(request: Request, fields: Mapping[str, str]) -> Response:
    """End one of one's own tokens."""
    visitor = _signed_in(request)
    site: Site = request.app.state.site
    with site.transactions() as session:
        token = session.get(Token, min(request.path_params["token"], LARGEST_KEY))
        if token is None or token.person_id != visitor.person_id:
            raise HTTPException(404)
        remove_token(session, token, visitor.name, site.clock())
    return RedirectResponse("/settings#tokens", 303)


def new_repository(request: Request, fields: Mapping[str, str]) -> Response:
    """Add a repository."""
    visitor = _service_administrator(request)
    site: Site = request.app.state.site
    try:
        with site.transactions() as session:
            repository = add_repository(session, site.secrets, visitor.name, site.clock(), **_columns(fields))
    except PatchgenError as error:
        return _again(request, str(error))
    return RedirectResponse(f"/settings#r{repository.id}", 303)


def change_repository_page(request: Request, fields: Mapping[str, str]) -> Response:
    """Change a repository."""
    visitor = _administrator(request)
    site: Site = request.app.state.site
    try:
        with site.transactions() as session:
            repository = session.get_one(Repository, request.path_params["repository"])
            columns = _columns(fields)
            if columns["url"] == without_user(repository.url):  # as the form showed it
                columns["url"] = repository.url
            if not visitor.is_admin:
                columns = {name: value for name, value in columns.items() if name not in _OF_SERVICE}
            change_repository(session, site.secrets, repository, visitor.name, site.clock(), **columns)
    except PatchgenError as error:
        return _again(request, str(error))
    return RedirectResponse(f"/settings#r{repository.id}", 303)


def remove_repository_page(request: Request, fields: Mapping[str, str]) -> Response:
    """Forget a repository, whose name has to be typed, with all of its runs."""
    visitor = _service_administrator(request)
    site: Site = request.app.state.site
    try:
        with site.transactions() as session:
            repository = session.get(Repository, min(request.path_params["repository"], LARGEST_KEY))
            if repository is None:
                raise HTTPException(404)
            if fields.get("typed", "").strip() != repository.name:
                raise PatchgenError(f"nothing was removed: that is not the name of '{repository.name}'")
            runs = remove_repository(session, repository, visitor.name, site.clock(), site.settings.repositories)
    except PatchgenError as error:
        return _again(request, str(error))
    site.work.forget_runs(runs)
    return RedirectResponse("/settings", 303)


def change_member(request: Request, fields: Mapping[str, str]) -> Response:
    """Give a person a role in a repository, or take it."""
    visitor = _administrator(request)
    site: Site = request.app.state.site
    role: Role | None = next((role for role in ROLES if role == fields.get("role")), None)
    try:
        with site.transactions() as session:
            person = find_person(session, fields.get("person", "").strip())
            repository = session.get_one(Repository, request.path_params["repository"])
            set_role(session, person, repository, role, visitor.name, site.clock())
    except PatchgenError as error:
        return _again(request, str(error))
    return RedirectResponse(f"/settings#r{request.path_params['repository']}", 303)


def _page(request: Request, visit: Visit, secret: str = "", wrong: str = "") -> Response:
    visitor, session = visit.visitor, visit.session
    tokens = (
        select(Token.id, Token.name, Repository.name, Token.scopes, Token.created, Token.expires, Token.used)
        .outerjoin(Repository, Repository.id == Token.repository_id)
        .where(Token.person_id == visitor.person_id)
        .order_by(Token.id.desc())
    )
    repositories = session.scalars(select(Repository).order_by(Repository.name)).all()
    members = select(Membership.repository_id, Person.name, Membership.role).join(
        Person, Person.id == Membership.person_id
    )
    return render(
        request,
        "settings.html",
        400 if wrong else 200,
        tokens=read_as(session, TokenLine, tokens),
        repositories=[one for one in repositories if visitor.may(one.id, "admin")],
        members=read_as(session, MemberLine, members.order_by(Person.name)),
        people=session.scalars(select(Person).order_by(Person.name)).all() if visitor.is_admin else [],
        facts=_facts(visit.site.settings) if visitor.is_admin else [],
        scopes=tuple(SCOPES),
        roles=ROLES,
        accounts=_accounts(visit),
        secret=secret,
        wrong=wrong,
    )


def _accounts(visit: Visit) -> list[tuple[SignInForge, bool]]:
    """The forges to sign in with, and whether the visitor has linked an account there."""
    person = visit.session.get_one(Person, visit.visitor.person_id)
    return [(forge, forge.provider in person.identities) for forge in sign_in_forges(visit.site.settings)]


def _facts(settings: ServiceSettings) -> list[tuple[str, str]]:
    """What the service was told, without secrets."""
    facts = [(name, str(getattr(settings, name))) for name in ("host", "port", "workers", "isolation", "index_url")]
    facts += [("database", "PostgreSQL" if settings.database.startswith("postgresql") else "SQLite")]
    facts += [("address", settings.base_url), ("mail", settings.mail.server or "none")]
    facts += [("cluster", settings.cluster or "none")]
    facts += [
        (f"limit of {name.replace('_mib', ' in MiB')}", str(value)) for name, value in asdict(settings.limits).items()
    ]
    days = asdict(settings.retention)
    facts += [("runs kept of each branch", str(days.pop("newest")))]
    facts += [(f"days of {name}", str(value)) for name, value in days.items()]
    return [(name.replace("_", " "), value) for name, value in facts]


def _columns(fields: Mapping[str, str]) -> dict[str, object]:
    columns: dict[str, object] = {name: fields.get(name, "").strip() for name in _FIELDS}
    columns |= {name: [part.strip() for part in fields.get(name, "").split(",") if part.strip()] for name in _LISTS}
    columns |= {name: bool(fields.get(name)) for name in _FLAGS}
    columns |= {name: fields[name] for name in _SECRETS if fields.get(name)}
    seconds = fields.get("poll_seconds", "").strip()
    columns["poll_seconds"] = int(seconds) if seconds.isdecimal() and len(seconds) < 9 else 0
    columns["owners"] = _read_owners(fields.get("owners", ""))
    columns["default_branch"] = columns["default_branch"] or "main"
    columns["forge"] = columns["forge"] or "none"
    columns["projects"] = columns["projects"] or ["."]
    return columns


def _read_owners(text: str) -> dict[str, str]:
    """The owners of folders, of which each line has one: ``models/llama = ada@example.com``."""
    owners = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        folder, is_there, owner = line.partition("=")
        if not is_there or not folder.strip():
            raise PatchgenError(f"'{line}' names no owner of a folder: write 'FOLDER = ADDRESS'")
        owners[folder.strip()] = owner.strip()
    return owners


def _signed_in(request: Request) -> Visitor:
    with open_visit(request) as visit:
        if not visit.visitor.name:
            raise HTTPException(403)
        return visit.visitor


def _service_administrator(request: Request) -> Visitor:
    visitor = _signed_in(request)
    if not visitor.is_admin:
        raise HTTPException(403, "That needs an administrator of the service.")
    return visitor


def _administrator(request: Request) -> Visitor:
    with open_visit(request) as visit:
        visit.check_role(request.path_params["repository"], "admin")
        visit.repository(request.path_params["repository"])
        return visit.visitor


def _again(request: Request, wrong: str) -> Response:
    with open_visit(request) as visit:
        return _page(request, visit, wrong=wrong)


ROUTES = [
    Route("/settings", show_settings),
    Route("/settings/tokens", posted(make_token_page), methods=["POST"]),
    Route("/settings/tokens/{token:int}/end", posted(end_token), methods=["POST"]),
    Route("/settings/repositories", posted(new_repository), methods=["POST"]),
    Route("/settings/repositories/{repository:int}", posted(change_repository_page), methods=["POST"]),
    Route("/settings/repositories/{repository:int}/remove", posted(remove_repository_page), methods=["POST"]),
    Route("/settings/repositories/{repository:int}/members", posted(change_member), methods=["POST"]),
]
