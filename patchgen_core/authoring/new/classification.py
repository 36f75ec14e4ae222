"""Heads for sequence classification that upstream inherits from ``GenericForSequenceClassification``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from patchgen_core.authoring.new.expressions import methods_of
from patchgen_core.authoring.new.function_text import FunctionText, mark, marked
from patchgen_core.authoring.new.module import UpstreamSource, homes_of
from patchgen_core.authoring.new.patches import SEQ_CLS, Finding, NewPatch, Unpatched
from patchgen_core.syntax.function_names import function_name
from patchgen_core.syntax.nodes import FUNCTIONS, last_name, without_docstring
from patchgen_core.syntax.source import SourceFile

GENERIC = "GenericForSequenceClassification"
GENERIC_MODULE = "transformers.modeling_layers"
_CHANGES = (
    f"new here - upstream inherits it from {GENERIC}, whose lines these are",
    "fused linear cross entropy where a kernel is bound - of each row's last token, in a single-label problem",
)
_PICKED = """
if self.config.get_text_config().pad_token_id is None and batch_size != 1:
    raise ValueError('Cannot handle batch sizes > 1 if no padding token is defined.')
if self.config.get_text_config().pad_token_id is None:
    last_non_pad_token = -1
elif input_ids is not None:
    non_pad_mask = (input_ids != self.config.get_text_config().pad_token_id).to(logits.device, torch.int32)
    token_indices = torch.arange(input_ids.shape[-1], device=logits.device, dtype=torch.int32)
    last_non_pad_token = (token_indices * non_pad_mask).argmax(-1)
else:
    last_non_pad_token = -1
    logger.warning_once(
        f'{self.__class__.__name__} will not detect padding tokens in `inputs_embeds`. Results may be '
        'unexpected if using padding tokens in conjunction with `inputs_embeds.`'
    )
"""
_IN_ONE = """
pad_token_id = self.config.get_text_config().pad_token_id
if pad_token_id is None and batch_size != 1:
    raise ValueError("Cannot handle batch sizes > 1 if no padding token is defined.")
last_non_pad_token = -1
if pad_token_id is not None and input_ids is not None:
    # To handle both left- and right- padding, we take the rightmost token that is not equal to pad_token_id
    non_pad_mask = (input_ids != pad_token_id).to(logits.device, torch.int32)
    token_indices = torch.arange(input_ids.shape[-1], device=logits.device, dtype=torch.int32)
    last_non_pad_token = (token_indices * non_pad_mask).argmax(-1)
elif pad_token_id is not None:
    logger.warning_once(
        f"{self.__class__.__name__} will not detect padding tokens in `inputs_embeds`. Results may be "
        "unexpected if using padding tokens in conjunction with `inputs_embeds.`"
    )
"""
"""The same with one branch less, so that every line of it runs where there is a padding token."""
_LOSS = "if labels is not None:\n    loss = self.loss_function(logits=logits, labels=labels, "
_LOSS += "pooled_logits=pooled_logits, config=self.config)"


def find_classification(upstream: UpstreamSource, generic: SourceFile) -> Iterator[Finding]:
    """The sequence classification heads of a module; ``generic`` is the module that has the generic head."""
    for cls in upstream.classes.values():
        if not cls.name.endswith("ForSequenceClassification"):
            continue
        if GENERIC not in map(last_name, cls.bases):
            reason = (
                "it does more than inherit from GenericForSequenceClassification: it pools and computes its loss "
                "itself"
            )
            yield Unpatched(cls.name, reason, "head")
            continue
        reason = f"it has methods of its own besides those of {GENERIC}, or that class is not the known one"
        patch = _patch(upstream, cls, generic) if not methods_of(cls) else None
        yield patch or Unpatched(cls.name, reason, "head")


def _patch(upstream: UpstreamSource, cls: ast.ClassDef, generic: SourceFile) -> NewPatch | None:
    """The generic head's forward with the slot in it, for one class."""
    home = next((n for n in generic.tree.body if isinstance(n, ast.ClassDef) and n.name == GENERIC), None)
    function = methods_of(home).get("forward") if home is not None else None
    if function is None or not isinstance(function, FUNCTIONS):
        return None
    body = without_docstring(function)
    texts = [ast.unparse(statement) for statement in body]
    pooled = next((n for n, t in enumerate(texts) if t.startswith("pooled_logits = logits[")), None)
    if _LOSS not in texts or pooled is None or "logits = self.score(hidden_states)" not in texts:
        return None
    text = FunctionText(generic, function)
    _put_slot(text, body, body[texts.index(_LOSS)], body[pooled])
    target = f"{cls.name}.forward"
    decorators = tuple(last_name(d) for d in function.decorator_list)
    homes = homes_of(generic, GENERIC_MODULE)
    missing = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} - upstream.source.index.names
    imports = tuple((name, homes[name]) for name in sorted(missing) if name in homes)
    block: tuple[str, ...] = ()
    if "logger" in missing:
        block = ("logger = logging.get_logger(__name__)",)
        imports += () if "logging" in upstream.source.index.names else (("logging", "transformers.utils"),)
    return NewPatch(
        target,
        "Op slot for the loss of sequence classification",
        (SEQ_CLS,),
        _CHANGES,
        text.text(function_name(target)),
        decorators=decorators,
        imports=imports,
        block=block,
    )


def _put_slot(text: FunctionText, body: list[ast.stmt], loss: ast.stmt, statement: ast.stmt) -> None:
    """Put the slot before upstream's loss; ``statement`` picks the logits of each row's last token."""
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Subscript)
    picked = ast.unparse(statement.value.slice)
    rows = f"hidden_states[{picked.removeprefix('(').removesuffix(')') if picked.startswith('(') else picked}]"
    line = text.source.comment_line(body[0])
    text.before(line, [mark(1)])
    text.after(text.source.last_line(statement), [mark(1)], text.inner)
    lines = [
        f"if labels is not None and {SEQ_CLS.name}.has_kernel:",
        f"    loss = {SEQ_CLS.name}(",
        f"        {rows},",
        "        self.score.weight,",
        "        labels,",
        "        problem_type=self.config.problem_type,",
        "    )",
    ]
    text.before(loss.lineno, marked(2, lines))
    _in_one(text, body)
    text.instead(loss.lineno, loss.lineno, [text.lines_of(loss.lineno, loss.lineno)[0].replace("if ", "elif ", 1)])


def _in_one(text: FunctionText, body: list[ast.stmt]) -> None:
    """Write the choice of the last token with one branch less, where upstream's is the one that is known."""
    usual_statements = [ast.unparse(statement) for statement in ast.parse(_PICKED).body]
    for first, second in pairwise(body):
        if [ast.unparse(first), ast.unparse(second)] == usual_statements:
            lines = [text.inner + line if line else "" for line in _IN_ONE.strip().split("\n")]
            text.instead(first.lineno, text.source.last_line(second), lines)
