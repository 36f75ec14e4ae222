"""Forked modeling files that projects have published, each downloaded once: the wheel's other files are not kept.

`make forks` gets them, with the releases of transformers that they were copied from.
"""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from patchgen_core.upstream.downloading import download_wheel
from tools.releases import find_release

FOLDER = Path(__file__).parents[1] / ".venv" / "forks"
"""Where they are kept: as long as the environment."""


@dataclass(frozen=True)
class PublishedFork:
    """A forked file in the wheel of a distribution; ``release`` is that of transformers that it is most like."""

    distribution: str
    version: str
    file: str
    module: str
    release: str

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.distribution} {self.version}: {PurePosixPath(self.file).name}"

    def find(self) -> Path:
        """The file, below folders that are packages as in the wheel; downloaded when it is not there."""
        home = FOLDER / f"{self.distribution}-{self.version}"
        path = home / self.file
        if not path.is_file():
            with tempfile.TemporaryDirectory() as name:
                wheel = download_wheel(self.distribution, self.version, Path(name))
                with zipfile.ZipFile(wheel) as archive:
                    text = archive.read(self.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in path.relative_to(home).parents:
                if folder.name:
                    (home / folder / "__init__.py").touch()
            path.write_bytes(text)
        return path


def _veomni(model: str, release: str, name: str = "") -> PublishedFork:
    name, folder = name or model, model if model != "qwen2_5_vl" else "qwen2_5vl"
    module = f"transformers.models.{model}.modeling_{model}"
    return PublishedFork("veomni", "0.1.0", f"veomni/models/transformers/{folder}/modeling_{name}.py", module, release)


def _optimum(model: str, release: str) -> PublishedFork:
    module = f"transformers.models.{model}.modeling_{model}"
    return PublishedFork("optimum-tpu", "0.2.3", f"optimum/tpu/modeling_{model}.py", module, release)


FORKS = (
    _veomni("llama", "4.49.0"),
    _veomni("qwen2", "4.49.0"),
    _veomni("qwen2_vl", "4.49.0"),
    _veomni("qwen2_5_vl", "4.50.3"),
    _veomni("qwen2_5_omni", "4.52.4"),
    _veomni("qwen3", "4.51.3"),
    _veomni("qwen3_moe", "4.51.3"),
    _veomni("seed_oss", "4.57.6"),
    _optimum("llama", "4.41.2"),
    _optimum("gemma", "4.41.2"),
    _optimum("mistral", "4.41.2"),
    PublishedFork(
        "FlagEmbedding",
        "1.4.2",
        "FlagEmbedding/inference/reranker/decoder_only/models/gemma_model.py",
        "transformers.models.gemma2.modeling_gemma2",
        "4.42.4",
    ),
    PublishedFork(
        "medusa-llm",
        "0.1",
        "medusa/model/modeling_llama_kv.py",
        "transformers.models.llama.modeling_llama",
        "4.31.0",
    ),
    PublishedFork(
        "veomni",
        "0.1.12",
        "veomni/models/transformers/deepseek_v4/generated/patched_modeling_deepseek_v4_gpu.py",
        "transformers.models.deepseek_v4.modeling_deepseek_v4",
        "5.9.0",
    ),
    PublishedFork(
        "nemo-automodel",
        "0.7.0",
        "nemo_automodel/components/models/mistral3/model.py",
        "transformers.models.ministral3.modeling_ministral3",
        "5.0.0",
    ),
)


if __name__ == "__main__":
    for fork in FORKS:
        find_release(fork.release)
        fork.find()
