"""Triton kernels on a CPU: Triton's interpreter, and what it lacks to run them as a GPU would.

With ``TRITON_INTERPRET=1`` set before triton is first imported, ``@triton.jit`` kernels run as Python over numpy
arrays. Three things of triton 3.7 keep that from being what a GPU computes, and each has an adapter here:

1. A Python float that a kernel is launched with stays a Python float. Compiled, it is a float32 scalar, and kernels
   call ``.to(...)`` on it.
2. Functions of libdevice (``rsqrt``, ``tanh``, ...) are empty: they return None.
3. bfloat16 values are held as their bits in 16-bit integers, which arithmetic then adds and multiplies as integers,
   and float32 is cut off to bfloat16 where a GPU rounds to the nearest, ties to even.

Each adapter is put in only after a probe shows that this version needs it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from patchgen_core.errors import PatchgenError
from patchgen_core.models.interpreter_speed import adapt_descriptions
from patchgen_core.ops import hardware
from patchgen_core.ops.hardware import interpreter_is_on
from patchgen_core.workers.phases import phase

VARIABLE = "TRITON_INTERPRET"
_UNARY: tuple[str, ...] = (
    *("abs", "ceil", "exp", "exp2", "expm1", "floor", "log", "log10", "log1p", "log2", "rint", "sqrt", "trunc"),
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
)
_RENAMED = {"abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh"}
_RENAMED |= {"atan": "arctan", "atanh": "arctanh"}


def switch_on() -> tuple[str, ...]:
    """Make Triton kernels of this process run in Triton's interpreter, unless there is a GPU or no triton.

    Call it before triton, or anything that imports triton, is first imported. Calling it again changes nothing. With
    TRITON_INTERPRET=1 in the environment the kernels are interpreted on a machine with a GPU as well. It returns a
    line for each thing that it did; a single line saying why when it did nothing.

    Raises:
        PatchgenError: triton has been imported without the interpreter; it cannot be switched on any more.
    """
    if device_type() != "cpu":
        return (f"Triton kernels run on this machine's {device_type()} device",)
    if importlib.util.find_spec("triton") is None:
        return ("triton is not installed: its kernels cannot run",)
    _refuse_late()
    os.environ[VARIABLE] = "1"
    # Liger's RMSNorm looks for it as an attribute of torch, where torch 2.12 and newer put it when it is imported.
    import torch.distributed.tensor  # noqa: F401
    import triton

    _count_seconds()
    notes = [f"Triton {triton.__version__} interprets its kernels"]
    adapters = (_adapt_floats, _adapt_libdevice, _adapt_bfloat16, _adapt_search, adapt_descriptions)
    notes += [note for adapt in adapters if (note := adapt())]
    return tuple(notes)


def use_cpu() -> None:
    """Make everything of this process and its children run on the CPU, as on a machine that has nothing else.

    Call it before torch is first imported, and :func:`switch_on` after it.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # which a model's own code asks torch for
    os.environ[VARIABLE] = "1"  # which tells kernels, and leaves out other accelerators


def device_type() -> str:
    """Where kernels run in this process: torch's name of an accelerator of this machine, or "cpu"."""
    return "cpu" if interpreter_is_on() else hardware.device_type()


def _refuse_late() -> None:
    if "triton" not in sys.modules:
        return
    from triton.language import standard
    from triton.runtime.interpreter import InterpretedFunction

    if not isinstance(standard.cdiv, InterpretedFunction):  # as it is decided when triton is imported
        raise PatchgenError(
            "Triton's interpreter cannot be switched on: triton has been imported without it",
            None,
            f"Set {VARIABLE}=1 in the environment, or call switch_on() before anything imports triton.",
        )


def _count_seconds() -> None:
    from triton.runtime.interpreter import GridExecutor

    if not hasattr(GridExecutor.__call__, "__wrapped__"):
        GridExecutor.__call__ = phase("interpreting Triton kernels")(GridExecutor.__call__)


def _adapt_floats() -> str:
    from triton.runtime import interpreter

    convert: Callable[[Any], Any] = interpreter._implicit_cvt
    if hasattr(convert(1.0), "handle"):
        return ""
    scalar = _scalar_maker(interpreter)
    interpreter._implicit_cvt = lambda value: scalar(value) if isinstance(value, float) else convert(value)
    return "adapter: float arguments of kernels are float32 scalars"


def _scalar_maker(interpreter: ModuleType) -> Callable[[float], Any]:
    import numpy
    import triton.language as tl

    def make(value: float) -> Any:
        handle = interpreter.TensorHandle(numpy.array([value], numpy.float32), tl.float32)
        return tl.tensor(handle, tl.float32)

    return make


def _adapt_libdevice() -> str:
    from triton.language.extra import libdevice
    from triton.runtime import interpreter

    one = _scalar_maker(interpreter)(1.0)
    replaced = []
    for name, function in _elementwise(interpreter).items():
        stub = getattr(libdevice, name, None)
        if stub is not None and _gives_nothing(stub, one):
            _replace(stub, function, name)
            replaced.append(name)
    return f"adapter: libdevice functions through numpy: {', '.join(sorted(replaced))}" if replaced else ""


