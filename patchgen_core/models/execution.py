"""Which patched functions run, forward and backward, and in which module of the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch


@dataclass(frozen=True)
class Span:
    """Lines of a file, both ends included."""

    file: str
    first: int
    last: int


@dataclass
class Execution:
    """What ran of one patch: the names of its functions, and (file, line) of its lines.

    ``modules`` are paths of the last model's modules in which they ran, empty for the model itself; ``built`` the
    classes whose objects they made of it; ``backward`` tells whether a gradient came to what one of them returned.
    ``right_lines`` are those that had run before, in batches in which the models agree.
    """

    functions: set[str] = field(default_factory=set)
    lines: set[tuple[str, int]] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    built: set[str] = field(default_factory=set)
    backward: bool = False
    right_lines: frozenset[tuple[str, int]] = frozenset()


class ExecutionRecorder:
    """Notes what runs of the code that is looked for: its spans, and what ran so far, by the patch's target.

    ``is_interpreted`` tells whether Triton interpreted a kernel, which takes long.
    """

    def __init__(self, spans: Mapping[str, Sequence[Span]]) -> None:
        self.executions = {target: Execution() for target in spans}
        self._spans = [(span, target) for target, own in spans.items() for span in own]
        self._files = {span.file for span, _ in self._spans}
        self._targets: dict[CodeType, str | None] = {}
        self._active: Sequence[str] = ()
        self._paths: Mapping[int, str] = {}
        self._before: dict[str, frozenset[tuple[str, int]]] = {}
        self.is_interpreted = False

    @contextmanager
    def recording(self, active: Sequence[str] = (), model: torch.nn.Module | None = None) -> Iterator[None]:
        """Note what runs inside; ``active`` holds the paths of the modules of ``model`` that are running, innermost
        last."""
        before, self._active = sys.gettrace(), active
        self._paths = {id(part): path for path, part in model.named_modules()} if model is not None else {}
        with self._unseen_interpreter():
            sys.settrace(self._enter)
            try:
                yield
            finally:
                sys.settrace(before)

    def begin_batch(self) -> None:
        """Keep apart what ran until now, all of which was right."""
        self._before = {target: frozenset(own.lines) for target, own in self.executions.items()}

    def for_one_run(self) -> ExecutionRecorder:
        """A recorder of the same code that knows what was made so far, and of nothing that ran."""
        other = ExecutionRecorder({})
        other._spans, other._files = self._spans, self._files
        changed = {target: not own.functions - {"__init__"} for target, own in self.executions.items()}
        right = {target: self._before.get(target, frozenset()) for target in self.executions}
        other.executions = {
            target: own if changed[target] else Execution(right_lines=right[target])
            for target, own in self.executions.items()
        }
        return other

    def begin_model(self) -> None:
        """Forget in which modules patches ran: paths are those of one model, and another one comes."""
        for execution in self.executions.values():
            execution.modules.clear()
            execution.built.clear()

    def note_places(self, kinds: Mapping[str, str]) -> None:
        """Note where the objects are that were made: the class names of a model's modules by path."""
        for execution in self.executions.values():
            execution.modules |= {path for path, kind in kinds.items() if kind in execution.built}

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self._files:
            return None
        if code not in self._targets:
            self._targets[code] = self._target(code)
        target = self._targets[code]
        if target is None:
            return None
        execution = self.executions[target]
        execution.functions.add(code.co_name)
        if self._active:  # a method may be called by another module than its own
            own = self._paths.get(id(frame.f_locals.get("self")), self._active[-1])
            execution.modules.add(own)
        elif "self" in frame.f_locals:
            execution.built.add(type(frame.f_locals["self"]).__name__)

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                execution.lines.add((code.co_filename, frame.f_lineno))
            elif event == "return":
                _watch_gradient(execution, argument)
            return trace

        return trace

    @contextmanager
    def _unseen_interpreter(self) -> Iterator[None]:
        """Trace nothing while Triton interprets a kernel, which is millions of calls."""
        if "triton" not in sys.modules:
            yield
            return
        from triton.runtime.interpreter import GridExecutor

        run: Any = GridExecutor.__call__

        def untraced(grid: Any, *args: Any, **kwargs: Any) -> Any:
            self.is_interpreted = True
            trace = sys.gettrace()
            sys.settrace(None)
            try:
                return run(grid, *args, **kwargs)
            finally:
                sys.settrace(trace)

        GridExecutor.__call__ = untraced
        try:
            yield
        finally:
            GridExecutor.__call__ = run

    def _target(self, code: CodeType) -> str | None:
        """The patch that a function belongs to, the innermost one."""
        fitting = [
            (span.last - span.first, target)
            for span, target in self._spans
            if span.file == code.co_filename and span.first <= code.co_firstlineno <= span.last
        ]
        return min(fitting)[1] if fitting else None


def _watch_gradient(execution: Execution, value: Any) -> None:
    def note(_: torch.Tensor) -> None:
        execution.backward = True

    if isinstance(value, torch.Tensor):
        if value.requires_grad and not value.is_leaf:
            value.register_hook(note)  # type: ignore[no-untyped-call]
    elif isinstance(value, Mapping):
        for part in value.values():
            _watch_gradient(execution, part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            _watch_gradient(execution, part)
