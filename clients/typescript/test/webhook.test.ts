import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { InvalidError, SignatureError, verifyWebhook } from "../src/index.js";

const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const body = '{"type":"tool_completed","timestamp":"2026-11-15T12:00:00Z","data":{"cursor":1}}';
const at = 1_800_000_000;
const now = new Date(at * 1000);

function signed(text: string, key = secret): { [name: string]: string } {
  const mac = createHmac("sha256", Buffer.from(key.slice(6), "base64")).update(`msg_1.${at}.${text}`).digest("base64");
  return { "Webhook-Id": "msg_1", "webhook-timestamp": String(at), "webhook-signature": `v1,${mac}` };
}

test("what the server sent is believed", () => {
  assert.equal(verifyWebhook(secret, signed(body), body, { now }).type, "tool_completed");
  assert.equal(verifyWebhook(secret, new Headers(signed(body)), new TextEncoder().encode(body), { now }).data.cursor, 1);
  const other = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
  assert.ok(verifyWebhook([other, secret], signed(body), body, { now }));
  const two = { ...signed(body), "webhook-signature": `v1a,xx v1,AAAA ${signed(body)["webhook-signature"]}` };
  assert.ok(verifyWebhook(secret, two, body, { now }));
});

test("what anybody else sent is not", () => {
  const other = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
  const good = signed(body);
  const cases: { [name: string]: [headers: { [name: string]: string }, body?: string, now?: Date] } = {
    "another body": [good, body.replace("1}", "2}")],
    "another secret": [signed(body, other)],
    "another id": [{ ...good, "Webhook-Id": "msg_2" }],
    "another time": [{ ...good, "webhook-timestamp": String(at + 1) }],
    "no signature": [{ ...good, "webhook-signature": "" }],
    "another version": [{ ...good, "webhook-signature": good["webhook-signature"]?.replace("v1,", "v2,") ?? "" }],
    "a time that is none": [{ ...good, "webhook-timestamp": "soon" }],
    "an old one": [good, body, new Date((at + 301) * 1000)],
    "one of the future": [good, body, new Date((at - 301) * 1000)],
    "no headers": [{}],
    "no JSON": [signed("{"), "{"],
  };
  for (const [name, [headers, text = body, when = now]] of Object.entries(cases)) {
    assert.throws(() => verifyWebhook(secret, headers, text, { now: when }), SignatureError, name);
  }
  assert.throws(() => verifyWebhook("", signed(body, "whsec_"), body, { now }), InvalidError, "an empty secret vouches for nothing");
});
