"""A year of a team's work, made up: what the pages of the demo show before anything has run."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from patchgen_core.build.results import Cause
from patchgen_core.checks.result import CheckResult, FileDifference, Table, pack
from patchgen_core.errors import Location, Problem
from patchgen_service.database.tables import (
    Approval,
    Environment,
    Membership,
    Person,
    Post,
    Release,
    Repository,
    Run,
    Worker,
)
from patchgen_service.records.audit import write_audit
from patchgen_service.records.files import keep_file
from patchgen_service.records.new_runs import RunCause, begin_run
from patchgen_service.records.results import add_results
from patchgen_service.records.runs import end_run, start_run
from patchgen_service.store import Store
from sqlalchemy import select
from sqlalchemy.orm import Session

PEOPLE = ("ada", "grace", "edsger", "barbara")
SUBJECTS = (
    "Qwen3: fuse the gate and up projections",
    "Llama: take the loss in chunks",
    "Rotary embeddings in float32",
    "MoE: sort tokens by expert before the all-to-all",
    "Raise the floor of transformers",
    "Gemma: keep the soft cap in the fused loss",
    "Sequence parallelism for the vision tower",
    "Load checkpoints without a copy",
    "Tidy imports of patch configs",
    "DeepSeek: group the router's top-k",
)
RELEASES = ("5.18.0", "5.19.0", "5.20.2", "5.21.1", "5.22.2", "5.23.0", "5.24.0rc1")
_RUN_TIME = timedelta(minutes=4, seconds=20)


@dataclass(frozen=True)
class Item:
    """A config's check."""

    config: str
    path: str
    name: str

    @property
    def check(self) -> str:
        """The check's name."""
        return self.name.partition("[")[0]


@dataclass(frozen=True)
class Incident:
    """Something that was red for some days: the check of configs whose name holds a word, from a day to another."""

    word: str
    item: str
    first: int
    last: int


