"""PG217: no kernel rotates whole heads where upstream rotates otherwise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from patchgen_core.checks.contract.kernels import find_slots
from patchgen_core.checks.contract.rotations import Kind, is_prepared, is_rotary, kinds_of
from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import FUNCTIONS, Function, last_name
from patchgen_core.syntax.scopes import Call, Scope

_KERNELS = frozenset(
    [
        *("liger_rotary_pos_emb", "LigerRopeFunction", "liger_rope", "liger_rotary_pos_emb_vision"),
        *("npu_rotary_mul", "npu_apply_rotary_pos_emb", "npu_rotary_position_embedding"),
        *("fast_rope_embedding", "Fast_RoPE_Embedding"),
    ]
)
"""Kernels that rotate all of each head, its first half against its second."""

_HOW: dict[Kind, str] = {
    "partial": "rotates only a part of each head",
    "interleaved": "rotates neighbouring pairs",
    "sections": "takes each section of a head from a different axis of the positions",
}
_FIELDS: dict[Kind, frozenset[str]] = {
    "partial": frozenset(
        ["partial_rotary_factor", "partial_rotary_factors", "rotary_dim", "rotary_pct", "rotary_percent"]
    ),
    "interleaved": frozenset(["rope_interleave", "rope_interleaved", "rotary_interleaved"]),
    "sections": frozenset(["mrope_section", "mrope_interleaved"]),
}
_HINT = (
    "Keep upstream's function here, or use a kernel that rotates in the same way, and pass it what upstream's code "
    "passes "
    "to its own rotation."
)
_WATCHED = ("rot", "rope", "interleav", "partial", "shape[-1]", "size(-1)")
_DEPTH = 3
_UPSTREAM = """
import torch


def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin):
    rotary_dim = cos.shape[-1]
    q_rot, q_pass = q[..., :rotary_dim], q[..., rotary_dim:]
    k_rot, k_pass = k[..., :rotary_dim], k[..., rotary_dim:]
    q_embed = q_rot * cos + rotate_half(q_rot) * sin
    k_embed = k_rot * cos + rotate_half(k_rot) * sin
    return torch.cat([q_embed, q_pass], dim=-1), torch.cat([k_embed, k_pass], dim=-1)
"""


@dataclass(frozen=True)
class _Use:
    """A kernel that is called with whole heads; ``covers`` are ways of rotating that it handles, told or not."""

    name: str
    node: ast.AST
    covers: frozenset[Kind]


def check(subject: Subject) -> Iterator[Finding]:
    """Compare what patched functions hand to rotary kernels with how upstream's rotate."""
    kernels = _Kernels(subject, subject.generated)
    if not _may_use_kernels(subject):
        return
    for replaced in subject.replaced:
        use = next(kernels.uses(replaced.node), None) if replaced.upstream is not None else None
        if use is not None and replaced.upstream is not None:
            where = f"'{replaced.dotted}' passes whole heads to '{use.name}'"
            yield from _kernel_findings(subject, replaced.dotted, where, use, replaced.upstream)
    for name, functions in subject.upstream.index.functions.items():
        use = kernels.named(name) if is_rotary(name) and name not in subject.generated.index.definitions else None
        if use is not None:
            yield from _kernel_findings(subject, name, f"'{name}' is '{use.name}' here", use, functions[0])


def _may_use_kernels(subject: Subject) -> bool:
    """Whether the generated module has a name that may be a kernel's and is not upstream's."""
    ours, theirs = subject.generated, subject.upstream
    if "OpSlot" in ours.source.text or any(kernel in ours.source.text for kernel in _KERNELS):
        return True
    bound = {*ours.index.imports, *ours.index.assigned} - {*theirs.index.imports, *theirs.index.assigned}
    return any(is_rotary(name) for name in bound)


def _kernel_findings(subject: Subject, name: str, where: str, use: _Use, upstream: Function) -> Iterator[Finding]:
    for kind in sorted(kinds_of(subject.upstream, upstream) - use.covers):
        patch = subject.patches.get(name)
        is_import = isinstance(use.node, ast.stmt) and patch is not None
        declared = patch.patch.location if patch and is_import else None
        message = f"{where}, but upstream's {_HOW[kind]}{_allowed_by(subject, kind)}"
        yield Finding(message, _HINT, use.node, name, declared)


