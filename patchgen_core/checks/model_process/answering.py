"""The other side of :class:`~patchgen_core.checks.model_process.process.ModelProcess`: what its process does.

torch, transformers and the project's modules are imported once and stay.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from patchgen_core.checks.imports.module_text import give_text
from patchgen_core.checks.model_process.request import ModelRequest, Raised
from patchgen_core.checks.result import CheckResult, make_result
from patchgen_core.errors import Location, PatchgenError, Problem
from patchgen_core.models.optional_packages import optional_packages, raise_if_missing
from patchgen_core.workers.collector import without_collector
from patchgen_core.workers.fork_loop import is_so_in_child
from patchgen_core.workers.phases import phase

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from patchgen_core.models.environment import Environment
    from patchgen_core.models.model_setup import ModelSetup
    from patchgen_core.models.references import References

_IMPORTING = "importing torch and transformers"
_HEADS = ("ForCausalLM", "ForConditionalGeneration")


class GeneratedModule(Protocol):
    """What says which module was generated: a request of a check."""

    @property
    def module(self) -> str:
        """Its dotted name."""

    @property
    def path(self) -> str:
        """Its file."""

    @property
    def text(self) -> str | None:
        """What to run instead of what stands there; None for that."""


@functools.cache
def _prepare_torch(device: str) -> None:
    """Have Triton's kernels interpreted where there is no GPU, before anything imports triton."""
    from patchgen_core.models.interpreter import switch_on, use_cpu

    if device == "cpu":
        use_cpu()
    with phase(_IMPORTING), without_collector():
        switch_on()
        import torch
    gc.freeze()  # nothing of torch is looked at when cycles are

    torch.set_num_threads(1)  # toy models are too small to share out
    # its convolutions give other bits by where in memory their inputs lie
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    if torch.cuda.is_available():  # the same bits for the same code, where there is an algorithm that gives them
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)


def import_torch() -> None:
    """What every process that checks something with torch begins with, whatever runs it."""
    importlib.import_module("torch")


def import_common() -> None:
    """What comes next wherever there is no set-up of the project: of transformers what imports no triton."""
    for name in ("transformers.core_model_loading", "transformers.quantizers.auto", "torch.distributed.checkpoint"):
        importlib.import_module(name)


def prepare_torch() -> None:
    """What a process of these begins with where there is nothing but a CPU; a PatchgenError where there is more."""
    from patchgen_core.models import interpreter

    import_torch()
    if not is_so_in_child(lambda: interpreter.device_type() == "cpu"):  # which is not asked here, where it would stay
        raise PatchgenError("processes that may use a device are not forked")
    os.environ[interpreter.VARIABLE] = "1"
    interpreter.switch_on()


def prepare_models() -> None:
    """That, and what comes next where there is no set-up of the project."""
    prepare_torch()
    importlib.import_module("transformers.modeling_utils")


def answer(request: ModelRequest) -> Any:
    """What the function of a request returns; :class:`Raised` when it raises. It changes nothing for the next one."""
    module, _, name = request.function.partition(":")
    if request.function == f"{__name__}:{describe_machine.__name__}":  # which tells what is broken
        return _caught(lambda: describe_machine(request))
    return _caught(lambda: _run_unchanged(getattr(importlib.import_module(module), name), request))


def _run_unchanged(function: Callable[[ModelRequest], Any], request: ModelRequest) -> Any:
    _prepare_torch(request.device)
    from patchgen_core.models.process_state import preserve_process_state

    model_setup(request)

    with preserve_process_state() as notes, optional_packages(request.optional_packages):
        answer = _caught(lambda: _run_request(function, request))
    if notes:  # upstream's models may have run with it as well
        references.cache_clear()
    return replace(answer, notes=(*answer.notes, *notes)) if isinstance(answer, (CheckResult, Raised)) else answer


def _run_request(function: Callable[[ModelRequest], Any], request: ModelRequest) -> Any:
    try:
        return function(request)
    except Exception as error:
        raise_if_missing(error)
        raise


def model_setup(request: ModelRequest) -> ModelSetup:
    """What the project's set-ups declare, which ran before the first check; a PatchgenError where one failed."""
    setup = _run_setups(request.setups)
    if isinstance(setup, PatchgenError):
        raise setup
    return setup


@functools.cache
def _run_setups(references: tuple[str, ...]) -> ModelSetup | PatchgenError:
    """A set-up that failed half-way is not run again."""
    from patchgen_core.models.project_setup import run_setups

    try:
        with phase("setting up"):
            return run_setups(references)
    except PatchgenError as error:
        return error


