"""Which lines of a project ran when an error came up: not those of Python, torch, transformers or this package."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from patchgen_core.errors import display_path

_OWN = Path(__file__).parents[1]
_LIBRARIES = ("torch", "transformers")
_MOST = 6


def project_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of a project's code that an error went through, the one that raised it last; others where it went
    through none of these. Those of code that torch.compile traced are in the error."""
    every = [*traceback.extract_tb(error.__traceback__), *(getattr(error, "real_stack", None) or ())]
    frames = [frame for frame in every if not frame.filename.startswith("<frozen")]
    foreign = [frame for frame in frames if not _is_below(frame.filename, (str(_OWN),))]
    own = [frame for frame in foreign if not _is_below(frame.filename, _library_folders())]
    if isinstance(error, SyntaxError) and error.filename:
        line = (error.text or "").strip()
        own.append(traceback.FrameSummary(error.filename, error.lineno or 0, "<module>", lookup_line=False, line=line))
    return own or foreign


def describe_frames(frames: Iterable[traceback.FrameSummary]) -> str:
    """The last frames as lines of ``file:line, in function: code``."""
    last_frames = list(frames)[-_MOST:]
    return "\n".join(f"{display_path(one.filename)}:{one.lineno}, in {one.name}: {one.line}" for one in last_frames)


def is_of_library(file: str) -> bool:
    """Whether a file is one of torch's or transformers', wherever these are installed."""
    return _is_below(file, _paths_of_libraries())


def _library_folders() -> tuple[str, ...]:
    return (*_python_folders(), *_paths_of_libraries())


def _paths_of_libraries() -> list[str]:
    return [str(path) for name in _LIBRARIES for path in getattr(sys.modules.get(name), "__path__", ())]


@cache
def _python_folders() -> tuple[str, ...]:
    return tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _is_below(file: str, folders: Iterable[str]) -> bool:
    return any(Path(folder) in Path(file).parents for folder in folders)