class _Kernels:
    """The rotary kernels that a module knows, which was reached through ``depth`` others."""

    def __init__(self, subject: Subject, module: Module, depth: int = 0) -> None:
        self.subject, self.module, self.depth = subject, module, depth
        self._cache: dict[str, _Use | None] = {}

    def uses(self, function: Function) -> Iterator[_Use]:
        """The calls of a function that hand whole heads to a kernel."""
        scope = self.module.scope_of(function)
        for call in self._calls.get(scope.owner, ()) if scope is not None else ():
            if not function.lineno <= call.node.lineno <= (function.end_lineno or 0):
                continue  # another definition of the same name
            use = self._called(call.node.func, call.scope)
            line = call.node.lineno
            if use is None or _is_guarded(function, line):
                continue
            if not any(is_prepared(head, call.scope, line) for head in _heads(call.node)):
                yield _Use(use.name, call.node, use.covers | _stated_kinds(call.node))

    def named(self, name: str) -> _Use | None:
        """The kernel behind a name of the module's top level."""
        if name not in self._cache:
            self._cache[name] = None
            self._cache[name] = self._behind(name)
        return self._cache[name]

    def _called(self, function: ast.expr, scope: Scope) -> _Use | None:
        if isinstance(function, ast.Attribute) and function.attr == "apply":
            function = function.value
        if isinstance(function, ast.Name) and scope.find(function.id) is None:
            return self.named(function.id)
        if isinstance(function, (ast.Name, ast.Attribute)) and last_name(function) not in _KERNELS:
            return None
        name = ast.unparse(function)
        return _Use(name, function, frozenset()) if name.rpartition(".")[2] in _KERNELS else None

    def _behind(self, name: str) -> _Use | None:
        if name in self._slots:
            return _Use(name, self._slots[name], frozenset())
        for statement, alias in self.module.index.imports.get(name, ()):
            if isinstance(statement, ast.ImportFrom) and (is_rotary(alias.name) or alias.name in _KERNELS):
                return self._imported(statement, alias)
        for assignment in self.module.index.assigned.get(name, ()):
            if isinstance(assignment, ast.Assign) and isinstance(assignment.value, (ast.Name, ast.Attribute)):
                return self._called(assignment.value, Scope(self.module.tree, "module"))
        own = self.module.function(name)
        is_added = name in self.subject.helpers or name in self.subject.added
        is_judged = self.module is self.subject.generated and not is_added
        used = next(self.uses(own), None) if own is not None and not is_judged else None
        return _Use(name, used.node, used.covers) if used else None

    def _imported(self, statement: ast.ImportFrom, alias: ast.alias) -> _Use | None:
        definition = self.subject.library.find(statement.module or "", alias.name) if not statement.level else None
        if alias.name in _KERNELS:
            return _Use(alias.name, statement, _able(definition[1]) if definition else frozenset())
        if definition is None or not isinstance(definition[1], FUNCTIONS) or self.depth >= _DEPTH:
            return None
        inner = next(_Kernels(self.subject, definition[0], self.depth + 1).uses(definition[1]), None)
        return _Use(alias.name, statement, inner.covers) if inner else None

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        calls: dict[str, list[Call]] = {}
        for call in self.module.calls:
            calls.setdefault(call.owner, []).append(call)
        return calls

    @cached_property
    def _slots(self) -> dict[str, ast.AST]:
        calls = [slot.call.node for slot in find_slots(self.module) if is_rotary(slot.op) and slot.variant == "full"]
        return {
            name: statement
            for name, statements in self.module.index.assigned.items()
            for statement in statements
            if getattr(statement, "value", None) in calls
        }


def _heads(call: ast.Call) -> list[ast.expr]:
    """What a call hands to a kernel to be rotated: all before the cosines."""
    heads: list[ast.expr] = []
    for name, argument in [*(("", a) for a in call.args), *((k.arg or "", k.value) for k in call.keywords)]:
        if "cos" in (name or ast.unparse(argument)):
            break
        heads.append(argument)
    return heads[:2]


