"""A YAML file's values and the lines on which they stand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from patchgen_core.errors import Location, PatchgenError, did_you_mean

if TYPE_CHECKING:
    import yaml


def read_section(path: str | os.PathLike[str], section: str = "") -> tuple[dict[str, Any], dict[str, Location]]:
    """The mapping that a YAML file, or the part of it with a dotted name, holds, and where each name stands.

    Raises:
        PatchgenError: there is no such file or section, it holds no mapping, or has a name twice.
    """
    file = os.fspath(path)
    root = _parse(file)
    where, node = "the file", root
    for name in section.split(".") if section else ():
        entries = _entries(node, where, file)
        if name not in entries:
            hint = did_you_mean(name, map(str, entries)) or f"It has: {', '.join(map(str, entries)) or 'nothing'}."
            raise PatchgenError(f"{where} has no section '{name}'", _place(file, node), hint)
        where, node = f"section '{name}'", entries[name][1]
    entries = _entries(node, where, file)
    values = {name: _construct(value, file) for name, (_, value) in entries.items()}
    return values, {name: _place(file, key) for name, (key, _) in entries.items()}


def _parse(file: str) -> yaml.Node | None:
    try:
        import yaml
    except ImportError as error:
        raise PatchgenError("YAML files need PyYAML", Location(file), "pip install pyyaml") from error
    try:
        with open(file, encoding="utf-8") as stream:
            return yaml.compose(stream, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PatchgenError(f"cannot be read: {reason}", Location(file)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or error
        raise PatchgenError(f"is no YAML: {problem}", Location(file, mark.line + 1 if mark else 0)) from None


def _entries(node: yaml.Node | None, where: str, file: str) -> dict[Any, tuple[yaml.Node, yaml.Node]]:
    """The nodes of a mapping's names and values, by name; of what ``<<`` merges, the mapping's own come first."""
    import yaml

    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise PatchgenError(f"{where} is not a mapping of names to implementations", _place(file, node))
    first: dict[str, yaml.Node] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise PatchgenError(f"{where} has a name that is not text", _place(file, key))
        if key.value in first:
            hint = f"The first is at {_place(file, first[key.value])}."
            raise PatchgenError(f"{where} has {key.value!r} twice", _place(file, key), hint)
        first[key.value] = key
    yaml.SafeLoader("").flatten_mapping(node)
    return {_construct(key, file): (key, value) for key, value in node.value}


def _construct(node: yaml.Node, file: str) -> Any:
    import yaml

    try:
        return yaml.SafeLoader("").construct_object(node, deep=True)
    except yaml.YAMLError as error:
        raise PatchgenError(f"cannot be read: {getattr(error, 'problem', error)}", _place(file, node)) from None


def _place(file: str, node: yaml.Node | None) -> Location:
    return Location(file, node.start_mark.line + 1 if node is not None else 0)
