"""Reading the settings: ``service.toml`` in the service's folder or elsewhere, and the environment, which wins."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from patchgen_core.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen_core.project.pyproject import read_toml
from patchgen_core.workers.addresses import SCHEME
from patchgen_service.settings import (
    CallLimits,
    GithubAppSettings,
    MailSettings,
    RepositorySettings,
    Retention,
    RunLimits,
    ServiceSettings,
    SignInSettings,
)

CONFIG_NAME = "service.toml"
ENVIRONMENT_PREFIX = "PATCHGEN_"
"""``PATCHGEN_PORT`` is ``port``; ``PATCHGEN_LIMITS_SECONDS`` is ``seconds`` in the table ``limits``."""
_TABLES = ("limits", "calls", "retention", "mail", "github_app")
_REPEATED = ("repository", "sign_in")
"""Tables that there may be several of."""
_FORGES = ("none", "github", "gitlab", "forgejo")
_UNKNOWN = ("refuse", "viewer")
_ISOLATIONS = ("auto", "bubblewrap", "podman")


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
    for name, section in zip(_TABLES, (RunLimits, CallLimits, Retention, MailSettings, GithubAppSettings)):
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
    "calls": (lambda calls: min(calls.per_token, calls.per_address) >= 0, "a table of numbers that are 0 or more"),
    "port": (lambda port: 0 <= port <= 65535, "a port from 0 to 65535"),
    "release_requests": (
        lambda text: not text or len(text.split()) == 5,
        "a cron expression such as '0 6 * * 1', or empty",
    ),
    "isolation": (lambda name: name in _ISOLATIONS, f"one of {', '.join(_ISOLATIONS)}"),
    "cluster": (lambda text: not text or text.startswith(SCHEME), "an address such as ray://host:10001"),
    "history": (lambda text: not text or text.startswith("/"), "the whole path of a clone of transformers"),
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
