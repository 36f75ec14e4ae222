"""Runs the checks that need models, one request each; run as a script by :mod:`patchgen_core.checks.parity.client`.

Every line of standard input is a request, answered by one line of standard output, both JSON. torch, transformers and
the project's modules are imported once and stay, which is why this is a process of its own.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from patchgen_core.checks.parity.verdict import CheckVerdict
    from patchgen_core.errors import Problem
    from patchgen_core.models.references import References

Request = dict[str, Any]
_IMPORTING = "importing torch and transformers"
_HEADS = ("ForCausalLM", "ForConditionalGeneration")


def serve() -> None:
    """Answer requests until standard input ends."""
    from patchgen_core.workers.phases import take
    from patchgen_core.workers.processes import say_where

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what is printed is no answer
    say_where()
    for line in _requests():
        request = json.loads(line)
        sys.path[:] = request["search"]
        answers.write(json.dumps({**_answer(request), "seconds": take()}) + "\n")
        answers.flush()


def _requests() -> Iterator[str]:
    """The lines of standard input. When the one who asks is gone, so is this process, whatever it is doing."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the requests are not for a model, or its debugger, to read
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in requests:
            lines.put(line)
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)  # with the ranks
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield lines.get()


@functools.cache
def _set_up(device: str) -> None:
    """Have Triton's kernels interpreted where there is no GPU, before anything imports triton."""
    from patchgen_core.models.interpreter import switch_on, use_cpu
    from patchgen_core.workers.phases import phase

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


def _answer(request: Request) -> dict[str, Any]:
    return _caught(lambda: _doctor(request) if request["check"] == "doctor" else _checked(request))


def _checked(request: Request) -> dict[str, Any]:
    """The answer of a check, which changes nothing for the next one."""
    _set_up(request["device"])
    from patchgen_core.models.process_state import preserve_process_state

    with preserve_process_state() as left:
        answer = _caught(lambda: _CHECKS[request["check"]](request))
    if left:  # upstream's models may have run with it as well
        _references.cache_clear()
    return {**answer, "notes": [*answer.get("notes", ()), *left]}


