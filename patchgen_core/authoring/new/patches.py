"""What there is to patch in an upstream module: patches with their text, and what stays as it is, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from patchgen_core.authoring.new.function_text import FunctionText, marked
from patchgen_core.syntax.function_names import function_name
from patchgen_core.syntax.nodes import decorator_names

_ROUTERS = ("use_kernel_forward_from_hub", "use_experts_implementation")
"""Decorators of a class that would run another forward in the place of a patched one."""


@dataclass(frozen=True)
class NewSlot:
    """An op slot of the generated module; ``name`` is the variable, such as ``slot_rms_norm``."""

    name: str
    op: str
    variant: str

    @property
    def line(self) -> str:
        """The statement that makes it."""
        return f'{self.name} = OpSlot("{self.op}", "{self.variant}")'


RMS_NORM = NewSlot("slot_rms_norm", "rms_norm", "standard")
RMS_NORM_ONE_PLUS = NewSlot("slot_rms_norm_one_plus", "rms_norm", "one_plus_weight")
ROTARY = NewSlot("slot_rotary_pos_emb", "rotary_pos_emb", "full")
SWIGLU = NewSlot("slot_swiglu_mlp", "swiglu_mlp", "standard")
GEGLU = NewSlot("slot_geglu_mlp", "geglu_mlp", "standard")
EXPERTS = NewSlot("slot_moe_experts", "moe_experts", "standard")
BALANCE = NewSlot("slot_load_balancing_loss", "moe_load_balancing_loss", "standard")
CAUSAL = NewSlot("slot_causal_lm_loss", "cross_entropy_loss", "causal")
SEQ_CLS = NewSlot("slot_seq_cls_loss", "cross_entropy_loss", "seq_cls")
SLOTS = (RMS_NORM, RMS_NORM_ONE_PLUS, ROTARY, SWIGLU, GEGLU, EXPERTS, BALANCE, CAUSAL, SEQ_CLS)
"""Every slot that is written, in the order of the block that makes them."""


LANGUAGE_HEADS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""How the names of classes with a language modeling head end."""


@dataclass(frozen=True)
class NewPatch:
    """One patch of the config.

    Attributes:
        target: what it patches, ``Class.method`` or ``function``.
        changes: what it changes, one entry for each number.
        text: the replacement: a function at the top level, without the decorator that declares it.
        same_as: the target whose replacement is used for this one as well; ``text`` is empty then.
        decorators: names of decorators of the replacement, which the config imports.
        imports: names that the generated module needs, with the module that has them.
        block: statements that the generated module needs below its imports.
        drops: decorators of upstream's that would run something else in its place, each behind the name of its class.
    """

    target: str
    description: str
    slots: tuple[NewSlot, ...]
    changes: tuple[str, ...]
    text: str
    same_as: str = ""
    decorators: tuple[str, ...] = ()
    imports: tuple[tuple[str, str], ...] = ()
    block: tuple[str, ...] = ()
    drops: tuple[tuple[str, str], ...] = ()

    @property
    def owner(self) -> str:
        """The class that it patches a method of, or the function."""
        return self.target.partition(".")[0]


@dataclass(frozen=True)
class Unpatched:
    """Something that stays as upstream has it.

    Attributes:
        name: a class or function, or the file that is not written.
        reason: as a comment says it.
        kind: "norm", "MLP", "rotary", "experts", "loss", "load balancing", "head", "plan", "converter", "unused",
            "rule".
    """

    name: str
    reason: str
    kind: str


Finding = NewPatch | Unpatched
"""What a search finds: something to patch, or to leave."""


@dataclass
class ModulePatches:
    """What there is to patch in a module, and what is left, in the order of the searches and of the module."""

    patches: list[NewPatch]
    left: list[Unpatched]


def patch_forward(
    cls: ast.ClassDef, description: str, slot: NewSlot, change: str, text: FunctionText, lines: Sequence[str]
) -> NewPatch:
    """A patch that puts lines first in the forward of a class."""
    text.at_start(marked(1, lines))
    target = f"{cls.name}.forward"
    drops = tuple((cls.name, router) for router in _ROUTERS if router in decorator_names(cls))
    return NewPatch(target, description, (slot,), (change,), text.text(function_name(target)), drops=drops)


def share_texts(patches: Iterable[NewPatch]) -> Iterator[NewPatch]:
    """Let patches whose replacements differ in their names alone use the first one's."""
    first: dict[tuple[str, ...], str] = {}
    for patch in patches:
        body = patch.text.replace(function_name(patch.target), "_")
        owner = first.setdefault((patch.description, body, *patch.changes), patch.target)
        yield patch if owner == patch.target else replace(patch, text="", same_as=owner, decorators=())
