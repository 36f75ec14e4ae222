"""Counts for Prometheus: runs by state, posts by state, and when a worker was last heard of."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from sqlalchemy import func, select
from starlette.requests import Request
from starlette.responses import Response

from patchgen_service.database.tables import Post, Run, Worker
from patchgen_service.web.site import Site


def show_metrics(request: Request) -> Response:
    """The counts as they are now."""
    site: Site = request.app.state.site
    registry = CollectorRegistry()
    runs = Gauge("patchgen_runs", "Runs that are remembered", ["status"], registry=registry)
    posts = Gauge("patchgen_posts", "Posts of the outbox", ["state"], registry=registry)
    workers = Gauge("patchgen_worker_silence_seconds", "Since a worker was heard of", ["worker"], registry=registry)
    with site.readings() as session:
        for status, count in session.execute(select(Run.status, func.count()).group_by(Run.status)):
            runs.labels(status).set(count)
        for state, count in session.execute(select(Post.state, func.count()).group_by(Post.state)):
            posts.labels(state).set(count)
        for name, seen in session.execute(select(Worker.name, Worker.seen)):
            workers.labels(name).set((site.clock() - seen).total_seconds())
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")
