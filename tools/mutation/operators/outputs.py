"""Defects of what is made, held and returned: PG205, PG206, PG222, PG223, PG224 and PG226."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from tools.mutation.configs import NEW, Config, Piece
from tools.mutation.mutant import Expected, RuleMutant
from tools.sweep import METHODS


def output_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every output class is made without each of its fields in turn."""
    for piece in config.pieces:
        if piece.call == "replace_class":
            continue
        for number, node in enumerate(n for n in ast.walk(piece.node()) if isinstance(n, ast.Call)):
            if not isinstance(node.func, ast.Name) or "Output" not in node.func.id:
                continue
            for keyword in node.keywords:
                if keyword.arg is None:
                    continue
                changed = piece.node()
                call = [n for n in ast.walk(changed) if isinstance(n, ast.Call)][number]
                call.keywords = [k for k in call.keywords if k.arg != keyword.arg]
                text = config.with_changes({piece.index: ast.unparse(changed)})
                what = f"{piece.target}: {node.func.id}({keyword.arg}=)"
                expected = (Expected(piece.owner, (f"'{keyword.arg}'",)),)
                yield RuleMutant("loses an output field", what, text, "PG205", expected)


def slot_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every op and variant that a slot asks for is misspelt, or that of another slot."""
    for index, statement in enumerate(config.statements):
        node = ast.parse(statement).body[0]
        if "OpSlot(" not in statement or "add_post_import_block" not in statement or not isinstance(node, ast.Expr):
            continue
        block = textwrap.dedent(ast.literal_eval(node.value.args[0]))
        words = [n for n in ast.walk(ast.parse(block)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        wrong = {"full": "standard", "standard": "full"}
        for number, word in enumerate(words):
            for kind, new in (("misspells a slot", f"{word.value}_"), ("asks for another", wrong.get(word.value, ""))):
                tree = ast.parse(block)
                constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                constants[number].value = new
                text = config.with_changes({index: f"config.add_post_import_block({ast.unparse(tree)!r})"})
                if new:
                    expected = (Expected("", (f"'{new}'",)),)
                    yield RuleMutant(kind, f"{word.value} in line {word.lineno}", text, "PG206", expected)


def member_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every ``__init__`` calls each attribute that it sets something else, for which other methods wait in vain."""
    for piece in config.pieces:
        cls, _, method = piece.target.partition(".")
        if piece.call == "override_method" and method == "__init__":
            for name in sorted(_set_by(piece)):
                readers = [owner for owner in _readers(config, cls, name) if owner != piece.owner]
                changed = piece.function()
                for node in ast.walk(changed):
                    if isinstance(node, ast.Attribute) and ast.unparse(node) == f"self.{name}":
                        node.attr = f"{name}_{NEW}"
                text = config.with_changes({piece.index: ast.unparse(changed)})
                expected = tuple(Expected(owner, (f"'{name}'",), f"self.{name}") for owner in readers)
                if expected:
                    yield RuleMutant("loses an attribute", f"{cls}.{name}", text, "PG222", expected)


def attribute_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every override reads each attribute under another name, the first time that it does."""
    for piece in config.pieces:
        cls = piece.owner.partition(".")[0]
        if piece.call != "override_method" or not piece.is_bound or not _is_module(config, cls):
            continue
        for name in sorted({node.attr for node in _read_by(piece.node()) if not node.attr.startswith("__")}):
            changed = piece.function()
            next(node for node in _read_by(changed) if node.attr == name).attr = f"{name}_{NEW}"
            text = config.with_changes({piece.index: ast.unparse(changed)})
            expected = (Expected(piece.owner, (f"'{name}_{NEW}'",), f"self.{name}_{NEW}"),)
            yield RuleMutant("misspells an attribute", f"{piece.owner}: {name}", text, "PG226", expected)


def _is_module(config: Config, cls: str) -> bool:
    """Whether upstream's class is a module of torch."""
    classes = config.original.classes
    line = config.original.line_of(cls) if cls in classes else []
    return any(
        "Module" in ast.unparse(base) or "PreTrained" in ast.unparse(base) for c in line for base in classes[c].bases
    )


