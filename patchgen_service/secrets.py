"""What is secret: texts encrypted at rest, and tokens of which the digest alone is stored."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from patchgen_core.errors import PatchgenError

KEY_VARIABLE = "PATCHGEN_SECRET_KEY"
KEY_NAME = "secret.key"
_HINT = 'Make one with: python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"'


class SecretBox:
    """Encrypts texts with the first of its keys, and decrypts what any of them encrypted."""

    def __init__(self, keys: str) -> None:
        """Take keys separated by commas, the newest first; a PatchgenError when one is none."""
        names = [key.strip() for key in keys.split(",")]
        self._oldest = names[-1].encode()
        try:
            self._fernet = MultiFernet([Fernet(key) for key in names])
        except ValueError:
            raise PatchgenError(f"{KEY_VARIABLE} is no key of 32 bytes in URL-safe base64", None, _HINT) from None

    def encrypt(self, text: str) -> str:
        """A text that shows nothing of ``text``; empty for an empty one."""
        return self._fernet.encrypt(text.encode()).decode() if text else ""

    def decrypt(self, text: str) -> str:
        """The text that was encrypted; a PatchgenError when that was with another key."""
        try:
            return self._fernet.decrypt(text.encode()).decode() if text else ""
        except InvalidToken:
            message = f"a stored secret cannot be decrypted with this {KEY_VARIABLE}"
            raise PatchgenError(message, None, "Give the key it was stored with, after the new one.") from None

    def sign(self, text: str) -> str:
        """What nobody without the key can foresee of a text: 64 hexadecimal digits, the same each time.

        A newer key before the others changes nothing.
        """
        return hmac.new(self._oldest, text.encode(), hashlib.sha256).hexdigest()


def open_secrets(folder: Path, environment: Mapping[str, str], is_local: bool) -> SecretBox:
    """The secrets of a service: its key is in the environment, or in a file of its folder that only its user reads.

    The file is made where there is none and the service is local; a PatchgenError when it may not be made.
    """
    if key := environment.get(KEY_VARIABLE, ""):
        return SecretBox(key)
    path = folder / KEY_NAME
    if not path.exists():
        if not is_local:
            message = f"a service that other machines reach needs its key in the environment's {KEY_VARIABLE}"
            raise PatchgenError(message, None, _HINT)
        _write_key(path)
    if path.stat().st_mode & 0o077:
        raise PatchgenError(f"others may read the key in '{path}'", None, f"Restrict it: chmod 600 {path}")
    return SecretBox(path.read_text(encoding="ascii", errors="replace"))


def _write_key(path: Path) -> None:
    """Write a new key beside ``path`` and link it there: of two that do so at once, one wins, and no key is lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".key-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(Fernet.generate_key())
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def make_token(kind: str) -> str:
    """A new token with 256 random bits; ``kind`` is what it begins with, so that people and scanners recognise it."""
    return f"pg{kind}_{secrets.token_urlsafe(32)}"


def token_digest(token: str) -> str:
    """What is stored of a token: no salt is needed for 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Whether two texts are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))
