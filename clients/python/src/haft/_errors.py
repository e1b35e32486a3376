"""What can go wrong, by whose fault it is.

Every error is a :class:`HaftError`. The caller's fault, a rule's or the server's has the
code of the API. The tool's is a :class:`~haft.Result` without success, and becomes a
:class:`CallError` only where a value was asked for.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from ._models import Misfit, Result

Code: TypeAlias = Literal[
    "invalid",
    "unauthenticated",
    "denied",
    "not_found",
    "conflict",
    "rate_limited",
    "unavailable",
    "internal",
    "failed",
]


class HaftError(Exception):
    """Every error of this client, and every refusal of a server. It never holds the key.

    Programs decide by :attr:`code`, or by the class, of which each code has one.
    """

    code: Code = "internal"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        misfits: Sequence[Misfit] = (),
        retry_after: float | None = None,
        request_id: str | None = None,
        maybe_done: bool = False,
    ) -> None:
        super().__init__(message)
        #: What is wrong and what can be done. It repeats nothing that was sent.
        self.message = message
        #: The HTTP status, if there was an answer.
        self.status = status
        #: Where the request does not fit, by JSON Pointer.
        self.misfits: tuple[Misfit, ...] = tuple(misfits)
        #: After how many seconds it may help to try again.
        self.retry_after = retry_after
        #: The id of the request, which the log of the server has.
        self.request_id = request_id
        #: The server may have done it: the connection ended before the answer.
        self.maybe_done = maybe_done
        #: Body and headers of a refusal that is the result of a call, for the transport.
        self._answer: Any = None

    def __str__(self) -> str:
        text = self.message
        for misfit in self.misfits:
            text += f"\n  {misfit.pointer or '(all)'}: {misfit.message}"
        if self.request_id and self.code == "internal":
            text += f" (request {self.request_id})"
        return text


class InvalidError(HaftError):
    """The request does not fit; :attr:`misfits` say where."""

    code = "invalid"


class UnauthenticatedError(HaftError):
    """There is no key, or the server does not know it."""

    code = "unauthenticated"


class DeniedError(HaftError):
    """A rule forbids it, or the key is not for it."""

    code = "denied"


class NotFoundError(HaftError):
    """There is no such thing, or not for this key."""

    code = "not_found"


class ConflictError(HaftError):
    """It changed meanwhile, exists already, or the idempotency key was used for another call."""

    code = "conflict"


class RateLimitedError(HaftError):
    """Too many requests; :attr:`retry_after` says when to come back."""

    code = "rate_limited"


class UnavailableError(HaftError):
    """The server cannot be reached, does not answer, or answers what no Haft server does."""

    code = "unavailable"


class InternalError(HaftError):
    """A fault of the server's; its log has :attr:`request_id`."""

    code = "internal"


#: The class of each code.
BY_CODE: dict[str, type[HaftError]] = {
    c.code: c
    for c in (
        InvalidError,
        UnauthenticatedError,
        DeniedError,
        NotFoundError,
        ConflictError,
        RateLimitedError,
        UnavailableError,
        InternalError,
    )
}


class TimeoutError(UnavailableError, builtins.TimeoutError):
    """There was no answer in time."""


class CallError(HaftError):
    """A call gave no value: the tool failed, it was refused, or it waits for a person."""

    code = "failed"

    def __init__(self, result: Result) -> None:
        failure = result.error
        said = failure.message if failure else ""
        if not said and result.status == "pending_approval":
            said = f"a person has to agree (approval {result.approval_id})"
        after = failure.retry_after_ms if failure else None
        super().__init__(
            f"call {result.call_id} of {result.tool} ended with {result.status}" + (f": {said}" if said else ""),
            misfits=failure.misfits if failure else (),
            retry_after=after / 1000 if after else None,
            maybe_done=result.status == "unknown",
        )
        #: All that is known of the call.
        self.result = result

    def __str__(self) -> str:
        return self.message  # which has the misfits already

    def __reduce__(self) -> tuple[Any, ...]:
        return CallError, (self.result,)


class SourceError(HaftError):
    """A function cannot become a tool: not all that it needs can be had from its source."""

    code = "invalid"


class ReviewError(ConflictError):
    """The source waits until a person has looked at it, and does not run before."""


class SignatureError(HaftError):
    """A webhook request is not from the server that has the secret, or is too old."""

    code = "unauthenticated"
