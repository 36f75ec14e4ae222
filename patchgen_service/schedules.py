"""Schedules, as cron expressions."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from croniter import croniter


def is_schedule(expression: str) -> bool:
    """Whether a text is a cron expression of five fields."""
    return len(expression.split()) == 5 and croniter.is_valid(expression)


def last_time(expression: str, now: datetime) -> datetime:
    """When a schedule was due last, in UTC."""
    moment: datetime = croniter(expression, now + timedelta(seconds=1)).get_prev(datetime)
    return moment.astimezone(timezone.utc)
