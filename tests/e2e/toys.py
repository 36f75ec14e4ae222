"""How many models of transformers get a toy configuration that runs forward and backward without help?

Over every model type that has a causal language model or an image-text-to-text model: make the toy configuration,
build the model with eager attention, run a batch with labels forward and backward. The batch is text; a model that
cannot do without a picture gets one. Models that can are then run with a picture as well, with as many
placeholders as their own ``get_image_features`` gives rows. Each runs in a process of its own, killed on a limit.

    python -m tests.e2e.toys [--models PATTERN...] [--limit SECONDS] [--verbose]
"""

from __future__ import annotations

import argparse
import fnmatch
import inspect
import multiprocessing
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
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
from patchgen_core.parity.toy_sizes import FIRST_ORDINARY_TOKEN

GOAL = 0.9
LARGE, SLOW = 2_000_000, 1.0
TASKS = {
    "causal": (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
    "image-text": (MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, transformers.AutoModelForImageTextToText),
}
BUILT_FROM = {"musicgen": "decoder", "musicgen_melody": "decoder"}
"""Model types whose mapped class takes one part of the configuration."""
Batch = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What one model did.

    Attributes:
        failed: the stage that failed (``config``, ``build``, ``forward``, ``backward``, ``crash``); empty for none.
        reason: the error.
        batch: what it was run on.
        picture: how the batch with a picture went: ``ok``, ``none`` or the error.
        parameters: how many the model has.
        seconds: for building it and running it forward and backward once, without imports.
    """

    failed: str = ""
    reason: str = ""
    batch: str = ""
    picture: str = "none"
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
        done = [_measured(task, name, options) for name in wanted]
        print(f"{task}: {sum(not outcome.failed for outcome in done)} of {len(done)} run forward and backward")
        outcomes += done
    good = [outcome for outcome in outcomes if not outcome.failed]
    seen = [outcome for outcome in good if outcome.picture != "none"]
    print(f"pictures: {sum(outcome.picture == 'ok' for outcome in seen)} of {len(seen)} that take them")
    print(f"{len(good)} of {len(outcomes)} ({100 * len(good) / max(len(outcomes), 1):.1f} %)")
    return 0 if len(good) >= GOAL * len(outcomes) else 1


def _measured(task: str, name: str, options: argparse.Namespace) -> Outcome:
    """The outcome of one model, printed where there is something to say."""
    outcome = in_a_process(task, name, options)
    if outcome.failed:
        print(f"{task:10} {name:28} {outcome.failed:8} {outcome.reason}", flush=True)
        return outcome
    if outcome.picture not in ("ok", "none"):
        print(f"{task:10} {name:28} {'picture':8} {outcome.picture}", flush=True)
    if options.verbose or outcome.parameters > LARGE or outcome.seconds > SLOW:
        figures = f"{outcome.parameters:,} parameters, {outcome.seconds:.2f} s, {outcome.batch}"
        print(f"{task:10} {name:28} {'ok':8} {figures}", flush=True)
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
        build(config, attn_implementation="eager")  # so that no import is timed
        start = time.perf_counter()
        torch.manual_seed(0)
        model = build(config, attn_implementation="eager")
        stage = "forward"
        batch, loss = forward(model, verbose)
        stage = "backward"
        loss.backward()
        seconds = time.perf_counter() - start
    except Exception as error:
        if verbose:
            traceback.print_exc(limit=-2)
        return Outcome(stage, _shown(error))
    picture = _picture(model, verbose) if task == "image-text" else "none"
    return Outcome("", "", batch, picture, sum(p.numel() for p in model.parameters()), seconds)


def forward(model: Any, verbose: bool) -> tuple[str, torch.Tensor]:
    """The loss of the first batch that the model takes, and what that batch is; what it says of text when of none."""
    refusal: Exception | None = None
    for name, batch in batches(model):
        try:
            return name, run(model, batch)
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            if verbose:
                traceback.print_exc(limit=-2)
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def batches(model: Any) -> Iterator[tuple[str, Batch]]:
    """Text, then what models take that cannot do without a picture."""
    text = text_batch(model)
    yield "text", text
    takes = _parameters(model.forward)
    ids = text["input_ids"]
    yield "text without a cache", text | {"use_cache": False}
    if "mm_token_type_ids" in takes:
        yield "text + kinds of tokens", text | {"mm_token_type_ids": torch.zeros_like(ids)}
    if "bbox" in takes:
        yield "text + boxes", text | {"bbox": torch.rand(*ids.shape, 4)}
    if codes := getattr(model.config, "num_codebooks", 0):
        yield "codes", {"input_ids": torch.randint(FIRST_ORDINARY_TOKEN, _vocabulary(model), (2 * codes, 19))}
    vision = getattr(model.config, "vision_config", None) or getattr(model.config, "encoder", None)
    if vision is None:
        return
    if "flattened_patches" in takes:
        patches = torch.rand(2, 16, 2 + vision.patch_embed_hidden_size)
        yield "patches", {"flattened_patches": patches, "labels": ids}
        return
    side = _side(vision)
    pixels = {"pixel_values": torch.randn(2, 3, side, side)}
    yield "text + picture", text | pixels
    yield "text + picture to query", text | pixels | {"qformer_input_ids": ids - FIRST_ORDINARY_TOKEN}
    if (token := _image_token(model)) is not None:
        marked = ids.clone()
        marked[:, 2 : 2 + getattr(model.config, "num_query_tokens", 0)] = token
        query = {"input_ids": marked, "qformer_input_ids": ids - FIRST_ORDINARY_TOKEN}
        yield "text + picture in place of tokens", text | pixels | query
        yield "text + picture in place", text | pixels | {"input_ids": marked}
    yield "picture", pixels | {"labels": ids}
    if "image_embeds_position_mask" in takes:
        mask = torch.zeros_like(ids).bool()
        mask[:, 2 : 2 + model.config.latent_query_num] = True
        yield "text + picture in place", text | pixels | {"image_embeds_position_mask": mask}
    pictures = {"pixel_values": torch.randn(2, 1, 3, side, side)}
    yield "text + pictures", text | pictures | {"image_attention_mask": torch.ones(2, ids.shape[1], 1).long()}


def text_batch(model: Any) -> Batch:
    """Two rows of tokens that are no special ones, with labels."""
    ids = torch.randint(FIRST_ORDINARY_TOKEN, _vocabulary(model), (2, 19))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def run(model: Any, batch: Batch) -> torch.Tensor:
    """The loss of a batch, checked to be a finite number."""
    output = model(**batch)
    loss: torch.Tensor | None = getattr(output, "loss", None)
    if loss is None:  # a diffusion model has none of its own
        loss = output.logits.float().square().mean()
    if not torch.isfinite(loss):
        raise ValueError(f"the loss is {loss}")
    return loss


def _vocabulary(model: Any) -> int:
    size: int = model.config.get_text_config(decoder=True).vocab_size
    return size


def _side(vision: Any) -> int:
    size = getattr(vision, "image_size", None) or 36
    return int(size if isinstance(size, int) else size[0])


def _image_token(model: Any) -> int | None:
    names = ("image_token_id", "image_token_index", "video_token_index")
    return next((token for name in names if (token := getattr(model.config, name, None)) is not None), None)


def _picture(model: Any, verbose: bool) -> str:
    token = _image_token(model)
    vision = getattr(model.config, "vision_config", None) or getattr(model.config, "vq_config", None)
    if token is None or vision is None or not hasattr(model, "get_image_features"):
        return "none"
    reason = ""
    for inputs in picture_inputs(model, vision):
        try:
            run(model, _with_placeholders(model, token, inputs)).backward()
            return "ok"
        except Exception as error:
            if verbose:
                traceback.print_exc(limit=-2)
            reason = reason or _shown(error)
    return reason


def _with_placeholders(model: Any, token: int, inputs: Batch) -> Batch:
    """A row of text with one placeholder for each row of the picture's features."""
    rows = _rows(model.get_image_features(**inputs))
    ids = torch.randint(FIRST_ORDINARY_TOKEN, _vocabulary(model), (1, rows + 9))
    ids[0, 4 : 4 + rows] = token
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone(), **inputs}
    kinds = {"mm_token_type_ids", "token_type_ids"} & _parameters(model.forward)
    return batch | {name: (ids == token).long() for name in kinds}


