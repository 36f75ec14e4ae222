"""PG216: what a data loader's workers are handed can be pickled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Replaced, Rule, Subject
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import DEFINITIONS, FUNCTIONS, Definition, Function, inside
from patchgen_core.syntax.scopes import Scope

_HANDED_OUT = frozenset(
    [
        *("func", "fn", "function", "callable", "collate", "collator", "transform", "preprocess"),
        *("position", "positions", "metadata"),
    ]
)
"""Words in the names of methods that hand a function to the data pipeline, such as ``get_position_id_func``."""

_KEPT_HERE = frozenset(
    [
        *("mask", "loss", "hook", "forward", "act", "activation", "init", "attention", "attn", "norm", "kernel"),
        *("converter", "checkpoint", "checkpointing", "schedule", "scheduler", "lr", "optimizer", "metric", "metrics"),
    ]
)
"""Words in the names of what runs in the training process itself."""

_DEPTH = 6
_UPSTREAM = """
def get_rope_index(input_ids, image_token_id):
    return input_ids == image_token_id


class ForConditionalGeneration:
    def forward(self, input_ids):
        return get_rope_index(input_ids, self.config.image_token_id)
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look at what patched methods and functions return whose name says that they hand out a function."""
    for replaced in subject.replaced:
        if not _hands_out(replaced.dotted.rpartition(".")[2]) or _is_called(subject.generated, replaced):
            continue
        ours = _Returns(subject.generated, subject.inference)
        local = next(ours.local_callables(replaced.node), None)
        if local is None:
            continue
        if replaced.upstream is not None:
            theirs = _Returns(subject.upstream, subject.upstream_inference)
            if next(theirs.local_callables(replaced.upstream), None) is not None:
                continue
        statement, what = local
        message = f"'{replaced.dotted}' returns {what}, which a data loader's worker cannot unpickle"
        hint = (
            "Define it at the top level of the module (add_helper or add_post_import_block), and bind what it needs "
            "with functools.partial."
        )
        yield Finding(message, hint, statement, replaced.dotted)


def _hands_out(name: str) -> bool:
    words = set(name.lower().split("_"))
    return bool(words & _HANDED_OUT) and not words & _KEPT_HERE


def _is_called(module: Module, replaced: Replaced) -> bool:
    """Whether the module itself calls it, other than to hand its result on under the same name."""
    name = replaced.dotted.rpartition(".")[2]
    owners = (call.owner for call in module.calls_by_name.get(name, ()))
    return any(owner.rpartition(".")[2] != name for owner in owners)


class _Returns:
    """Finds what a module's functions return that only they can name."""

    def __init__(self, module: Module, inference: Inference) -> None:
        self._module, self._inference = module, inference

    def local_callables(self, function: Function, depth: int = 0) -> Iterator[tuple[ast.stmt, str]]:
        """The returns of callables that exist inside a call only, each with what it returns in words."""
        scope = self._module.scope_of(function)
        nested = {node.name: node for node in inside(function) if isinstance(node, DEFINITIONS)}
        returns = [node for node in inside(function) if isinstance(node, ast.Return) and node.value is not None]
        for statement in returns if scope is not None else ():
            assert scope is not None
            assert statement.value is not None
            what = self._what(statement.value, scope, nested, depth)
            if what:
                yield statement, what

    def _what(self, node: ast.expr, scope: Scope, nested: dict[str, Definition], depth: int) -> str:
        """What an expression is in words when it is a local callable; empty when it is none."""
        if depth > _DEPTH:
            return ""
        if isinstance(node, ast.Lambda):
            return "a lambda"
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            arms = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            return next((what for arm in arms if (what := self._what(arm, scope, nested, depth + 1))), "")
        if isinstance(node, ast.Name):
            if node.id in nested:
                kind = "function" if isinstance(nested[node.id], FUNCTIONS) else "class"
                return f"the nested {kind} '{node.id}'"
            values = [b.value for b in scope.bound.get(node.id, []) if not b.is_item and b.index is None]
            phrases = (self._what(value, scope, nested, depth + 1) for value in values if value is not None)
            return next((what for what in phrases if what), "")
        return self._called(node, scope, nested, depth) if isinstance(node, ast.Call) else ""

    def _called(self, node: ast.Call, scope: Scope, nested: dict[str, Definition], depth: int) -> str:
        name = ast.unparse(node.func)
        if name.rpartition(".")[2] == "partial" and node.args:
            bound = self._what(node.args[0], scope, nested, depth + 1)
            return f"a partial of {bound}" if bound else ""
        if isinstance(nested.get(name), ast.ClassDef):
            return f"an instance of the nested class '{name}'"
        for callee in self._inference.callees(node, scope):
            if callee.function is not None and not callee.function.decorator_list:
                for _, what in self.local_callables(callee.function, depth + 1):
                    return f"{what} of {callee.name}"
        return ""


_PATCH = """
config.add_import("functools", names=["partial"])

@config.override_method("ForConditionalGeneration.get_position_id_func")
def get_position_id_func(self):
    def get_position_id(input_ids, image_token_id):
        return get_rope_index(input_ids, image_token_id)

    return partial(get_position_id, image_token_id=self.config.image_token_id)
"""

RULE = Rule(
    code="PG216",
    name="local callable",
    severity="warning",
    reason=(
        "A method such as `get_position_id_func` or `get_collate_fn` gives the data pipeline a function that its "
        "worker processes call. If workers are spawned, the function is pickled by the name under which a module "
        "holds it. A nested function and a lambda have no such name, and neither has a `partial` over one. With "
        "`num_workers=0`, and wherever workers are forked, nobody notices."
    ),
    failing=Example(_PATCH, _UPSTREAM),
    passing=Example(
        """
config.add_import("functools", names=["partial"])

@config.override_method("ForConditionalGeneration.get_position_id_func")
def get_position_id_func(self):
    return partial(get_rope_index, image_token_id=self.config.image_token_id)
""",
        _UPSTREAM,
    ),
    check=check,
)
