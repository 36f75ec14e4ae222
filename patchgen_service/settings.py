"""What the service is told: by ``service.toml`` in its folder or elsewhere, and by the environment, which wins."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen_core.project.pyproject import read_toml

CONFIG_NAME = "service.toml"
DATABASE_NAME = "service.sqlite"
ENVIRONMENT_PREFIX = "PATCHGEN_"
"""``PATCHGEN_PORT`` is ``port``; ``PATCHGEN_LIMITS_SECONDS`` is ``seconds`` in the table ``limits``."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PACKAGE_INDEX = "https://pypi.org"
_TABLES = ("limits", "retention", "mail", "github_app")
_REPEATED = ("repository", "sign_in")
"""Tables that there may be several of."""
_FORGES = ("none", "github", "gitlab", "forgejo")
_UNKNOWN = ("refuse", "viewer")
_ISOLATIONS = ("auto", "bubblewrap", "podman")


@dataclass(frozen=True)
class RunLimits:
    """What one run may use. ``memory_mib``, ``disk_mib`` and ``processes`` are of all of its processes together."""

    seconds: int = 3600
    memory_mib: int = 16384
    processes: int = 512
    disk_mib: int = 8192
    install_seconds: int = 1800


@dataclass(frozen=True)
class Retention:
    """For how many days things stay. 0 is for ever.

    Attributes:
        runs: runs and the figures of their results.
        results: what checks said in full: messages, tables, diffs.
        files: regenerated files, and what else a run makes for people.
        posts: what was posted elsewhere, and what webhooks told.
        environments: since an environment was last used.
        newest: so many of the newest runs of a branch stay whatever their age.
    """

    runs: int = 730
    results: int = 180
    files: int = 90
    logs: int = 30
    posts: int = 90
    audit: int = 730
    environments: int = 14
    newest: int = 20


@dataclass(frozen=True)
class MailSettings:
    """How mail is sent. An empty ``server`` sends none; ``security`` is ``starttls``, ``tls`` or ``none``."""

    server: str = ""
    port: int = 587
    security: str = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""


@dataclass(frozen=True)
class GithubAppSettings:
    """The service as an app on GitHub; an empty ``id`` is none.

    Attributes:
        id: the app's id, or its client id.
        private_key: path of the PEM file with its private key, from the service's folder.
        webhook_secret: what its webhooks are signed with; best kept in the environment.
        url: the root of its GitHub.
    """

    id: str = ""
    private_key: str = ""
    webhook_secret: str = field(default="", repr=False)
    url: str = "https://github.com"


@dataclass(frozen=True)
class RepositorySettings:
    """A repository that the file declares; its keys are the columns of :class:`~..database.tables.Repository`.

    ``webhook_secret`` and ``forge_token`` name variables of the environment, and are no secrets themselves.
    """

    name: str = ""
    url: str = ""
    forge: str = "none"
    forge_url: str = ""
    default_branch: str = "main"
    branches: tuple[str, ...] = ()
    projects: tuple[str, ...] = (".",)
    python: str = ""
    constraints: str = ""
    extras: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    is_trusted: bool = False
    is_public: bool = False
    webhook_secret: str = ""
    forge_token: str = ""
    poll_seconds: int = 0
    schedule: str = ""


@dataclass(frozen=True)
class SignInSettings:
    """A forge that people sign in with, which has this service as an OAuth application.

    Attributes:
        forge: ``github``, ``gitlab`` or ``forgejo``, which is Gitea's as well.
        url: the root of the forge; empty for GitHub's and GitLab's own.
        client_secret: the file names a variable of the environment, and has no secret itself.
        unknown: what happens to somebody whom the forge knows and the service does not: ``refuse``, or ``viewer`` of
            all repositories that there are.
    """

    forge: str = ""
    url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    unknown: str = "refuse"


@dataclass(frozen=True)
class ServiceSettings:
    """All settings.

    Attributes:
        folder: where the service has its database and files; absolute.
        database: URL of the database; empty for SQLite in the folder.
        public_url: how browsers and forges reach the service; empty for its host and port.
        host_names: other names that it answers to, such as the one that its workers know; the environment separates
            them with commas.
        workers: how many runs are carried out at once by this process; 0 leaves them to other machines.
        isolation: ``auto`` takes what works of ``bubblewrap`` and ``podman``, in this order.
        index_url: the package index that is asked for releases, and that environments are installed from.
        release_requests: cron expression of when repositories get the pull request for a release; empty for never.
        file: where this was read; none where there was no file.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8765
    database: str = ""
    public_url: str = ""
    host_names: tuple[str, ...] = ()
    workers: int = 1
    isolation: str = "auto"
    index_url: str = _PACKAGE_INDEX
    release_requests: str = "0 6 * * 1"
    limits: RunLimits = RunLimits()
    retention: Retention = Retention()
    mail: MailSettings = MailSettings()
    github_app: GithubAppSettings = GithubAppSettings()
    repositories: tuple[RepositorySettings, ...] = ()
    sign_ins: tuple[SignInSettings, ...] = ()
    file: Path | None = None

    @property
    def database_url(self) -> str:
        """The URL of the database, with its default."""
        return self.database or f"sqlite:///{self.folder / DATABASE_NAME}"

    @property
    def base_url(self) -> str:
        """The root of the service's addresses, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in LOOPBACK

    @property
    def pip_index(self) -> str:
        """The index that pip is told of; empty where it is to ask the one that its own settings name."""
        url = self.index_url.rstrip("/")
        return "" if url == _PACKAGE_INDEX else f"{url}/simple"

    @property
    def files_folder(self) -> Path:
        """Where stored files are."""
        return self.folder / "files"

    @property
    def mirrors_folder(self) -> Path:
        """Where mirrors of git repositories are."""
        return self.folder / "mirrors"

    @property
    def environments_folder(self) -> Path:
        """Where environments of runs are."""
        return self.folder / "environments"

    @property
    def work_folder(self) -> Path:
        """Where runs have their worktrees; what is in it is of no worth when nothing runs."""
        return self.folder / "work"