def _gives_nothing(function: Callable[[Any], Any], value: Any) -> bool:
    try:
        return function(value) is None
    except Exception:  # it does something, which is more than an empty one does
        return False


def _elementwise(interpreter: ModuleType) -> dict[str, Callable[[Any], Any]]:
    """The functions of libdevice that numpy has, over what the interpreter passes."""
    import numpy
    import triton.language as tl

    def over(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def apply(value: Any) -> Any:
            value = tl.core._unwrap_if_constexpr(value)
            if isinstance(value, (int, float)):
                value = _scalar_maker(interpreter)(float(value))
            data = value.handle.data
            with numpy.errstate(all="ignore"):  # infinities and NaNs are results, as on a GPU
                computed = compute(data).astype(data.dtype)
            return tl.tensor(interpreter.TensorHandle(computed, value.dtype), value.type)

        return apply

    functions = {name: over(getattr(numpy, _RENAMED.get(name, name))) for name in _UNARY}
    return {**functions, "rsqrt": over(lambda data: 1 / numpy.sqrt(data))}


def _replace(stub: Any, function: Any, name: str) -> None:
    """Put a function in the place of a stub, also where a module has imported it from libdevice already."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is stub:
            setattr(module, name, function)


def _adapt_bfloat16() -> str:
    import numpy
    import triton.language as tl
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    handle = interpreter.TensorHandle(numpy.array([1 + 2**-8 + 2**-9], numpy.float32), tl.float32)
    rounded = builder().cast_impl(handle, tl.bfloat16)
    product = builder().create_fmul(rounded, rounded)
    if rounded.data.tolist() == [0x3F81] and product.data.tolist() == [0x3F82]:
        return ""
    builder.cast_impl = _casting(builder.cast_impl, interpreter)
    builder.create_fp_to_fp = _casting(builder.create_fp_to_fp, interpreter)
    for name in ("binary_op", "unary_op", "ternary_op", "create_fma", "create_dot"):
        setattr(builder, name, _computing(getattr(builder, name), interpreter))
    return "adapter: bfloat16 is computed in float32 and rounded to the nearest"


def _adapt_search() -> str:
    """Have the interpreter find what it replaces in triton.language once, and not at every call of a function."""
    import inspect

    import triton.language as tl
    from triton.runtime import interpreter

    search = getattr(interpreter, "_patch_builtin", None)
    is_own = getattr(search, "__module__", "") == __name__
    if search is None or is_own or not hasattr(interpreter, "_patch_attr"):
        return ""
    builtins: dict[int, list[tuple[str, Any]]] = {}

    def replace_known(package: Any, *more: Any) -> None:
        for name, member in builtins[id(package)]:
            if getattr(package, name) is member:
                interpreter._patch_attr(package, name, member, *more)

    def replace_builtins(package: Any, *more: Any) -> None:
        (replace_known if id(package) in builtins else search)(package, *more)

    for package in (tl, tl.core, tl.tensor, tl.core.tensor, tl.math, tl.core.tensor_descriptor_base):
        members = inspect.getmembers(package)
        builtins[id(package)] = [(name, member) for name, member in members if tl.core.is_builtin(member)]
    interpreter._patch_builtin = replace_builtins
    return "adapter: the interpreter looks once for what it replaces in triton.language"


def _casting(cast: Callable[..., Any], interpreter: ModuleType) -> Callable[..., Any]:
    """A conversion that rounds float32 to bfloat16 as hardware does; all others are the interpreter's own."""
    import triton.language as tl

    def convert(self: Any, source: Any, to: Any, *rest: Any) -> Any:
        if (source.dtype.scalar, to.scalar) == (tl.float32, tl.bfloat16):
            return _to_bfloat16(source, interpreter)
        return cast(self, source, to, *rest)

    return convert


def _computing(operation: Callable[..., Any], interpreter: ModuleType) -> Callable[..., Any]:
    """An operation that computes in float32 what it is given in bfloat16, and returns what is floating in bfloat16."""

    def is_bfloat16(value: Any) -> bool:
        return isinstance(value, interpreter.TensorHandle) and value.dtype.scalar.name == "bf16"

    def compute(self: Any, *values: Any) -> Any:
        if not any(map(is_bfloat16, values)):
            return operation(self, *values)
        result = operation(self, *(_to_float32(v, interpreter) if is_bfloat16(v) else v for v in values))
        return _to_bfloat16(result, interpreter) if result.data.dtype.kind == "f" else result

    return compute


def _to_float32(handle: Any, interpreter: ModuleType) -> Any:
    import numpy
    import triton.language as tl

    data = (handle.data.astype(numpy.uint32) << 16).view(numpy.float32)
    return interpreter.TensorHandle(data, tl.float32)


def _to_bfloat16(handle: Any, interpreter: ModuleType) -> Any:
    import numpy
    import triton.language as tl

    data = numpy.ascontiguousarray(handle.data, numpy.float32)
    bits = data.view(numpy.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded = numpy.where(numpy.isnan(data), 0x7FC0, nearest).astype(numpy.uint16)
    return interpreter.TensorHandle(rounded, tl.bfloat16)
