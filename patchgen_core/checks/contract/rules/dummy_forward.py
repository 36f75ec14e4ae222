"""PG219: a dummy forward fits every variant of its model and the dtype of the moment, and has gradients."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchgen_core.checks.contract.casts import casts_input
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Function, decorator_name, list_nodes
from patchgen_core.syntax.scopes import NameBinding, Scope
from patchgen_core.syntax.signatures import signature_of

_SHAPED = frozenset(["zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty"])
_FILLED = frozenset(["full", "new_full"])
_DRAWN = frozenset(["randint"])
_WRITTEN = frozenset(["tensor", "as_tensor", "LongTensor", "IntTensor", "new_tensor"])
_TOKENS = frozenset(["ids", "token", "tokens", "label", "labels"])
_SHAPE_HINT = (
    "Compute sizes from self.config, such as patch_size and in_channels, and make grids multiples of "
    "spatial_merge_size, so that they fit every variant of the model."
)
_DTYPE_HINT = (
    "Under FSDP2 with mixed precision that is the dtype in which parameters are stored. On each call, take the "
    "dtype from "
    "the weight that reads the input, such as self.patch_embed.proj.weight.dtype."
)
_CACHE_HINT = "Make the input anew on each call: a kept one has the dtype and device of an earlier moment."
_GRADIENT_HINT = (
    "Under FSDP2 the ranks with images wait for its gradients: let every parameter take part in the backward pass, "
    "and multiply the result by zero."
)
_WITHOUT_GRADIENT = frozenset(["no_grad", "inference_mode"])
_CUTTING = frozenset(["detach", "data", "item"])
_UPSTREAM = """
import torch


