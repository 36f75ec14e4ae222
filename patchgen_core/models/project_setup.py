"""Running the set-ups of a project, once, in the process that runs models."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable

from patchgen_core.errors import PatchgenError, display_path
from patchgen_core.models.model_setup import ModelSetup
from patchgen_core.models.project_function import Role, load_function, place_of

_SETUP = Role("set-up", "must set up models", "It must take a ModelSetup.")


def run_setups(references: Iterable[str]) -> ModelSetup:
    """What the set-ups of these references declare (:func:`~patchgen_core.models.project_function.load_function`).

    Raises:
        PatchgenError: one cannot be found or raises; tells the line of its file.
    """
    setup = ModelSetup()
    for reference in references:
        function = load_function(reference, _SETUP)
        place, _, name = reference.rpartition(":")
        label = f"{display_path(place) if place.endswith('.py') else place}:{name}"
        try:
            function(setup) if inspect.signature(function).parameters else function()
        except PatchgenError as error:
            first = error.problems[0]
            message = f"the set-up '{label}' fails: {first.message}"
            raise PatchgenError(message, place_of(error), first.hint) from error
        except (Exception, SystemExit) as error:
            text = " ".join(str(error).split())
            message = f"the set-up '{label}' raises {type(error).__name__}: {text}".rstrip(": ")
            raise PatchgenError(message, place_of(error), _origin(error)) from error
    return setup


def _origin(error: BaseException) -> str:
    """Where an error was raised, if that is not the file of the set-up."""
    place = place_of(error)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith("<frozen")]
    if place is None or not frames or frames[-1].filename == place.file:
        return ""
    return f"Raised in {display_path(frames[-1].filename)}, line {frames[-1].lineno}."
