// Writes the types of the API from its OpenAPI document:
//
//   node scripts/schemas.mjs OPENAPI.json src/schemas.ts
//
// A test holds what is committed against the document.

import { readFileSync, writeFileSync } from "node:fs";

// Names of the document that mean something else in TypeScript, or nothing on
// their own.
const names = {
  Call: "CallOfRecord",
  CallBody: "BatchCall",
  Event: "CallEvent",
  Info: "SecretInfo",
  Output: "OutputSettings",
  Record: "CallRecord",
  Sandbox: "SandboxUsed",
};

// What is not spoken of: pages are iterated over, and these are read elsewhere.
const skipped = /^Page|^EntriesBody$|^Problem$/;

// The types whose value a caller knows better.
const generic = { Called: "value", Result: "value" };

// What the client adds to a type.
const added = { Artifact: "ArtifactContent" };

// The names of enumerations, by their first value.
const enums = {
  success: "Status",
  tool_queued: "EventType",
  pending: "ApprovalState",
  run_first: "RuleType",
  builtin: "Kind",
  none: "Level",
  low: "Severity",
  invalid: "Code",
  local: "SandboxType",
  user: "MessageRole",
  running: "TurnStatus",
};

const rename = (name) => names[name] ?? name;
const last = (ref) => rename(ref.split("/").at(-1));

/** @returns {string} The type of a schema. */
function type(schema) {
  if (schema === true || schema === undefined) return "unknown";
  if (schema.$ref !== undefined) return last(schema.$ref);
  if (schema.enum !== undefined) return enums[schema.enum[0]] ?? union(schema);
  const several = schema.anyOf ?? schema.oneOf;
  if (several !== undefined) return several.map(type).join(" | ");
  const kinds = [schema.type].flat();
  return kinds.map((kind) => one(kind, schema)).join(" | ");
}

/** @returns {string} The type of an enumeration. The server takes "" for what is left out, and never gives it. */
function union(schema) {
  return schema.enum.filter((value) => value !== "").map((value) => JSON.stringify(value)).join(" | ");
}

/** @returns {Map<string, string>} The enumerations in a schema and below, by name. */
function enumerations(schema, found = new Map()) {
  if (typeof schema !== "object" || schema === null) return found;
  if (Array.isArray(schema.enum) && enums[schema.enum[0]] !== undefined) found.set(enums[schema.enum[0]], union(schema));
  for (const below of Object.values(schema)) enumerations(below, found);
  return found;
}

/** @returns {string} The type of a schema that is of one JSON type. */
function one(kind, schema) {
  switch (kind) {
    case "string":
    case "boolean":
    case "null":
      return kind;
    case "integer":
    case "number":
      return "number";
    case "array": {
      const item = type(schema.items);
      return item.includes(" ") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      if (typeof schema.additionalProperties !== "object") return "{ [name: string]: unknown }";
      return `{ [name: string]: ${type(schema.additionalProperties)} }`;
    default:
      return "unknown";
  }
}

/** @returns {string} A comment, or nothing. */
function comment(text, indent) {
  return text ? `${indent}/** ${text.replaceAll("*/", "* /")} */\n` : "";
}

/** @returns {string} What is committed as src/schemas.ts. */
export function schemas(document) {
  let out = "// Written by scripts/schemas.mjs from the OpenAPI document of the server. Do not edit.\n";
  out += `\nimport type { ${Object.values(added).join(", ")} } from "./files.js";\n`;
  const all = document.components.schemas;
  for (const [name, values] of [...enumerations(all)].sort()) out += `\nexport type ${name} =\n  | ${values.replaceAll(" | ", "\n  | ")};\n`;
  const entries = Object.keys(all).map((name) => [rename(name), name]);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, original] of entries) {
    const schema = all[original];
    if (skipped.test(original) || schema.properties === undefined) continue;
    const value = generic[original];
    out += `\n${comment(schema.description, "")}export interface ${name}${value ? "<V = unknown>" : ""}${added[original] ? ` extends ${added[original]}` : ""} {\n`;
    for (const [property, of] of Object.entries(schema.properties)) {
      const optional = schema.required?.includes(property) ? "" : "?";
      out += comment(of.description, "  ");
      out += `  ${property}${optional}: ${property === value ? "V" : type(of)};\n`;
    }
    out += "}\n";
  }
  return out;
}

const [from, to] = process.argv.slice(2);
if (from !== undefined && to !== undefined) {
  writeFileSync(to, schemas(JSON.parse(readFileSync(from, "utf8"))));
}
