from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from urllib.parse import urlencode

import pytest

from patchgen_service.forges.delivery import Delivery, Ignored, Refused
from patchgen_service.forges.payloads import LONGEST_TEXT
from patchgen_service.forges.webhooks import read_delivery

_SECRET = "It's a Secret to Everybody"
_PAYLOADS = Path(__file__).parent / "payloads"


def _load(name: str, **changes: object) -> bytes:
    data = json.loads((_PAYLOADS / f"{name}.json").read_text())
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = data
        for parent in parents:
            place = place[parent]
        place[last] = value
    return json.dumps(data).encode()


def _headers(name: str, body: bytes, secret: str = _SECRET) -> dict[str, str]:
    """The headers that a forge sends with a payload of that name."""
    forge = name.partition("-")[0]
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    event = name.removeprefix(f"{forge}-")
    if forge == "gitlab":
        kind = "Push Hook" if event == "push" else "Merge Request Hook"
        return {"X-Gitlab-Event": kind, "X-Gitlab-Token": secret, "Idempotency-Key": "d1", "X-Gitlab-Event-UUID": "x"}
    words = ("push", "pull_request", "check_run", "ping", "delete")
    kind = next((word for word in words if event.replace("-", "_").startswith(word)), event)
    kind = "push" if event == "delete-branch" else kind
    github = {"X-GitHub-Event": kind, "X-GitHub-Delivery": "d1", "X-Hub-Signature-256": f"sha256={signature}"}
    if forge == "github":
        return github
    return {
        **github,
        "X-Forgejo-Event": kind,
        "X-Forgejo-Delivery": "d1",
        "X-Forgejo-Signature": signature,
        "X-Gitea-Event": kind,
        "X-Gitea-Delivery": "d1",
        "X-Gitea-Signature": signature,
    }


def _read(name: str, **changes: object) -> Delivery | Ignored | Refused:
    body = _load(name, **changes)
    return read_delivery(_headers(name, body), body, _SECRET)


_PUSHED = {"delivery": "d1", "is_fork": False, "pull_request": 0}
_SAME = {"kind": "pull_request", "is_fork": False}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "github-push",
            _PUSHED
            | {
                "kind": "push",
                "branch": "master",
                "sha": "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
                "before": "",
                "actor": "Codertocat",
                "repository": "Codertocat/Hello-World",
            },
        ),
        (
            "github-pull-request-synchronize",
            _SAME
            | {
                "branch": "changes",
                "base": "master",
                "pull_request": 2,
                "ref": "refs/pull/2/head",
                "message": "Update the README with new information.",
            },
        ),
        ("github-pull-request-opened", _SAME | {"branch": "changes", "pull_request": 2}),
        (
            "github-pull-request-closed",
            {"kind": "closed", "branch": "changes", "pull_request": 2, "happened": "2019-05-15T15:21:18+00:00"},
        ),
        ("github-check-run-rerequested", {"kind": "rerun", "run": "", "repository": "github/hello-world"}),
        ("github-ping", {"kind": "ping", "repository": "Octocoders/Hello-World"}),
        (
            "gitlab-push",
            _PUSHED
            | {
                "kind": "push",
                "branch": "master",
                "sha": "da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
                "before": "95790bf891e76fee5e1747ab589903a6a1f80f22",
                "message": "fixed readme",
                "actor": "jsmith",
                "repository": "mike/diaspora",
            },
        ),
        (
            "gitlab-merge-request-opened",
            _SAME | {"branch": "test", "base": "main", "ref": "refs/merge-requests/1/head"},
        ),
        ("gitlab-merge-request-closed", {"kind": "closed", "happened": "2021-11-17T12:58:12+00:00"}),
        ("gitlab-merge-request-merged", {"kind": "closed"}),
        (
            "forgejo-push",
            _PUSHED
            | {
                "kind": "push",
                "branch": "develop",
                "sha": "28e1879d029cb852e4844d9c718537df08844e03",
                "before": "bffeb74224043ba2feb48d137756c8a9331c449a",
                "actor": "ada",
                "message": "Regenerate llama",
            },
        ),
        ("forgejo-delete", {"kind": "closed", "branch": "develop", "sha": ""}),
        (
            "forgejo-pull-request-opened-from-fork",
            {
                "kind": "pull_request",
                "is_fork": True,
                "branch": "bob:develop",
                "base": "main",
                "ref": "refs/pull/2/head",
                "pull_request": 2,
            },
        ),
        ("forgejo-pull-request-synchronized", _SAME | {"branch": "develop"}),
    ],
)
def test_payloads_are_understood(name, expected):
    answer = _read(name)
    assert isinstance(answer, Delivery), answer
    assert {key: getattr(answer, key) for key in expected} == expected
    assert answer.digest == hashlib.sha256(_load(name)).hexdigest()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("github-push-tag", "refs/tags/simple-tag is no branch"),
        ("github-pull-request-labeled", "labeled"),
        ("github-check-run-completed", "completed"),
        ("github-check-run-requested_action", "requested_action"),
        ("gitlab-merge-request-label-update", "update"),
    ],
)
def test_what_changes_no_code_is_ignored_with_the_reason(name, reason):
    answer = _read(name)
    assert isinstance(answer, Ignored)
    assert reason in answer.reason
    assert answer.delivery == "d1"


