"""PG221: a patched sub-model is the one that gets built."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen_core.contracts.module import Module
from patchgen_core.contracts.rule import Example, Finding, Rule, Subject
from patchgen_core.contracts.scopes import Call

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
    """Look for patches of model classes that only ``AutoModel`` makes.

    A class called ``...Model`` that the module never refers to is one that ``AutoModel`` looks up by its config, in
    transformers and not in the generated module.
    """
    built = _built(subject.generated)
    if not built:
        return
    builders = {call.owner.partition(".")[0] for call in built}
    configs = {_config_of(subject.generated, builder) for builder in builders} - {""}
    for patch in subject.plan.patches:
        name = patch.patch.target.split(".")[0]
        is_model = name.endswith("Model") and not name.endswith("PreTrainedModel") and name not in builders
        if not is_model or _is_made(subject.generated, name) or _config_of(subject.generated, name) in configs:
            continue
        message = f"'{patch.patch.target}' may have no effect: nothing in the module makes a '{name}'"
        hint = f"AutoModel builds the sub-models here, from upstream's own classes: override that to make a '{name}'."
        yield Finding(message, hint, built[0].node, patch.dotted, patch.patch.location)


def _built(module: Module) -> list[Call]:
    """The calls that build a model with ``AutoModel``."""
    return [call for call in module.calls if _builder(call).startswith("AutoModel")]


def _builder(call: Call) -> str:
    """The name of the class that makes a model from its config in a call."""
    function = call.node.func
    is_builder = isinstance(function, ast.Attribute) and function.attr in ("from_config", "_from_config")
    holder = function.value if is_builder and isinstance(function, ast.Attribute) else None
    return holder.id if isinstance(holder, ast.Name) else ""


def _config_of(module: Module, name: str) -> str:
    """The class of configs that a model class takes, by its ``config: ...`` or that of its ``__init__``."""
    cls = module.cls(name)
    init = module.function(f"{name}.__init__")
    declared = [s for s in (cls.body if cls else []) if isinstance(s, ast.AnnAssign)]
    found = [s.annotation for s in declared if ast.unparse(s.target) == "config"]
    found += [a.annotation for a in init.args.args if a.arg == "config" and a.annotation] if init else []
    return ast.unparse(found[0]) if found else ""


def _is_made(module: Module, name: str) -> bool:
    """Whether code of the module derives from a class, calls it, or a method of it that makes one."""
    if any(use.moment == "import" and use.owner not in ("", name) for use in module.uses_of.get(name, ())):
        return True
    return any(_builder(call) == name or getattr(call.node.func, "id", "") == name for call in module.calls)


RULE = Rule(
    code="PG221",
    name="auto model",
    severity="warning",
    reason=(
        "Many multimodal models build their vision or text tower with `AutoModel.from_config`, which looks the class "
        "up in transformers: the patched class of the same name in the generated module is never made, and the fused "
        "kernel in it never runs. A class that is built from outside, as top-level models are, is fine: allow it."
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