def _caught(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """An answer, or what was raised instead of it."""
    from patchgen_core.errors import PatchgenError

    try:
        return ask()
    except PatchgenError as error:
        return {"problems": [_packed(problem) for problem in error.problems]}
    except ModuleNotFoundError as error:
        return {"error": _said(error), "lacks": error.name or "", "trace": _trace(error)}
    except (Exception, SystemExit) as error:
        return {"error": _said(error), "trace": _trace(error)}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _trace(error: BaseException) -> str:
    """The traceback without the frames of the import system and of this file."""
    whole = traceback.TracebackException.from_exception(error)
    own = (__file__, importlib.__file__)
    kept = [at for at in whole.stack if not at.filename.startswith("<frozen") and at.filename not in own]
    whole.stack = traceback.StackSummary.from_list(kept)
    return "".join(whole.format())


def _packed(problem: Problem) -> dict[str, Any]:
    return asdict(problem)


def _verdict(verdict: CheckVerdict) -> dict[str, Any]:
    return asdict(verdict)


def _doctor(request: Request) -> dict[str, Any]:
    """What this machine has; tells of what is broken in it instead of failing."""
    from patchgen_core.models.environment import describe_environment

    return asdict(describe_environment(request["device"], lambda: _register(request)))


def _prepare(request: Request) -> dict[str, Any]:
    """Import what the checks import that are going to be asked for, while others run."""
    from patchgen_core.checks import plan as plans

    if "plan" in request["checks"]:
        plans.prepare_ranks()
    importlib.import_module("transformers.modeling_utils")
    return {}


def _device(_: Request) -> dict[str, Any]:
    """Where models run."""
    from patchgen_core.models.interpreter import device_type

    return {"device": device_type()}


def _register(request: Request) -> None:
    """Let the project's modules register their kernels."""
    for name in request["modules"]:
        importlib.import_module(name)


def _kernels(request: Request) -> dict[str, Any]:
    """The registered kernels whose packages are here."""
    from patchgen_core.ops import KERNEL_REGISTRY

    _register(request)
    specs = KERNEL_REGISTRY.specs()
    return {"kernels": [[s.op_name, s.variant, s.name] for s in specs if not s.missing_package()]}


def _kernel(request: Request) -> dict[str, Any]:
    _register(request)
    from patchgen_core.checks.kernel import check_kernel

    return _verdict(check_kernel(*request["kernel"]))


def _converter(request: Request) -> dict[str, Any]:
    from patchgen_core.checks.converter import check_converter

    factory = _one_function(
        _import(request["beside"]),
        lambda name: name.startswith("create_") and name.endswith("checkpoint_tensor_converter"),
        "create_<model>_checkpoint_tensor_converter(model)",
    )
    upstream = _import(request["upstream"])
    return _all_heads(request, lambda cls: check_converter(cls, factory, upstream_class=_same(cls, upstream)))


def _plan(request: Request) -> dict[str, Any]:
    from patchgen_core.checks.plan import check_plan

    module = _import(request["beside"])
    make = _one_function(module, lambda name: name == "get_parallel_plan", "get_parallel_plan()")
    return _all_heads(request, lambda cls: check_plan(cls, _for_class(make, cls)))


def _for_class(make: Callable[..., Any], cls: type) -> Any:
    """What a function makes for a model class: it may ask for the class, whose parameters may have their own names."""
    asks = any(parameter.default is parameter.empty for parameter in inspect.signature(make).parameters.values())
    return make(cls) if asks else make()


def _one_function(module: ModuleType, is_it: Callable[[str], bool], wanted: str) -> Callable[..., Any]:
    from patchgen_core.errors import PatchgenError

    found = {name: value for name, value in vars(module).items() if is_it(name) and callable(value)}
    own = {name: value for name, value in found.items() if getattr(value, "__module__", "") == module.__name__}
    chosen = own or found
    if len(chosen) != 1:
        has = f"it has {', '.join(sorted(chosen))}" if chosen else "it has none"
        raise PatchgenError(f"{module.__name__} must have one function {wanted}; {has}")
    function: Callable[..., Any] = next(iter(chosen.values()))
    return function


def _same(cls: type, upstream: ModuleType) -> Any:
    """Upstream's class of the same name."""
    from patchgen_core.errors import PatchgenError

    if not hasattr(upstream, cls.__name__):
        raise PatchgenError(f"upstream has no class '{cls.__name__}' to compare with")
    return getattr(upstream, cls.__name__)


def _all_heads(request: Request, check: Callable[[type[PreTrainedModel]], CheckVerdict]) -> dict[str, Any]:
    """The verdicts on the generated module's heads as one."""

    heads = list(_heads(_generated(request)))
    if not heads:
        return {"problems": [], "skipped": f"{request['module']} has no class that ends in {' or '.join(_HEADS)}"}
    rows = [(cls.__name__, _verdict(check(cls))) for cls in heads]
    whole: dict[str, Any] = {"problems": [], "skipped": "", "notes": [], "figures": {}}
    for name, row in rows:
        whole["problems"] += [{**problem, "message": f"{name}: {problem['message']}"} for problem in row["problems"]]
        whole["notes"] += [f"{name}: {note}" for note in row["notes"]]
        whole["figures"] |= {f"{name}: {figure}": value for figure, value in row["figures"].items()}
    skipped = [f"{name}: {row['skipped']}" for name, row in rows if row["skipped"]]
    return {**whole, "skipped": "; ".join(skipped) if len(skipped) == len(rows) else ""}


def _generated(request: Request) -> ModuleType:
    """The generated module: as it is checked in, or of the text that is about to be."""
    if request["text"] is not None and request["module"] not in sys.modules:
        from patchgen_core.checks.imports.import_server import give_text

        give_text(request["module"], request["path"], request["text"])
    return _import(request["module"])


def _import(name: str) -> ModuleType:
    from patchgen_core.workers.phases import phase

    with phase("importing modules"):
        return importlib.import_module(name)


def _parity(request: Request) -> dict[str, Any]:
    _register(request)
    from patchgen_core.checks.parity.check import check_parity
    from patchgen_core.checks.parity.request import unpack_request

    upstream = _import(request["upstream"])
    asked = unpack_request(request["parity"])
    return _verdict(check_parity(_generated(request), upstream, asked, _references()))


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


_CHECKS: dict[str, Callable[[Request], dict[str, Any]]] = {
    "prepare": _prepare,
    "device": _device,
    "kernels": _kernels,
    "kernel": _kernel,
    "converter": _converter,
    "plan": _plan,
    "parity": _parity,
}

if __name__ == "__main__":
    serve()
