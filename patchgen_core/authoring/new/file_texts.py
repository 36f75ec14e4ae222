"""The texts of what ``patchgen new`` writes: the config, and what goes beside it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.authoring.new.function_text import mark
from patchgen_core.authoring.new.module import UpstreamSource, homes_of
from patchgen_core.authoring.new.patches import SLOTS, ModulePatches, NewPatch, NewSlot, Unpatched
from patchgen_core.authoring.new.plans import ExpertLayout, ExpertPlan
from patchgen_core.syntax.function_names import function_name
from patchgen_core.syntax.nodes import FUNCTIONS
from patchgen_core.upstream.module import UpstreamModule

_WIDTH = 115
_RULE = "# " + "=" * 64
_FACTORIES = {
    "per_expert": (
        "PerExpertConverter",
        "create_per_expert_converter",
        "The hub has one tensor for each projection of each expert; the model has two for all experts of a layer.",
    ),
    "transposed": (
        "TransposedFusedConverter",
        "create_transposed_fused_converter",
        "The hub has the fused experts with inputs first; the model has outputs first.",
    ),
}

_PLAN = '''
"""Which parameters of {title} are split over the ranks of a parallel dimension."""

from patchgen_core.parallel_plan import ParallelPlan
from torch.distributed.tensor import Shard


{experts}
    return ParallelPlan(extra_parallel_plan={{"ep": experts}})
'''
_ONE_PLAN = '''
def get_parallel_plan() -> ParallelPlan:
    """Experts over the ranks of ``ep``: the first dimension of the fused parameters counts them."""
    experts = {{
        {entries}
    }}
'''
_PLAN_FOR_EACH = '''
EXPERTS = {{
    {entries}
}}
"""The modules of the experts, by the head above them."""


def get_parallel_plan(model_class: type) -> ParallelPlan:
    """Experts over the ranks of ``ep``: the first dimension of the fused parameters counts them.

    Args:
        model_class: the generated class, or one that derives from it.
    """
    modules = next(EXPERTS[cls.__name__] for cls in model_class.__mro__ if cls.__name__ in EXPERTS)
    names = [f"{{module}}.{{name}}" for module in modules for name in ("gate_up_proj", "down_proj")]
    experts = {{name: Shard(0) for name in names}}
'''
_CONVERTER = '''
"""{says}"""

from patchgen_core.checkpoint import {kind}, {factory}


def create_{name}_checkpoint_tensor_converter(model) -> {kind}:
    """The converter for one load of ``model``."""
    return {factory}(model)
'''
_INIT = '''
"""{docstring}"""

from patchgen_core.registry import MODELING_REGISTRY


@MODELING_REGISTRY.register("{model_type}")
def register_{name}_modeling(architecture: str):
    """The generated class for an architecture of a ``config.json``."""
    {body}
'''
_INIT_BODY = """
from .generated import patched_modeling_{name}_gpu as generated

return getattr(generated, architecture, generated.{base})
"""
_INIT_BODY_WITH_CONVERTER = """
from .checkpoint_tensor_converter import create_{name}_checkpoint_tensor_converter
from .generated import patched_modeling_{name}_gpu as generated

model_class = getattr(generated, architecture, generated.{base})
model_class._create_checkpoint_tensor_converter = staticmethod(create_{name}_checkpoint_tensor_converter)
return model_class
"""


@dataclass(frozen=True)
class FileTexts:
    """What the texts are of.

    Attributes:
        package: the package of the model's folder, with dots.
        expert_layout: how the hub stores experts; None without experts.
        release: the module with distribution and version, from which ``upstream`` was read.
    """

    upstream: UpstreamSource
    module_patches: ModulePatches
    package: str
    plan: ExpertPlan | None
    expert_layout: ExpertLayout | None
    release: UpstreamModule

    @property
    def name(self) -> str:
        """The model type as the names of files and functions have it."""
        return self.upstream.model.identifier

    @property
    def title(self) -> str:
        """The model's name in prose, as its classes spell it."""
        return self.upstream.model.config_class.removesuffix("Config") or self.upstream.model.name

    @property
    def has_converter(self) -> bool:
        """Whether there is a converter to write."""
        return self.expert_layout is not None and self.expert_layout.name in _FACTORIES

    @property
    def slots(self) -> list[NewSlot]:
        """The slots of all patches, in their usual order."""
        used = {slot.name: slot for patch in self.module_patches.patches for slot in patch.slots}
        return [used[slot.name] for slot in SLOTS if slot.name in used]