def _able(definition: ast.AST) -> frozenset[Kind]:
    """What a kernel takes care of by itself: newer ones tell from cos and sin how much of a head rotates."""
    arguments = {node.arg for node in ast.walk(definition) if isinstance(node, ast.arg)}
    return frozenset(["partial"]) if arguments & {"rotary_dim", "rot_dim", "rotary_ndims"} else frozenset()


def _stated_kinds(call: ast.Call) -> frozenset[Kind]:
    words = {keyword.arg or "" for keyword in call.keywords}
    kinds: set[Kind] = {"partial"} if any("dim" in word and is_rotary(word) for word in words) else set()
    kinds |= {"interleaved"} if any("interleav" in word or "mode" in word for word in words) else set()
    kinds |= {"sections"} if any("section" in word for word in words) else set()
    return frozenset(kinds)


def _is_guarded(function: Function, line: int) -> bool:
    """Whether a test before or around a line looks at how much of a head rotates, or how."""
    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.IfExp, ast.Assert)) and node.lineno <= line:
            conditions = [n for n in ast.walk(node.test) if isinstance(n, (ast.Compare, ast.Name, ast.Attribute))]
            texts = [ast.unparse(n) for n in conditions if not _asks_for_kernel(n)]
            if any(word in text for text in texts for word in _WATCHED):
                return True
    return False


def _asks_for_kernel(node: ast.AST) -> bool:
    return getattr(node, "attr", "") in ("has_kernel", "is_cuda", "is_npu") or isinstance(node, ast.Name)


def _allowed_by(subject: Subject, kind: Kind) -> str:
    """Which field of the model's configuration class it is that upstream's code rotates by."""
    for name, imports in subject.upstream.index.imports.items():
        statement, alias = imports[0]
        if not isinstance(statement, ast.ImportFrom) or "configuration_" not in (statement.module or ""):
            continue
        package = subject.plan.upstream.package.rsplit(".", statement.level - 1)[0] if statement.level else ""
        definition = subject.library.find(f"{package}.{statement.module}".lstrip("."), alias.name)
        fields = sorted(_FIELDS[kind] & _class_words(definition[1])) if definition else []
        if fields:
            return f" ('{name}' has {fields[0]})"
    return ""


def _class_words(cls: ast.AST) -> set[str]:
    words = set()
    for node in ast.walk(cls):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            words.add(node.id if isinstance(node, ast.Name) else node.attr)
    return words


RULE = Rule(
    code="PG217",
    name="rotary",
    severity="warning",
    reason=(
        "A fused rotary kernel rotates all of each head, the first half against the second, as llama does. Many "
        "models rotate less, or differently: a quarter of each head with the rest passed through, neighbouring pairs, "
        "or sections for time, height and width. The shapes fit all the same, so nothing raises. The kernel reads "
        "cosines beyond their end or pairs the wrong entries, and the loss becomes NaN or is just worse than it "
        "should be. The rule learns how a model rotates from upstream's functions, not only from its configuration "
        "class: if the caller cuts the heads first, a kernel for whole heads is right."
    ),
    failing=Example(
        """
config.add_import("torch_npu", names=["npu_rotary_mul"])

@config.replace_function("apply_rotary_pos_emb")
def apply_rotary_pos_emb(q, k, cos, sin):
    return npu_rotary_mul(q, cos, sin), npu_rotary_mul(k, cos, sin)
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
config.add_import("torch_npu", names=["npu_rotary_mul"])

@config.replace_function("apply_rotary_pos_emb")
def apply_rotary_pos_emb(q, k, cos, sin):
    rotary_dim = cos.shape[-1]
    q_rot, q_pass = q[..., :rotary_dim], q[..., rotary_dim:]
    k_rot, k_pass = k[..., :rotary_dim], k[..., rotary_dim:]
    q_embed, k_embed = npu_rotary_mul(q_rot, cos, sin), npu_rotary_mul(k_rot, cos, sin)
    return torch.cat([q_embed, q_pass], dim=-1), torch.cat([k_embed, k_pass], dim=-1)
""",
        _UPSTREAM,
    ),
    check=check,
)
