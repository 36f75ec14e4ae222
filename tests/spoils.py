"""Ways of spoiling a file that begins with the hash of what follows."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

from patchgen_core.build.entry_folder import MOST_BYTES, sign

Spoil = Callable[[Path], object]

IN_THE_WAY = ("a folder", "a link into a folder that is none")
"""What cannot be written over."""


def body_of(file: Path) -> bytes:
    return file.read_bytes().partition(b"\n")[2]


def write_signed(file: Path, body: bytes) -> None:
    file.write_bytes(sign(body))


def change(**values: object) -> Spoil:
    """Other values in an entry whose hash is right."""
    return lambda file: write_signed(file, json.dumps({**json.loads(body_of(file)), **values}).encode())


def without(name: str) -> Spoil:
    """An entry whose hash is right, and that lacks a value."""

    def remove(file: Path) -> None:
        data = json.loads(body_of(file))
        del data[name]
        write_signed(file, json.dumps(data).encode())

    return remove


def flip(place: int) -> Spoil:
    """One bit is another one."""

    def write(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[place] ^= 1
        file.write_bytes(bytes(data))

    return write


def cut(share: float) -> Spoil:
    """A share of the file is left."""
    return lambda file: os.truncate(file, int(file.stat().st_size * share))


def instead(make: Spoil) -> Spoil:
    """Something else is in the file's place."""

    def put(file: Path) -> None:
        file.unlink()
        make(file)

    return put


def _link_to_pipe(file: Path) -> None:
    pipe = file.with_name("pipe")
    os.mkfifo(pipe)
    file.symlink_to(pipe)


def _zeros_after_half(file: Path) -> None:
    """What a file system leaves after a power cut: the size is right and the end was never written."""
    data = file.read_bytes()
    half = len(data) // 2
    file.write_bytes(data[:half] + bytes(len(data) - half))


SPOILS: Mapping[str, Spoil] = {
    "empty": lambda file: file.write_bytes(b""),
    "gone": lambda file: file.unlink(),
    "a newline alone": lambda file: file.write_bytes(b"\n"),
    "cut to a tenth": cut(0.1),
    "cut in the middle": cut(0.5),
    "cut near the end": cut(0.9),
    "cut by a byte": lambda file: os.truncate(file, file.stat().st_size - 1),
    "hash alone": lambda file: os.truncate(file, 64),
    "hash and newline": lambda file: os.truncate(file, 65),
    "zeros after a power cut": _zeros_after_half,
    "first bit": flip(0),
    "bit of the hash": flip(40),
    "bit of the body": flip(100),
    "last bit": flip(-1),
    "more behind": lambda file: file.write_bytes(file.read_bytes() + b" "),
    "twice": lambda file: file.write_bytes(file.read_bytes() * 2),
    "other newlines": lambda file: file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n")),
    "a mark before it": lambda file: file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes()),
    "without its hash": lambda file: file.write_bytes(body_of(file)),
    "hash of another": lambda file: file.write_bytes(sign(b"x")[:65] + body_of(file)),
    "hash in capitals": lambda file: file.write_bytes(file.read_bytes()[:64].upper() + b"\n" + body_of(file)),
    "not text": lambda file: file.write_bytes(b"\xff\xfe\x00" * 40),
    "signed, and not text": lambda file: write_signed(file, b"\xff\xfe\x00" * 40),
    "not JSON": lambda file: write_signed(file, b"{'status': 1}"),
    "nothing": lambda file: write_signed(file, b""),
    "a list": lambda file: write_signed(file, b"[1, 2, 3]"),
    "a number": lambda file: write_signed(file, b"3"),
    "null": lambda file: write_signed(file, b"null"),
    "an empty object": lambda file: write_signed(file, b"{}"),
    "a pickle": lambda file: file.write_bytes(pickle.dumps({"status": "clean"})),
    "a signed pickle": lambda file: write_signed(file, pickle.dumps({"status": "clean"})),
    "deep": lambda file: write_signed(file, b"[" * 100_000 + b"]" * 100_000),
    "larger than memory": lambda file: os.truncate(file, 1 << 40),
    "too large": lambda file: os.truncate(file, MOST_BYTES + 1),
    "a folder": instead(lambda file: file.mkdir()),
    "a pipe that nobody writes into": instead(lambda file: os.mkfifo(file)),
    "a link to a pipe": instead(_link_to_pipe),
    "a link to nothing": instead(lambda file: file.symlink_to("nowhere")),
    "a link to itself": instead(lambda file: file.symlink_to(file.name)),
    "a link into a folder that is none": instead(lambda file: file.symlink_to("/etc/passwd/entry")),
}
"""Those that any file can be spoilt by."""