def read_settings(
    folder: Path, environment: Mapping[str, str], config: Path | None = None, **options: Any
) -> ServiceSettings:
    """The settings of a service in ``folder``; ``options`` from a command line win, unless they are None.

    A PatchgenError when a file that is named is not there, a key is unknown, or a value is not what it must be.
    """
    folder = folder.absolute()
    path = config or folder / CONFIG_NAME
    tables = read_toml(path) if config is not None or path.exists() else {}
    reader = _Reader(path, path.read_text(encoding="utf-8") if tables else "", environment)
    values = reader.read(ServiceSettings, tables, "", skip=("folder", "file", "repositories", "sign_ins", *_TABLES))
    for name, section in zip(_TABLES, (RunLimits, Retention, MailSettings, GithubAppSettings)):
        values[name] = section(**reader.read(section, tables.get(name, {}), name))
    values["repositories"] = reader.read_repositories(tables.get("repository", []))
    values["sign_ins"] = reader.read_sign_ins(tables.get("sign_in", []))
    values |= {name: value for name, value in options.items() if value is not None}
    for name, value in values.items():
        if problem := _refuse(name, value):
            reader.problems.append(Problem(problem, reader.at("", name)))
    if reader.problems:
        raise PatchgenError.from_problems(reader.problems)
    return ServiceSettings(folder, file=path if tables else None, **values)


