"""What runs of a model leave in it for the next one, such as frequencies of positions for longer texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from patchgen_core.models.value_hashes import hash_values

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_PLAIN = (int, float, str, type(None), tuple)


class History:
    """The runs of one model so far: those that were made, and those that are known of an earlier process.

    ``state`` stands for what the model holds beside its parameters once they have all been made; it is empty for what
    it holds at first.
    """

    def __init__(self) -> None:
        self.state = ""
        self._first = ""
        self._skipped: list[Callable[[], object]] = []

    def skip(self, state: str, make: Callable[[], object]) -> None:
        """Note a run that is known, after which the model is in a state; ``make`` makes it."""
        if state != self.state:
            self._skipped.append(make)
        self.state = state

    @contextmanager
    def of(self, model: PreTrainedModel) -> Iterator[None]:
        """Run the model inside, which first makes the runs that left something in it and were skipped."""
        self._first = self._first or hash_state(model)
        skipped, self._skipped = self._skipped, []
        for make in skipped:
            make()
        try:
            yield
        finally:
            state = hash_state(model)
            self.state = "" if state == self._first else state


def hash_state(model: PreTrainedModel) -> str:
    """A hash of what a model and its configuration hold beside parameters."""
    values: list[Any] = [model.config.to_json_string(use_diff=False)]
    for path, module in model.named_modules():
        own = {key: repr(value) for key, value in sorted(vars(module).items()) if isinstance(value, _PLAIN)}
        values.append((path, own, dict(module.named_buffers(recurse=False))))
    return hash_values(values)
