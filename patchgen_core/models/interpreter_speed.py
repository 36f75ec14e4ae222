"""What Triton's interpreter does anew at every operation, done once, and what it does for nothing, left out.

An operation on a toy tensor is little work: most of its time goes into describing the result. Nothing here changes a
value.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

_NEEDED = (
    "_get_np_dtype",
    "_patch_attr",
    "_patch_lang",
    "_LangPatchScope",
    "GridExecutor",
    "interpreter_builder",
    "interpreter_semantic",
    "TensorHandle",
)
_OF_BLOCK = {"element_ty", "shape", "numel", "name"}
_OF_TENSOR = {"handle", "shape", "numel", "type", "dtype"}
_OF_PATCHING = ["obj", "name", "member", "builder", "scope"]


def adapt_descriptions() -> str:
    """Put it in, unless it is in already or triton is built otherwise; a line that says so, or an empty one."""
    import triton.language as tl
    from triton.runtime import interpreter

    if not all(hasattr(interpreter, name) for name in _NEEDED) or not _is_as_known(interpreter, tl):
        return ""
    _keep_dtypes(interpreter)
    _keep_shapes(tl.core)
    _broadcast_less(interpreter.interpreter_semantic)
    _pass_on(interpreter, tl.core)
    _replace_once(interpreter)
    _skip_overflow(interpreter)
    return "adapter: the interpreter describes each type and shape once"


def _is_as_known(interpreter: Any, tl: Any) -> bool:
    """Whether triton is built as what follows takes it to be, and has not been adapted."""
    import numpy

    block = tl.block_type(tl.float32, [2])
    tensor = tl.tensor(interpreter.TensorHandle(numpy.zeros(2, numpy.float32), tl.float32), block)
    is_known = (vars(block).keys(), vars(tensor).keys()) == (_OF_BLOCK, _OF_TENSOR)
    return is_known and list(inspect.signature(interpreter._patch_attr).parameters) == _OF_PATCHING


def _keep_dtypes(interpreter: Any) -> None:
    """numpy's dtypes by the names of triton's."""
    find: Callable[[Any], Any] = interpreter._get_np_dtype
    converters: dict[tuple[type, str], Any] = {}

    def find_known(dtype: Any) -> Any:
        key = (type(dtype), dtype.name)
        if key not in converters:
            converters[key] = find(dtype)
        return converters[key]

    interpreter._get_np_dtype = find_known


def _keep_shapes(core: Any) -> None:
    """Shapes of blocks, one object for all of the same sizes, and what tensors tell of them."""
    make_block: Callable[..., None] = core.block_type.__init__
    make_tensor: Callable[..., None] = core.tensor.__init__
    equal: Callable[[Any, Any], Any] = core.block_type.__eq__
    blocks: dict[tuple[int, ...], tuple[Any, int, str]] = {}
    shared: dict[int, tuple[Any, int, str]] = {}  # by the identity of the shape, which is never freed
    tensors: dict[int | None, tuple[Any, Any]] = {}

    def described(self: Any, element_ty: Any, shape: Any) -> tuple[Any, int, str]:
        sizes = tuple([getattr(size, "value", size) for size in shape])
        if sizes not in blocks:
            make_block(self, element_ty, shape)
            blocks[sizes] = shared[id(self.shape)] = (self.shape, self.numel, str(self.shape))
        return blocks[sizes]

    def init_block(self: Any, element_ty: Any, shape: Any) -> None:
        self.shape, self.numel, text = shared.get(id(shape)) or described(self, element_ty, shape)
        self.element_ty, self.name = element_ty, f"<{text}, {element_ty}>"

    def init_tensor(self: Any, handle: Any, type: Any) -> None:
        key = id(type.shape) if type.is_block() else None
        if key not in tensors:
            make_tensor(self, handle, type)
            if key is not None and key not in shared:  # made before this, or copied
                return
            tensors[key] = (self.numel, self.shape)
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, self.shape = tensors[key]

    def is_same(self: Any, other: Any) -> Any:
        if type(other) is core.block_type and self.shape is other.shape:
            return self.element_ty == other.element_ty
        return equal(self, other)

    core.block_type.__init__, core.block_type.__eq__, core.tensor.__init__ = init_block, is_same, init_tensor


def _broadcast_less(semantic: Any) -> None:
    """Leave two blocks of one shape as they are."""
    broadcast: Callable[[Any, Any], Any] = semantic.broadcast_impl_value

    def broadcast_others(lhs: Any, rhs: Any) -> Any:
        if lhs.type.is_block() and rhs.type.is_block() and lhs.type.shape is rhs.type.shape:
            return lhs, rhs
        return broadcast(lhs, rhs)

    semantic.broadcast_impl_value = broadcast_others


def _pass_on(interpreter: Any, core: Any) -> None:
    """Call the functions of triton.language without what only checks that they are called by a kernel."""
    checking = core.builtin(lambda: None).__code__
    semantic = interpreter.interpreter_semantic
    calls: dict[Any, Callable[..., Any]] = {}

    def calling(member: Any) -> Callable[..., Any]:
        function = member.__wrapped__ if getattr(member, "__code__", None) is checking else member

        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return function(*args, **kwargs)

        return call

    def patch(place: Any, name: str, member: Any, _: Any, scope: Any) -> None:
        if member not in calls:
            calls[member] = calling(member)
        scope.set_attr(place, name, calls[member])

    interpreter._patch_attr = patch


def _replace_once(interpreter: Any) -> None:
    """Replace functions of triton.language once for all functions of a module that a kernel calls, and not at each
    call: nothing is put back before the kernel has run."""
    replace_in: Callable[[Any], Any] = interpreter._patch_lang
    run: Callable[..., Any] = interpreter.GridExecutor.__call__
    modules: list[set[int]] = []  # of each kernel that runs: the globals whose functions are replaced

    def replace_in_others(function: Any) -> Any:
        known, key = modules[-1] if modules else set(), id(function.__globals__)
        if key in known:
            return interpreter._LangPatchScope()
        known.add(key)
        return replace_in(function)

    @functools.wraps(run)
    def launch(grid: Any, *args: Any, **kwargs: Any) -> Any:
        modules.append(set())
        try:
            return run(grid, *args, **kwargs)
        finally:
            modules.pop()

    interpreter._patch_lang, interpreter.GridExecutor.__call__ = replace_in_others, launch


def _skip_overflow(interpreter: Any) -> None:
    """No check of integers for overflows, whose outcome nothing looks at unless debugging is on."""
    builder = interpreter.interpreter_builder
    if not builder.options.debug and hasattr(builder.options, "sanitize_overflow"):
        builder.options = replace(builder.options, sanitize_overflow=False)
