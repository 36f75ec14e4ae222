"""The files by which a service is put up elsewhere say what this version understands, and fit together."""

from __future__ import annotations

import configparser
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from patchgen_service.cli import build_parser
from patchgen_service.secrets import KEY_VARIABLE
from patchgen_service.settings import ServiceSettings
from patchgen_service.settings_file import read_settings

FOLDER = Path(__file__).parents[3] / "examples" / "service"
ADDRESS = "http://127.0.0.1:8765"
"""What a deployment fills in itself."""
VARIABLES = {KEY_VARIABLE, *(f"PATCHGEN_{field.name.upper()}" for field in fields(ServiceSettings))}
DATABASE = {"PATCHGEN_DATABASE": "postgresql://patchgen@database/patchgen"}


def check_command(words: list[str], tmp_path: Path, environment: dict[str, str]) -> str:
    """A command is one of this version, and starts with the settings it has; returns its action."""
    assert words[:2] == ["patchgen", "serve"]
    options = build_parser("patchgen serve").parse_args(words[2:])
    assert set(environment) <= VARIABLES, set(environment) - VARIABLES
    read_settings(tmp_path, environment, host=options.host)
    return options.action or "serve"


def test_the_settings_file_is_read(tmp_path: Path) -> None:
    settings = read_settings(tmp_path, {}, FOLDER / "service.toml")
    assert [repository.name for repository in settings.repositories] == ["acme/models"]


def test_the_unit_starts_a_service_that_can_write_its_data(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(FOLDER / "patchgen.service")
    words = shlex.split(unit["Service"]["ExecStart"])
    assert check_command(["patchgen", *words[1:]], tmp_path, {}) == "serve"
    assert build_parser("").parse_args(words[2:]).data == Path("/var/lib", unit["Service"]["StateDirectory"])
    assert int(unit["Service"]["TimeoutStopSec"]) >= 30, "runs are ended first, and resumed later"


def test_compose_has_a_service_and_a_worker_that_find_each_other(tmp_path: Path) -> None:
    value: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    services = value["services"]
    for name in ("service", "worker"):
        services[name]["environment"]["PATCHGEN_PUBLIC_URL"] = ADDRESS
    actions = {
        name: check_command(services[name]["command"], tmp_path, {**services[name]["environment"], **DATABASE})
        for name in ("service", "worker")
    }
    assert actions == {"service": "serve", "worker": "worker"}
    mounts = {name: [volume.split(":")[0] for volume in service["volumes"]] for name, service in services.items()}
    assert not set(mounts["service"]) & set(mounts["worker"]), "they share no folder"
    assert {"data", "worker", "database"} <= set(value["volumes"])
    address = services["worker"]["command"][-1]
    assert address == "http://service:8765"
    assert services["service"]["environment"]["PATCHGEN_HOST_NAMES"] == "service"
    assert set(services["service"]["depends_on"]) <= set(services)


def test_the_manifest_fits_together(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
    kinds = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    service = kinds["Service", "patchgen"]["spec"]
    names = ("Deployment", "patchgen"), ("StatefulSet", "patchgen-worker")
    for kind, action in zip(names, ("serve", "worker")):
        spec = kinds[kind]["spec"]
        template = spec["template"]
        assert spec["selector"]["matchLabels"] == template["metadata"]["labels"]
        (container,) = template["spec"]["containers"]
        plain = {each["name"]: each.get("value", "") for each in container["env"]}
        assert check_command(container["args"], tmp_path, {**plain, **DATABASE}) == action
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            volume["name"] for volume in template["spec"]["volumes"]
        }
        secrets = [each["valueFrom"]["secretKeyRef"] for each in container["env"] if "valueFrom" in each]
        assert secrets == [{"name": "patchgen", "key": "database"}, {"name": "patchgen", "key": "key"}]
    (container,) = kinds["Deployment", "patchgen"]["spec"]["template"]["spec"]["containers"]
    assert service["selector"] == kinds["Deployment", "patchgen"]["spec"]["template"]["metadata"]["labels"]
    assert service["ports"][0]["targetPort"] == container["ports"][0]["containerPort"] == 8765
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz"
    claim = kinds["Deployment", "patchgen"]["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]
    assert ("PersistentVolumeClaim", claim["claimName"]) in kinds