class VisionModel:
    def forward(self, hidden_states, grid_thw):
        return hidden_states
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look at every ``dummy_forward`` that the config brings in."""
    for dotted, function in _dummies(subject):
        scope = subject.generated.scope_of(function)
        if scope is not None:
            yield from _Dummy(subject.generated, dotted, function, scope, _casts(subject, scope)).findings()


def _dummies(subject: Subject) -> Iterator[tuple[str, Function]]:
    if "dummy_forward" not in subject.generated.source.text:
        return
    for name, node in subject.generated.source.definitions:
        if isinstance(node, FUNCTIONS) and name.endswith("dummy_forward") and subject.is_own(name):
            yield name, node


def _casts(subject: Subject, scope: Scope) -> bool:
    """Whether the forward of a class brings its first argument into the dtype that it computes in."""
    cls = subject.inference.class_of(scope.cls)
    method = subject.inference.find_method(cls, "forward") if cls is not None else None
    if method is None or method[0].module is not subject.generated:
        return False
    first = signature_of(method[1], True).positional[:1]
    return bool(first) and casts_input(subject.inference, method[1], first[0].name)


@dataclass(frozen=True)
class _Dummy:
    """One ``dummy_forward``; messages call it ``dotted``, and ``is_cast`` says that its input may have any dtype."""

    module: Module
    dotted: str
    function: Function
    scope: Scope
    is_cast: bool = False

    @property
    def _nodes(self) -> list[ast.AST]:
        return self.module.fact(list_nodes, self.function)

    @property
    def _self(self) -> str:
        """What it calls its instance, also as a function that is a helper."""
        first = [argument.arg for argument in self.function.args.args[:1]]
        return self.scope.self_name or ("self" if first == ["self"] else "")

    def findings(self) -> Iterator[Finding]:
        """What is wrong with it."""
        for node in [*self._cuts()][:1]:
            message = f"'{self.dotted}' cuts its result off from the parameters' gradients"
            yield Finding(message, _GRADIENT_HINT, node, self.dotted)
        calls = [node for node in self._nodes if isinstance(node, ast.Call)]
        for call in calls:
            if numbers := self._numbers(call):
                sizes = f"size{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
                message = f"'{self.dotted}' makes its input with the fixed {sizes}"
                yield Finding(message, _SHAPE_HINT, call, self.dotted)
        if self.is_cast:
            return
        for call in [call for call in calls if self._takes_stored_dtype(call)][:1]:
            message = f"'{self.dotted}' takes the dtype of its input from '{self._self}.dtype'"
            yield Finding(message, _DTYPE_HINT, call, self.dotted)
        for node in self._cached():
            message = f"'{self.dotted}' keeps its input in '{ast.unparse(node)}' from one call to the next"
            yield Finding(message, _CACHE_HINT, node, self.dotted)

    # --- gradients ---------------------------------------------------------------------------------

    def _cuts(self) -> Iterator[ast.AST]:
        """Where the parameters lose their part in what is returned."""
        yield from (node for node in self.function.decorator_list if decorator_name(node) in _WITHOUT_GRADIENT)
        for block in (node for node in self._nodes if isinstance(node, ast.With)):
            managers = [item.context_expr for item in block.items]
            runs_model = any(isinstance(node, ast.Call) and self._is_model(node.func) for node in ast.walk(block))
            yield from (node for node in managers if runs_model and decorator_name(node) in _WITHOUT_GRADIENT)
        for statement in (node for node in self._nodes if isinstance(node, ast.Return)):
            parts = [part for value in _parts(statement.value) for v in self._values(value) for part in _parts(v)]
            yield from (part for part in parts if isinstance(part, ast.Attribute) and part.attr in _CUTTING)

    def _is_model(self, node: ast.expr) -> bool:
        """Whether an expression is the model itself, or a part or method of it."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id == self._self

    # --- shapes ------------------------------------------------------------------------------------

    def _numbers(self, call: ast.Call) -> list[int]:
        """The numbers above 1 that a tensor's shape, or a tensor of sizes, is written with."""
        maker = _maker(call)
        positional = [a.value if isinstance(a, ast.Starred) else a for a in call.args]
        shapes = [keyword.value for keyword in call.keywords if keyword.arg == "size"]
        if maker in _WRITTEN:
            data = [*positional[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "data")]
            return [] if self._holds_tokens(call) else [n for a in data for n in self._listed(a) if n > 1]
        if maker in _SHAPED:
            shapes += positional
        elif maker in _FILLED:
            shapes += positional[:1]
        elif maker in _DRAWN:
            shapes += positional[1:] if isinstance(positional[-1], (ast.Tuple, ast.List, ast.Name)) else []
            shapes = [s for s in shapes if any(isinstance(v, (ast.Tuple, ast.List)) for v in self._values(s))]
        else:
            return []
        return [number for shape in shapes for number in self._written(shape) if number > 1]

    def _listed(self, node: ast.expr) -> Iterator[int]:
        for value in self._values(node):
            for entry in value.elts if isinstance(value, (ast.Tuple, ast.List)) else ():
                number = None if isinstance(entry, ast.Name) else self._number(entry)
                yield from [number] if number is not None else self._listed(entry)

    def _written(self, node: ast.expr) -> Iterator[int]:
        """The sizes of a shape that no part of the model or its config has a say in."""
        values = self._values(node)
        for value in values:
            if isinstance(value, (ast.Tuple, ast.List)):
                for entry in value.elts:
                    yield from self._written(entry.value if isinstance(entry, ast.Starred) else entry)
            elif len(values) == 1:
                number = self._number(value)
                yield from [] if number is None else [number]

    def _number(self, node: ast.expr) -> int | None:
        values = self._values(node)
        node = values[0] if len(values) == 1 else node
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mult, ast.Add, ast.Pow)):
            return None
        left, right = self._number(node.left), self._number(node.right)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Pow):
            return int(left**right) if 0 <= right < 9 else None
        return left * right if isinstance(node.op, ast.Mult) else left + right

    def _values(self, node: ast.expr) -> list[ast.expr]:
        """What a local name, or a constant of the module, is given; anything else stands for itself."""
        if not isinstance(node, ast.Name):
            return [node]
        home = self.scope.find(node.id)
        if home is None:
            statements = self.module.index.assigned.get(node.id, [])
            expressions = [getattr(statement, "value", None) for statement in statements]
        else:
            expressions = [None if binding.is_item else _unpacked(binding) for binding in home.bound[node.id]]
        evident = [value for value in expressions if value is not None and not isinstance(value, ast.Name)]
        return evident if evident and len(evident) == len(expressions) else [node]

    def _holds_tokens(self, call: ast.Call) -> bool:
        """Whether a tensor is one of tokens, whose numbers are no sizes."""
        for node in self._nodes:
            names: list[str] = []
            if isinstance(node, ast.Assign) and call in ast.walk(node.value):
                names = [ast.unparse(target) for target in node.targets]
            elif isinstance(node, ast.keyword) and node.arg and call in ast.walk(node.value):
                names = [node.arg]
            if any(part in _TOKENS for name in names for part in re.split(r"\W|_", name)):
                return True
        return False

    # --- dtypes and caches -------------------------------------------------------------------------

    def _takes_stored_dtype(self, call: ast.Call) -> bool:
        """Whether a call makes a tensor of ``self.dtype``, or turns one into it."""
        dtypes = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "type"):
            dtypes += call.args
        return any(self._is_own(value, "dtype") for node in dtypes for value in self._values(node))

    def _cached(self) -> Iterator[ast.Attribute]:
        """The attributes of the model that hold inputs of a dummy forward; each once."""
        called = {id(node.func) for node in self._nodes if isinstance(node, ast.Call)}
        names = set()
        for node in self._nodes:
            if not isinstance(node, ast.Attribute) or id(node) in called or not self._is_own(node):
                continue
            is_made = isinstance(node.ctx, ast.Store) and self._is_assigned_a_tensor(node)
            if (is_made or "dummy" in node.attr.lower()) and node.attr not in names:
                names.add(node.attr)
                yield node

    def _is_assigned_a_tensor(self, target: ast.Attribute) -> bool:
        assigned = [n for n in self._nodes if isinstance(n, ast.Assign) and target in n.targets]
        inner = [n for statement in assigned for v in self._values(statement.value) for n in ast.walk(v)]
        return any(isinstance(node, ast.Call) and _maker(node) != "" for node in inner)

    def _is_own(self, node: ast.expr, attribute: str = "") -> bool:
        holder = node.value if isinstance(node, ast.Attribute) and attribute in ("", node.attr) else None
        return isinstance(holder, ast.Name) and holder.id == self._self


