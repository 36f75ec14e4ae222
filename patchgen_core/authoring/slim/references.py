"""Where a project's files refer to a replacement, and the calls that give it to configs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import libcst as cst

from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles, EditedFile
from patchgen_core.authoring.edits.importers import absolute_module
from patchgen_core.authoring.slim.parameters import NoEdits
from patchgen_core.errors import Location, PatchgenError
from patchgen_core.files import read_text
from patchgen_core.project.file_tree import walk_files
from patchgen_core.project.project import Project
from patchgen_core.syntax.source import SourceCache

EDIT_CALLS = {"override_method": "edit_method", "replace_function": "edit_function"}
_SETTINGS = ("add", "keep_decorators")


class References:
    """The files of a project, and what they do with names of one another."""

    def __init__(self, project: Project, files: ConfigFiles, sources: SourceCache) -> None:
        self.project, self.files, self.sources = project, files, sources

    @cached_property
    def _texts(self) -> Mapping[Path, str]:
        root = self.project.search_root
        paths = walk_files(root) if root.is_dir() else ()
        return {path: read_text(path) or "" for path in paths if path.suffix == ".py"}

    def calls(self, path: Path, name: str) -> dict[Path, list[cst.Call]]:
        """The calls that take a function of a file as a replacement, file by file.

        Raises:
            NoEdits: something else is done with it.
        """
        calls = {}
        for file, local in self._names(path, name).items():
            tree = self.sources.get(file).tree
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _takes(node, local)]
            given = {id(part) for node in nodes for part in ast.walk(node)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and node.id == local and id(node) not in given:
                    raise NoEdits(f"its replacement is used in another way at {Location(str(file), node.lineno)}")
            if nodes:
                calls[file] = [_call_at(self.files.get(file), node) for node in nodes]
        return calls

    def _names(self, path: Path, name: str) -> dict[Path, str]:
        """What files that have a function of a file call it."""
        names, homes = {path: name}, {self.project.module_name(path)}
        texts = {file: text for file, text in self._texts.items() if name in text}
        while True:
            new = {file: self._imported(file, homes, name) for file in texts if file not in names}
            new = {file: local for file, local in new.items() if local}
            if not new:
                return {file: local for file, local in names.items() if local is not None}
            names |= {file: local for file, local in new.items() if local is not None}
            homes |= {self.project.module_name(file) for file, local in new.items() if local == name}

    def _imported(self, path: Path, homes: set[str], name: str) -> str | None:
        module = self.project.module_name(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        try:
            tree = self.sources.get(path).tree
        except PatchgenError as error:
            raise NoEdits(f"{error.problems[0].location} may use it, and is not valid Python") from None
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == name:
                raise NoEdits(f"its replacement is used in another way at {Location(str(path), node.lineno)}")
            if isinstance(node, ast.ImportFrom) and absolute_module(node, package) in homes:
                for alias in node.names:
                    if alias.name == "*":
                        raise NoEdits(f"{Location(str(path), node.lineno)} imports all of its module")
                    if alias.name == name:
                        return alias.asname or name
        return None


def _takes(call: ast.Call, name: str) -> bool:
    """Whether a call is one of a config that takes a name as the replacement, and nothing else that it has is it."""
    values = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "replacement")]
    is_declaration = isinstance(call.func, ast.Attribute) and call.func.attr in EDIT_CALLS
    uses = [node for node in ast.walk(call) if isinstance(node, ast.Name) and node.id == name]
    return is_declaration and len(uses) == 1 and any(value is uses[0] for value in values)


def _call_at(file: EditedFile, node: ast.Call) -> cst.Call:
    for call, position in file.positions.items():
        if isinstance(call, cst.Call) and position.start.line == node.lineno and _attribute(call) in EDIT_CALLS:
            names = {arg.keyword.value for arg in call.args if arg.keyword is not None}
            if names.intersection(_SETTINGS):
                raise NoEdits(f"{Location(str(file.path), node.lineno)} says more about it than an edit does")
            return call
    raise NoEdits(f"{Location(str(file.path), node.lineno)} cannot be rewritten")


def _attribute(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def edit_changes(calls: Sequence[cst.Call]) -> Changes:
    """The changes that have calls take an edit."""
    return dict.fromkeys(calls, _as_edit)


def _as_edit(call: cst.Call) -> cst.Call:
    assert isinstance(call.func, cst.Attribute)
    name = cst.Name(EDIT_CALLS[call.func.attr.value])
    return call.with_changes(func=call.func.with_changes(attr=name), args=list(_arguments(call)))


def _arguments(call: cst.Call) -> Iterator[cst.Arg]:
    for argument in call.args:
        is_replacement = argument.keyword is not None and argument.keyword.value == "replacement"
        yield argument.with_changes(keyword=cst.Name("edit")) if is_replacement else argument


def declared_edit(decorator: cst.Decorator, edit: str = "") -> str:
    """The call of a decorator as one that declares an edit, with the edit by its name where there is one.

    Raises:
        NoEdits: it declares no replacement, or says more than an edit does.
    """
    call = decorator.decorator
    if not isinstance(call, cst.Call) or _attribute(call) not in EDIT_CALLS:
        raise NoEdits("its replacement is declared by another call")
    names = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    if names.intersection(_SETTINGS):
        raise NoEdits("its declaration says more than an edit's does")
    new = _as_edit(call)
    if edit:
        target, *rest = (argument.with_changes(comma=cst.MaybeSentinel.DEFAULT) for argument in new.args)
        own = cst.Arg(
            cst.Name(edit), cst.Name("edit"), cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        )
        new = new.with_changes(args=[target, own, *rest])
    return cst.Module([]).code_for_node(new)


def holder_of(decorator: cst.Decorator) -> str:
    """What the config is called whose call a decorator is."""
    call = decorator.decorator
    assert isinstance(call, cst.Call)
    assert isinstance(call.func, cst.Attribute)
    return cst.Module([]).code_for_node(call.func.value)


def options_of(decorator: cst.Decorator) -> list[str]:
    """What the call of a decorator says beside its target."""
    call = decorator.decorator
    assert isinstance(call, cst.Call)
    arguments = (a.with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in call.args[1:])
    return [cst.Module([]).code_for_node(argument) for argument in arguments]
