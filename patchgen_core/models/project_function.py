"""Functions of a project that it names for the process which runs models."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from patchgen_core.errors import Location, PatchgenError, did_you_mean, display_path
from patchgen_core.models.batch_validation import describe_error

_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Role:
    """What a function is there for, in messages.

    Attributes:
        name: what it is called.
        purpose: what it "is to" do.
        signature: what it takes and returns, as a sentence.
    """

    name: str
    purpose: str
    signature: str


def load_function(reference: str, role: Role) -> Callable[..., Any]:
    """A project's function, by reference: ``package.module:function``, or ``/path/file.py:function``.

    The latter is for a file that is no module of a package, such as a ``conftest.py``. It is run once for each
    process, and may import what lies beside it.

    Raises:
        PatchgenError: it names nothing that can be called, or the module cannot be imported.
    """
    place, colon, name = reference.rpartition(":")
    if not colon or not place or not name:
        hint = "Write package.module:function, or /path/file.py:function."
        raise PatchgenError(f"'{reference}' names no {role.name}", hint=hint)
    module = _run_file(Path(place), role) if place.endswith(".py") else _import_module(place, role)
    value = getattr(module, name, None)
    if callable(value):
        function: Callable[..., Any] = value
        return function
    lack = "has no" if value is None else f"has a {type(value).__name__} instead of a function"
    functions = [function_name for function_name, own in vars(module).items() if callable(own)]
    near = did_you_mean(name, functions) or role.signature
    raise PatchgenError(f"{display_path(place)} {lack} '{name}', which {role.purpose}", hint=near)


def _import_module(name: str, role: Role) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _unloaded(name, error, role) from error
        parent = error.name.rpartition(".")[0]
        paths = getattr(sys.modules.get(parent), "__path__", None) if parent else sys.path
        modules = [f"{parent}.{module.name}".lstrip(".") for module in pkgutil.iter_modules(paths)]
        hint = did_you_mean(error.name, modules) or f"Python looked in {', '.join(filter(None, paths or sys.path))}."
        message = f"there is no module '{error.name}', which '{name}' with the {role.name} is in"
        raise PatchgenError(message, hint=hint) from None
    except Exception as error:
        raise _unloaded(name, error, role) from error


def _run_file(path: Path, role: Role) -> ModuleType:
    name = f"patchgen_functions_{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        files = [file.name for file in path.parent.glob("*.py")]
        raise PatchgenError(f"there is no file {display_path(path)}", hint=did_you_mean(path.name, files))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _unloaded(display_path(path), error, role) from error
    finally:
        sys.path.remove(str(path.parent.absolute()))
    return module


def _unloaded(place: str, error: Exception, role: Role) -> PatchgenError:
    reason = describe_error(error)
    return PatchgenError(f"{place}, which {role.purpose}, cannot be imported: {reason}", place_of(error))


def place_of(error: BaseException) -> Location | None:
    """The line of the project's file at which an error came up: the file is the first one that was entered."""
    if isinstance(error, SyntaxError) and error.filename:
        return Location(error.filename, error.lineno or 0)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return Location(own[-1].filename, own[-1].lineno or 0) if own else None


def _is_ours(file: str) -> bool:
    return file.startswith(("<frozen", _PACKAGE)) or file == importlib.__file__