# --- the config ------------------------------------------------------------------------------------


def config_text(texts: FileTexts) -> str:
    """The patch config, before it is formatted."""
    return "\n".join(_config(texts))


def _config(texts: FileTexts) -> Iterator[str]:
    patches = texts.module_patches.patches
    yield from _docstring(texts)
    yield from _imports(texts)
    yield "config = PatchConfig("
    yield f"    source_module={texts.upstream.model.module!r},"
    yield f"    target_file='patched_modeling_{texts.name}_gpu.py',"
    yield f"    description='{texts.title} with op slots for GPU training',"
    yield ")\n"
    yield 'config.add_import("patchgen_core.ops", names=["OpSlot"])'
    for module, names in _by_module(pair for patch in patches for pair in patch.imports):
        yield f"config.add_import({module!r}, names={names!r})"
    block = [slot.line for slot in texts.slots]
    block += dict.fromkeys(line for patch in patches for line in patch.block)
    yield 'config.add_post_import_block(\n    """\n' + textwrap.indent("\n".join(block), "    ") + '\n    """\n)\n'
    yield from _drops(patches)
    for patch in patches:
        yield from _patch(patch)
    if texts.plan is not None:
        yield from _plan_patches(texts, texts.plan)


def _docstring(texts: FileTexts) -> Iterator[str]:
    model = texts.upstream.model
    release = f"{texts.release.distribution} {texts.release.version}"
    lines = [f"{texts.title} by op slots: upstream's code stays, and a kernel takes over where one is bound.", ""]
    lines += _wrapped(
        "Where nothing is bound, the generated module runs upstream's own lines. "
        f"Written by 'patchgen new {model.name}' with {release}; from now on a config like any other."
    )
    if texts.module_patches.left:
        lines += ["", "What stays upstream's:", ""]
        for names, reason in _grouped(texts.module_patches.left):
            lines += _wrapped(f"- {names}: {reason}.", "  ")
    lines += ["", f"    patchgen {texts.package}.{texts.name}_gpu_patch_gen_config --diff"]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    yield f'"""{text}\n"""\n'


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _grouped(left: Sequence[Unpatched]) -> Iterator[tuple[str, str]]:
    """What is left, with names of one reason together."""
    by_reason: dict[str, dict[str, None]] = {}
    for entry in left:
        name = entry.name if entry.name.startswith("'") else f"``{entry.name}``"
        by_reason.setdefault(entry.reason, {})[name] = None
    for reason, names in by_reason.items():
        yield ", ".join(names), reason


def _imports(texts: FileTexts) -> Iterator[str]:
    """What the replacements need while the config is loaded: annotations, defaults and decorators."""
    homes = homes_of(texts.upstream.source, texts.upstream.model.module)
    used: dict[str, str] = {}
    for patch in texts.module_patches.patches:
        places = {**homes, **dict(patch.imports), "torch": ""}
        used |= {name: places[name] for name in (*_early_names(patch.text), *patch.decorators) if name in places}
    if "torch" in used:
        yield "import torch"
    yield "from patchgen import PatchConfig"
    for module, names in _by_module((name, module) for name, module in used.items() if module):
        yield f"from {module} import {', '.join(names)}"
    yield ""


def _early_names(text: str) -> set[str]:
    """The names in a function's annotations and defaults."""
    functions = (node for node in ast.parse(text).body if isinstance(node, FUNCTIONS))
    parts = (part for function in functions for part in (function.args, function.returns) if part is not None)
    return {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}


