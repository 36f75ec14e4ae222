"""How many models of transformers get a toy configuration that runs forward and backward without help?

Over every model type that has a causal language model or an image-text-to-text model: make the toy configuration,
build the model with eager attention, make its toy batches, and run each forward and backward. Each model runs in a
process of its own, killed on a limit.

    python -m tools.toys [--models PATTERN...] [--limit SECONDS] [--verbose]
"""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from patchgen_core.models.batches import ToyBatch, ToyModel
from patchgen_core.models.model_heads import Kind
from patchgen_core.models.toy_batches import make_batches
from patchgen_core.models.toy_config import toy_config_for
from patchgen_core.models.toy_models import forget_positions, random_state

GOAL = 0.9
LARGE, SLOW = 2_000_000, 1.0
TASKS = {
    "causal": (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
    "image-text": (MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, transformers.AutoModelForImageTextToText),
}
BUILT_FROM = {"musicgen": "decoder", "musicgen_melody": "decoder"}
"""Model types whose mapped class takes one part of the configuration."""
KINDS: dict[str, Kind] = {"causal": "causal_lm", "image-text": "conditional_generation"}
QUIET = "packed"
"""The batch that many models refuse: they do not keep packed sequences apart."""


@dataclass(frozen=True)
class Outcome:
    """What one model did.

    Attributes:
        failed: the stage that failed (``config``, ``build``, ``forward``, ``backward``, ``crash``); empty for none.
        reason: the error.
        batches: the names of those that it runs.
        refused: for each that it may be expected to run and does not, its name and the error.
        parameters: how many the model has.
        seconds: for building it and running its first batch forward and backward, without imports.
    """

    failed: str = ""
    reason: str = ""
    batches: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    parameters: int = 0
    seconds: float = 0.0


def main(arguments: Sequence[str]) -> int:
    """Measure, print a table, and return 0 when the goal is reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["*"], help="model types to measure, shell patterns")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds for one model")
    parser.add_argument("--verbose", action="store_true", help="print tracebacks, and a line for each good model")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    outcomes: list[Outcome] = []
    for task, (names, _) in TASKS.items():
        wanted = sorted(name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in options.models))
        measured = [_measured(task, name, options) for name in wanted]
        print(f"{task}: {sum(not outcome.failed for outcome in measured)} of {len(measured)} run forward and backward")
        outcomes += measured
    good = [outcome for outcome in outcomes if not outcome.failed]
    for name in dict.fromkeys(name for outcome in good for name in outcome.batches):
        run = sum(name in outcome.batches for outcome in good)
        refused = sum(reason.startswith(f"{name}: ") for outcome in good for reason in outcome.refused)
        print(f"{name}: {run} of {run + refused} that may take such a batch")
    print(f"{len(good)} of {len(outcomes)} ({100 * len(good) / max(len(outcomes), 1):.1f} %)")
    return 0 if len(good) >= GOAL * len(outcomes) else 1


def _measured(task: str, name: str, options: argparse.Namespace) -> Outcome:
    """The outcome of one model, printed where there is something to say."""
    outcome = in_a_process(task, name, options)
    if outcome.failed:
        print(f"{task:10} {name:28} {outcome.failed:8} {outcome.reason}", flush=True)
        return outcome
    for reason in outcome.refused:
        if options.verbose or not reason.startswith(QUIET):
            print(f"{task:10} {name:28} {reason}", flush=True)
    if options.verbose or outcome.parameters > LARGE or outcome.seconds > SLOW:
        figures = f"{outcome.parameters:,} parameters, {outcome.seconds:.2f} s, {' '.join(outcome.batches)}"
        print(f"{task:10} {name:28} ok: {figures}", flush=True)
    return outcome


def in_a_process(task: str, name: str, options: argparse.Namespace) -> Outcome:
    """The outcome of one model, which may crash or hang."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, task, name, options.verbose))
    process.start()
    sender.close()
    try:
        if not receiver.poll(options.limit):
            return Outcome("crash", f"no answer in {options.limit:.0f} s")
        outcome: Outcome = receiver.recv()
        return outcome
    except EOFError:
        process.join()
        return Outcome("crash", f"the process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()


def _send(sender: Connection, task: str, name: str, verbose: bool) -> None:
    sender.send(measure(task, name, verbose))


def measure(task: str, name: str, verbose: bool = False) -> Outcome:
    """Make the toy model of one model type and run it."""
    stage = "config"
    try:
        config = toy_config_for(name)
        stage = "build"
        model_class = TASKS[task][1]
        if name in BUILT_FROM:
            model_class, config = model_class._model_mapping[type(config)], getattr(config, BUILT_FROM[name])
        build = getattr(model_class, "_from_config", None) or model_class.from_config
        model = build(config, attn_implementation="eager")
        random_state(model)
        stage = "forward"
        toys = make_batches(ToyModel(model.train(), KINDS[task]))
        if not toys.batches:
            return Outcome(stage, "; ".join(toys.refused))
        stage = "backward"
        for batch in toys.batches:
            loss_of(model, batch).backward()
        start = time.perf_counter()  # without imports
        loss_of(build(config, attn_implementation="eager"), toys.batches[0]).backward()
        seconds = time.perf_counter() - start
    except Exception as error:
        if verbose:
            traceback.print_exc(limit=-2)
        return Outcome(stage, _shown(error))
    names = tuple(batch.name for batch in toys.batches)
    return Outcome("", "", names, toys.refused, sum(p.numel() for p in model.parameters()), seconds)


def loss_of(model: Any, batch: ToyBatch) -> torch.Tensor:
    """The loss of a batch, checked to be a finite number."""
    forget_positions(model)
    output = model(**batch.to(torch.float32, "cpu"))
    loss: torch.Tensor | None = getattr(output, "loss", None)
    if loss is None:  # a diffusion model has none of its own
        loss = output.logits.float().square().mean()
    if not torch.isfinite(loss):
        raise ValueError(f"the loss of {batch.name} is {loss}")
    return loss


def _shown(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:240]
    return f"{type(error).__name__}: {text} ({place.filename.rpartition('/')[2]}:{place.lineno})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
