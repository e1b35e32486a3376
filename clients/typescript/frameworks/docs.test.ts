// What docs/clients.md shows works as it is written. Who runs this puts its programs here, as shown_0.ts and so on.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";

import * as functions from "../test/tools.js";
import { real } from "../test/world.js";
import { calculator, serve } from "./model.js";

for (let n = 0; existsSync(new URL(`./shown_${n}.js`, import.meta.url)); n++) {
  test(`program ${n} of the documents runs`, async (t) => {
    const model = await serve(t, calculator);
    process.env["OPENAI_BASE_URL"] = model.url;
    process.env["OPENAI_API_KEY"] = "k";
    await real().tool(new URL("../../test/tools.ts", import.meta.url), functions.add).register();
    const log = t.mock.method(console, "log", () => {});
    await import(`./shown_${n}.js`);
    assert.deepEqual(log.mock.calls.map((call) => call.arguments), [["It is 3."]]);
  });
}
