"""Limits of a server. Those with a description are options of `tablepack serve`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from engine.schema import SERVED_MEMORY


class Limits(BaseModel):
    """Limits per request, client and answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout_s: float = Field(default=10.0, ge=0.1, description="Seconds that a statement may run.")
    max_rows: int = Field(
        default=10_000, ge=1, le=10_000_000, description="Maximum rows per answer."
    )
    memory: str = Field(
        default=SERVED_MEMORY, description="Memory limit for all statements together."
    )
    places: int = Field(
        default=3,
        ge=1,
        le=64,
        description="Statements run at the same time, and as many tables; see --memory.",
    )
    share: int = Field(default=2, ge=1, le=64, description="Of these, how many for one client.")
    waiting: int = Field(
        default=200, ge=0, le=200, description="Queue length for each kind of request."
    )
    waiting_each: int = Field(
        default=50, ge=0, le=100, description="Of these, how many from one client."
    )
    wait_s: float = Field(
        default=10.0, ge=0.1, le=600, description="Seconds a request may wait in the queue."
    )
    body_bytes: int = 64_000  # Largest body, and largest query string
    # body_s, send_s: Longest time to receive a body, and to send an answer.
    body_s: float = 10.0
    send_s: float = 60.0
    # at_once, at_once_each: Most requests in progress, in total and per client; more are refused. Bodies are
    # read before a request counts.
    at_once: int = 200
    at_once_each: int = 100
    answer_bytes: int = 8_000_000  # Largest answer
    cache_bytes: int = 20_000_000
    ahead: int = 12  # Tables whose replays are drawn before anybody asks
