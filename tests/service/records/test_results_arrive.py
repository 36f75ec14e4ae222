"""Results of a run: each is remembered once, and none is lost."""

from __future__ import annotations

from collections.abc import Callable

from service_samples import NOW, make_result

from patchgen_core.checks.result import pack
from patchgen_service.database.engine import Transactions
from patchgen_service.database.tables import Repository
from patchgen_service.records.results import add_results
from patchgen_service.records.runs import RunCause, begin_run, end_run, start_run
from patchgen_service.store import Store


def test_first(transactions: Transactions, store: Store, make_repository: Callable[..., Repository]) -> None:
    with transactions() as session:
        repository = make_repository(session)
        run = begin_run(session, repository, RunCause("webhook", "d1", "main", "a" * 40), NOW)
        start_run(session, run.id, "w", NOW)
        packed = [pack(make_result(item=item, figures={"error": float("nan")})) for item in ("drift", "parity[eager]")]
        assert len(add_results(session, store, run, ".", packed, NOW)) == 2
        again = add_results(session, store, run, ".", packed, NOW)
        assert not again
        end_run(session, run.id, NOW)
        assert run.status == "passed"
