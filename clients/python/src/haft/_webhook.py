"""Knowing that a webhook request is from the server (Standard Webhooks)."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Mapping

from . import _json
from ._errors import SignatureError, UnavailableError
from ._models import Event


def verify_webhook(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: float = 300.0,
    now: float | None = None,
) -> Event:
    """Check the signature of a webhook request, and return its event.

    ``secret`` is the one that was shown when the webhook was added, ``body`` the bytes as
    they came: reading and writing JSON again changes them. A request that is older or
    newer than ``tolerance`` seconds is refused, so that it cannot be sent again later;
    within that time ``webhook-id`` says whether it was seen already.

    Raises:
        SignatureError: it is not from the server, too old, or broken.
    """
    found = {name.lower(): value for name, value in headers.items()}
    ident = found.get("webhook-id", "")
    at = found.get("webhook-timestamp", "")
    if not ident or not re.fullmatch(r"[0-9]{1,11}", at):
        raise SignatureError("the headers of a webhook request are missing or broken")
    key = _secret_bytes(secret)
    signed = f"{ident}.{at}.".encode("utf-8", "surrogateescape") + body
    want = base64.b64encode(hmac.digest(key, signed, "sha256"))
    matches = False
    for one in found.get("webhook-signature", "").split()[:16]:
        version, _, text = one.partition(",")
        # All are compared, so that time tells nothing.
        same = hmac.compare_digest(want, text.encode("utf-8", "surrogateescape"))
        matches = matches or (version == "v1" and same)
    if not matches:
        raise SignatureError("the signature of the webhook request is wrong")
    if abs((time.time() if now is None else now) - int(at)) > tolerance:
        raise SignatureError("the webhook request is too old, or one of the clocks is wrong")
    try:
        data = _json.loads(body)
        return _json.decode(Event, data["data"])
    except (UnavailableError, KeyError, TypeError, IndexError):
        raise SignatureError("the webhook request holds no event") from None


def _secret_bytes(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) < 16:  # an empty one would make everybody's signature right
        raise ValueError("this is not the secret of a webhook: it begins with whsec_")
    return key