@dataclass
class History:
    """What is made: ``now`` is the end of it, ``zoo`` the folder of the configs."""

    session: Session
    store: Store
    zoo: Path
    now: datetime
    days: int = 365
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def make(self) -> Repository:
        """Make all of it."""
        people = [Person(name=name, email=f"{name}@example.com", created=self.day(0)) for name in PEOPLE]
        repository = Repository(
            name="zoo/models",
            url="https://git.example/zoo/models.git",
            branches=["main", "release/*"],
            projects=["."],
            is_public=True,
            created=self.day(0),
        )
        self.session.add_all([*people, repository])
        self.session.flush()
        roles = zip(people, ("admin", "approver", "viewer", "viewer"))
        self.session.add_all(
            Membership(person_id=person.id, repository_id=repository.id, role=role) for person, role in roles
        )
        write_audit(self.session, "ada", "repository.add", self.day(0), repository.name, repository.id)
        self.add_environments()
        self.items = list(_items(self.zoo))
        self.make_main(repository)
        self.make_branches(repository)
        self.make_releases(repository)
        self.make_surroundings(repository, people)
        return repository

    def day(self, number: float) -> datetime:
        """A moment of the history."""
        return self.now - timedelta(days=self.days - number)

    def add_environments(self) -> None:
        """Two machines that the gate ran on: one with a GPU now and then."""
        packages = {"python": "3.12.7", "torch": "2.9.1", "transformers": "5.23.0"}
        self.environments = [
            Environment(digest=_sha(device), device=device, created=self.day(0), used=self.now, **packages)
            for device in ("cpu", "cuda")
        ]
        self.session.add_all(self.environments)
        self.session.flush()

    def make_main(self, repository: Repository) -> None:
        """A run of the main branch on most days, two on some."""
        incidents = [
            Incident("qwen3_moe", "parity[eager]", self.days - 240, self.days - 237),
            Incident("llama", "drift", self.days - 171, self.days - 170),
            Incident("gemma3", "contract", self.days - 96, self.days - 93),
            Incident("deepseek_v3", "drift", self.days - 40, self.days - 38),
            Incident("mixtral", "parity[liger]", self.days - 12, self.days + 1),
        ]
        baseline: str | None = None
        for number in range(self.days):
            if self.chance.random() < 0.2:
                continue
            red = [(one.word, one.item) for one in incidents if one.first <= number <= one.last]
            at = self.day(number + self.chance.uniform(0.2, 0.9))
            run = self.run(
                repository, RunCause("webhook", f"main-{number}", "main", _sha(f"m{number}")), at, baseline, red
            )
            baseline = run.id if run.status == "passed" or baseline is None else baseline
        self.main_baseline = baseline

    def make_branches(self, repository: Repository) -> None:
        """Branches of the last days: one with a file to approve, one green, one that is running."""
        cause = RunCause("webhook", "pr-1", "fused-moe", _sha("b1"), "main", "", 214, False, "grace")
        first = self.run(repository, cause, self.day(self.days - 0.4), self.main_baseline, [("seed_oss", "import")])
        cause = RunCause("webhook", "pr-2", "fused-moe", _sha("b2"), "main", _sha("b1"), 214, False, "grace")
        red = [("qwen3_moe", "drift"), ("glm_moe", "parity[eager]"), ("mixtral", "parity[liger]")]
        self.run(repository, cause, self.day(self.days - 0.05), self.main_baseline, red, with_files=True)
        assert first.ended is not None
        cause = RunCause("webhook", "pr-3", "rope-in-float32", _sha("b3"), "main", "", 215, False, "barbara")
        self.run(repository, cause, self.day(self.days - 1.3), self.main_baseline, [])
        cause = RunCause("webhook", "pr-4", "sequence-parallel", _sha("b4"), "main", "", 217, True, "edsger")
        self.run(repository, cause, self.now - timedelta(seconds=80), self.main_baseline, [], share=0.4)

    def make_releases(self, repository: Repository) -> None:
        """The main branch with releases of transformers; the last one breaks what an attention mask goes through."""
        for number, version in enumerate(RELEASES):
            at = self.day(self.days - 20 * (len(RELEASES) - number))
            self.session.add(Release(version=version, is_candidate="rc" in version, uploaded=at, seen=at))
            cause = RunCause(
                "release", f"release-{version}", "main", _sha("one"), actor="service", transformers=version
            )
            red = [("gemma3", "contract")] if number >= 5 else []
            if "rc" in version:
                red += [(word, "drift") for word in ("qwen3_gpu", "llama", "mistral", "seed_oss")]
                red += [("qwen2_5_vl", "import"), ("qwen3_vl_moe", "import")]
            run = self.run(repository, cause, at + timedelta(minutes=20), self.main_baseline, red)
            if "rc" in version:
                self.add_study(run, at)

    def add_study(self, run: Run, at: datetime) -> None:
        """What the upgrade says of the last release: what it changed below patches, and which it made needless."""
        gone = {"kind": "gone", "about": "transformers.masking_utils.create_masks_for_generate"}
        gone["detail"] = "the module no longer imports it"
        configs = {item.config: item.path for item in self.items if "qwen" in item.path}
        changes = [{"config": config, "path": path, **gone} for config, path in configs.items()]
        path = "zoo/llama/llama_gpu_patch_gen_config.py"
        needless = {"config": "zoo.llama.llama_gpu_patch_gen_config", "target": "LlamaForCausalLM.forward"}
        needless |= {"path": path, "line": 52, "reason": "upstream does what the patch does: delete the patch"}
        study = {"version": run.transformers, "needless": [needless], "changes": changes, "notes": []}
        keep_file(self.session, self.store, run.id, "report", "./upgrade.json", json.dumps(study).encode(), at)

    def make_surroundings(self, repository: Repository, people: list[Person]) -> None:
        """Approvals, posts, a worker and what people did."""
        drifted = select(Run).where(Run.status == "drifted", Run.branch == "main", Run.transformers == "")
        for run in self.session.scalars(drifted.order_by(Run.number)):
            at = (run.ended or run.created) + timedelta(minutes=9)
            approval = Approval(run_id=run.id, person_id=people[0].id, digest=_sha(run.id), state="committed")
            approval.sha, approval.created, approval.ended = _sha("c" + run.id), at, at + timedelta(seconds=6)
            self.session.add(approval)
            write_audit(self.session, "ada", "run.approve", at, f"run {run.number}", repository.id, run=run.id)
        write_audit(self.session, "grace", "person.sign_in", self.now - timedelta(hours=2), "grace")
        self.session.add(
            Worker(
                name="worker-1",
                host="build-3",
                process=4711,
                isolation="bubblewrap",
                started=self.now - timedelta(days=3),
                seen=self.now - timedelta(seconds=4),
            )
        )
        subject = f"{repository.id}/pull/214"
        self.session.add(
            Post(
                repository_id=repository.id,
                kind="comment",
                subject=subject,
                key=f"{subject}/1",
                content={},
                state="waiting",
                attempts=2,
                error="the forge answered 502",
                created=self.now - timedelta(minutes=3),
                due=self.now + timedelta(minutes=2),
            )
        )

    def run(
        self,
        repository: Repository,
        cause: RunCause,
        at: datetime,
        baseline: str | None,
        red: list[tuple[str, str]],
        share: float = 1.0,
        with_files: bool = False,
    ) -> Run:
        """One run, red where a config's path holds a word; ``share`` of its results have come."""
        author = self.chance.choice(PEOPLE)
        values = {"subject": self.chance.choice(SUBJECTS), "author": author, "actor": cause.actor or author}
        cause = RunCause(**{**{name: getattr(cause, name) for name in cause.__dataclass_fields__}, **values})
        run = begin_run(self.session, repository, cause, at)
        run.baseline_id = baseline
        run.baseline_reason = "the newest run of 'main' that passed, and an ancestor of this commit" * bool(baseline)
        environment = self.environments[self.chance.random() < 0.25]
        run.environment_id = environment.id
        start_run(self.session, run.id, "worker-1", at + timedelta(seconds=3))
        run.expected = len(self.items)
        wrong = {
            (item.config, item.name)
            for item in self.items
            for word, name in red
            if word in item.path and item.name == name
        }
        drift = _explain_drift(cause.transformers)
        results = [
            self.result(item, (item.config, item.name) in wrong, environment.device, at, drift) for item in self.items
        ]
        end = at + _RUN_TIME + timedelta(seconds=self.chance.uniform(-30, 60))
        add_results(self.session, self.store, run, ".", map(pack, results[: int(share * len(results))]), end)
        if with_files:
            self.add_files(run, results, end)
        if share == 1.0:
            end_run(self.session, run.id, end)
        return run

    def add_files(self, run: Run, results: list[CheckResult], at: datetime) -> None:
        """The regenerated files of what drifted."""
        for file in (file for result in results for file in result.files):
            data = (self.zoo.parent / file.path).read_bytes()
            keep_file(self.session, self.store, run.id, "generated", file.path, data, at)

    def result(self, item: Item, is_wrong: bool, device: str, at: datetime, drift: Cause) -> CheckResult:
        """What a check says on a day."""
        seconds = self.chance.uniform(0.1, 2.0) * (4 if item.check == "parity" else 1)
        node = f"{item.path}::{item.name}"
        if item.check == "parity":
            return self.parity(item, is_wrong, device, at, seconds)
        if not is_wrong:
            return CheckResult(item.config, item.path, 12, item.check, item=node, seconds=seconds)
        if item.check == "drift":
            file = _difference(self.zoo, item)
            return CheckResult(
                item.config, item.path, 12, "drift", "drifted", (drift,), (file,), item=node, seconds=seconds
            )
        problem = _PROBLEMS[item.check]
        error = Problem(problem[0], Location(item.path, 31), problem[1], code=problem[2])
        return CheckResult(
            item.config, item.path, 12, item.check, "failed", errors=(error,), item=node, seconds=seconds
        )

    def parity(self, item: Item, is_wrong: bool, device: str, at: datetime, seconds: float) -> CheckResult:
        """A comparison with figures that wander, and cross their limit where it is wrong."""
        part = (at - self.day(0)).total_seconds() / timedelta(days=self.days).total_seconds()
        own = int(_sha(item.config + item.name), 16) % 997 / 997
        level = -1.9 + 1.1 * own + 0.3 * math.sin(9 * part + 6 * own) + self.chance.gauss(0, 0.05)
        figures: dict[str, float] = {}
        model = f"{item.path.split('/')[-2].title().replace('_', '')}ForCausalLM"
        for dtype, shift in (("float32", 0.0), ("bfloat16", 0.55)):
            share = 10 ** min(level + shift + 0.15 * (device == "cuda"), -0.02)
            share = self.chance.uniform(2.5, 6.0) if is_wrong else share
            figures[f"{model}, padded, {dtype}: loss"] = share * 1e-6
            figures[f"{model}, padded, {dtype}: logits"] = share * 1e-5
            figures[f"{model}, padded, {dtype}: largest part of what is allowed"] = share
        node = f"{item.path}::{item.name}"
        if not is_wrong:
            return CheckResult(item.config, item.path, 12, "parity", figures=figures, item=node, seconds=seconds)
        worst = figures[f"{model}, padded, float32: logits"]
        error = Problem(
            f"logits of {model}, padded, float32: relative error {worst:.2g}, of which 1e-05 is allowed",
            Location(item.path, 48),
            "The first layer that parts is model.layers.2.mlp: compare its patch with upstream's forward.",
        )
        return CheckResult(
            item.config,
            item.path,
            12,
            "parity",
            "failed",
            errors=(error,),
            figures=figures,
            tables=(_layers(model, worst),),
            item=node,
            seconds=seconds,
        )


