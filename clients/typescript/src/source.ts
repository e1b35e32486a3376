import { readFile } from "node:fs/promises";
import { basename, extname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { SourceError } from "./errors.js";

/** The text of a file with tools. */
export interface Source {
  /** Its name without directories, for messages. */
  file: string;
  kind: "typescript" | "javascript";
  text: string;
}

/** What the server takes. */
const maxSource = 256 << 10;

/** What a file and its source map may have: a map holds the source, and more. */
const maxFile = 4 << 20;

/**
 * Reads the source of a file: that of a TypeScript file itself, and for JavaScript that a
 * compiler made, the TypeScript that its source map names. JavaScript without a source map
 * is its own source.
 */
export async function readSource(at: string | URL): Promise<Source> {
  const url = fileOf(at);
  const file = basename(fileURLToPath(url));
  const text = await textOf(url, file);
  switch (extname(file)) {
    case ".ts":
    case ".mts":
    case ".cts":
      return checked({ file, kind: "typescript", text });
    case ".js":
    case ".mjs":
    case ".cjs":
      return checked((await original(url, file, text)) ?? { file, kind: "javascript", text });
    case ".tsx":
    case ".jsx":
      throw new SourceError(`${file} has JSX, which no tool can have: put the function into a file of its own`);
    default:
      throw new SourceError(`${file} is neither TypeScript nor JavaScript`);
  }
}

/** Checks that a source has a function of that name, as far as can be seen without reading it. */
export function mustName(source: Source, name: string): void {
  const escaped = name.replace(/[^\w]/g, "\\$&");
  const spoken = name === "default" ? /\bexport\b[^;]*\bdefault\b|\bmodule\s*\.\s*exports\b/ : new RegExp(`(?<![\\w$])${escaped}(?![\\w$])`);
  if (spoken.test(source.text)) return;
  throw new SourceError(`${source.file} does not speak of ${name}: the function is of another file, or a bundler has renamed it`);
}

/** A file: URL of what somebody says is the file: import.meta.url, a URL or a path. */
function fileOf(at: string | URL): URL {
  const url = at instanceof URL ? at : /^[a-z][a-z0-9+.-]+:/i.test(at) ? new URL(at) : pathToFileURL(at);
  if (url.protocol !== "file:") throw new SourceError(`a source is read from a file of this machine, and not from ${url.protocol}`);
  const bare = new URL(url);
  bare.search = ""; // loaders put things there
  bare.hash = "";
  return bare;
}

async function textOf(url: URL, file: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = await readFile(url);
  } catch (cause) {
    throw new SourceError(`${file} cannot be read: where a program runs without its source files, register its tools where they are`, cause);
  }
  if (bytes.length > maxFile) throw new SourceError(`${file} is too large to be the source of a tool`);
  return bytes.toString("utf8");
}

/** Returns the source that the source map of a JavaScript file names, or undefined if there is no map. */
async function original(url: URL, file: string, text: string): Promise<Source | undefined> {
  const at = /^\/\/[#@] sourceMappingURL=(\S+)\s*$/m.exec(text.slice(-maxFile))?.[1];
  if (at === undefined) return undefined;
  const inline = /^data:application\/json;(?:charset=[\w-]+;)?base64,(.*)$/.exec(at)?.[1];
  const beside = inline === undefined ? new URL(at, url) : url;
  const raw = inline === undefined ? await textOf(fileOf(beside), basename(at)) : Buffer.from(inline, "base64").toString("utf8");
  const map = read(raw, file);
  const [path, more] = map.sources;
  if (path === undefined) throw new SourceError(`the source map of ${file} names no source`);
  if (more !== undefined) {
    throw new SourceError(`${file} is made of ${map.sources.length} files, so there is no one source: give the address of the .ts file instead`);
  }
  const source = new URL((map.sourceRoot === "" ? "" : map.sourceRoot.replace(/\/?$/, "/")) + path, beside);
  const name = basename(source.pathname);
  const kind = /\.[mc]?ts$/.test(name) ? "typescript" : "javascript";
  return { file: name, kind, text: map.content ?? (await textOf(fileOf(source), name)) };
}

/** Reads a source map. */
function read(raw: string, file: string): { sources: string[]; sourceRoot: string; content: string | undefined } {
  try {
    const map = JSON.parse(raw) as { sources?: unknown; sourceRoot?: unknown; sourcesContent?: unknown };
    const sources = Array.isArray(map.sources) ? map.sources.map(String) : [];
    const content: unknown = Array.isArray(map.sourcesContent) ? map.sourcesContent[0] : undefined;
    return { sources, sourceRoot: typeof map.sourceRoot === "string" ? map.sourceRoot : "", content: typeof content === "string" ? content : undefined };
  } catch (cause) {
    throw new SourceError(`the source map of ${file} cannot be read`, cause);
  }
}

/** An import of a value, which has to be there when the tool runs. Types are gone by then. */
const imports = /^[ \t]*(?:import|export)\b(?!\s+type\b)(?:[^;'"`()=]{0,4000}\bfrom)?\s*(["'])([^"'\n]+)\1/gm;

/** Refuses what cannot run elsewhere: only this one file is sent. */
function checked(source: Source): Source {
  if (Buffer.byteLength(source.text) > maxSource) throw new SourceError(`${source.file} has more than ${maxSource} bytes, which is the most that a tool may have`);
  for (const [, , from = ""] of source.text.matchAll(imports)) {
    if (/^\.{1,2}\/|^\/|^file:|^#/.test(from)) {
      throw new SourceError(`${source.file} imports ${from}, but only this one file is sent: put into it what its tools need`);
    }
    if (from === "@haft/client") {
      throw new SourceError(`${source.file} imports @haft/client, which is not where tools run: put the tools into a file of their own, and register them from another`);
    }
  }
  return source;
}