def _parts(node: ast.expr | None) -> Iterator[ast.expr]:
    """An expression and what it is computed from, but for the arguments of calls."""
    if node is None:
        return
    yield node
    if isinstance(node, ast.BinOp):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        yield from _parts(node.value)
    elif isinstance(node, ast.Call):
        yield from _parts(node.func)


def _unpacked(binding: NameBinding) -> ast.expr | None:
    """What a name is given by an assignment, also as one of several."""
    value = binding.value
    if binding.index is None:
        return value
    entries = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    return entries[binding.index] if binding.index < len(entries) else None


def _maker(call: ast.Call) -> str:
    """The name of the function of torch, or the method of a tensor, that makes a tensor; empty for others."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return ""
    is_torch = isinstance(function.value, ast.Name) and function.value.id == "torch"
    is_maker = is_torch or function.attr.startswith("new_")
    return function.attr if is_maker and function.attr in _SHAPED | _FILLED | _DRAWN | _WRITTEN else ""


RULE = Rule(
    code="PG219",
    name="dummy forward",
    severity="warning",
    reason=(
        "On a rank whose batch has no image, `dummy_forward` runs the vision tower on made-up input so that all ranks "
        "meet in the same collectives. A shape that was copied from the variant at hand fails on the next one with "
        "another patch size. `self.dtype`, or input kept from an earlier call, has the dtype that parameters are "
        "stored in, while FSDP2 with mixed precision computes in another. Then that rank crashes, the others wait for "
        "it, and the run looks like a hang of NCCL. The same happens if `no_grad` or `detach` leave the rank without "
        "gradients to reduce. The dtype does not matter to a tower that casts its input itself, as patch embeddings "
        "do."
    ),
    failing=Example(
        """
import torch

@config.override_method("VisionModel.dummy_forward")
def dummy_forward(self):
    hidden_states = torch.zeros((16, 3 * 2 * 16 * 16), dtype=self.dtype)
    grid_thw = torch.tensor([[1, 4, 4]])
    return self(hidden_states, grid_thw)
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
import torch

@config.override_method("VisionModel.dummy_forward")
def dummy_forward(self):
    merge, config = self.spatial_merge_size, self.config
    row = config.in_channels * config.temporal_patch_size * config.patch_size**2
    hidden_states = torch.zeros((merge * merge, row), dtype=self.patch_embed.proj.weight.dtype)
    grid_thw = torch.tensor([[1, merge, merge]])
    return self(hidden_states, grid_thw)
""",
        _UPSTREAM,
    ),
    check=check,
)
