from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

import pytest

import haft

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
EVENT = {
    "seq": 1,
    "cursor": 7,
    "type": "tool_completed",
    "time": "2026-11-15T12:00:00.123456789Z",
    "call_id": "c_1",
    "tool": "add",
    "principal": {"org": "acme"},
    "data": {"status": "success"},
}
BODY = json.dumps({"type": "tool_completed", "timestamp": EVENT["time"], "data": EVENT}).encode()


def signed(body: bytes = BODY, key: bytes = KEY, at: int | None = None) -> dict[str, str]:
    """Sign as the server does, written anew."""
    stamp = str(int(time.time()) if at is None else at)
    mac = hmac.new(key, b"msg_1." + stamp.encode() + b"." + body, hashlib.sha256).digest()
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": stamp,
        "Webhook-Signature": "v1," + base64.b64encode(mac).decode(),
    }


def test_gives_the_event_of_a_request_that_is_good() -> None:
    event = haft.verify_webhook(SECRET, signed(), BODY)
    assert (event.type, event.cursor, event.time.microsecond) == ("tool_completed", 7, 123456)


def test_takes_one_of_several_signatures() -> None:
    headers = signed()
    headers["webhook-signature"] = "v1,AAAA v2," + "x" * 40 + " " + headers.pop("Webhook-Signature")
    assert haft.verify_webhook(SECRET, headers, BODY).call_id == "c_1"


def without(name: str) -> dict[str, str]:
    return {k: v for k, v in signed().items() if k != name}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (signed(), BODY + b" "),
        (signed(key=bytes(32)), BODY),
        (signed(at=int(time.time()) - 3600), BODY),
        (signed(at=int(time.time()) + 3600), BODY),
        (without("Webhook-Id"), BODY),
        (without("Webhook-Timestamp"), BODY),
        (without("Webhook-Signature"), BODY),
        ({**signed(), "Webhook-Timestamp": "1e9"}, BODY),
        ({**signed(), "Webhook-Id": "msg_2"}, BODY),
        ({**signed(), "Webhook-Signature": signed()["Webhook-Signature"].replace("v1,", "v2,")}, BODY),
        ({**signed(), "Webhook-Signature": "v1,\udcff"}, BODY),
        (signed(b"[]"), b"[]"),
        (signed(b"{"), b"{"),
        (signed(b'{"data": {"seq": "x"}}'), b'{"data": {"seq": "x"}}'),
    ],
)
def test_refuses_others(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(haft.SignatureError):
        haft.verify_webhook(SECRET, headers, body)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_AAAA", "not base64!"])
def test_does_not_take_an_empty_secret_for_one(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        haft.verify_webhook(secret, signed(key=b""), BODY)
