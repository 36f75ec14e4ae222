"""Heads for causal language modeling and conditional generation: upstream's forward with the fused loss in it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.authoring.new.experts import BALANCE_FUNCTION, balances
from patchgen_core.authoring.new.expressions import calls, methods_of, own_attribute, parameters_of
from patchgen_core.authoring.new.function_text import FunctionText, mark
from patchgen_core.authoring.new.module import UpstreamSource
from patchgen_core.authoring.new.patches import BALANCE, CAUSAL, LANGUAGE_HEADS, Finding, NewPatch, Unpatched
from patchgen_core.syntax.function_names import function_name
from patchgen_core.syntax.nodes import Function, last_name, without_docstring

_LOSS_ARGUMENTS = ("logits", "labels", "vocab_size")
_CHANGE = "fused linear cross entropy where a kernel is bound - no logits are made then"
_BALANCED = "load-balancing loss by its slot"


class _Unfit(Exception):
    """Why a forward is left as it is."""


@dataclass
class _Region:
    """The statements from the head to the loss.

    Attributes:
        first, last: numbers of the statements in the body.
        states: the hidden states before positions are picked, as text.
        call: the call of the loss function.
        scale: what the logits are multiplied or divided by, with the operator; empty for none.
        softcap: the limit of the logits; empty for none.
    """

    first: int
    last: int
    states: str
    head: str
    call: ast.Call
    scale: str = ""
    softcap: str = ""


def find_losses(upstream: UpstreamSource) -> Iterator[Finding]:
    """The language modeling heads of a module."""
    for cls, text in upstream.forwards():
        if not cls.name.endswith(LANGUAGE_HEADS):
            continue
        changes = []
        try:
            _patch_loss(upstream, cls, text)
            changes.append((CAUSAL, _CHANGE, "Op slot for the loss"))
        except _Unfit as unfit:
            yield Unpatched(cls.name, str(unfit), "loss")
        if _patch_balance(upstream, text, len(changes) + 1):
            changes.append((BALANCE, _BALANCED, "Op slot for the load-balancing loss"))
        if changes:
            target, (slots, lines, descriptions) = f"{cls.name}.forward", zip(*changes)
            what = descriptions[0] if len(changes) == 1 else "Op slots for the losses"
            yield NewPatch(target, what, slots, lines, text.text(function_name(target)))


# --- the loss --------------------------------------------------------------------------------------


def _patch_loss(upstream: UpstreamSource, cls: ast.ClassDef, text: FunctionText) -> None:
    """Put the slot of the loss into a forward."""
    body = without_docstring(text.node)
    region = _region(body)
    if "labels" not in parameters_of(text.node):
        raise _Unfit("its forward takes no labels")
    _check_class(upstream, cls, region.head)
    _check_after(body, region)
    first, last = text.source.comment_line(body[region.first]), text.source.last_line(body[region.last])
    nones = [s.lineno for s in body[: region.last] if ast.unparse(s) == "loss = None"]
    own = [line for number, line in enumerate(text.lines_of(first, last), first) if number not in nones]
    own = [line for n, line in enumerate(own) if line or n == 0 or own[n - 1]]
    lines = [*([] if any(line < first for line in nones) else ["loss = None"]), "logits = None", mark(1)]
    lines += [f"if labels is not None and {CAUSAL.name}.has_kernel:"]
    lines += [f"    {line}" for line in _kernel_call(upstream, cls, text.node, region)]
    lines += ["else:", f"    {mark(1)}"]
    new = [text.inner + line for line in lines] + [f"    {line}" if line.strip() else "" for line in own]
    text.instead(first, last, new)


def _region(body: Sequence[ast.stmt]) -> _Region:
    """The statements that make the logits and the loss."""
    last, call = _loss(body)
    logits = next((k.value for k in call.keywords if k.arg == "logits"), call.args[0] if call.args else None)
    if not isinstance(logits, ast.Name) or logits.id != "logits":
        raise _Unfit("its loss does not use the logits as they come out of the head")
    head = next((n for n in range(last - 1, -1, -1) if _makes_logits(body[n])), None)
    if head is None:
        raise _Unfit("its logits do not come out of a head in one call")
    assignment = body[head]
    assert isinstance(assignment, ast.Assign)
    value, floats = assignment.value, ("float", "contiguous")
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in floats:
        value = value.func.value
    name = own_attribute(value.func) if isinstance(value, ast.Call) else ""
    if not isinstance(value, ast.Call) or not name or len(value.args) != 1 or value.keywords:
        raise _Unfit("its logits do not come out of a head in one call")
    first, states = _states(body, head, value.args[0])
    region = _Region(first, last, states, name, call)
    _between(body[head + 1 : last], region)
    return region


def _loss(body: Sequence[ast.stmt]) -> tuple[int, ast.Call]:
    """The number of ``if labels is not None: loss = self.loss_function(...)``, and that call."""
    for number, statement in enumerate(body):
        if not isinstance(statement, ast.If) or ast.unparse(statement.test) != "labels is not None":
            continue
        inner = statement.body[0]
        value = inner.value if isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == "loss" else None
        if isinstance(value, ast.Call) and own_attribute(value.func) == "loss_function":
            if len(statement.body) > 1 or statement.orelse:
                raise _Unfit("it does more with the labels than transformers' loss function")
            odd = [k.arg for k in value.keywords if k.arg and k.arg not in _LOSS_ARGUMENTS]
            if odd or len(value.args) > 3:
                raise _Unfit(f"its loss takes more than logits and labels: {', '.join(map(str, odd))}")
            labels = next((k.value for k in value.keywords if k.arg == "labels"), [*value.args, None, None][1])
            if not isinstance(labels, ast.Name) or labels.id != "labels":
                raise _Unfit("its loss uses other labels than those it gets")
            return number, value
    raise _Unfit("it computes its loss by itself, not by the loss function of causal language models")


def _makes_logits(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign) or _target(statement) != "logits":
        return False
    return not any(isinstance(n, ast.Name) and n.id == "logits" for n in ast.walk(statement.value))


def _states(body: Sequence[ast.stmt], head: int, argument: ast.expr) -> tuple[int, str]:
    """Where the region begins, and the hidden states of all positions."""
    before = body[head - 1] if head else None
    if isinstance(argument, ast.Subscript) and isinstance(argument.value, ast.Name):
        used = {n.id for n in ast.walk(argument.slice) if isinstance(n, ast.Name)}
        if isinstance(before, ast.Assign) and ast.unparse(before.targets[0]) in used:
            return head - 1, argument.value.id
        raise _Unfit("it picks positions in its own way before the head")
    if isinstance(before, ast.Assign) and isinstance(before.value, ast.Call):
        call = before.value
        is_sliced = last_name(call.func) == "slice_logits_to_keep" and bool(call.args)
        if is_sliced and ast.unparse(before.targets[0]) == ast.unparse(argument) and _is_plain(call.args[0]):
            return head - 1, ast.unparse(call.args[0])
    if _is_plain(argument):
        return head, ast.unparse(argument)
    raise _Unfit("something else is between the hidden states and the head")


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))


def _between(statements: Sequence[ast.stmt], region: _Region) -> None:
    """Take over what happens to the logits before the loss: a scale, and a limit behind it."""
    todo = [s for s in statements if ast.unparse(s) not in ("loss = None", "logits = logits.float()")]
    while todo and not region.softcap:
        count, region.softcap = _softcap(todo)
        if not count and not region.scale:
            region.scale = _scale(todo[0])
            count = int(bool(region.scale))
        if not count:
            break
        todo = todo[count:]
    if todo:
        excerpt = textwrap.shorten(ast.unparse(todo[0]), 60, placeholder=" ...")
        raise _Unfit(f"it changes the logits before the loss: {excerpt}")


def _scale(statement: ast.stmt) -> str:
    """The operator and factor of a statement that scales the logits, if there is a factor; empty for another one."""
    if isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
        operator, _, factor = _scale(statement.body[0]).strip().partition(" ")
        is_scale = bool(factor) and ast.unparse(statement.test) == f"{factor} is not None"
        return f" {operator} ({factor} if {factor} is not None else 1.0)" if is_scale else ""
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, (ast.Mult, ast.Div)):
        return ""
    others = {n.id for n in ast.walk(value.right) if isinstance(n, ast.Name)}
    if _target(statement) != "logits" or ast.unparse(value.left) != "logits" or not others <= {"self"}:
        return ""
    return f" {'*' if isinstance(value.op, ast.Mult) else '/'} {ast.unparse(value.right)}"


def _softcap(statements: Sequence[ast.stmt]) -> tuple[int, str]:
    """How many statements limit the logits, and the limit: an ``if`` around three with the limit above it or not, or
    three without one."""
    first = statements[0]
    if isinstance(first, ast.If) and isinstance(first.test, ast.Compare) and not first.orelse:
        holder = first.test.left
        cap, value = ast.unparse(holder), ast.unparse(holder)
        if isinstance(holder, ast.NamedExpr):
            cap, value = holder.target.id, ast.unparse(holder.value)
        is_test = ast.unparse(first.test.comparators[0]) == "None"
        return (1, value) if is_test and _is_capped(first.body, cap) else (0, "")
    if not isinstance(first, ast.Assign) or len(statements) == 1:
        return 0, ""
    if isinstance(first.targets[0], ast.Name) and _target(first) != "logits":
        is_limit = not isinstance(first.value, ast.Constant) and _softcap(statements[1:2]) == (1, _target(first))
        return (2, ast.unparse(first.value)) if is_limit else (0, "")
    cap = ast.unparse(first.value.right) if isinstance(first.value, ast.BinOp) else ""
    return (3, cap) if _is_capped(statements[:3], cap) else (0, "")


def _is_capped(statements: Sequence[ast.stmt], cap: str) -> bool:
    lines = "\n".join(map(ast.unparse, statements)).replace("logits.float()", "logits")
    return lines == f"logits = logits / {cap}\nlogits = torch.tanh(logits)\nlogits = logits * {cap}"


def _target(statement: ast.stmt) -> str:
    return ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""


def _check_class(upstream: UpstreamSource, cls: ast.ClassDef, head: str) -> None:
    """Refuse a head that is no linear layer, and a loss function that is another one."""
    value = upstream.built(cls, head)
    if not isinstance(value, ast.Call) or ast.unparse(value.func) not in ("nn.Linear", "torch.nn.Linear", "Linear"):
        raise _Unfit(f"its head '{head}' is more than one linear layer")
    own = {name for c in upstream.ancestry(cls) for name in (*methods_of(c), *_class_names(c))}
    built = upstream.built(cls, "loss_type") or upstream.built(cls, "loss_function")
    if own & {"loss_function", "loss_type"} or built is not None:
        raise _Unfit("it has a loss function of its own")


def _class_names(cls: ast.ClassDef) -> list[str]:
    return [t.id for s in cls.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)]


def _check_after(body: Sequence[ast.stmt], region: _Region) -> None:
    """Refuse a forward that uses below the loss what the fused one does not make."""
    assigned = {
        n.id
        for s in body[region.first : region.last + 1]
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    } - {"loss"}
    for statement in body[region.last + 1 :]:
        passed = {id(k.value) for call in calls(statement) for k in call.keywords}
        passed |= {id(e) for n in ast.walk(statement) if isinstance(n, ast.Tuple) for e in n.elts}
        loads = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        odd = [n.id for n in loads if n.id in assigned and (n.id != "logits" or id(n) not in passed)]
        if odd:
            raise _Unfit(f"it also uses '{odd[0]}' after the loss")


def _kernel_call(upstream: UpstreamSource, cls: ast.ClassDef, function: Function, region: _Region) -> list[str]:
    keyword = next((ast.unparse(k.value) for k in region.call.keywords if k.arg is None), "")
    built = upstream.built(cls, region.head)
    assert isinstance(built, ast.Call)
    bias = next((k.value for k in built.keywords if k.arg == "bias"), None)
    has_bias = not (isinstance(bias, ast.Constant) and bias.value is False)
    if has_bias and region.scale:
        raise _Unfit("it scales logits that a bias was added to")
    lines = []
    if keyword:
        lines += [f'shift_labels = {keyword}.get("shift_labels")']
    if region.scale:
        lines += ["# the head is linear: what scales its logits may scale what goes into it"]
    lines += [f"loss = {CAUSAL.name}(", f"    {region.states}{region.scale},", f"    self.{region.head}.weight,"]
    if keyword:
        lines += ["    labels if shift_labels is None else None,", "    shift_labels=shift_labels,"]
    else:
        lines += ["    labels,"]
    lines += [f"    bias=self.{region.head}.bias,"] if has_bias else []
    lines += [f"    softcap={region.softcap},"] if region.softcap else []
    if "logits_to_keep" in parameters_of(function):
        lines += ["    logits_to_keep=logits_to_keep,"]
    if keyword:
        lines += [f'    num_items_in_batch={keyword}.get("num_items_in_batch"),']
        lines += [f'    ignore_index={keyword}.get("ignore_index", -100),']
    return [*lines, ")"]


# --- the load-balancing loss -----------------------------------------------------------------------


def _patch_balance(upstream: UpstreamSource, text: FunctionText, number: int) -> bool:
    """Put the slot of the load-balancing loss into a forward; whether it is there now."""
    uses = [
        (statement, statement.value.func)
        for statement in ast.walk(text.node)
        if isinstance(statement, ast.Assign)
        if isinstance(statement.value, ast.Call) and ast.unparse(statement.value.func) == BALANCE_FUNCTION
    ]
    if len(uses) != 1 or uses[0][1].lineno != uses[0][0].lineno or not balances(upstream):
        return False
    [(statement, called)] = uses
    first, last, column = statement.lineno, text.source.last_line(statement), called.col_offset
    indent, lines = text.source.indent(first), text.lines_of(first, last)
    lines[0] = f"{lines[0][:column]}balance{lines[0][column + len(BALANCE_FUNCTION) :]}"
    chosen = f"balance = {BALANCE.name} if {BALANCE.name}.has_kernel else {BALANCE_FUNCTION}"
    text.instead(first, last, [indent + mark(number), indent + chosen, *lines, indent + mark(number)])
    return True
