"""What comes with a request: too much of it is refused, whether its length is told or not."""

from __future__ import annotations

import pytest
from web_visitors import Visitor

from patchgen_service.web.bodies import LARGEST_CALL

FORM, CALL = "/sign-in", "/api/v1/runs"
KINDS = {FORM: "application/x-www-form-urlencoded", CALL: "application/json"}


@pytest.mark.parametrize(("address", "largest"), [(FORM, 1 << 20), (CALL, LARGEST_CALL)])
def test_what_is_too_large_is_refused(visitor: Visitor, address: str, largest: int) -> None:
    headers = {"content-type": KINDS[address]}
    answer = visitor.post(address, content=iter([bytes(1 << 18)] * (largest // (1 << 18) + 1)), headers=headers)
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")
    assert f"{largest >> 20} MiB" in answer.text
    told = visitor.post(address, content=b"{}", headers={**headers, "content-length": str(largest + 1)})
    assert told.status_code == 413


def test_what_is_not_too_large_is_taken(visitor: Visitor) -> None:
    assert visitor.submit("/sign-in", "/sign-in", name="n" * 1_000_000, password="p").status_code == 403
    answer = visitor.post(CALL, content=b'{"branch": "' + b"x" * 2_000_000 + b'"}')
    assert answer.status_code == 422
