"""Why generated models start with other values than upstream's: a patch, or what transformers does to custom code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from patchgen_core.checks.parity.request import ParityRequest
from patchgen_core.checks.parity_codes import UNINITIALIZED
from patchgen_core.errors import Problem, list_some
from patchgen_core.models.toy_models import InitialValues, initial_values, initialized_otherwise
from patchgen_core.upstream.custom_code import INITIALIZE, declare_initialize

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_IN_ONE_MODULE = (
    "Initialize them one module at a time in _init_weights: transformers skips modules without own parameters here."
)
_CUSTOM_CODE = (
    "transformers skips modules without tensors of their own in classes outside its package, and {methods} gives"
    " values to the children of some. With this in the config, which parity has tried, they start as upstream's do:"
)
_MOST_NAMED = 4
_INITIALIZES = re.compile(r"PreTrainedModel$|\._init_weights$")


def explain_other_start(
    head: type[PreTrainedModel], names: Sequence[str], owners: Sequence[type], request: ParityRequest
) -> Problem:
    """What to tell of parameters ``names`` of a generated class that start with other values than upstream's.

    ``owners`` are those that :func:`find_owners_of_skipped` finds.
    """
    message = f"{head.__name__} does not initialize {list_some(names, _MOST_NAMED)} as upstream's does"
    place, hint = request.declared, _IN_ONE_MODULE
    patch = next((patch for patch in request.patches if _INITIALIZES.search(patch.target)), None)
    if owners:
        message = f"{message}: transformers skips them outside its package"
        methods = " and ".join(f"{owner.__name__}._init_weights" for owner in owners)
        declarations = "\n".join(declare_initialize(owner.__name__) for owner in owners).rstrip()
        hint = f"{_CUSTOM_CODE.format(methods=methods)}\n{declarations}".replace("\n", "\n  ")
    elif patch is not None:
        message, place = f"{message}: look at the patch of '{patch.target}'", patch.declared
    return Problem(message, place, hint, code=UNINITIALIZED, target=head.__name__)


def find_owners_of_skipped(
    head: type[PreTrainedModel],
    names: Collection[str],
    theirs: Mapping[str, InitialValues],
    build: Callable[[], PreTrainedModel],
) -> list[type]:
    """The fewest generated classes of which ``names`` start as upstream's do where their ``_init_weights`` gets each
    module; none where that does not help."""

    def is_mended(owners: Sequence[type]) -> bool:
        with _initializing_everything(owners):
            return not set(initialized_otherwise(initial_values(build()), theirs)) & set(names)

    defined = vars(sys.modules[head.__module__]).values()
    own = [cls for cls in defined if isinstance(cls, type) and cls.__module__ == head.__module__]
    owners = [cls for cls in own if "_init_weights" in vars(cls) and INITIALIZE not in vars(cls)]
    if not owners or not is_mended(owners):
        return []
    for owner in list(owners):
        others = [other for other in owners if other is not owner]
        if others and is_mended(others):
            owners = others
    return owners


@contextmanager
def _initializing_everything(owners: Sequence[type]) -> Iterator[None]:
    """Have models of some classes initialize every module, as upstream's do."""

    def make(owner: Any) -> Callable[..., None]:
        def initialize(self: Any, module: Any, is_custom_code: bool = False) -> None:
            super(owner, self)._initialize_weights(module)

        return initialize

    for owner in owners:
        setattr(owner, INITIALIZE, make(owner))
    try:
        yield
    finally:
        for owner in owners:
            delattr(owner, INITIALIZE)
