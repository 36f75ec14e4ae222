"""The texts of what ``patchgen new`` writes: the config, and what goes beside it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patchgen_core.authoring.new.module import UpstreamSource, homes_of
from patchgen_core.authoring.new.patches import SLOTS, ModulePatches, NewPatch, NewSlot, Unpatched, function_name
from patchgen_core.authoring.new.plans import ExpertPlan, Stored
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


@dataclass(frozen=True)
class FileTexts:
    """What the texts are of.

    Attributes:
        package: the package of the model's folder, with dots.
        stored: how the hub stores experts; None without experts.
        release: the module with distribution and version, from which ``upstream`` was read.
    """

    upstream: UpstreamSource
    module_patches: ModulePatches
    package: str
    plan: ExpertPlan | None
    stored: Stored | None
    release: UpstreamModule

    @property
    def name(self) -> str:
        """The model type as the names of files and functions have it."""
        return self.upstream.model.identifier

    @property
    def title(self) -> str:
        """The model's name in prose, as its classes spell it."""
        known = self.upstream.model.config_class.removesuffix("Config")
        return known or self.upstream.model.name

    @property
    def has_converter(self) -> bool:
        """Whether there is a converter to write."""
        return self.stored is not None and self.stored.layout in _FACTORIES

    @property
    def slots(self) -> list[NewSlot]:
        """The slots of all patches, in their usual order."""
        order = [slot.name for slot in SLOTS]
        used = {slot.name: slot for patch in self.module_patches.patches for slot in patch.slots}
        return sorted(used.values(), key=lambda slot: order.index(slot.name))


# --- the config ------------------------------------------------------------------------------------


def config_text(written: FileTexts) -> str:
    """The patch config, before it is formatted."""
    return "\n".join(_config(written))


def _config(written: FileTexts) -> Iterator[str]:
    model, module_patches = written.upstream.model, written.module_patches
    yield from _docstring(written)
    yield from _imports(written)
    yield "config = PatchConfig("
    yield f"    source_module={model.module!r},"
    yield f"    target_file='patched_modeling_{written.name}_gpu.py',"
    yield f"    description='{written.title} with op slots for GPU training',"
    yield ")\n"
    yield 'config.add_import("patchgen_core.ops", names=["OpSlot"])'
    for module, names in _by_module(pair for patch in module_patches.patches for pair in patch.imports):
        yield f"config.add_import({module!r}, names={names!r})"
    block = [slot.line for slot in written.slots]
    block += dict.fromkeys(line for patch in module_patches.patches for line in patch.block)
    yield 'config.add_post_import_block(\n    """\n' + textwrap.indent("\n".join(block), "    ") + '\n    """\n)\n'
    yield from _drops(module_patches)
    for patch in module_patches.patches:
        yield from _patch(patch)
    yield from _plan_patches(written)


