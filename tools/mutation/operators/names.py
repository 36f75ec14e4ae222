"""Defects of names: what is taken out, what nothing binds, what hides something else: PG203, PG204 and PG207."""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Iterator

from tests.syntax.compiled import loaded, stored
from tools.mutation.configs import NEW, Config, is_config_call
from tools.mutation.mutant import Expected, RuleMutant
from tools.sweep import DEFINITIONS


def exclusion_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every class, function and constant that other code uses is excluded."""
    tree = ast.parse(config.generated)
    patched = {piece.target.split(".")[0] for piece in config.pieces} if not config.is_alone else set()
    reader = config.original
    tables = [name for name in reader.tables if not name.startswith("__")]
    for name in (*reader.classes, *reader.functions, *tables):
        if name in patched:
            continue
        rest = [node for node in tree.body if not _binds(node, name)]
        text = config.with_changes(more=f'config.exclude_from_output("{name}")')
        without = ast.unparse(ast.Module(rest, []))
        quoted = (f"'{name}'",)
        if name in loaded(without):
            yield RuleMutant("excludes what is used", name, text, "PG203", (Expected("", quoted, name),))
        if name in _listed(ast.parse(without)):
            yield RuleMutant("excludes what a list names", name, text, "PG203", (Expected("", quoted, repr(name)),))


def _binds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, DEFINITIONS):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _listed(tree: ast.Module) -> set[str]:
    """The names in ``_no_split_modules``."""
    return {
        constant.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "_no_split_modules" in map(ast.unparse, node.targets)
        for constant in ast.walk(node.value)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }


def addition_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every name that a patch uses goes by one that only the config knows, and every addition goes."""
    bound = {name for name in loaded(config.upstream) if not hasattr(builtins, name)}
    for piece in config.pieces if config.is_alone else ():
        node = piece.node()
        assert isinstance(node, DEFINITIONS)
        node.decorator_list = []
        for name in sorted(loaded(ast.unparse(node)) & bound):
            changed = piece.node()
            for inner in ast.walk(changed):
                if isinstance(inner, ast.Name) and inner.id == name:
                    inner.id = f"{NEW}_{name}"
            text = config.with_changes({piece.index: f"{NEW}_{name} = {name}\n\n{ast.unparse(changed)}"})
            expected = (Expected(piece.owner, (f"'{NEW}_{name}'",)),)
            yield RuleMutant("uses a name of the config", f"{piece.target}: {name}", text, "PG204", expected)
    for index, statement in enumerate(config.statements):
        for what, names, changed_text in _without_addition(statement):
            text = config.with_changes({index: changed_text})
            used = sorted(names & loaded(config.generated))
            for name in used:
                expected = (Expected("", (f"'{name}'",)),)
                yield RuleMutant(f"loses {what}", name, text, "PG204", expected)
    for name in config.original.classes if config.is_alone else ():
        helper = f"@config.add_helper\nclass {NEW}({name}):\n    pass"
        yield RuleMutant(
            "helper above its base", name, config.with_changes(more=helper), "PG204", (Expected(NEW, (f"'{name}'",)),)
        )


def _without_addition(statement: str) -> Iterator[tuple[str, set[str], str]]:
    node = ast.parse(statement).body[0]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and is_config_call(node.value):
        call = ast.unparse(node.value.func)
        if call == "config.add_import":
            names = next((k.value for k in node.value.keywords if k.arg == "names"), None)
            for number, entry in enumerate(names.elts if isinstance(names, ast.List) else ()):
                fresh = ast.parse(statement).body[0]
                listing = next(k.value for k in fresh.value.keywords if k.arg == "names")
                del listing.elts[number]
                name = str(getattr(entry, "value", "")).split(" as ")[-1].strip()
                yield "an import", {name}, ast.unparse(fresh) if listing.elts else "pass"
        elif call == "config.add_post_import_block":
            block = ast.literal_eval(node.value.args[0])
            yield "a block", stored(textwrap.dedent(block)), "pass"
    elif isinstance(node, DEFINITIONS) and any("config.add_helper" in ast.unparse(d) for d in node.decorator_list):
        fresh = ast.parse(statement).body[0]
        assert isinstance(fresh, DEFINITIONS)
        fresh.decorator_list = [d for d in fresh.decorator_list if "config.add_helper" not in ast.unparse(d)]
        yield "a helper", {node.name}, ast.unparse(fresh)


def shadowing_mutants(config: Config) -> Iterator[RuleMutant]:
    """An addition of each kind takes every name that upstream imports, and every builtin that upstream uses."""
    used = loaded(config.upstream) & loaded(_without_patches(config))
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.parse(config.upstream).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    known = {name for name in used if hasattr(builtins, name) and not name.startswith("__")}
    for name in sorted(imported & used | known):
        kind = "what is imported" if name in imported else "a builtin"
        for what, more in (
            ("import", f'config.add_import("acme.kernels", names=["{name}"])'),
            ("helper", f"@config.add_helper\ndef {name}(*args):\n    return args"),
            ("block", f'config.add_post_import_block("{name} = None")'),
        ):
            text = config.with_changes(more=more)
            yield RuleMutant(f"{what} hides {kind}", name, text, "PG207", (Expected("", (f"'{name}'",)),))


def _without_patches(config: Config) -> str:
    """The generated module without what is patched: there a name may be meant to be another than upstream's."""
    if config.is_alone:
        return config.generated
    patched = {piece.target for piece in config.pieces}
    tree = ast.parse(config.generated)
    tree.body = [node for node in tree.body if not _is_one_of(node, "", patched)]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            kept = [inner for inner in node.body if not _is_one_of(inner, f"{node.name}.", patched)]
            node.body = kept or [ast.Pass()]
    return ast.unparse(tree)


def _is_one_of(node: ast.stmt, prefix: str, targets: set[str]) -> bool:
    return isinstance(node, DEFINITIONS) and prefix + node.name in targets