def picture_inputs(model: Any, vision: Any) -> Iterator[Batch]:
    """One picture, in the forms in which the families' ``get_image_features`` take it."""
    takes = _parameters(model.get_image_features) | _parameters(getattr(model, "model", model).get_image_features)
    patch = getattr(vision, "patch_size", 6)
    grid = next((name for name in ("image_grid_thw", "grid_thws", "image_grid_hws") if name in takes), None)
    if grid is not None:
        frames = getattr(vision, "temporal_patch_size", None) or getattr(vision, "patch_temporal", 1)
        merge = getattr(vision, "spatial_merge_size", 2)
        sizes = [1, 3 * merge, 2 * merge]
        extra = {"image_merge_sizes": torch.tensor([merge])} if "image_merge_sizes" in takes else {}
        count = sizes[1] * sizes[2]
        for values in (torch.randn(count, 3 * frames * patch * patch), torch.randn(count, 3, patch, patch)):
            yield {"pixel_values": values, grid: torch.tensor([sizes]), **extra}
        return
    side = _side(vision)
    size = {"image_sizes": torch.tensor([[side, side]])} if "image_sizes" in takes else {}
    yield {"pixel_values": torch.randn(1, 3, side, side), **size}
    yield {"pixel_values": torch.randn(1, 1, 3, side, side), **size}
    yield {"pixel_values": torch.randn(1, 3, 3, side, side), **size}


def _rows(features: Any) -> int:
    if hasattr(features, "pooler_output"):
        features = features.last_hidden_state if features.pooler_output is None else features.pooler_output
    if isinstance(features, (list, tuple)):
        return sum(_rows(feature) for feature in features)
    rows: int = features.reshape(-1, features.shape[-1]).shape[0]
    return rows


def _parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _shown(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:240]
    return f"{type(error).__name__}: {text} ({place.filename.rpartition('/')[2]}:{place.lineno})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