def _docstring(written: FileTexts) -> Iterator[str]:
    model = written.upstream.model
    release = f"{written.release.distribution} {written.release.version}"
    lines = [f"{written.title} by op slots: upstream's code stays, and a kernel takes over where one is bound.", ""]
    lines += _wrapped(
        "Where nothing is bound, the generated module runs upstream's own lines. "
        f"Written by 'patchgen new {model.name}' with {release}; from now on a config like any other."
    )
    if written.module_patches.left:
        lines += ["", "What stays upstream's:", ""]
        for names, reason in _grouped(written.module_patches.left):
            lines += _wrapped(f"- {names}: {reason}.", "  ")
    lines += ["", f"    patchgen {written.package}.{written.name}_gpu_patch_gen_config --diff"]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    yield f'"""{text}\n"""\n'


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _grouped(left: Sequence[Unpatched]) -> Iterator[tuple[str, str]]:
    """What is left, with names of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for entry in left:
        by_reason.setdefault(entry.reason, []).append(f"``{entry.name}``" if entry.name[:1] != "'" else entry.name)
    for reason, names in by_reason.items():
        yield ", ".join(dict.fromkeys(names)), reason


def _imports(written: FileTexts) -> Iterator[str]:
    """What the replacements need while the config is loaded: annotations, defaults and decorators."""
    homes = homes_of(written.upstream.source, written.upstream.model.module)
    used: dict[str, str] = {}
    for patch in written.module_patches.patches:
        extra = dict(patch.imports)
        for name in (*_early_names(patch.text), *patch.decorators):
            home = extra.get(name) or homes.get(name)
            if home:
                used[name] = home
        if "torch" in _early_names(patch.text):
            used["torch"] = ""
    if "torch" in used:
        yield "import torch"
    yield "from patchgen import PatchConfig"
    for module, names in _by_module((name, module) for name, module in used.items() if module):
        yield f"from {module} import {', '.join(names)}"
    yield ""


def _early_names(text: str) -> list[str]:
    """The names in a function's annotations and defaults."""
    tree = ast.parse(text) if text else ast.Module([], [])
    names: dict[str, None] = {}
    for function in tree.body:
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts: list[ast.AST] = [function.args, *([function.returns] if function.returns else [])]
            for part in parts:
                names.update((n.id, None) for n in ast.walk(part) if isinstance(n, ast.Name))
    return list(names)


