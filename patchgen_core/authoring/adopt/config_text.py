"""Writes the patch config that does what a monkey patch did."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from patchgen_core.authoring.adopt.patcher_run import AttributeChange, PatchedValue, PatcherRun, UsedName
from patchgen_core.config.declarations import Allowance
from patchgen_core.errors import Problem
from patchgen_core.syntax.nodes import FUNCTIONS, Definition
from patchgen_core.syntax.source import SourceFile
from patchgen_core.upstream.custom_code import INITIALIZE, declare_initialize

_ROUTERS = ("use_kernel_forward_from_hub", "use_kernel_func_from_hub", "use_experts_implementation")
_MODELING = re.compile(r"\.(\w+)\.modeling_\1$")
_TAKER = "use_kernelized_func"


class AdoptedConfig:
    """The config for what a patcher did to the module ``source``: its statements, by the place they have in it.

    Attributes:
        changes: what it declares, each ``target = replacement``.
        findings: what the patcher does and the config does not.
        notes: what is different without being wrong.
    """

    def __init__(self, run: PatcherRun, source: SourceFile, target_file: str) -> None:
        self.run, self.source, self.target_file = run, source, target_file
        self.index = source.index
        self.function = run.patcher.rpartition(":")[2]
        self.reason = f"As {self.function} patches it"
        self.whole = {e.name for e in run.changes if e.is_upstream and not e.cls and e.name in self.index.definitions}
        self.patched: set[str] = set()
        self.imports: dict[str, tuple[str, str]] = {}
        self.removals: list[str] = []
        self.externals: list[str] = []
        self.additions: dict[str, tuple[str, str]] = {}
        self.typing: dict[str, str] = {}
        self.blocks: list[str] = []
        self.changes: list[str] = []
        self.findings: list[Problem] = []
        self.notes: list[str] = []
        self._declare()

    def text(self, about: Sequence[str], allowances: Sequence[Allowance] = ()) -> str:
        """The config, before it is formatted; its docstring ends with the lines ``about``."""
        return "\n".join(self._text(about, allowances))

    # --- changes -----------------------------------------------------------------------------------

    def _declare(self) -> None:
        elsewhere: dict[str, list[AttributeChange]] = {}
        for change in self.run.changes:
            if not change.is_upstream:
                elsewhere.setdefault(_modeling_module(change) or change.label, []).append(change)
            elif change.cls:
                self._member(change)
            else:
                self._global(change)
        self._helpers()
        for changes in elsewhere.values():
            self._elsewhere(changes)
        self.notes += [f"the patcher says: {message}" for message in self.run.messages]
        self.notes += [*self._early_uses(), *self._patching_imports()]
        if self.run.side_effects:
            names = ", ".join(self.run.side_effects)
            self.notes.append(f"other packages changed themselves meanwhile, which is left to them: {names}")

    def _patching_imports(self) -> Iterator[str]:
        """Modules that patch when they are imported, which the generated module still imports."""
        if ":" in self.run.patcher:
            return
        needed = {module for module, _ in self.additions.values()}
        for name in self.run.patcher.split(", "):
            if name in needed or any(f"replacement_module={name!r}" in text for text in self.externals):
                yield (
                    f"the generated module imports {name}, which then patches upstream as well, so that parity has "
                    "nothing else to compare with: --inline copies its code instead"
                )

    def _helpers(self) -> None:
        """What the copied code uses of modules that nothing is to be imported from."""
        for name, value in self.run.helpers.items():
            change = AttributeChange(value.label, name, "", True, True, value)
            if value.kind == "literal":
                self.blocks.insert(0, f"{name} = {value.label}\n")
                self.blocks.append(f"config.add_post_import_block({f'{name} = {value.label}'!r})\n")
            elif self._names(change, value, copied=True):
                self.blocks.insert(0, f"@config.add_helper\n{value.source}\n")
        rest = {n: p for n, p in self.additions.items() if p[0] in self.run.inlined and n not in self.run.helpers}
        for name, (module, attribute) in rest.items():
            message = f"{name}: the generated module still imports {attribute or 'it'} from {module}"
            self.findings.append(Problem(message, hint="Move it to a module that you keep, and import it from there."))

    def _global(self, change: AttributeChange) -> None:
        """A class, function, import or constant of upstream's module."""
        name, value = change.name, change.value
        nodes = self.index.definitions.get(name, [])
        if value is None:
            self._cannot(change, "it is deleted", "Exclude it from the output, or patch what uses it.")
        elif nodes:
            self._definition(change, value, nodes)
        elif name in self.index.imports or name in self.index.assigned:
            self._bound(change, value)
        elif any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(self.source.tree)):
            self._cannot(change, "upstream means the builtin by this name", "Override what uses it.")
        else:
            upstream = self.run.upstream.rpartition(".")[2]
            self.notes.append(f"{name}: the patcher sets it, but {upstream} has no such name, so it has no effect")

    def _definition(self, change: AttributeChange, value: PatchedValue, nodes: list[Definition]) -> None:
        kind = "class" if isinstance(nodes[0], ast.ClassDef) else "function"
        if value.module and "." not in value.name:
            self.externals.append(
                f"create_patch_from_external(target={change.name!r}, replacement_module={value.module!r}, "
                f"replacement_name={value.name!r}, description={self.reason!r}),"
            )
            self._patched(change, value)
        elif value.source and value.kind == kind:
            if self._names(change, value, copied=True):
                call = f"@config.replace_{kind}({change.name!r}, description={self.reason!r})"
                self.blocks.append(f"{call}\n{value.source}\n")
                self._patched(change, value)
        else:
            why = value.why or (f"it is no {kind}" if value.source else "it cannot be imported")
            self._cannot(change, why, "Give it a name at the top level of a module.")
            return
        if kind == "function":
            self._take_marks_off(change.name)

    def _bound(self, change: AttributeChange, value: PatchedValue) -> None:
        """A name that upstream imports or assigns."""
        name = change.name
        place = (value.module, value.name) if value.module and "." not in value.name else None
        if place is None and value.kind != "literal":
            self._cannot(change, value.why or "it cannot be imported", "Give it a name at the top level of a module.")
            return
        if place is not None and not self._add_import(name, *place):
            self._cannot(change, "another import has its name", "Import one of them under another name.")
            return
        if name in self.index.imports:
            self.removals.append(f"config.drop_import_names({name!r})")
        elif name in self.index.assigned:
            self.removals.append(f"config.exclude_from_output({name!r})")
        if place is None:
            self.blocks.append(f"config.add_post_import_block({f'{name} = {value.label}'!r})\n")
        self._patched(change, value)

    def _member(self, change: AttributeChange) -> None:
        """A method or an attribute of one of upstream's classes."""
        value = change.value
        if change.cls.split(".")[0] in self.whole:
            self.notes.append(f"{change.target}: the patcher also replaces '{change.cls}', so it has no effect")
        elif change.cls not in self.index.definitions:
            self._cannot(change, f"'{change.cls}' is not defined at the top level", "Patch the class around it.")
        elif value is None:
            self._cannot(change, "it is deleted", "Override it.")
        elif value.wraps:
            if self._names(change, value, copied=True):
                self._wrap(change, value)
        elif value.kind != "function":
            self._cannot(change, "only methods can be patched", "Set it in modify_init, or replace the class.")
        elif value.why or not (value.module or value.source):
            is_init = change.name == "__init__"
            hint = "Write it as a function at the top level." if not is_init else "Write it with config.modify_init."
            self._cannot(change, value.why or "it cannot be imported", hint)
        elif self._names(change, value, copied=not value.module):
            self._override(change, value)

    def _wrap(self, change: AttributeChange, value: PatchedValue) -> None:
        """A function that calls upstream's method."""
        is_init = change.name == "__init__"
        call, target = ("modify_init", change.cls) if is_init else ("wrap_method", change.target)
        self.blocks.append(f"@config.{call}({target!r}, description={self.reason!r})\n{value.source}\n")
        self._patched(change, value)

    def _override(self, change: AttributeChange, value: PatchedValue) -> None:
        options = "keep_decorators=False"
        renamed = {use.name: self._alias(use) for use in value.uses if use.kind == "renamed"}
        options += f", name_map={renamed!r}" if renamed else ""
        options += ", add=True" if change.is_new else ""
        options += f", description={self.reason!r}"
        if value.module:
            replacement = self._import(value)
            call = f"config.override_method({change.target!r}, replacement={replacement}, {options})\n"
        else:
            call = f"@config.override_method({change.target!r}, {options})\n{value.source}\n"
        self.blocks.append(call)
        if change.name == "forward":
            self._take_routers_off(change.cls)
        self._patched(change, value)

    def _elsewhere(self, changes: Sequence[AttributeChange]) -> None:
        """Changes of one other module, which no module that is generated from this one can hold."""
        upstream = self.run.upstream.rpartition(".")[2]
        values = [f"{change.label} = {change.value.label if change.value else 'nothing'}" for change in changes]
        place = _modeling_module(changes[0])
        if place:
            hint = f"Adopt that module as well: patchgen adopt {place} {self.run.origin}."
        else:
            switches = [f"{switch}=false" for change in changes if (switch := self._switch(change))]
            hint = "It reaches every model of the process: patch the methods that use it instead."
            hint += f" '--kwargs {' '.join(switches)}' leaves it out." if switches else ""
        what = "is" if len(values) == 1 else "are"
        self.findings.append(Problem(f"{', '.join(values)}: {what} not of {upstream}", hint=hint))

    def _switch(self, change: AttributeChange) -> str:
        """The parameter of the patcher that is named as what it changes."""
        last = change.label.rpartition(".")[2].lower()
        return next((name for name in self.run.parameters if name.replace("_", "") == last.replace("_", "")), "")

    def _cannot(self, change: AttributeChange, why: str, hint: str) -> None:
        value = f" = {change.value.label}" if change.value else ""
        self.findings.append(Problem(f"{change.target}{value}: {why}", hint=hint))

    def _patched(self, change: AttributeChange, value: PatchedValue) -> None:
        self.patched.add(change.target)
        self.changes.append(f"{change.target} = {value.label}")

    def keep_initial_values(self, classes: Iterable[str]) -> None:
        """Have classes initialize what transformers skips outside its package, unless the patcher replaces them."""
        for name in classes:
            target = f"{name}.{INITIALIZE}"
            if name not in self.whole and target not in self.patched:
                self.blocks.append(declare_initialize(name))
                self.notes.append(f"{target} is added, so that models start with the values that upstream's do")

    # --- names -------------------------------------------------------------------------------------

    def _names(self, change: AttributeChange, value: PatchedValue, copied: bool) -> bool:
        """Import what a replacement's source refers to; tell what cannot be."""
        bad = [use.name for use in value.uses if use.kind in ("clash", "unknown")]
        for use in value.uses:
            if use.name in self.run.helpers and use.kind == "imported":
                continue
            if use.kind == "imported" and not self._add_import(use.name, use.module, use.attribute):
                bad.append(use.name)
            elif use.kind == "mentioned":
                line = _import_line(use.name, use.module, use.attribute)
                block = f"from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    {line}\n"
                self.typing[use.name] = f'config.add_post_import_block("""\n{block}""")'
            elif use.kind == "renamed":
                self._add_import(self._alias(use), use.module, use.attribute)
            if copied and use.kind in ("imported", "upstream"):
                is_own = use.kind == "upstream"
                place = (self.run.upstream, use.name) if is_own else (use.module, use.attribute)
                if self.imports.setdefault(use.name, place) != place:
                    bad.append(use.name)
        if bad:
            names = ", ".join(f"'{name}'" for name in bad)
            why = f"{value.label} uses {names}, which the generated module lacks, or has with another meaning"
            self._cannot(change, why, "Copy the function into the config and import what it uses.")
        return not bad

    def _add_import(self, name: str, module: str, attribute: str) -> bool:
        """Import a name into the generated module, unless it is imported from elsewhere already."""
        return self.additions.setdefault(name, (module, attribute)) == (module, attribute)

    def _alias(self, use: UsedName) -> str:
        return f"{use.module.partition('.')[0]}_{use.name}"

    def _import(self, value: PatchedValue) -> str:
        """Import a replacement into the config; the expression for it."""
        first, *rest = value.name.split(".")
        name = first
        if self.imports.get(name, (value.module, first)) != (value.module, first) or name == "config":
            name = f"{value.module.rpartition('.')[2]}_{first}"
        self.imports[name] = (value.module, first)
        return ".".join([name, *rest])

    # --- decorators --------------------------------------------------------------------------------

    def _take_marks_off(self, function: str) -> None:
        """Upstream's classes that take up a mark which the replaced function bore."""
        for name, decorator in self._decorators(_TAKER):
            if any(isinstance(node, ast.Name) and node.id == function for node in ast.walk(decorator)):
                self._drop(name, _TAKER, f"It reads a mark that upstream's {function} has and the new one lacks.")

    def _take_routers_off(self, cls: str) -> None:
        for router in _ROUTERS:
            for name, _ in self._decorators(router):
                if name == cls:
                    self._drop(name, router, "It would run something else instead of the patched forward.")

    def _drop(self, name: str, decorator: str, why: str) -> None:
        if name not in self.whole:
            self.removals.append(f"# {why}\nconfig.drop_decorators({name!r}, {decorator!r})")

    def _decorators(self, target: str) -> Iterator[tuple[str, ast.expr]]:
        for name, nodes in self.index.definitions.items():
            for node in nodes:
                for decorator in node.decorator_list:
                    function = decorator.func if isinstance(decorator, ast.Call) else decorator
                    if ast.unparse(function).rpartition(".")[2] == target:
                        yield name, decorator

    def _early_uses(self) -> Iterator[str]:
        """What uses a replaced name while upstream's module is imported, before a monkey patch could replace it."""
        dropped = {ast.unparse(decorator) for _, decorator in self._decorators(_TAKER)}
        for node in self.source.tree.body:
            if not isinstance(node, ast.ClassDef) or node.name in self.whole:
                continue
            early = [*node.bases, *(d for d in node.decorator_list if ast.unparse(d) not in dropped)]
            early += [s.value for s in node.body if isinstance(s, (ast.Assign, ast.AnnAssign)) and s.value]
            early += [d for s in node.body if isinstance(s, FUNCTIONS) for d in s.decorator_list]
            used = {n.id for part in early for n in ast.walk(part) if isinstance(n, ast.Name)} & self.patched
            for name in sorted(used):
                yield (
                    f"{node.name} uses {name} when the module is imported: there the generated module has the new "
                    f"one, where the monkey patch leaves upstream's"
                )

    # --- text --------------------------------------------------------------------------------------

    def _text(self, about: Sequence[str], allowances: Sequence[Allowance]) -> Iterator[str]:
        run = self.run
        model = run.upstream.rpartition(".")[2].removeprefix("modeling_")
        yield from _docstring(model, run, self.function, about)
        for name, (module, attribute) in sorted(self.imports.items(), key=lambda item: (item[1], item[0])):
            yield _import_line(name, module, attribute)
        names = ["PatchConfig", *(["create_patch_from_external"] if self.externals else [])]
        yield f"from patchgen import {', '.join(names)}\n"
        yield f"config = PatchConfig(source_module={run.upstream!r}, target_file={self.target_file!r},"
        yield f"    description={f'{model}, with what {self.function} patches'!r},\n)\n"
        yield from (f"{removal}\n" for removal in dict.fromkeys(self.removals))
        if self.externals:
            yield from ("config.patches.extend([", *self.externals, "])\n")
        if self.additions or self.typing:
            yield "# What the replacements below refer to."
            yield from _added_imports(self.additions)
            yield from self.typing.values()
            yield ""
        yield from self.blocks
        if allowances:
            yield f"# These also hold under {self.function}."
            yield from (f"config.allow({entry.code!r}, {entry.reason!r}, {entry.target!r})" for entry in allowances)
            yield ""
        if self.findings:
            yield f"# {self.function} also does this, and this config does not:"
            for finding in self.findings:
                yield from textwrap.wrap(finding.message, 110, initial_indent="# - ", subsequent_indent="#   ")
                yield from textwrap.wrap(finding.hint, 110, initial_indent="#   ", subsequent_indent="#   ")


