"""Requests that are signed with an API key, which is not sent."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time

_SCHEME = "HAFT-HMAC-SHA256"
_LABEL = b"haft request signing 1"
_KEY = re.compile(r"haft_([a-z2-7]{12})_[a-z2-7]{47}")


def key_id(key: str) -> str | None:
    """The id in an API key, or None if it is something else, such as a token."""
    match = _KEY.fullmatch(key)
    return match.group(1) if match else None


def authorization(key: str, method: str, target: str, body: bytes) -> str:
    """The header that signs one request. ``target`` is path and query as they are sent."""
    ident = key_id(key)
    if ident is None:
        raise ValueError("only an API key can sign requests")
    at = str(int(time.time()))
    nonce = base64.b32encode(secrets.token_bytes(25)).decode().lower().rstrip("=")
    digest = hashlib.sha256(body).hexdigest()
    text = "\n".join([_SCHEME, ident, at, nonce, method, target, digest])
    derived = hmac.digest(key.encode(), _LABEL, "sha256")
    signature = hmac.new(derived, text.encode(), "sha256").hexdigest()
    return f"{_SCHEME} key={ident},time={at},nonce={nonce},body={digest},signature={signature}"
