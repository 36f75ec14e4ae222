"""What a config's file has to declare so that its module has a change."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchgen_core.authoring.absorb.carried_lines import carry_edit, carry_lines
from patchgen_core.authoring.absorb.edited_targets import split_change
from patchgen_core.authoring.absorb.module_changes import Change, DefinitionChange, DefinitionText, StatementChange
from patchgen_core.authoring.edits.config_file import Changes, ConfigFiles
from patchgen_core.authoring.edits.definitions import replace_definition
from patchgen_core.authoring.edits.free_names import free_name
from patchgen_core.authoring.edits.literals import literal
from patchgen_core.authoring.fork.class_edits import compare_classes, declare_edits
from patchgen_core.authoring.slim.edit_texts import Holder, edit_blocks
from patchgen_core.authoring.slim.function_edits import bound_names, find_edits
from patchgen_core.authoring.slim.parameters import NoEdits
from patchgen_core.codegen.edited_targets import edited_function
from patchgen_core.codegen.plan import Plan
from patchgen_core.codegen.targets import PlannedPatch
from patchgen_core.config.loading import LoadedConfig
from patchgen_core.config.replacement import HEAD, Replacement, read_replacement
from patchgen_core.errors import Location, PatchgenError, display_path
from patchgen_core.project.project import Project
from patchgen_core.syntax.forms import form
from patchgen_core.syntax.index import assigned_names
from patchgen_core.syntax.nodes import FUNCTIONS, methods
from patchgen_core.syntax.source import SourceCache, parse_source, shift

_REPLACING = ("class_replacement", "function_replacement", "method_override")
"""The kinds of patches whose replacement is the text that stands in the generated module."""


class NotAbsorbed(Exception):
    """Why a change cannot be declared."""


@dataclass(frozen=True)
class ConfigEdit:
    """A change of a generated module as an edit of files.

    Attributes:
        word: what becomes of the config, such as ``edited`` or ``overridden``.
        texts: changes of definitions that stand in files already.
        place: where the one that is changed stands; None for a new one.
        block: a declaration that goes to the end of the config's file; empty for none.
        code: the part of ``block`` that is copied into the module, whose names the file has to know.
    """

    change: Change
    word: str
    texts: Mapping[Path, Changes] = field(default_factory=dict)
    block: str = ""
    code: str = ""
    place: Location | None = None


class ConfigEditor:
    """Makes edits of one config's files."""

    def __init__(self, project: Project, loaded: LoadedConfig, plan: Plan, files: ConfigFiles, sources: SourceCache):
        self.project, self.loaded, self.plan, self.files, self.sources = project, loaded, plan, files, sources
        self._names = set(sources.get(loaded.path).index.names)

    def edit(self, change: Change) -> ConfigEdit:
        """The edit for a change.

        Raises:
            NotAbsorbed: there is none; the message says why.
        """
        if isinstance(change, StatementChange):
            return self._edit_statement(change)
        edited = next((p for p in self.plan.patches if p.edits and p.lines and p.dotted == change.name), None)
        if edited is not None and change.old is not None and change.new is not None:
            return self._edit_edits(change, edited, change.old, change.new)
        declared = self._replacement_of(change.name)
        if declared is not None:
            return self._edit_replacement(change, *declared)
        if change.kind == "removed":
            if "." in change.name:
                raise NotAbsorbed("no patch removes a method; override it")
            return self._call(change, "excluded", f"exclude_from_output({literal(change.name)})")
        assert change.new is not None
        if change.new.count > 1 or (change.old is not None and change.old.count > 1):
            raise NotAbsorbed("several definitions have its name")
        edit = self._edit_upstream(change, change.new) or self._edit_class(change, change.new)
        return edit or self.replace(change)

    def replace(self, change: DefinitionChange) -> ConfigEdit:
        """The edit that declares all of what a definition is now.

        Raises:
            NotAbsorbed: there is none; the message says why.
        """
        assert change.new is not None
        if "." in change.name:
            return self._override(change, change.new)
        if change.kind == "added":
            self._take_name(change.name)
            return self._declare(change, "added", "add_helper", change.new.whole)
        call = "replace_class" if isinstance(change.new.node, ast.ClassDef) else "replace_function"
        return self._declare(
            change, "replaced", f"{call}({literal(change.name)})", self._renamed(change.new, change.name)
        )

    # --- what the config declares already --------------------------------------------------------------

    def _replacement_of(self, name: str) -> tuple[str, Replacement, Mapping[str, str]] | None:
        """What a definition of the module is made of, with the name that this has there; None for upstream's own."""
        config = self.loaded.config
        for planned in self.plan.patches:
            if planned.dotted not in (name, name.partition(".")[0]):
                continue
            patch, at = planned.patch, planned.patch.location or config.location
            if patch.kind not in _REPLACING or planned.accessor:
                raise NotAbsorbed(f"the {planned.kind} at {at} makes it: edit that")
            return (
                planned.dotted,
                read_replacement(patch.replacement, self.sources, self.loaded.modules, at),
                patch.name_map,
            )
        for helper in self.plan.helpers:
            if helper.name == name.partition(".")[0]:
                at = helper.helper.location or config.location
                replacement = read_replacement(helper.helper.definition, self.sources, self.loaded.modules, at)
                return helper.name, replacement, helper.helper.name_map
        return None

    def _edit_replacement(
        self, change: DefinitionChange, owner: str, replacement: Replacement, name_map: Mapping[str, str]
    ) -> ConfigEdit:
        at = replacement.location
        if change.old is None or change.new is None or owner != change.name:
            raise NotAbsorbed(f"it is part of {owner}, which {at} declares: edit that")
        if change.old.decorators != change.new.decorators:
            raise NotAbsorbed(f"its decorators were changed: change them at {at}")
        text = carry_edit(replacement.text, change.old.text, change.new.text, name_map)
        path, changes = self._rewritten(replacement, text)
        return ConfigEdit(change, "edited", {path: changes}, code=text, place=at)

    def _edit_edits(
        self, change: DefinitionChange, planned: PlannedPatch, old: DefinitionText, new: DefinitionText
    ) -> ConfigEdit:
        """Other texts of a target's edits for a change of their lines, and more edits for one of upstream's."""
        if old.decorators != new.decorators:
            raise NotAbsorbed("its decorators were changed: change them where they are declared")
        own = {}
        for edit in planned.edits:
            if edit.replacement is not None and edit.patch.location is not None:
                function = read_replacement(
                    edit.patch.replacement, self.sources, self.loaded.modules, edit.patch.location
                )
                own[function.location] = function, edit
        split = split_change(planned.lines, own, old.text, new.text)
        texts: dict[Path, Changes] = {}
        for place, text in split.texts.items():
            path, changes = self._rewritten(own[place][0], text)
            texts[path] = {**texts.get(path, {}), **changes}
        block = ""
        if split.text != new.text:
            block = self._more_edits(change, planned, split.text, new)
        code = "\n".join([*split.texts.values(), *([new.text] if block else [])])
        return ConfigEdit(change, "edited", texts, block, code, next(iter(split.texts), None))

    def _more_edits(self, change: DefinitionChange, planned: PlannedPatch, text: str, new: DefinitionText) -> str:
        """The declarations of edits for a change of upstream's lines, from a text of the generated function on."""
        function, upstream = edited_function(planned), self.plan.source
        assert function is not None
        lines = upstream.lines[function.lineno - 1 : upstream.last_line(function)]
        keep = {number - function.lineno for number in upstream.string_lines}
        own_lines = shift(lines, upstream.indent(function.lineno), "", keep)
        changed = carry_lines(text.split("\n"), own_lines, new.text.split("\n"))
        if changed is None:
            quoted = [edit for edit in planned.edits if edit.replacement is None]
            if quoted:
                edit = quoted[0]
                raise NotAbsorbed(f"the {edit.kind} at {edit.patch.location} makes it: edit that")
            raise NotAbsorbed(f"it changes code of the edits at {planned.patch.location} and upstream's code at once")
        side = parse_source(self.loaded.path, "\n".join([*changed, ""]))
        try:
            edits = find_edits(upstream, function, side, keeps_order=True)
        except NoEdits as reason:
            raise NotAbsorbed(f"no edit can make it: {reason}") from None
        own = free_name(change.name, self._names)
        holder = Holder(self.loaded.name, change.name)
        block = "\n\n".join(edit_blocks(edits, holder, own, (), bound_names(function, side), self._names))
        self._names.add(own)
        return block

    def _rewritten(self, replacement: Replacement, text: str) -> tuple[Path, Changes]:
        """What gives a definition of the project another text."""
        path, at = Path(replacement.location.file), replacement.location
        if "site-packages" in path.parts or not path.is_relative_to(self.project.base):
            raise NotAbsorbed(f"its replacement is outside the project, in '{display_path(path)}'")
        changes = replace_definition(self.files.get(path), at.line, replacement.text, text)
        if changes is None:
            raise NotAbsorbed(f"the text at {at} differs from the generated module's")
        return path, changes

    # --- what it declares then -------------------------------------------------------------------------

    def _edit_upstream(self, change: DefinitionChange, new: DefinitionText) -> ConfigEdit | None:
        """Edits of upstream's function, where they are shorter than all of its new text."""
        if change.old is None or change.old.decorators != new.decorators or not isinstance(new.node, FUNCTIONS):
            return None
        name, _, method = change.name.partition(".")
        nodes = self.plan.index.definitions.get(name, [])
        functions = methods(nodes[0], method) if len(nodes) == 1 and method else nodes
        if len(functions) != 1 or not isinstance(functions[0], FUNCTIONS):
            return None
        source = parse_source(self.loaded.path, f"{new.text}\n")
        try:
            edits = find_edits(self.plan.source, functions[0], source, keeps_order=True)
        except NoEdits:
            return None
        own = free_name(change.name, self._names)
        bound = bound_names(functions[0], source)
        block = "\n\n".join(edit_blocks(edits, Holder(self.loaded.name, change.name), own, (), bound))
        if block.count("\n") > new.text.count("\n"):
            return None
        self._names.add(own)
        return ConfigEdit(change, "edited", block=block, code=new.text)

    def _edit_class(self, change: DefinitionChange, new: DefinitionText) -> ConfigEdit | None:
        """Edits of a class statement whose methods are what they were."""
        if change.old is None or change.old.decorators != new.decorators:
            return None
        old_source, source = (parse_source(self.loaded.path, f"{text.text}\n") for text in (change.old, new))
        old_class, new_class = old_source.tree.body[0], source.tree.body[0]
        if not isinstance(old_class, ast.ClassDef) or not isinstance(new_class, ast.ClassDef):
            return None
        difference = compare_classes(old_source, old_class, source, new_class)
        if difference is None or _method_forms(old_class) != _method_forms(new_class):
            return None
        own = f"Edited{change.name.lstrip('_')}"
        while own in self._names:
            own = f"{own}Again"
        declared = list(declare_edits(self.loaded.name, change.name, difference, own))
        if not declared:
            return None
        self._names.add(own)
        block = "\n\n".join(text for text, _, _ in declared)
        return ConfigEdit(change, "edited", block=block, code="\n".join(code for _, code, _ in declared))

    def _override(self, change: DefinitionChange, new: DefinitionText) -> ConfigEdit:
        options = ", add=True" if change.kind == "added" else ""
        has_same = change.old is not None and change.old.decorators == new.decorators
        text = self._renamed(new, change.name, with_decorators=not has_same)
        options += "" if has_same or not (change.old and change.old.decorators) else ", keep_decorators=False"
        word = "added" if change.kind == "added" else "overridden"
        return self._declare(change, word, f"override_method({literal(change.name)}{options})", text)

    def _renamed(self, new: DefinitionText, target: str, with_decorators: bool = True) -> str:
        """A definition under a name that the config's file does not have."""
        own = free_name(target, self._names) if isinstance(new.node, FUNCTIONS) or target in self._names else target
        self._names.add(own)
        text = HEAD.sub(lambda head: f"{head[1]}{head[2]}{own}", new.text)
        return "\n".join((*(new.decorators if with_decorators else ()), text))

    def _take_name(self, name: str) -> None:
        if name in self._names:
            raise NotAbsorbed("the config's file uses its name for something else")
        self._names.add(name)

    def _declare(self, change: Change, word: str, call: str, code: str) -> ConfigEdit:
        return ConfigEdit(change, word, block=f"@{self.loaded.name}.{call}\n{code}\n", code=code)

    def _call(self, change: Change, word: str, call: str) -> ConfigEdit:
        return ConfigEdit(change, word, block=f"{self.loaded.name}.{call}\n")

    def _edit_statement(self, change: StatementChange) -> ConfigEdit:
        node = change.statement
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._edit_import(change, node)
        self._refuse_block(assigned_names(node))
        if change.kind == "added":
            text = change.text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
            return self._call(change, "added", f'add_post_import_block("""\n{text}\n""")')
        names = [t.id for t in node.targets if isinstance(t, ast.Name)] if isinstance(node, ast.Assign) else []
        if not names:
            raise NotAbsorbed("no patch removes such a statement")
        return self._call(change, "excluded", f"exclude_from_output({', '.join(map(literal, names))})")

    def _refuse_block(self, names: Collection[str]) -> None:
        """Raise NotAbsorbed where a block of a config assigns one of some names."""
        config = self.loaded.config
        blocks: list[tuple[object, str]] = [(block, block) for block in config.post_import_blocks]
        blocks += [(pair, pair[1]) for pair in config.positioned_blocks]
        for entry, text in blocks:
            if not _assigned(text).isdisjoint(names):
                place = getattr(entry, "location", None) or config.location
                raise NotAbsorbed(f"the block at {place} makes it: edit that")

    def _edit_import(self, change: StatementChange, node: ast.Import | ast.ImportFrom) -> ConfigEdit:
        [alias] = node.names
        if change.kind == "removed":
            bound = alias.asname or alias.name.partition(".")[0]
            return self._call(change, "dropped", f"drop_import_names({literal(bound)})")
        if alias.name == "*" or (isinstance(node, ast.ImportFrom) and node.level):
            raise NotAbsorbed("name what is imported, and its module in full")
        arguments = [literal(alias.name if isinstance(node, ast.Import) else node.module or "")]
        arguments += [f"names=[{literal(alias.name)}]"] if isinstance(node, ast.ImportFrom) else []
        arguments += [f"alias={literal(alias.asname)}"] if alias.asname else []
        return self._call(change, "imported", f"add_import({', '.join(arguments)})")


def _assigned(block: str) -> set[str]:
    """The names that a block of source assigns."""
    return {name for statement in ast.parse(textwrap.dedent(block)).body for name in assigned_names(statement)}


def _method_forms(node: ast.ClassDef) -> list[str]:
    return [form(statement) for statement in node.body if isinstance(statement, FUNCTIONS)]


def make_edits(
    changes: Iterable[Change], edit: Callable[[Change], ConfigEdit]
) -> tuple[list[ConfigEdit], list[tuple[Change, str]]]:
    """The edits for changes, and why there is none for others."""
    edits, left = list[ConfigEdit](), list[tuple[Change, str]]()
    for change in changes:
        try:
            edits.append(edit(change))
        except NotAbsorbed as reason:
            left.append((change, str(reason)))
        except PatchgenError as error:
            left.append((change, error.problems[0].message))
    return edits, left
