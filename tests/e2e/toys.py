"""How many models of transformers get a toy configuration that runs forward and backward without help?

Over every model type that has a causal language model or an image-text-to-text model: make the toy configuration,
build the model with eager attention, run a text batch with labels forward and backward; then, for models that
see, a batch with pictures, as many placeholders a picture as the model's own ``get_image_features`` gives rows.
Every model runs in a process of its own, killed on a time limit.

    python -m tests.e2e.toys [--models PATTERN] [--limit SECONDS] [--verbose]
"""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)

from patchgen_core.parity.toy import toy_config_for

GOAL = 0.9
TASKS = {
    "causal": (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
    "image-text": (MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, transformers.AutoModelForImageTextToText),
}


@dataclass(frozen=True)
class Outcome:
    """What one model did.

    Attributes:
        failed: the stage that failed (``config``, ``build``, ``forward``, ``backward``, ``crash``); empty for none.
        reason: the error.
        picture: the same for the batch with pictures: ``ok``, ``none`` or the error.
        parameters: how many the model has.
        seconds: for building it and running it forward and backward once, without imports.
    """

    failed: str = ""
    reason: str = ""
    picture: str = "none"
    parameters: int = 0
    seconds: float = 0.0
    unused: int = 0


def main(arguments: Sequence[str]) -> int:
    """Measure, print a table, and return 0 when the goal is reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="*", help="model types to measure, a shell pattern")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds for one model")
    parser.add_argument("--verbose", action="store_true", help="print tracebacks, and a line for each good model")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    good, total = 0, 0
    pictures: list[str] = []
    for task, (names, _) in TASKS.items():
        wanted = sorted(name for name in names if fnmatch.fnmatch(name, options.models))
        outcomes = {}
        for name in wanted:
            outcomes[name] = outcome = in_a_process(task, name, options)
            if outcome.failed:
                print(f"{task:10} {name:28} {outcome.failed:8} {outcome.reason}", flush=True)
            elif outcome.picture not in ("ok", "none"):
                print(f"{task:10} {name:28} {'picture':8} {outcome.picture}", flush=True)
            if not outcome.failed and (options.verbose or outcome.parameters > 2_000_000 or outcome.seconds > 2):
                print(f"{task:10} {name:28} {'ok':8} {outcome.parameters:,} parameters, {outcome.seconds:.2f} s")
        passed = sum(not outcome.failed for outcome in outcomes.values())
        print(f"{task}: {passed} of {len(wanted)} run forward and backward")
        pictures += [outcome.picture for outcome in outcomes.values() if not outcome.failed]
        good, total = good + passed, total + len(wanted)
    seen = [picture for picture in pictures if picture != "none"]
    print(f"pictures: {seen.count('ok')} of {len(seen)} that take them by the common names")
    print(f"{good} of {total} ({100 * good / max(total, 1):.1f} %); the goal is {100 * GOAL:.0f} %")
    return 0 if good >= GOAL * total else 1


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
        start = time.perf_counter()
        stage = "build"
        torch.manual_seed(0)
        model = TASKS[task][1].from_config(config, attn_implementation="eager")
        stage = "forward"
        loss = run(model, text_batch(model))
        stage = "backward"
        loss.backward()
        seconds = time.perf_counter() - start
    except Exception as error:
        if verbose:
            traceback.print_exc()
        return Outcome(stage, _shown(error))
    parameters = list(model.parameters())
    picture = _picture(model, verbose) if task == "image-text" else "none"
    return Outcome(
        "", "", picture, sum(p.numel() for p in parameters), seconds, sum(p.grad is None for p in parameters)
    )


def text_batch(model: Any) -> dict[str, Any]:
    """Two rows of tokens that are no special ones, with labels."""
    ids = torch.randint(60, _vocabulary(model), (2, 19))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def run(model: Any, batch: dict[str, Any]) -> torch.Tensor:
    """The loss of a batch, checked to be a finite number."""
    loss: torch.Tensor = model(**batch).loss
    if loss is None or not torch.isfinite(loss):
        raise ValueError(f"the loss is {loss}")
    return loss


def _vocabulary(model: Any) -> int:
    size: int = model.config.get_text_config(decoder=True).vocab_size
    return size


def _picture(model: Any, verbose: bool) -> str:
    token = next((v for n in ("image_token_id", "image_token_index") if (v := getattr(model.config, n, None))), None)
    if token is None or not hasattr(model, "get_image_features"):
        return "none"
    try:
        inputs = picture_inputs(model)
        rows = _rows(model.get_image_features(**inputs))
        ids = torch.randint(60, _vocabulary(model), (1, rows + 9))
        ids[0, 4 : 4 + rows] = token
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone(), **inputs}
        if "mm_token_type_ids" in _parameters(model.forward):
            batch["mm_token_type_ids"] = (ids == token).int()
        run(model, batch).backward()
    except Exception as error:
        if verbose:
            traceback.print_exc()
        return _shown(error)
    return "ok"


def picture_inputs(model: Any) -> dict[str, torch.Tensor]:
    """One picture as the model's ``get_image_features`` takes it."""
    vision = model.config.vision_config
    takes = _parameters(model.get_image_features)
    patch, frames = getattr(vision, "patch_size", 6), getattr(vision, "temporal_patch_size", 1)
    if "image_grid_thw" in takes:
        merge = getattr(vision, "spatial_merge_size", 2)
        rows, columns = 3 * merge, 2 * merge
        values = torch.randn(rows * columns, 3 * frames * patch * patch)
        return {"pixel_values": values, "image_grid_thw": torch.tensor([[1, rows, columns]])}
    side = getattr(vision, "image_size", None) or 36
    values = torch.randn(1, 3, side, side)
    if "image_sizes" in takes:
        return {"pixel_values": values, "image_sizes": torch.tensor([[side, side]])}
    return {"pixel_values": values}


def _rows(features: Any) -> int:
    if hasattr(features, "pooler_output"):
        features = features.pooler_output
    if isinstance(features, (list, tuple)):
        return sum(_rows(feature) for feature in features)
    rows: int = features.reshape(-1, features.shape[-1]).shape[0]
    return rows


def _parameters(function: Callable[..., Any]) -> set[str]:
    import inspect

    return set(inspect.signature(function).parameters)


def _shown(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:160]
    return f"{type(error).__name__}: {text} ({place.filename.rpartition('/')[2]}:{place.lineno})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
