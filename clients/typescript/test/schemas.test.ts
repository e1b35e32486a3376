import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

const root = new URL("../../", import.meta.url);
const document = process.env["HAFT_OPENAPI"] ?? new URL("../../server/testdata/openapi.json", root);

test("the types are those of the API", { skip: !existsSync(document) && "the document is not here" }, async () => {
  const { schemas } = (await import(new URL("scripts/schemas.mjs", root).href)) as { schemas: (document: unknown) => string };
  const want = schemas(JSON.parse(readFileSync(document, "utf8")));
  assert.equal(readFileSync(new URL("src/schemas.ts", root), "utf8"), want, "run: npm run schemas");
});
