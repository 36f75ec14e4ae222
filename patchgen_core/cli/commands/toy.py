"""``patchgen toy``: a small configuration of a model type."""

from __future__ import annotations

import argparse

from patchgen_core.errors import PatchgenError
from patchgen_core.models.toy_config import describe_toy_config, toy_config_for
from patchgen_core.project.project import Project


def build_parser(prog: str) -> argparse.ArgumentParser:
    """The parser of its arguments."""
    parser = argparse.ArgumentParser(
        prog=prog, description="Print a configuration of a model type that is small enough for a CPU, as JSON."
    )
    parser.add_argument("model_type", help="model type of transformers, such as qwen3_moe")
    parser.set_defaults(json=False, no_color=False)
    return parser


def run(options: argparse.Namespace, _: Project | None) -> int:
    """Run it; returns the exit code."""
    try:
        text = describe_toy_config(toy_config_for(options.model_type))
    except ImportError as error:
        hint = "Install the extra 'parity': pip install 'pytest-patchgen[parity]'."
        raise PatchgenError(f"a toy config needs transformers: {error}", hint=hint) from None
    print(text)
    return 0
