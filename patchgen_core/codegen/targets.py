"""Finding what a patch is about: its target in upstream's module and its replacement's source."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen_core.codegen.edit_targets import check_edited
from patchgen_core.codegen.renaming import map_prefixes
from patchgen_core.codegen.self_types import drop_self_type
from patchgen_core.config.declarations import Helper, Patch
from patchgen_core.config.replacement import ACCESSORS, Modules, Replacement, read_replacement
from patchgen_core.errors import Location, NameHint, PatchgenError, closest, did_you_mean
from patchgen_core.syntax.index import ModuleIndex, assigned_names
from patchgen_core.syntax.nodes import DEFINITIONS, Definition, all_methods, last_definitions, methods, statements
from patchgen_core.syntax.source import SourceCache

# Methods that transformers, torch and trainers look up by name: adding one of them is no slip.
KNOWN_METHODS = frozenset(
    [
        *("forward", "__init__", "_init_weights", "extra_repr", "reset_parameters", "post_init", "tie_weights"),
        *("get_input_embeddings", "set_input_embeddings", "get_output_embeddings", "set_output_embeddings"),
        *("generate", "prepare_inputs_for_generation", "get_encoder", "get_decoder", "set_decoder"),
        *("state_dict", "load_state_dict", "loss_function", "get_parallel_plan", "dummy_forward"),
        *("get_position_id_func", "get_metadata_collate_func", "get_extra_collate_infos"),
    ]
)


_WHOLE = ("class_replacement", "function_replacement", "init_modification", "function_edit", "class_edit")
_AS_EDIT = {"class_replacement": "edit_class", "function_replacement": "edit_function"}
_HINTS = {"init_modification": "Write '{}'.", "function_edit": "Use edit_method.", "class_edit": "Use edit_method."}


@dataclass(frozen=True)
class ComposedLine:
    """A line of upstream's with edits in it.

    Attributes:
        text: at the column where its function starts.
        edit: the edit that wrote it; None for upstream's own.
        location: the line of the config that it comes from.
        is_string: whether it starts inside a string literal.
    """

    text: str
    edit: PlannedPatch | None = None
    location: Location | None = None
    is_string: bool = False


@dataclass(frozen=True)
class PlannedPatch:
    """A patch whose target was found.

    All edits of one target are one planned patch: its ``edits``, with their result as ``replacement``.

    Attributes:
        nodes: upstream's definitions that it changes; for a method, the classes.
        accessor: ``setter`` or ``deleter``, for a property's.
        replacement: the new source with its names settled; None for an external one.
        added: whether it adds a method that the class itself lacks.
        edits: for a target that is edited, each edit; the ``patch`` is then the first one's.
        lines: the text of ``replacement`` and what each line of it comes from, for an edited function.
        comments: of an edit, those above its declaration that are not those of its function.
    """

    patch: Patch
    nodes: tuple[Definition, ...]
    method: str = ""
    accessor: str = ""
    replacement: Replacement | None = None
    added: bool = False
    edits: tuple[PlannedPatch, ...] = ()
    lines: tuple[ComposedLine, ...] = ()
    comments: tuple[str, ...] = ()

    @property
    def declared(self) -> tuple[PlannedPatch, ...]:
        """What the config declares: the edits of an edited target, else the patch itself."""
        return self.edits or (self,)

    @property
    def kind(self) -> str:
        """The kind as the generated header shows it; of an edited target, what is edited."""
        if self.edits:
            is_class = isinstance(self.nodes[0], ast.ClassDef)
            return "method_edit" if self.method else "class_edit" if is_class else "function_edit"
        if self.patch.kind != "external":
            return self.patch.kind
        return "class_replacement" if isinstance(self.nodes[0], ast.ClassDef) else "function_replacement"

    @property
    def dotted(self) -> str:
        """What the generated module calls the result: ``Class``, ``Class.method`` or ``function``."""
        return f"{self.patch.target.split('.')[0]}.{self.method}" if self.method else self.patch.target

    @property
    def label(self) -> str:
        """How errors name it."""
        return f"{self.kind} {self.patch.target}"


@dataclass(frozen=True)
class PlannedHelper:
    """A helper whose source was read, and the definitions that it follows (none: it goes below the imports)."""

    helper: Helper
    replacement: Replacement
    after: tuple[Definition, ...] = ()

    @property
    def name(self) -> str:
        """What the generated module calls it."""
        return map_prefixes(self.replacement.name, self.helper.name_map)


@dataclass(frozen=True)
class Targets:
    """Resolves patches against one upstream module."""

    module: str
    tree: ast.Module
    index: ModuleIndex
    sources: SourceCache
    modules: Modules

    def resolve(self, patch: Patch) -> PlannedPatch:
        """Find a patch's target and read its replacement; a PatchgenError when there is none or the two do not fit."""
        name, *rest = patch.target.split(".")
        if rest and patch.kind in _WHOLE:
            hint = _HINTS.get(patch.kind, "Use override_method.").format(name)
            raise PatchgenError(f"'{patch.target}' names a method", patch.location, hint)
        if name not in self.index.definitions:
            raise self._unknown(patch, name)
        definitions = self.index.definitions[name]
        nodes = definitions if len(definitions) == 1 else last_definitions(self.tree.body, name)
        is_class = isinstance(nodes[0], ast.ClassDef)
        if patch.is_edit:
            return self._resolve_edit(patch, nodes, rest)
        wants_class = patch.kind != "function_replacement"
        if patch.kind != "external" and is_class != wants_class:
            kind, call = ("class", "replace_class") if is_class else ("function", "replace_function")
            raise PatchgenError(f"'{name}' is a {kind} in upstream {self.module}", patch.location, f"Use {call}.")
        if patch.kind == "external":
            return PlannedPatch(patch, tuple(nodes))
        classes = tuple(node for node in nodes if isinstance(node, ast.ClassDef))
        if patch.kind in ("method_override", "method_wrapper"):
            return self._resolve_method(patch, classes, rest)
        replacement = self._read(patch, "")
        if patch.kind == "init_modification":
            return self._resolve_init(patch, classes, replacement)
        if replacement.is_class != is_class:
            kinds = ("class", "function") if is_class else ("function", "class")
            raise PatchgenError(
                f"'{name}' is a {kinds[0]}, but its replacement '{replacement.name}' is a {kinds[1]}",
                patch.location,
            )
        return PlannedPatch(patch, tuple(nodes), replacement=replacement)

    def _resolve_edit(self, patch: Patch, nodes: Sequence[Definition], rest: list[str]) -> PlannedPatch:
        """An edit and the one definition that it is of."""
        method, accessor = check_edited(patch, nodes, rest, self.module)
        above = (*self._comments(patch.comments_at), *self._comments(None if patch.replacement else patch.location))
        comments = tuple(map_prefixes(line, patch.name_map) for line in above)
        if patch.replacement is None:
            return PlannedPatch(patch, tuple(nodes), method, accessor, comments=comments)
        replacement = self._read(patch, accessor)
        if replacement.is_class != (patch.kind == "class_edit"):
            wanted, given = ("class", "function") if patch.kind == "class_edit" else ("function", "class")
            message = f"{patch.kind} {patch.target}: '{replacement.name}' is a {given}, not a {wanted}"
            raise PatchgenError(message, patch.location)
        return PlannedPatch(patch, tuple(nodes), method, accessor, replacement, comments=comments)

    def _comments(self, location: Location | None) -> tuple[str, ...]:
        """The comments directly above a line of a config."""
        path = Path(location.file) if location is not None else Path()
        if location is None or not self.sources.has(path):
            return ()
        return self.sources.get(path).comments_above(location.line)

    def _read(self, patch: Patch, accessor: str) -> Replacement:
        assert patch.location is not None, "the planner gives every patch one"
        replacement = read_replacement(patch.replacement, self.sources, self.modules, patch.location, accessor)
        if replacement.is_edit and not patch.is_edit:
            message = (
                f"'{patch.target}' would be replaced by '{replacement.name}', which is an edit of upstream's code"
            )
            raise PatchgenError(message, patch.location, f"Use {_AS_EDIT.get(patch.kind, 'edit_method')} here too.")
        return replacement

    def _unknown(self, patch: Patch, name: str) -> PatchgenError:
        if name in self.index.imports:
            statement, _ = self.index.imports[name][0]
            return PatchgenError(
                f"upstream {self.module} does not define '{name}', it imports it: {ast.unparse(statement)}",
                patch.location,
                "Patch the module that defines it, or drop the import and add a helper of that name.",
            )
        if name in self.index.assigned:
            line = self.index.assigned[name][0].lineno
            return PatchgenError(
                f"'{name}' is assigned in upstream {self.module}, line {line}: neither class nor function",
                patch.location,
                "Exclude it and bind the name in a post-import block.",
            )
        is_function = patch.kind in ("function_replacement", "function_edit")
        kind = "function" if is_function else "class"
        names = set(self.index.functions if kind == "function" else self.index.classes)
        if patch.kind == "external" or patch.code or closest(name, names) is None:
            names = set(self.index.definitions)
        kind_name = "class or function" if patch.kind == "external" else kind
        message = f"upstream {self.module} has no {kind_name} '{name}'"
        return PatchgenError(message, patch.location, did_you_mean(name, names))

    def _resolve_init(self, patch: Patch, nodes: tuple[Definition, ...], replacement: Replacement) -> PlannedPatch:
        for node in nodes:
            decorated = [ast.unparse(decorator) for decorator in node.decorator_list]
            maker = next((d for d in decorated if "dataclass" in d), None)
            if maker and not methods(node, "__init__"):
                raise PatchgenError(
                    f"modify_init: the __init__ of '{patch.target}' is made by its decorator @{maker}",
                    patch.location,
                    "Use override_method on __post_init__.",
                )
        self._refuse_class(f"{patch.target}.__init__", patch, replacement)
        added = not any(methods(node, "__init__") for node in nodes)
        own = drop_self_type(replacement, patch)
        return PlannedPatch(patch, nodes, method="__init__", replacement=own, added=added)

    def _refuse_class(self, target: str, patch: Patch, replacement: Replacement) -> None:
        if replacement.is_class:
            message = f"'{target}' is a method, but its replacement '{replacement.name}' is a class"
            raise PatchgenError(message, patch.location)

    def _resolve_method(self, patch: Patch, nodes: tuple[Definition, ...], rest: list[str]) -> PlannedPatch:
        method, accessor = rest[0], rest[1] if len(rest) == 2 else ""
        if len(rest) > 2 or (accessor and accessor not in ACCESSORS) or not method.isidentifier():
            raise PatchgenError(
                f"'{patch.target}' is not a target",
                patch.location,
                "Write 'Class.method', or 'Class.name.setter' for a property's setter.",
            )
        accessor = "" if accessor == "getter" else accessor
        definitions = [node for node in nodes if methods(node, method, accessor)]
        if not definitions:
            self._check_slip(patch, nodes, method, accessor)
        replacement = self._read(patch, accessor)
        self._refuse_class(patch.target, patch, replacement)
        own = drop_self_type(replacement, patch)
        return PlannedPatch(patch, tuple(definitions) or nodes, method, accessor, own, added=not definitions)

    def _check_slip(self, patch: Patch, nodes: Iterable[Definition], method: str, accessor: str) -> None:
        if accessor:
            raise PatchgenError(
                f"upstream '{patch.target.rpartition('.')[0]}' has no {accessor}",
                patch.location,
                "Override the property itself, or add an ordinary method.",
            )
        attribute = self._attribute(nodes, method)
        if attribute is not None and not patch.add:
            message = f"'{patch.target}' is a class attribute in upstream's line {attribute.lineno}, not a method"
            hint = "Replace the class, or pass add=True if a method of that name should hide it."
            raise PatchgenError(message, patch.location, hint)
        if patch.add or method in KNOWN_METHODS:
            return
        if any(f.name == method for classes in self.index.classes.values() for c in classes for f in all_methods(c)):
            return
        own = {f.name for node in nodes for f in all_methods(node)}
        near = difflib.get_close_matches(method, sorted(own | KNOWN_METHODS), n=1, cutoff=0.85)
        if near:
            raise PatchgenError(
                f"upstream class '{patch.target.split('.')[0]}' has no method '{method}'",
                patch.location,
                NameHint(f"Did you mean '{near[0]}'? To add '{method}' anyway, pass add=True.", method, near[0]),
            )

    def _attribute(self, nodes: Iterable[Definition], name: str) -> ast.stmt | None:
        """The statement that assigns a class attribute in one of the classes, or in a base of this module."""
        for node in nodes:
            if not isinstance(node, ast.ClassDef):
                continue
            for statement in statements(node.body):
                if not isinstance(statement, DEFINITIONS) and name in assigned_names(statement):
                    return statement
            bases = [b.id for b in node.bases if isinstance(b, ast.Name) and b.id != node.name]
            inherited = self._attribute([d for base in bases for d in self.index.classes.get(base, ())], name)
            if inherited is not None:
                return inherited
        return None
