"""Secrets are encrypted at rest, with a key that nobody else reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from patchgen_core.errors import PatchgenError
from patchgen_service.secrets import KEY_NAME, KEY_VARIABLE, SecretBox, make_token, open_secrets, token_digest


def key() -> str:
    return Fernet.generate_key().decode()


def test_what_is_encrypted_shows_nothing_and_comes_back() -> None:
    box = SecretBox(key())
    encrypted = box.encrypt("tok\u00e9n")
    assert "tok" not in encrypted
    assert box.decrypt(encrypted) == "tok\u00e9n"
    assert box.encrypt("") == box.decrypt("") == ""
    assert encrypted != box.encrypt("tok\u00e9n")


def test_a_new_key_reads_what_the_old_one_encrypted_while_both_are_given() -> None:
    old, new = key(), key()
    encrypted = SecretBox(old).encrypt("token")
    assert SecretBox(f"{new}, {old}").decrypt(encrypted) == "token"
    with pytest.raises(PatchgenError, match="cannot be decrypted with this PATCHGEN_SECRET_KEY"):
        SecretBox(new).decrypt(encrypted)


def test_a_local_service_makes_its_key_once_and_for_itself_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        boxes = list(pool.map(lambda _: open_secrets(tmp_path / "data", {}, True), range(8)))
    path = tmp_path / "data" / KEY_NAME
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
    encrypted = boxes[0].encrypt("token")
    assert {box.decrypt(encrypted) for box in boxes} == {"token"}
    path.chmod(0o644)
    with pytest.raises(PatchgenError, match="others may read the key"):
        open_secrets(tmp_path / "data", {}, True)


def test_a_service_that_others_reach_needs_its_key_from_the_environment(tmp_path: Path) -> None:
    with pytest.raises(PatchgenError, match="needs its key in the environment's PATCHGEN_SECRET_KEY"):
        open_secrets(tmp_path, {}, False)
    assert open_secrets(tmp_path, {KEY_VARIABLE: key()}, False).encrypt("x")
    with pytest.raises(PatchgenError, match="is no key of 32 bytes"):
        open_secrets(tmp_path, {KEY_VARIABLE: "secret"}, True)
    assert not list(tmp_path.iterdir())


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {make_token("tok") for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("pgtok_") and len(token) > 40 for token in tokens)
    assert len({token_digest(token) for token in tokens}) == 100