def _docstring(model: str, run: PatcherRun, function: str, about: Sequence[str]) -> Iterator[str]:
    arguments = ", ".join(f"{name}={value!r}" for name, value in run.arguments.items())
    lines = [f"{model} on a GPU: what the monkey patch {function} does, by code generation.", ""]
    module = run.patcher.partition(":")[0]
    lines.append(
        f"That is {function}({arguments}) of {module}." if ":" in run.patcher else "It patches when imported."
    )
    for line in about:
        is_text = line.strip() == line != ""
        wrapped = textwrap.wrap(line, 110, break_long_words=False, break_on_hyphens=False)
        lines += wrapped if is_text else [line]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    yield f'"""{text}\n"""\n'


def _import_line(name: str, module: str, attribute: str) -> str:
    if not attribute:
        return f"import {module}" if name == module else f"import {module} as {name}"
    return f"from {module} import {attribute}" + ("" if name == attribute else f" as {name}")


def _added_imports(additions: dict[str, tuple[str, str]]) -> Iterator[str]:
    by_module: dict[str, list[str]] = {}
    for name, (module, attribute) in additions.items():
        if attribute:
            entry = name if name == attribute else f"{attribute} as {name}"
            by_module.setdefault(module, []).append(entry)
    for module in sorted(by_module):
        yield f"config.add_import({module!r}, names={sorted(by_module[module])!r})"
    for name, (module, attribute) in sorted(additions.items()):
        if not attribute:
            yield f"config.add_import({module!r}" + ("" if name == module else f", alias={name!r}") + ")"


def _modeling_module(change: AttributeChange) -> str:
    """The modeling module that a changed attribute is of; empty for other modules."""
    parts = change.label.split(".")
    places = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((place for place in places if _MODELING.search(place)), "")