class _Reader:
    """Reads tables into sections, and collects what is wrong."""

    def __init__(self, path: Path, text: str, environment: Mapping[str, str]) -> None:
        self.path = path
        self.lines = text.splitlines()
        self.environment = environment
        self.problems: list[Problem] = []

    def at(self, table: str, key: str, index: int = 0) -> Location:
        """Where a key stands; ``index`` counts the tables of that name."""
        return Location(str(self.path), find_key(self.lines, table, key, index))

    def read(
        self, section: type[Any], table: Any, name: str, index: int = 0, skip: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """The values of a section: those of its table, and of the environment."""
        if not isinstance(table, Mapping):
            self.problems.append(Problem(f"{name} must be a table, not {table!r}", self.at("", name)))
            return {}
        types = {f.name: str(f.type) for f in fields(section) if f.name not in skip}
        values: dict[str, Any] = {}
        for key, value in table.items():
            at = self.at(name, key, index)
            shown = f"{name}.{key}" if name else key
            if key not in types:
                if not name and key in (*_TABLES, *_REPEATED):
                    continue
                names = [*types, *_TABLES, *_REPEATED] if not name else list(types)
                hint = did_you_mean(key, names) or f"Known keys: {', '.join(names)}."
                self.problems.append(Problem(f"there is no setting '{shown}'", at, hint))
            elif wanted := _mismatch(types[key], value):
                self.problems.append(Problem(f"{shown} must be {wanted}, not {value!r}", at))
            else:
                values[key] = tuple(value) if isinstance(value, list) else value
        return values | (self._from_environment(types, name) if name not in _REPEATED else {})

    def _from_environment(self, types: Mapping[str, str], section: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, wanted in types.items():
            variable = "_".join(filter(None, (ENVIRONMENT_PREFIX.rstrip("_"), section.upper(), key.upper())))
            text = self.environment.get(variable, "")
            if text and wanted == "int" and not re.fullmatch(r"\d{1,9}", text):
                self.problems.append(Problem(f"the environment's {variable} must be a whole number, not {text!r}"))
            elif text:
                texts = tuple(filter(None, (part.strip() for part in text.split(","))))
                values[key] = int(text) if wanted == "int" else texts if wanted.startswith("tuple") else text
        return values

    def read_repositories(self, tables: Any) -> tuple[RepositorySettings, ...]:
        """The repositories that are declared, with a problem where one lacks what it needs."""
        sections = self._read_repeated(RepositorySettings, tables, "repository", ("name", "url"))
        repositories = [RepositorySettings(**values) for values in sections]
        names = [repository.name for repository in repositories]
        for index, repository in enumerate(repositories):
            if repository.name in names[:index]:
                at = self.at("repository", "name", index)
                self.problems.append(Problem(f"there are two repositories '{repository.name}'", at))
            self._check_choice("repository", "forge", repository.forge, _FORGES, index)
        return tuple(repositories)

    def read_sign_ins(self, tables: Any) -> tuple[SignInSettings, ...]:
        """The forges that people sign in with, each with its secret from the environment."""
        needed = ("forge", "client_id", "client_secret")
        sign_ins = []
        for index, values in enumerate(self._read_repeated(SignInSettings, tables, "sign_in", needed)):
            sign_in = SignInSettings(**values)
            self._check_choice("sign_in", "forge", sign_in.forge, _FORGES[1:], index)
            self._check_choice("sign_in", "unknown", sign_in.unknown, _UNKNOWN, index)
            if sign_in.forge == "forgejo" and not sign_in.url:
                self.problems.append(Problem("sign_in lacks the url of its forge", self.at("sign_in", "forge", index)))
            variable = sign_in.client_secret
            if variable and not self.environment.get(variable):
                message = f"the environment has no {variable}, which sign_in.client_secret names"
                self.problems.append(Problem(message, self.at("sign_in", "client_secret", index)))
            sign_ins.append(replace(sign_in, client_secret=self.environment.get(variable, "")))
        return tuple(sign_ins)

    def _read_repeated(
        self, section: type[Any], tables: Any, name: str, needed: tuple[str, ...]
    ) -> list[dict[str, Any]]:
        if not isinstance(tables, list):
            self.problems.append(Problem(f"{name} must be tables: [[{name}]]", self.at("", name)))
            return []
        for index, table in enumerate(tables):
            for key in needed:
                if isinstance(table, Mapping) and key not in table:
                    self.problems.append(Problem(f"a {name} lacks '{key}'", self.at(name, "", index)))
        return [self.read(section, table, name, index) for index, table in enumerate(tables)]

    def _check_choice(self, table: str, key: str, value: str, choices: tuple[str, ...], index: int) -> None:
        if value and value not in choices:
            message = f"{table}.{key} must be one of {', '.join(choices)}, not '{value}'"
            self.problems.append(Problem(message, self.at(table, key, index), did_you_mean(value, choices)))


def find_key(lines: list[str], table: str, key: str, index: int = 0) -> int:
    """The 1-based line of a key, in the table of that name that comes after ``index`` others; its head for no key.

    0 where it is not found: tomllib keeps no positions.
    """
    inside, head, before = not table, 0, index
    for number, line in enumerate(lines, 1):
        stripped = line.split("#")[0].strip()
        if stripped.startswith("["):
            name = re.sub(r"[\s\[\]]", "", stripped)
            if name == f"{table}.{key}".strip(".") and (not table or before < 0):
                return number
            inside = name == table and before == 0
            before -= name == table
            head = number if inside else head
        elif inside and re.split(r"[.=]", stripped)[0].strip().strip("\"'") == key:
            return number
    return head


def _mismatch(annotation: str, value: Any) -> str:
    """What a value must be, when it is not that."""
    if annotation == "int":
        return "" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else "a whole number"
    if annotation == "bool":
        return "" if isinstance(value, bool) else "true or false"
    if annotation == "str":
        return "" if isinstance(value, str) else "a string"
    if annotation.startswith("Mapping"):
        fits = isinstance(value, Mapping) and all(isinstance(entry, str) for entry in value.values())
        return "" if fits else 'a table of strings, such as { "models/llama" = "ada@example.com" }'
    return "" if isinstance(value, list) and all(isinstance(entry, str) for entry in value) else "a list of strings"


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    return any(text.startswith(f"{scheme}://") or text.startswith(f"{scheme}+") for scheme in schemes)


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "github_app": (
        lambda app: bool(app.id) == bool(app.private_key),
        "a table with both 'id' and 'private_key', the path of a PEM file",
    ),
    "port": (lambda port: 0 <= port <= 65535, "a port from 0 to 65535"),
    "release_requests": (
        lambda text: not text or len(text.split()) == 5,
        "a cron expression such as '0 6 * * 1', or empty",
    ),
    "isolation": (lambda name: name in _ISOLATIONS, f"one of {', '.join(_ISOLATIONS)}"),
    "public_url": (lambda url: not url or _is_url(url, ("http", "https")), "an address that begins with https://"),
    "database": (
        lambda url: not url or _is_url(url, ("sqlite", "postgresql")),
        "sqlite:///PATH or postgresql://USER@HOST/NAME",
    ),
}


def _refuse(name: str, value: Any) -> str:
    """What is wrong with the value of a setting; empty where nothing is."""
    fits, wanted = _RULES.get(name, (lambda _: True, ""))
    return "" if fits(value) else f"{name} must be {wanted}, not {_hide_password(value)!r}"


def _hide_password(value: Any) -> Any:
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", value) if isinstance(value, str) else value
