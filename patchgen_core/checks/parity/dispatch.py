"""What a worker does to run checks over models; see :mod:`patchgen_core.checks.parity.client`.

torch, transformers and the project's modules are imported once and stay.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from patchgen_core.checks.imports.module_text import give_text
from patchgen_core.checks.parity.request import BesideRequest, ModelRequest, ParityRequest, Raised
from patchgen_core.checks.parity.verdict import CheckVerdict
from patchgen_core.errors import PatchgenError, Problem
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from patchgen_core.models.environment import Environment
    from patchgen_core.models.references import References

_IMPORTING = "importing torch and transformers"
_HEADS = ("ForCausalLM", "ForConditionalGeneration")


@functools.cache
def _set_up(device: str) -> None:
    """Have Triton's kernels interpreted where there is no GPU, before anything imports triton."""
    from patchgen_core.models.interpreter import switch_on, use_cpu

    if device == "cpu":
        use_cpu()
    with phase(_IMPORTING):
        switch_on()
        import torch

    torch.set_num_threads(1)  # toy models are too small to share out
    # its convolutions give other bits by where in memory their inputs lie
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    if torch.cuda.is_available():  # the same bits for the same code, where there is an algorithm that gives them
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)


def run_check(request: ModelRequest) -> Any:
    """What comes of a check: a verdict, or what was asked about this machine; :class:`Raised` when it raises."""
    return _caught(lambda: _environment(request) if request.check == "doctor" else _run_unchanged(request))


def _run_unchanged(request: ModelRequest) -> Any:
    """The answer of a check, which changes nothing for the next one."""
    _set_up(request.device)
    from patchgen_core.models.process_state import preserve_process_state

    with preserve_process_state() as notes:
        answer = _caught(lambda: _CHECKS[request.check](request))
    if notes:  # upstream's models may have run with it as well
        _references.cache_clear()
    return replace(answer, notes=(*answer.notes, *notes)) if isinstance(answer, (CheckVerdict, Raised)) else answer


def _caught(ask: Callable[[], Any]) -> Any:
    """An answer, or what was raised instead of it."""
    try:
        return ask()
    except PatchgenError as error:
        return CheckVerdict(error.problems)
    except (Exception, SystemExit) as error:
        lacks = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        return Raised(f"{type(error).__name__}: {error}".rstrip(": "), _trace(error), lacks)


def _trace(error: BaseException) -> str:
    """The traceback without the frames of the import system and of this file."""
    whole = traceback.TracebackException.from_exception(error)
    own = (__file__, importlib.__file__)
    kept = [at for at in whole.stack if not at.filename.startswith("<frozen") and at.filename not in own]
    whole.stack = traceback.StackSummary.from_list(kept)
    return "".join(whole.format())


def _environment(request: ModelRequest) -> Environment:
    from patchgen_core.models.environment import describe_environment

    return describe_environment(request.device, lambda: _register(request))


def _prepare(request: ModelRequest) -> None:
    """Import what the checks import that are going to be asked for, while others run."""
    from patchgen_core.checks import plan as plans

    if "plan" in request.subject:
        plans.prepare_ranks()
    importlib.import_module("transformers.modeling_utils")


def _device(_: ModelRequest) -> str:
    """Where models run."""
    from patchgen_core.models.interpreter import device_type

    return device_type()


def _register(request: ModelRequest) -> None:
    """Let the project's modules register their kernels."""
    for name in request.kernel_modules:
        importlib.import_module(name)


def _kernels(request: ModelRequest) -> list[tuple[str, str, str]]:
    """The registered kernels whose packages are here."""
    from patchgen_core.ops import KERNEL_REGISTRY

    _register(request)
    specs = KERNEL_REGISTRY.specs()
    return [(spec.op_name, spec.variant, spec.name) for spec in specs if not spec.missing_package()]


def _kernel(request: ModelRequest) -> CheckVerdict:
    _register(request)
    from patchgen_core.checks.kernel import check_kernel

    return check_kernel(*request.subject)


def _converter(request: ModelRequest) -> CheckVerdict:
    from patchgen_core.checks.converter import check_converter

    subject: BesideRequest = request.subject
    factory = _one_function(
        _import(subject.beside),
        lambda name: name.startswith("create_") and name.endswith("checkpoint_tensor_converter"),
        "create_<model>_checkpoint_tensor_converter(model)",
    )
    upstream = _import(subject.upstream)
    return _all_heads(subject, lambda cls: check_converter(cls, factory, upstream_class=_same(cls, upstream)))


