"""Another name for a helper, a patch or edits that configs share, wherever a project's files mean it."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Collection, Iterable, Iterator

from lsprotocol import types

from patchgen_core.errors import Location, PatchgenError
from patchgen_core.syntax.nodes import DEFINITIONS
from patchgen_core.syntax.source import SourceFile
from patchgen_lsp.analysis.declared import find_config_calls, name_at
from patchgen_lsp.analysis.shared_names import Occurrence, SharedName, SharedNames
from patchgen_lsp.analysis.upstream_view import view_upstream
from patchgen_lsp.analysis.workbench import Workbench
from patchgen_lsp.places import make_range, place_of, uri_of
from patchgen_lsp.request import Request

_HELPER_CALLS = ("add_helper", "add_helper_after")
_CODE_CALLS = ("add_post_import_block", "add_block_after", "replace_code", "insert_before", "insert_after")


def prepare_rename(bench: Workbench, request: Request) -> types.Range:
    """The name at the cursor that can be renamed; a PatchgenError says why one cannot."""
    source, _ = _shared_at(bench, request)
    line = source.lines[request.line]
    spans = [match.span() for match in re.finditer(r"\w+", line)]
    start, end = next(span for span in spans if span[0] <= request.column <= span[1])
    return make_range(source.lines, (request.line, start), (request.line, end), request.units)


def rename(bench: Workbench, request: Request) -> types.WorkspaceEdit:
    """The edits of all files that mean what is at the cursor, for ``more["name"]``.

    Raises:
        PatchgenError: it cannot be renamed, or the new name is taken somewhere.
    """
    new = request.more["name"]
    _, shared = _shared_at(bench, request)
    names = SharedNames(bench.project, bench.sources)
    occurrences = names.find_occurrences(shared)
    files = {place.source.path: place.source for place in occurrences}
    if _is_helper(files.values(), shared.name):
        occurrences += [place for source in files.values() for place in _quoted_occurrences(source, shared.name)]
        _refuse_upstream(bench, files.values(), new)
    _refuse_name(files.values(), shared, new)
    changes: dict[str, list[types.TextEdit]] = {}
    for path, span in sorted({(place.source.path, place.span) for place in occurrences}):
        source = files[path]
        at = make_range(source.lines, place_of(source, span[0]), place_of(source, span[1]), request.units)
        changes.setdefault(uri_of(path), []).append(types.TextEdit(at, new))
    return types.WorkspaceEdit(changes=changes)


def _shared_at(bench: Workbench, request: Request) -> tuple[SourceFile, SharedName]:
    """The file as it is, and the name at the cursor; a PatchgenError where that is none that can be renamed."""
    source = bench.sources.get(request.path)
    at = Location(str(request.path), request.line + 1)
    name = name_at(source, request.line + 1, request.column)
    if not name and _is_parameter(source, request):
        raise PatchgenError("a parameter is local to its function: no other config means it", at)
    if not name:
        raise PatchgenError("there is no name here: targets in quotes are upstream's", at)
    head, _, last = name.rpartition(".")
    if head:
        raise PatchgenError(f"'{last}' is an attribute of '{head}': rename it where it is defined", at)
    if not _is_global(source, name, request):
        raise PatchgenError(f"'{name}' is local to its function: no other config means it", at)
    shared = SharedNames(bench.project, bench.sources).resolve(source, name)
    if shared is None:
        upstream = view_upstream(bench, source)
        is_upstream = upstream is not None and name in upstream.source.index.names
        whose = (
            f"upstream's, in {upstream.module.module}" if is_upstream and upstream else "not defined in this project"
        )
        raise PatchgenError(f"'{name}' is {whose}", at)
    home = bench.sources.get(shared.home)
    if any(_is_assigned(home, call, shared.name) for call in find_config_calls(home)):
        raise PatchgenError(f"'{name}' is a config: generated files and baselines call it by its name", at)
    return source, shared


def _is_parameter(source: SourceFile, request: Request) -> bool:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.arg) and node.lineno == request.line + 1:
            first = len(source.lines[node.lineno - 1].encode()[: node.col_offset].decode())
            if first <= request.column <= first + len(node.arg):
                return True
    return False


def _is_global(source: SourceFile, name: str, request: Request) -> bool:
    """Whether a name means the module's at the cursor, as far as parameters and assignments around it tell."""
    for _, node in source.definitions:
        if isinstance(node, ast.ClassDef) or not node.lineno < request.line + 1 <= (node.end_lineno or 0):
            continue
        bound = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        bound |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if name in bound:
            return False
    return True


def _is_assigned(source: SourceFile, call: ast.Call, name: str) -> bool:
    return any(
        isinstance(statement, ast.Assign)
        and statement.value is call
        and any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
        for statement in source.tree.body
    )


def _is_helper(sources: Iterable[SourceFile], name: str) -> bool:
    """Whether any config copies it into its generated module under its name."""
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, DEFINITIONS) and node.name == name and any(map(_adds_helper, node.decorator_list)):
                return True
            if isinstance(node, ast.Call) and _adds_helper(node):
                given = [*node.args, *(each.value for each in node.keywords)]
                if any(isinstance(value, ast.Name) and value.id == name for value in given):
                    return True
    return False


def _adds_helper(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return isinstance(called, ast.Attribute) and called.attr in _HELPER_CALLS


def _quoted_occurrences(source: SourceFile, name: str) -> Iterator[Occurrence]:
    """The places in code in quotes that a config puts into its generated module."""
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CODE_CALLS:
            for value in [*node.args, *(each.value for each in node.keywords)]:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    for match in pattern.finditer(source.text, source.start(value), source.end(value)):
                        yield Occurrence(source, match.span())


def _refuse_name(sources: Collection[SourceFile], shared: SharedName, new: str) -> None:
    """Raise a PatchgenError where a name cannot be one, or a file that is edited has it already."""
    if not new.isidentifier() or keyword.iskeyword(new):
        raise PatchgenError(f"'{new}' is no name in Python")
    if hasattr(builtins, new):
        raise PatchgenError(f"'{new}' is one of Python's own names")
    for source in sources:
        for node in ast.walk(source.tree):
            own = getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "name", None)
            own = getattr(node, "asname", None) or own
            if own == new and not isinstance(node, ast.keyword):
                line = getattr(node, "lineno", 0)
                raise PatchgenError(f"'{new}' is taken already", Location(str(source.path), line))


def _refuse_upstream(bench: Workbench, sources: Iterable[SourceFile], new: str) -> None:
    """Raise a PatchgenError where upstream has a name that a helper is to get."""
    for source in sources:
        upstream = view_upstream(bench, source)
        if upstream is not None and new in upstream.source.index.names:
            raise PatchgenError(f"upstream has a '{new}' in {upstream.module.module}", Location(str(source.path)))