def _read_by(node: ast.AST) -> list[ast.Attribute]:
    """The attributes of ``self`` that a method reads."""
    attributes = (inner for inner in ast.walk(node) if isinstance(inner, ast.Attribute))
    return [a for a in attributes if isinstance(a.ctx, ast.Load) and ast.unparse(a.value) == "self"]


def _set_by(piece: Piece) -> set[str]:
    """The attributes that a method sets, once each and on ``self``."""
    found = [
        target.attr
        for node in ast.walk(piece.function())
        for target in (getattr(node, "targets", None) or [getattr(node, "target", None)])
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    ]
    return {name for name in found if found.count(name) == 1}


def _readers(config: Config, cls: str, name: str) -> list[str]:
    """The methods of a class and its subclasses that read an attribute which nothing else of theirs provides."""
    reader = config.original
    found = []
    for other in reader.classes:
        line = [reader.classes[owner] for owner in reader.line_of(other)]
        is_provided = sum(_provides(node, name) for owner in line for node in ast.walk(owner)) > 1
        if reader.classes[cls] in line and not is_provided and name != "config":
            methods = [method for method in reader.classes[other].body if isinstance(method, METHODS)]
            found += [f"{other}.{method.name}" for method in methods if _reads(method, name)]
    return found


def _provides(node: ast.AST, name: str) -> bool:
    """Whether something sets an attribute, is a method of that name, or names it in a string."""
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.ctx, ast.Store)
    return name in (getattr(node, "name", None), getattr(node, "value", None))


def _reads(method: ast.AST, name: str) -> bool:
    nodes = (node for node in ast.walk(method) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
    return any(ast.unparse(node) == f"self.{name}" for node in nodes)


def return_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every tuple that an override returns is one shorter or one longer."""
    for piece in config.pieces:
        if piece.call == "replace_class" or piece.target.count(".") > 1:
            continue
        lengths = {len(node.value.elts) for node in _returns(piece.node()) if isinstance(node.value, ast.Tuple)}
        count = len(_returns(piece.node()))
        for number in range(count):
            for kind in ("returns less", "returns more"):
                changed = piece.node()
                returned = _returns(changed)[number]
                if not all(isinstance(node.value, ast.Tuple) for node in _returns(changed)) or len(lengths) > 1:
                    continue
                assert isinstance(returned.value, ast.Tuple)
                values = returned.value.elts
                if kind == "returns less":
                    returned.value = values[0] if len(values) == 2 else ast.Tuple(values[:-1], ast.Load())
                else:
                    values.append(ast.Constant(None))
                text = config.with_changes({piece.index: ast.unparse(changed)})
                yield RuleMutant(
                    kind, f"{piece.target}, {number}", text, "PG223", (Expected(piece.owner, ("returns",)),)
                )


def _returns(node: ast.AST) -> list[ast.Return]:
    """The return statements of a function, without those of functions inside it."""
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return) and child.value is not None:
            found.append(child)
        elif not isinstance(child, (*METHODS, ast.Lambda, ast.ClassDef)):
            found += _returns(child)
    return found


def external_mutants(config: Config) -> Iterator[RuleMutant]:
    """Every external patch, and one for every class and function, names what its module does not have."""
    for index, statement in enumerate(config.statements):
        count = sum(_is_external(node) for node in ast.walk(ast.parse(statement)))
        for number in range(count):
            tree = ast.parse(statement)
            call = [node for node in ast.walk(tree) if _is_external(node)][number]
            assert isinstance(call, ast.Call)
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            name, target = given["replacement_name"], given["target"]
            assert isinstance(name, ast.Constant)
            assert isinstance(target, ast.Constant)
            name.value += NEW
            text = config.with_changes({index: ast.unparse(tree)})
            expected = (Expected(target.value, (f"'{name.value}'",)),)
            yield RuleMutant("misspells an external name", target.value, text, "PG224", expected)
    for name in (*config.original.classes, *config.original.functions) if config.is_alone else ():
        more = "from patchgen import create_patch_from_external\n"
        more += f'config.patches.append(create_patch_from_external("{name}", config.source_module, "{name}{NEW}"))'
        expected = (Expected(name, (f"'{name}{NEW}'",)),)
        yield RuleMutant("misspells an external name", name, config.with_changes(more=more), "PG224", expected)


def _is_external(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "create_patch_from_external"