def _plan(request: ModelRequest) -> CheckVerdict:
    from patchgen_core.checks.plan import check_plan

    subject: BesideRequest = request.subject
    module = _import(subject.beside)
    make = _one_function(module, lambda name: name == "get_parallel_plan", "get_parallel_plan()")
    return _all_heads(subject, lambda cls: check_plan(cls, _for_class(make, cls)))


def _for_class(make: Callable[..., Any], cls: type) -> Any:
    """What a function makes for a model class: it may ask for the class, whose parameters may have their own names."""
    asks = any(parameter.default is parameter.empty for parameter in inspect.signature(make).parameters.values())
    return make(cls) if asks else make()


def _one_function(module: ModuleType, is_it: Callable[[str], bool], wanted: str) -> Callable[..., Any]:
    functions = {name: value for name, value in vars(module).items() if is_it(name) and callable(value)}
    own = {name: value for name, value in functions.items() if getattr(value, "__module__", "") == module.__name__}
    chosen = own or functions
    if len(chosen) != 1:
        has = f"it has {', '.join(sorted(chosen))}" if chosen else "it has none"
        raise PatchgenError(f"{module.__name__} must have one function {wanted}; {has}")
    function: Callable[..., Any] = next(iter(chosen.values()))
    return function


def _same(cls: type, upstream: ModuleType) -> Any:
    """Upstream's class of the same name."""
    if not hasattr(upstream, cls.__name__):
        raise PatchgenError(f"upstream has no class '{cls.__name__}' to compare with")
    return getattr(upstream, cls.__name__)


def _all_heads(subject: BesideRequest, check: Callable[[type[PreTrainedModel]], CheckVerdict]) -> CheckVerdict:
    """The verdicts on the generated module's heads as one."""
    verdicts = {cls.__name__: check(cls) for cls in _heads(_generated(subject))}
    if not verdicts:
        return CheckVerdict(skipped=f"{subject.module} has no class that ends in {' or '.join(_HEADS)}")
    problems: list[Problem] = []
    notes: list[str] = []
    figures: dict[str, float] = {}
    for name, verdict in verdicts.items():
        problems += [replace(problem, message=f"{name}: {problem.message}") for problem in verdict.problems]
        notes += [f"{name}: {note}" for note in verdict.notes]
        figures |= {f"{name}: {figure}": value for figure, value in verdict.figures.items()}
    skipped = [f"{name}: {verdict.skipped}" for name, verdict in verdicts.items() if verdict.skipped]
    reason = "; ".join(skipped) if len(skipped) == len(verdicts) else ""
    return CheckVerdict(tuple(problems), reason, tuple(notes), figures)


def _generated(subject: BesideRequest | ParityRequest) -> ModuleType:
    """The generated module: as it is checked in, or of the text that is about to be."""
    if subject.text is not None and subject.module not in sys.modules:
        give_text(subject.module, subject.path, subject.text)
    return _import(subject.module)


def _import(name: str) -> ModuleType:
    with phase("importing modules"):
        return importlib.import_module(name)


def _parity(request: ModelRequest) -> CheckVerdict:
    _register(request)
    from patchgen_core.checks.parity.check import check_parity

    subject: ParityRequest = request.subject
    upstream = _import(subject.upstream)
    return check_parity(_generated(subject), upstream, subject, _references())


@functools.cache
def _references() -> References:
    """What upstream's models computed for earlier requests."""
    from patchgen_core.models.references import References

    return References()


def _heads(module: ModuleType) -> Iterator[type[PreTrainedModel]]:
    """The module's own model classes that are trained and loaded as a whole: none that builds nothing itself."""
    from transformers import PreTrainedModel

    for name, value in vars(module).items():
        is_own = inspect.isclass(value) and value.__module__ == module.__name__ and name == value.__name__
        if not is_own or not issubclass(value, PreTrainedModel) or not name.endswith(_HEADS):
            continue
        if value.__init__ is not PreTrainedModel.__init__:  # a base of others has no parameters
            yield value


_CHECKS: dict[str, Callable[[ModelRequest], Any]] = {
    "prepare": _prepare,
    "device": _device,
    "kernels": _kernels,
    "kernel": _kernel,
    "converter": _converter,
    "plan": _plan,
    "parity": _parity,
}