def _caught(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except PatchgenError as error:
        return make_result(error.problems)
    except (Exception, SystemExit) as error:
        return _describe(error)


def _describe(error: BaseException) -> Raised:
    from patchgen_core.models.project_frames import describe_frames, project_frames

    head = error.head if isinstance(error, HeadError) else ""
    error = error.__cause__ or error if head else error
    lacks = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
    frames = project_frames(error)
    entered = [frame for frame in frames if frame.filename == frames[0].filename]
    place = Location(entered[-1].filename, entered[-1].lineno or 0) if entered else None
    return Raised(f"{type(error).__name__}: {error}".rstrip(": "), describe_frames(frames), place, head, lacks)


class HeadError(Exception):
    """An error, its cause, that came up while a model class was checked."""

    def __init__(self, head: str) -> None:
        super().__init__(head)
        self.head = head


@contextmanager
def name_head_in_errors(head: str) -> Iterator[None]:
    """Have errors that nothing catches tell which model class was being checked."""
    try:
        yield
    except (PatchgenError, HeadError):
        raise
    except Exception as error:
        raise HeadError(head) from error


# --- what is asked about this machine --------------------------------------------------------------


def describe_machine(request: ModelRequest) -> Environment:
    """What is here for running models."""
    from patchgen_core.models.environment import describe_environment

    return describe_environment(request.device, lambda: register_kernels(request))


def import_models(_: ModelRequest) -> None:
    """Import what every check of a model imports."""
    with without_collector():
        importlib.import_module("transformers.modeling_utils")


def import_nothing(_: ModelRequest) -> None:
    """Nothing more than what comes before every check."""


def name_device(_: ModelRequest) -> str:
    """Where models run."""
    from patchgen_core.models.interpreter import device_type

    return device_type()


def list_device_types(request: ModelRequest) -> dict[str, frozenset[str]]:
    """The kinds of device that the registered kernels are made for, by their names."""
    from patchgen_core.ops import KERNEL_REGISTRY

    register_kernels(request)
    return KERNEL_REGISTRY.device_types()


def list_kernels(request: ModelRequest) -> list[tuple[str, str, str]]:
    """The registered kernels whose packages are here."""
    from patchgen_core.ops import KERNEL_REGISTRY

    register_kernels(request)
    specs = KERNEL_REGISTRY.specs()
    return [(spec.op_name, spec.variant, spec.name) for spec in specs if not spec.missing_package()]


def list_project_implementations(request: ModelRequest) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The names of implementations for the slots of the project's own classes in the subject, each a ``SlotName``;
    None where there is none of a class that the set-ups add. And the implementations that they add beside slots."""
    setup = model_setup(request)
    own = [setup.names_for(homes, op_name, variant) for homes, op_name, variant in request.subject]
    name_lists = [names for names in own if names is not None]
    return (tuple(sorted(set().union(*name_lists))) if name_lists else None), tuple(setup.implementations)


# --- what checks share -----------------------------------------------------------------------------


def register_kernels(request: ModelRequest) -> None:
    """Let the project's modules register their kernels."""
    for name in request.kernel_modules:
        importlib.import_module(name)


def one_function(module: ModuleType, is_it: Callable[[str], bool], description: str) -> Callable[..., Any]:
    """The function of a module that a check is about; a PatchgenError where it has none, or several."""
    functions = {name: value for name, value in vars(module).items() if is_it(name) and callable(value)}
    own = {name: value for name, value in functions.items() if getattr(value, "__module__", "") == module.__name__}
    chosen = own or functions
    if len(chosen) != 1:
        has = f"it has {', '.join(sorted(chosen))}" if chosen else "it has none"
        raise PatchgenError(f"{module.__name__} must have one function {description}; {has}")
    function: Callable[..., Any] = next(iter(chosen.values()))
    return function


def check_heads(subject: GeneratedModule, check: Callable[[type[PreTrainedModel]], CheckResult]) -> CheckResult:
    """The results for the generated module's heads as one."""
    results: dict[str, CheckResult] = {}
    for cls in model_heads(generated_module(subject)):
        with name_head_in_errors(cls.__name__):
            results[cls.__name__] = check(cls)
    if not results:
        return make_result(skipped=f"{subject.module} has no class that ends in {' or '.join(_HEADS)}")
    problems: list[Problem] = []
    notes: list[str] = []
    figures: dict[str, float] = {}
    for name, result in results.items():
        problems += [replace(problem, message=f"{name}: {problem.message}") for problem in result.errors]
        notes += [f"{name}: {note}" for note in result.notes]
        figures |= {f"{name}: {figure}": value for figure, value in result.figures.items()}
    skipped = [f"{name}: {result.reason}" for name, result in results.items() if result.reason]
    return make_result(problems, "; ".join(skipped) if len(skipped) == len(results) else "", notes, figures)


def generated_module(subject: GeneratedModule) -> ModuleType:
    """The generated module: as it is checked in, or of the text that is about to be."""
    if subject.text is not None and subject.module not in sys.modules:
        give_text(subject.module, subject.path, subject.text)
    return import_module(subject.module)


def import_module(name: str) -> ModuleType:
    """Import a module, whose seconds count as a phase of their own.

    What failed once fails again: a package that breaks off leaves the modules that it had imported by then, and the
    next attempt would find them.
    """
    if (failure := _failures.get(name)) is not None:
        raise failure.error.with_traceback(failure.traceback)
    with phase("importing modules"), without_collector():
        try:
            return importlib.import_module(name)
        except Exception as error:
            _failures[name] = _Failure(error, error.__traceback__)
            raise


@dataclass(frozen=True)
class _Failure:
    error: Exception
    traceback: TracebackType | None


_failures: dict[str, _Failure] = {}
"""Why modules could not be imported in this process, by name."""


@functools.cache
def references() -> References:
    """What upstream's models computed for earlier requests."""
    from patchgen_core.models.references import References

    return References()


def model_heads(module: ModuleType) -> Iterator[type[PreTrainedModel]]:
    """The module's own model classes that are trained and loaded as a whole: none that builds nothing itself."""
    from transformers import PreTrainedModel

    for name, value in vars(module).items():
        is_own = inspect.isclass(value) and value.__module__ == module.__name__ and name == value.__name__
        if not is_own or not issubclass(value, PreTrainedModel) or not name.endswith(_HEADS):
            continue
        if value.__init__ is not PreTrainedModel.__init__:  # a base of others has no parameters
            yield value