def test_the_approve_button_names_its_run():
    answer = _read(
        "github-check-run-requested_action",
        requested_action__identifier="approve-5f3e5f3e5f3e",
        check_run__external_id="1-7-abc",
    )
    assert isinstance(answer, Delivery)
    assert (answer.kind, answer.run, answer.approves) == ("approve", "1-7-abc", "5f3e5f3e5f3e")


def test_a_deleted_branch_is_closed():
    for name in ("github-push", "gitlab-push"):
        answer = _read(name, after="0" * 40, **({"head_commit": None} if name == "github-push" else {}))
        assert isinstance(answer, Delivery)
        assert (answer.kind, answer.sha) == ("closed", "")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("github-pull-request-synchronize", {"pull_request__head__repo__full_name": "mallory/Hello-World"}),
        ("github-pull-request-synchronize", {"pull_request__head__repo": None}),
        ("gitlab-merge-request-opened", {"object_attributes__source_project_id": 5}),
        ("gitlab-merge-request-opened", {"object_attributes__source_project_id": None}),
        ("forgejo-pull-request-synchronized", {"pull_request__head__repo": None}),
        ("forgejo-pull-request-synchronized", {"pull_request__head__ref": "refs/pull/2/head"}),
    ],
)
def test_a_forks_branch_is_never_taken_for_one_of_the_repository(name, changes):
    answer = _read(name, **changes)
    assert isinstance(answer, Delivery)
    assert answer.is_fork
    assert ":" in answer.branch


@pytest.mark.parametrize("name", ["github-push", "gitlab-push", "forgejo-push"])
def test_a_wrong_signature_is_refused(name):
    body = _load(name)
    for headers in (
        _headers(name, body, "guess"),
        {k: "" if "igna" in k or "Token" in k else v for k, v in _headers(name, body).items()},
    ):
        answer = read_delivery(headers, body, _SECRET)
        assert isinstance(answer, Refused)
        assert answer.status == 401
    for refused in (read_delivery(_headers(name, body, ""), body, ""), read_delivery({}, body, _SECRET)):
        assert isinstance(refused, Refused)


@pytest.mark.parametrize("name", ["github-push", "forgejo-push"])
def test_a_body_that_was_changed_is_refused(name):
    body = _load(name)
    answer = read_delivery(_headers(name, body), body + b" ", _SECRET)
    assert isinstance(answer, Refused)


def test_gitlabs_signing_token_signs_id_and_time():
    body, key = _load("gitlab-push"), b"0123456789abcdef"
    secret = "whsec_" + base64.b64encode(key).decode()
    signature = base64.b64encode(hmac.new(key, b"id1.1700000000." + body, hashlib.sha256).digest()).decode()
    headers = {
        "X-Gitlab-Event": "Push Hook",
        "webhook-id": "id1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": f"v1,b2xk v1,{signature}",
    }
    answer = read_delivery(headers, body, secret)
    assert isinstance(answer, Delivery)
    assert answer.delivery == "id1"
    assert isinstance(read_delivery({**headers, "webhook-id": "id2"}, body, secret), Refused)
    assert isinstance(
        read_delivery({**headers, "webhook-signature": "v1,", "X-Gitlab-Token": secret}, body, secret), Refused
    )


def test_github_may_send_a_form():
    body = urlencode({"payload": _load("github-push").decode()}).encode()
    headers = {**_headers("github-push", body), "Content-Type": "application/x-www-form-urlencoded"}
    assert isinstance(read_delivery(headers, body, _SECRET), Delivery)


def test_a_delivery_without_an_id_has_its_content_as_one():
    body = _load("github-push")
    headers = _headers("github-push", body)
    for value in ("", "x" * 300, "a\0b"):
        answer = read_delivery({**headers, "X-GitHub-Delivery": value}, body, _SECRET)
        assert isinstance(answer, Delivery)
        assert answer.delivery == hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize(
    "changes",
    [
        {"after": "main"},
        {"after": 5},
        {"ref": "refs/heads/--upload-pack=x"},
        {"ref": "refs/heads/a\0b"},
        {"ref": "refs/heads/" + "x" * 600},
        {"repository": None},
    ],
)
def test_a_payload_that_no_forge_sends_is_refused(changes):
    answer = _read("github-push", **changes)
    assert isinstance(answer, Refused)
    assert answer.status == 400


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"\xff\xfe", b"[" * 200_000, b'{"ref": "' + b"a" * 1000])
def test_a_body_that_is_no_payload_is_refused(body):
    answer = read_delivery(_headers("github-push", body), body, _SECRET)
    assert isinstance(answer, Refused)
    assert answer.status == 400


def test_a_body_that_is_too_large_is_refused():
    body = b" " * (25 * 1024 * 1024 + 1)
    answer = read_delivery(_headers("github-push", b""), body, _SECRET)
    assert isinstance(answer, Refused)
    assert answer.status == 413


@pytest.mark.parametrize("name", ["github-push", "forgejo-push"])
def test_message_of_any_length_is_read_and_not_kept_whole(name: str) -> None:
    reading = _read(name, head_commit__message="Change\0" + "x" * 1_000_000)
    assert isinstance(reading, Delivery)
    assert (reading.message[:7], len(reading.message)) == ("Changex", LONGEST_TEXT - 1)