def _by_module(imports: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    by_module: dict[str, set[str]] = {}
    for name, module in imports:
        by_module.setdefault(module, set()).add(name)
    for module in sorted(by_module):
        yield module, sorted(by_module[module])


def _drops(module_patches: ModulePatches) -> Iterator[str]:
    dropped = list(dict.fromkeys(module_patches.dropped))
    if dropped:
        chosen = any(decorator == "use_experts_implementation" for _, decorator in dropped)
        routers = "Kernels of the hub, and transformers' own choice of experts," if chosen else "Kernels of the hub"
        yield f"# {routers} would take the place of what is patched below."
        yield from (f"config.drop_decorators({name!r}, {decorator!r})" for name, decorator in dropped)
        yield ""


def _patch(patch: NewPatch) -> Iterator[str]:
    """One patch: a header with numbers, the declaration, the function."""
    kind = "override_method" if "." in patch.target else "replace_function"
    options = f"description={patch.description!r}"
    if patch.same_as:
        owner = function_name(patch.same_as)
        yield f"config.{kind}({patch.target!r}, replacement={owner}, {options})\n"
        return
    yield f"\n{_RULE}\n# Patch: {patch.target}"
    for number, change in enumerate(patch.changes, 1):
        yield f"# {number}. {change}"
    yield _RULE
    yield f"@config.{kind}({patch.target!r}, {options})"
    yield from (f"@{name}" for name in patch.decorators)
    yield patch.text


def _plan_patches(written: FileTexts) -> Iterator[str]:
    if written.plan is None:
        return
    function = f"{written.name}_get_parallel_plan"
    first, *others = written.plan.patterns
    options = "description='Expert parallel plan for trainers', add=True"
    yield f"\n{_RULE}\n# Patch: {first}.get_parallel_plan"
    yield "# 1. new - a trainer asks the model which parameters it may split"
    yield _RULE
    yield f"@config.override_method('{first}.get_parallel_plan', {options})"
    yield f"def {function}(self):"
    yield "    # --- Patch.1 ---"
    yield f"    from {written.package}.parallel_plan import get_parallel_plan\n"
    yield f"    return get_parallel_plan({'' if written.plan.is_one else 'type(self)'})"
    yield "    # --- Patch.1 ---\n"
    for other in others:
        yield f"config.override_method('{other}.get_parallel_plan', replacement={function}, {options})\n"


# --- beside the config -----------------------------------------------------------------------------


def init_text(written: FileTexts) -> str:
    """The folder's ``__init__.py``."""
    model, name = written.upstream.model, written.name
    base = _base_class(written)
    generated = f"patched_modeling_{name}_gpu"
    with_converter = ", with the converter that their loaders use" if written.has_converter else ""
    lines = [f'"""{written.title}: the generated classes by model type{with_converter}.']
    if "AutoModel." in written.upstream.source.text or "GenericFor" in written.upstream.source.text:
        call = f'``patchgen_core.auto.register_with_auto("{model.name}")``'
        text = (
            "Models that ``AutoModel`` makes, below the heads for classification or as parts of a whole, are patched "
        )
        lines += ["", *_wrapped(f"{text}ones where {call} is called before."), '"""']
    else:
        lines[0] += '"""'
    lines += ["", "from patchgen_core.registry import MODELING_REGISTRY", "", ""]
    lines += [f'@MODELING_REGISTRY.register("{model.name}")', f"def register_{name}_modeling(architecture: str):"]
    lines += ['    """The generated class for an architecture of a ``config.json``."""']
    given = f"getattr(generated, architecture, generated.{base})"
    if written.has_converter:
        factory = f"create_{name}_checkpoint_tensor_converter"
        lines += [f"    from .checkpoint_tensor_converter import {factory}"]
        lines += [f"    from .generated import {generated} as generated", "", f"    model_class = {given}"]
        lines += [f"    model_class._create_checkpoint_tensor_converter = staticmethod({factory})"]
        lines += ["    return model_class"]
    else:
        lines += [f"    from .generated import {generated} as generated", "", f"    return {given}"]
    return "\n".join(lines) + "\n"


def _base_class(written: FileTexts) -> str:
    """The class that stands for an architecture that the module lacks: the model without a head."""
    model, classes = written.upstream.model, written.upstream.classes
    known = (model.base, *model.classes, *(n for n in classes if n.endswith(("Model", "ForCausalLM"))), *classes)
    return next(name for name in known if name in classes)


def converter_text(written: FileTexts) -> str:
    """``checkpoint_tensor_converter.py``."""
    assert written.stored is not None
    kind, factory, says = _FACTORIES[written.stored.layout]
    return (
        f'"""{says}"""\n\nfrom patchgen_core.checkpoint import {kind}, {factory}\n\n\n'
        f"def create_{written.name}_checkpoint_tensor_converter(model) -> {kind}:\n"
        f'    """The converter for one load of ``model``."""\n    return {factory}(model)\n'
    )


def plan_text(written: FileTexts) -> str:
    """``parallel_plan.py``."""
    assert written.plan is not None
    lines = [
        f'"""Which parameters of {written.title} are split over the ranks of a parallel dimension."""',
        "",
        "from patchgen_core.parallel_plan import ParallelPlan",
        "from torch.distributed.tensor import Shard",
        "",
        "",
    ]
    says = '    """Experts over the ranks of ``ep``: the first dimension of the fused parameters counts them.'
    if written.plan.is_one:
        patterns = next(iter(written.plan.patterns.values()))
        lines += ["def get_parallel_plan() -> ParallelPlan:", f'{says}"""', "    experts = {"]
        lines += [f'        "{p}.{name}": Shard(0),' for p in patterns for name in ("gate_up_proj", "down_proj")]
        lines += ["    }"]
    else:
        table = [f'    "{head}": {patterns!r},' for head, patterns in written.plan.patterns.items()]
        lines[-2:] = [
            "",
            "EXPERTS = {",
            *table,
            "}",
            '"""The modules of the experts, by the head above them."""',
            "",
            "",
        ]
        lines += ["def get_parallel_plan(model_class: type) -> ParallelPlan:", says, "", "    Args:"]
        lines += ["        model_class: the generated class, or one that derives from it.", '    """']
        lines += [
            "    modules = next(EXPERTS[cls.__name__] for cls in model_class.__mro__ if cls.__name__ in EXPERTS)"
        ]
        lines += ["    names = [f'{module}.{name}' for module in modules for name in ('gate_up_proj', 'down_proj')]"]
        lines += ["    experts = {name: Shard(0) for name in names}"]
    return "\n".join([*lines, '    return ParallelPlan(extra_parallel_plan={"ep": experts})', ""])
