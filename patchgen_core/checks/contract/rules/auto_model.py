"""PG221: a patched sub-model is the one that gets built."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.checks.contract.rule import Example, Finding, Rule, Subject
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.scopes import Call

_BUILDERS = ("from_config", "_from_config")
_UPSTREAM = """
from transformers import AutoModel


class VisionModel:
    def forward(self, x):
        return x


class Model:
    def __init__(self, config):
        self.vision = AutoModel.from_config(config.vision_config)
"""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for patches of model classes that only ``AutoModel`` makes, and of what only these use.

    A class called ``...Model`` that the module never refers to is one that ``AutoModel`` looks up by its config, in
    transformers and not in the generated module.
    """
    module = subject.generated
    built = [call for call in _builder_calls(module) if _builder(call).startswith("AutoModel")]
    if not built:
        return
    builders = {call.owner.partition(".")[0] for call in built}
    configs = {_config_of(module, builder) for builder in builders} - {""}

    def is_looked_up(name: str) -> bool:
        is_model = name.endswith("Model") and not name.endswith("PreTrainedModel") and name not in builders
        return is_model and not _is_made(module, name) and _config_of(module, name) not in configs

    for patch in subject.plan.patches:
        name = patch.patch.target.split(".")[0]
        tops = _tops(module, name)
        if not tops or not all(map(is_looked_up, tops)):
            continue
        models = " or ".join(f"'{top}'" for top in sorted(tops))
        message = f"'{patch.patch.target}' may have no effect: nothing in the module creates a {models}"
        message += "" if tops == {name} else ", and nothing else uses it"
        hint = (
            "AutoModel builds the sub-models here from upstream's own classes: override that code to create a "
            f"{models}."
        )
        yield Finding(message, hint, built[0].node, patch.dotted, patch.patch.location)


def _tops(module: Module, name: str) -> set[str]:
    """The classes and functions of the module that lead to one and that none leads to; itself, if none does."""
    tops: set[str] = set()
    visited, ahead = {name}, [name]
    while ahead:
        current = ahead.pop()
        users = _using_owners(module, current)
        if not users:
            tops.add(current)
        ahead += users - visited
        visited |= users
    return tops


def _using_owners(module: Module, name: str) -> set[str]:
    """What uses a class or function; the common base of all models, which initializes each kind of layer, does not."""
    owners = {use.owner.partition(".")[0] for use in module.uses.get(name, ())}
    return {owner for owner in owners if owner not in ("", name) and not owner.endswith("PreTrainedModel")}


def _builder_calls(module: Module) -> list[Call]:
    calls = (call for name in _BUILDERS for call in module.calls_by_name.get(name, ()))
    return sorted(calls, key=lambda call: (call.node.lineno, call.node.col_offset))


def _builder(call: Call) -> str:
    """The name of what has the method that builds a model."""
    holder = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    return holder.id if isinstance(holder, ast.Name) else ""


def _config_of(module: Module, name: str) -> str:
    """The class of configs that a model class takes, by its ``config: ...`` or that of its ``__init__``."""
    cls = module.cls(name)
    init = module.function(f"{name}.__init__")
    declared = [s for s in (cls.body if cls else []) if isinstance(s, ast.AnnAssign)]
    annotations = [s.annotation for s in declared if ast.unparse(s.target) == "config"]
    annotations += [a.annotation for a in init.args.args if a.arg == "config" and a.annotation] if init else []
    return ast.unparse(annotations[0]) if annotations else ""


def _is_made(module: Module, name: str) -> bool:
    """Whether code of the module derives from a class, calls it, or a method of it that makes one."""
    if any(use.moment == "import" and use.owner not in ("", name) for use in module.uses.get(name, ())):
        return True
    is_called = any(isinstance(call.node.func, ast.Name) for call in module.calls_by_name.get(name, ()))
    return is_called or any(_builder(call) == name for call in _builder_calls(module))


RULE = Rule(
    code="PG221",
    name="auto model",
    severity="warning",
    reason=(
        "Many multimodal models build their vision or text tower with `AutoModel.from_config`, which looks the class "
        "up in transformers. Nothing then makes the patched class of the same name in the generated module, and its "
        "fused kernel never runs. A class that is built from outside, as top-level models are, is fine: allow it."
    ),
    failing=Example(
        """
@config.override_method("VisionModel.forward")
def forward(self, x):
    return x * 2
""",
        _UPSTREAM,
    ),
    passing=Example(
        """
@config.override_method("VisionModel.forward")
def forward(self, x):
    return x * 2

@config.override_method("Model.__init__")
def init(self, config):
    self.vision = VisionModel(config.vision_config)
""",
        _UPSTREAM,
    ),
    check=check,
)