_PROBLEMS: Mapping[str, tuple[str, str, str]] = {
    "import": (
        "cannot import name 'create_masks_for_generate' from 'transformers.masking_utils'",
        "It was renamed.",
        "",
    ),
    "contract": (
        "Gemma3Attention.forward lost its parameter 'cache_position', which Gemma3DecoderLayer passes",
        "Take the parameter again, or override the caller.",
        "PG101",
    ),
}


def _items(zoo: Path) -> Iterator[Item]:
    for path in sorted(zoo.glob("*/*_patch_gen_config.py")):
        name = path.relative_to(zoo.parent).as_posix()
        config = name.removesuffix(".py").replace("/", ".")
        names = ["drift", "import", "contract", "parity[eager]"]
        names += ["parity[liger]"] * ("gpu" in path.name) + ["converter"] * ("moe" in path.name)
        yield from (Item(config, name, check) for check in names)


def _difference(zoo: Path, item: Item) -> FileDifference:
    """The generated file of a config, as it is beside how it was."""
    device = "npu" if "_npu_" in item.path else "gpu"
    folder = (zoo.parent / item.path).parent / "generated"
    path = next(path for path in sorted(folder.glob("*.py")) if device in path.name)
    new = path.read_text(encoding="utf-8").splitlines(keepends=True)
    old = [_before(line) for line in new]
    name = path.relative_to(zoo.parent).as_posix()
    diff = "".join(difflib.unified_diff(old, new, f"{name} (checked in)", f"{name} (generated now)"))
    return FileDifference(name, False, diff, diff)


def _explain_drift(release: str) -> Cause:
    """Why files are no longer what their configs make: the release that they are made with, if it is another."""
    if release:
        return Cause("upstream moved", f"transformers 5.22.2 -> {release}; outside of its classes and functions")
    return Cause("config changed", "the patch of the MLP is another than the one the file was made with")


def _before(line: str) -> str:
    """A line as it was before the history's change."""
    return line.replace("self.act_fn(self.gate_proj(x))", "nn.functional.silu(self.gate_proj(x))").replace(
        "hidden_states = residual + hidden_states", "hidden_states = hidden_states + residual"
    )


def _layers(model: str, worst: float) -> Table:
    """Errors by layer, as parity prints them; ``worst`` is that of the last."""
    rows = []
    for number, error in enumerate((2e-7, 3e-7, 0.6 * worst, 0.8 * worst, worst)):
        verdict = "ok" if error < 1e-5 else "wrong"
        rows.append((f"model.layers.{number}.mlp", "MLP", f"{error * 3:.2e}", f"{error:.2e}", "1.00e-05", verdict))
    columns = ("module", "class", "absolute", "relative", "allowed", "verdict")
    return Table(f"{model}, padded, float32: layers", columns, tuple(rows))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:40]