def _by_module(imports: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    by_module: dict[str, set[str]] = {}
    for name, module in imports:
        by_module.setdefault(module, set()).add(name)
    for module in sorted(by_module):
        yield module, sorted(by_module[module])


def _drops(patches: Sequence[NewPatch]) -> Iterator[str]:
    drops = dict.fromkeys(drop for patch in patches for drop in patch.drops)
    if drops:
        chosen = any(decorator == "use_experts_implementation" for _, decorator in drops)
        routers = "Kernels of the hub, and transformers' own choice of experts," if chosen else "Kernels of the hub"
        yield f"# {routers} would take the place of what is patched below."
        yield from (f"config.drop_decorators({name!r}, {decorator!r})" for name, decorator in drops)
        yield ""


def _patch(patch: NewPatch) -> Iterator[str]:
    """One patch: a header with numbers, the declaration, the function."""
    kind = "override_method" if "." in patch.target else "replace_function"
    options = f"description={patch.description!r}"
    if patch.same_as:
        owner = function_name(patch.same_as)
        yield f"config.{kind}({patch.target!r}, replacement={owner}, {options})\n"
        return
    yield from _header(patch.target, patch.changes)
    yield f"@config.{kind}({patch.target!r}, {options})"
    yield from (f"@{name}" for name in patch.decorators)
    yield patch.text


def _header(target: str, changes: Sequence[str]) -> Iterator[str]:
    yield f"\n{_RULE}\n# Patch: {target}"
    yield from (f"# {number}. {change}" for number, change in enumerate(changes, 1))
    yield _RULE


def _plan_patches(texts: FileTexts, plan: ExpertPlan) -> Iterator[str]:
    function = f"{texts.name}_get_parallel_plan"
    first, *others = (f"{head}.get_parallel_plan" for head in plan.patterns)
    options = "description='Expert parallel plan for trainers', add=True"
    yield from _header(first, ["new - a trainer asks the model which parameters it may split"])
    yield f"@config.override_method({first!r}, {options})"
    yield f"def {function}(self):"
    yield f"    {mark(1)}"
    yield f"    from {texts.package}.parallel_plan import get_parallel_plan\n"
    yield f"    return get_parallel_plan({'' if plan.is_one else 'type(self)'})"
    yield f"    {mark(1)}\n"
    for other in others:
        yield f"config.override_method({other!r}, replacement={function}, {options})\n"


# --- beside the config -----------------------------------------------------------------------------


def init_text(texts: FileTexts) -> str:
    """The folder's ``__init__.py``."""
    model, name = texts.upstream.model, texts.name
    with_converter = ", with the converter that their loaders use" if texts.has_converter else ""
    docstring = f"{texts.title}: the generated classes by model type{with_converter}."
    if "AutoModel." in texts.upstream.source.text or "GenericFor" in texts.upstream.source.text:
        call = f'``patchgen_core.auto.register_with_auto("{model.name}")``'
        about = (
            "Models that ``AutoModel`` makes, below the heads for classification or as parts of a whole, are patched"
        )
        docstring = "\n".join([docstring, "", *_wrapped(f"{about} ones where {call} is called before."), ""])
    body = _INIT_BODY_WITH_CONVERTER if texts.has_converter else _INIT_BODY
    body = textwrap.indent(body.format(name=name, base=_base_class(texts)), "    ").strip()
    return _INIT.lstrip().format(docstring=docstring, model_type=model.name, name=name, body=body)


def _base_class(texts: FileTexts) -> str:
    """The class that stands for an architecture that the module lacks: the model without a head."""
    model, classes = texts.upstream.model, texts.upstream.classes
    class_names = (model.base, *model.classes, *(n for n in classes if n.endswith(("Model", "ForCausalLM"))), *classes)
    return next(name for name in class_names if name in classes)


def converter_text(texts: FileTexts) -> str:
    """``checkpoint_tensor_converter.py``."""
    assert texts.expert_layout is not None
    kind, factory, says = _FACTORIES[texts.expert_layout.name]
    return _CONVERTER.lstrip().format(says=says, kind=kind, factory=factory, name=texts.name)


def plan_text(title: str, plan: ExpertPlan) -> str:
    """``parallel_plan.py`` for a model of which prose says ``title``."""
    if plan.is_one:
        [patterns] = set(plan.patterns.values())
        names = (f"{pattern}.{name}" for pattern in patterns for name in ("gate_up_proj", "down_proj"))
        experts = _ONE_PLAN.format(entries="\n        ".join(f'"{name}": Shard(0),' for name in names))
    else:
        entries = (f'"{head}": {patterns!r},' for head, patterns in plan.patterns.items())
        experts = _PLAN_FOR_EACH.format(entries="\n    ".join(entries))
    return _PLAN.lstrip().format(title=title, experts=experts.strip())
