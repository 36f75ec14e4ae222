"""What of a package's code runs with one release of transformers, as far as its version guards tell."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tools.monkey_patches.names import Trees, absolute

Value = Version | bool | str | None
_OPERATORS: dict[type[ast.cmpop], Callable[[Version, Version], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_SIGNS = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq}
_PARSING = frozenset(["parse", "Version", "LooseVersion", "StrictVersion", "str"])
_PARTS = frozenset(["base_version", "release", "public"])
_NUMBERS = frozenset(["major", "minor", "micro"])
_REFUSING = frozenset(["check_version", "require_version"])


class Guards:
    """Evaluates conditions over the version of transformers; ``trees`` are a package's modules."""

    def __init__(self, trees: Trees, version: str) -> None:
        self.trees, self.version = trees, Version(version)
        self._values: dict[str, dict[str, list[ast.expr]]] = {}
        self._sources: dict[str, dict[str, tuple[ast.ImportFrom, str]]] = {}

    def live(self, module: str) -> ast.Module:
        """A module without what never runs with that version. The module of ``trees`` is changed."""
        tree = self.trees[module]
        _Pruner(self, module).visit(tree)
        return tree

    def truth(self, module: str, test: ast.expr, known: Mapping[str, Value] | None = None) -> bool | None:
        """Whether a condition holds; None where that is not a matter of the version."""
        if isinstance(test, ast.BoolOp):
            deciding = isinstance(test.op, ast.Or)
            truths = [self.truth(module, value, known) for value in test.values]
            return deciding if deciding in truths else None if None in truths else not deciding
        value = self.value(module, test, known or {})
        return value if isinstance(value, bool) else None

    def value(self, module: str, node: ast.expr, known: Mapping[str, Value], depth: int = 6) -> Value:
        """A version, a truth or a text; None where it is anything else."""
        if not depth:
            return None
        if isinstance(node, ast.Constant):
            return _parsed(node.value) if isinstance(node.value, (str, int)) else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = self.truth(module, node.operand, known)
            return None if truth is None else not truth
        if isinstance(node, ast.Compare):
            return self._comparison(module, node, known, depth)
        if isinstance(node, ast.Call):
            return self._result(module, node, known, depth)
        if isinstance(node, ast.Attribute) and node.attr in _PARTS:
            return self.value(module, node.value, known, depth - 1)
        if isinstance(node, ast.Attribute) and node.attr in _NUMBERS:
            whole = self.value(module, node.value, known, depth - 1)
            return Version(str(getattr(whole, node.attr))) if isinstance(whole, Version) else None
        if isinstance(node, ast.Attribute):
            return self.version if ast.unparse(node) == "transformers.__version__" else None
        if isinstance(node, ast.Name):
            return known[node.id] if node.id in known else self._global(module, node.id, depth)
        return None

    def _comparison(self, module: str, node: ast.Compare, known: Mapping[str, Value], depth: int) -> bool | None:
        sides = [self.value(module, side, known, depth - 1) for side in (node.left, *node.comparators)]
        results = []
        for sign, left, right in zip(node.ops, sides, sides[1:]):
            if not isinstance(left, Version) or not isinstance(right, Version) or type(sign) not in _OPERATORS:
                return None
            results.append(_OPERATORS[type(sign)](left, right))
        return all(results)

    def _result(self, module: str, call: ast.Call, known: Mapping[str, Value], depth: int) -> Value:
        name = ast.unparse(call.func).rpartition(".")[2]
        values = [self.value(module, argument, known, depth - 1) for argument in call.args]
        if name in _PARSING and len(values) == 1:
            return values[0]
        if "version" in name.lower() and values == ["transformers"]:
            return self.version
        if name == "is_transformers_version" and len(call.args) == 2 and isinstance(values[1], Version):
            sign = _SIGNS.get(str(values[0]))
            return _OPERATORS[sign](self.version, values[1]) if sign else None
        home, function = self._function(module, call.func)
        if function is None or call.keywords or len(values) > len(function.args.args):
            return None
        last = function.body[-1]
        own = dict(zip((argument.arg for argument in function.args.args), values))
        returned = last.value if isinstance(last, ast.Return) and len(function.body) <= 2 else None
        if isinstance(returned, ast.BoolOp):
            return self.truth(home, returned, own)
        return self.value(home, returned, own, depth - 1) if returned is not None else None

    def _function(self, module: str, node: ast.expr) -> tuple[str, ast.FunctionDef | None]:
        for _ in range(4):
            tree = self.trees.get(module)
            if tree is None or not isinstance(node, ast.Name):
                break
            for statement in tree.body:
                if isinstance(statement, ast.FunctionDef) and statement.name == node.id:
                    return module, statement
            source = self._imports(module).get(node.id)
            if source is None:
                break
            module, node = absolute(module, source[0], self.trees), ast.Name(source[1])
        return module, None

    def _global(self, module: str, name: str, depth: int) -> Value:
        tree = self.trees.get(module)
        if tree is None:
            return None
        values = self._assigned(module).get(name, [])
        if len({ast.dump(value) for value in values}) == 1:
            return self.value(module, values[0], {}, depth - 1)
        source = self._imports(module).get(name)
        if values or source is None:
            return None
        home = absolute(module, source[0], self.trees)
        if (home, source[1]) == ("transformers", "__version__"):
            return self.version
        return self._global(home, source[1], depth - 1)

    def _assigned(self, module: str) -> dict[str, list[ast.expr]]:
        if module not in self._values:
            values: dict[str, list[ast.expr]] = {}
            for node in ast.walk(self.trees[module]):
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    values.setdefault(node.targets[0].id, []).append(node.value)
            self._values[module] = values
        return self._values[module]

    def _imports(self, module: str) -> dict[str, tuple[ast.ImportFrom, str]]:
        if module not in self._sources:
            sources: dict[str, tuple[ast.ImportFrom, str]] = {}
            for node in ast.walk(self.trees[module]):
                for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                    assert isinstance(node, ast.ImportFrom)
                    sources.setdefault(alias.asname or alias.name, (node, alias.name))
            self._sources[module] = sources
        return self._sources[module]

    def refuses(self, call: ast.AST) -> bool:
        """Whether a statement demands another version of transformers: ``check_version("transformers<4.48")``."""
        value = call.value if isinstance(call, ast.Expr) else None
        if not isinstance(value, ast.Call) or ast.unparse(value.func).rpartition(".")[2] not in _REFUSING:
            return False
        text = value.args[0].value if value.args and isinstance(value.args[0], ast.Constant) else ""
        name, demand = str(text)[:12], str(text)[12:]
        try:
            return name == "transformers" and not SpecifierSet(demand).contains(self.version)
        except InvalidSpecifier:
            return False


class _Pruner(ast.NodeTransformer):
    """Takes branches out that never run, and what follows a statement that always leaves its block."""

    def __init__(self, guards: Guards, module: str) -> None:
        self._guards, self._module = guards, module

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, self._until_left(block) or ([ast.Pass()] if name == "body" else []))
        return node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        truth = self._guards.truth(self._module, node.test)
        self.generic_visit(node)
        return node if truth is None else node.body if truth else node.orelse

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        truth = self._guards.truth(self._module, node.test)
        self.generic_visit(node)
        return node if truth is None else node.body if truth else node.orelse

    def _until_left(self, block: list[ast.stmt]) -> list[ast.stmt]:
        for place, statement in enumerate(block):
            if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                return block[: place + 1]
            if self._guards.refuses(statement):
                return [*block[:place], ast.Return()]
        return block


def _parsed(value: str | int) -> Value:
    if isinstance(value, bool):
        return value
    try:
        return Version(str(value))
    except InvalidVersion:
        return str(value)
