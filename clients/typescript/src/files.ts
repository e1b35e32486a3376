import { lstatSync } from "node:fs";
import { type FileHandle, lstat, mkdir, mkdtemp, open, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, sep } from "node:path";
import { fileURLToPath } from "node:url";

import { ConflictError, InvalidError, UnavailableError } from "./errors.js";
import { type ListOptions, list } from "./page.js";
import type { CallFile, File, FileBody, Result } from "./schemas.js";
import { type RequestOptions, type Transport, part, pause } from "./transport.js";

/** Content: the path of a file, an open file, bytes, a Blob, or a stream of bytes. */
export type Upload = string | URL | FileHandle | Uint8Array | Blob | AsyncIterable<Uint8Array>;
/** A file of a call: content, or a file that the server has, also by its id (`file_…`). */
export type FileLike = Upload | File | CallFile;
/** The files of a call: one, several, or several by the path where the tool finds them. */
export type FilesLike = FileLike | readonly FileLike[] | { readonly [path: string]: FileLike };

export interface UploadOptions extends RequestOptions {
  /** The name of the file; that of the path if it is left out. */
  name?: string | undefined;
  /** The type; left out, it is what the content looks like. */
  contentType?: string | undefined;
  /** After how many seconds the file expires; left out, as late as the server allows. */
  ttl?: number | undefined;
  /** The id of a file of which a part has arrived, with the same content. */
  resume?: string | undefined;
}

/** What an artifact of a result can do. */
export interface ArtifactContent {
  /** Gives the content. */
  read(options?: RequestOptions): Promise<Uint8Array>;
  /**
   * Writes the content to a new file and returns its path. `to` is the file, or a directory that
   * is there: then it gets the name of the artifact, which cannot lead out of the directory. What
   * is there already, a link also, is left alone: that is an error with the code EEXIST.
   */
  save(to: string | URL, options?: RequestOptions): Promise<string>;
}

/** How many bytes of a file one request carries. */
const partSize = 4 << 20;
/** How many bytes of files a call carries; what is larger is added before. */
export const maxInline = 1 << 20;
/** How many seconds files are kept that were added for one call. */
const callTtl = 24 * 3600;
/** How often a part is sent that does not arrive. */
const tries = 3;

/** Files that are kept to be given to tools, and that calls left. */
export class Files {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Adds a file, part by part. A part whose answer is lost is sent again if the server does not
   * have it. If the server stays away, what it has is kept until it expires: `list` has its id,
   * and `resume` goes on with it.
   */
  async upload(content: Upload, options: UploadOptions = {}): Promise<File> {
    const source = await openSource(content);
    try {
      if (options.resume !== undefined) return await this.#rest(await this.show(options.resume, options), source, options);
      return await this.#upload(source, { ...options, name: options.name ?? source.name });
    } finally {
      await source.close();
    }
  }

  /** Lists files, newest first. */
  list(options: ListOptions = {}): AsyncGenerator<File, void, undefined> {
    return list(this.#transport, "/v1/files", options);
  }

  /** Shows what is known of a file. */
  async show(id: string, { signal, timeoutMs }: RequestOptions = {}): Promise<File> {
    return await this.#transport.read({ signal, timeoutMs, path: `/v1/files${part("file", id)}` });
  }

  /** Gives the content of a file. */
  async read(id: string, options: RequestOptions = {}): Promise<Uint8Array> {
    return await read(this.#transport, await this.#content(id, options), options);
  }

  /**
   * Writes the content to a new file and returns its path. `to` is the file, or a directory that
   * is there, in which it gets its own name. What is there already, a link also, is left alone:
   * that is an error with the code EEXIST.
   */
  async download(id: string, to: string | URL, options: RequestOptions = {}): Promise<string> {
    return await save(this.#transport, await this.#content(id, options), to, options);
  }

  /** Removes a file. */
  async remove(id: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: `/v1/files${part("file", id)}`, again: true });
  }

  /** Makes of files what a call takes: up to `left` bytes go with the call, what is larger is added before. */
  async ofCall(files: FilesLike, left: number, options: RequestOptions): Promise<FileBody[]> {
    const bodies: FileBody[] = [];
    for (const [given, content] of listed(files)) {
      const known = kept(content, given);
      if (known !== undefined) {
        bodies.push(known);
        continue;
      }
      const source = await openSource(content as Upload);
      try {
        const path = given ?? source.name;
        if (path === undefined) throw new InvalidError("invalid", "content without a name needs one: files: {name: content}");
        if (source.size <= left) {
          left -= source.size;
          bodies.push({ path, data: Buffer.from(await source.read(0, source.size)).toString("base64") });
        } else {
          bodies.push({ path, id: (await this.#upload(source, { ...options, name: path.slice(path.lastIndexOf("/") + 1), ttl: callTtl })).id });
        }
      } finally {
        await source.close();
      }
    }
    return bodies;
  }

  async #upload(source: Source, options: UploadOptions): Promise<File> {
    const { name, contentType, ttl, signal, timeoutMs } = options;
    const first = await source.read(0, partSize);
    const headers = { "Content-Type": contentType ?? octets };
    const query = { name, size: source.size, ttl: ttl === undefined ? undefined : Math.max(1, Math.trunc(ttl)) };
    const file = await this.#transport.read<File>({ signal, timeoutMs, method: "POST", path: "/v1/files", query, headers, body: first, slow: true });
    try {
      return await this.#rest(file, source, options);
    } catch (error) {
      // If it cannot be removed it expires, and why it failed matters more.
      if (!(error instanceof UnavailableError)) await this.remove(file.id).catch(() => {});
      throw error;
    }
  }

  /** Sends what the server does not have yet. */
  async #rest(file: File, source: Source, { signal, timeoutMs }: RequestOptions): Promise<File> {
    if (file.size !== source.size) throw new InvalidError("invalid", "the file that the server has is for content of another size");
    for (let failures = 0; file.uploaded < source.size; ) {
      const offset = Math.max(0, file.uploaded);
      const body = await source.read(offset, partSize);
      try {
        file = await this.#transport.read({ signal, timeoutMs, method: "PATCH", path: `/v1/files${part("file", file.id)}`, query: { offset }, headers: { "Content-Type": octets }, body, slow: true });
      } catch (error) {
        if (!(error instanceof UnavailableError || error instanceof ConflictError) || ++failures >= tries) throw error;
        await pause(100 * 2 ** failures, signal);
        file = await this.show(file.id, { signal, timeoutMs });
        continue;
      }
      if (file.uploaded <= offset) throw new UnavailableError("unavailable", "the server did not keep a part of the file");
      failures = 0;
    }
    return file;
  }

  async #content(id: string, options: RequestOptions): Promise<Content> {
    const { name, size } = await this.show(id, options);
    return { path: `/v1/files${part("file", id)}/content`, name, size };
  }
}

const octets = "application/octet-stream";

/** Lets the artifacts of a result be read. What is added is in no JSON. */
export function attach<R extends Pick<Result, "artifacts" | "call_id">>(transport: Transport, result: R): R {
  for (const artifact of result?.artifacts ?? []) {
    const { name, size } = artifact;
    const data = artifact.data === undefined ? undefined : Buffer.from(artifact.data, "base64");
    const content: Content = {
      get path() {
        return `/v1/calls${part("call", result.call_id)}/artifacts/${encodeURIComponent(name)}`;
      },
      name,
      size,
      data: data?.length === size ? new Uint8Array(data) : undefined,
    };
    Object.defineProperties(artifact, {
      read: { value: (options: RequestOptions = {}) => read(transport, content, options) },
      save: { value: (to: string | URL, options: RequestOptions = {}) => save(transport, content, to, options) },
    });
  }
  return result;
}

/** Content that a server has, or that came with a result. */
interface Content {
  readonly path: string;
  name: string;
  size: number;
  data?: Uint8Array | undefined;
}

/** Yields content part by part: a connection that is cut costs one part. */
async function* parts(transport: Transport, content: Content, { signal, timeoutMs }: RequestOptions): AsyncGenerator<Uint8Array, void, undefined> {
  const { size, data } = content;
  if (data !== undefined) {
    yield data;
    return;
  }
  for (let at = 0; at < size; ) {
    const end = Math.min(size, at + Math.min(partSize, transport.maxAnswer));
    const headers = { Range: `bytes=${at}-${end - 1}`, "Accept-Encoding": "identity" };
    const piece = await transport.bytes({ signal, timeoutMs, path: content.path, headers, slow: true });
    if (piece.length === 0 || piece.length > end - at) throw new UnavailableError("unavailable", "the server sent another part of the content than was asked for");
    at += piece.length;
    yield piece;
  }
}

async function read(transport: Transport, content: Content, options: RequestOptions): Promise<Uint8Array> {
  if (content.size > transport.maxAnswer) throw new InvalidError("invalid", `the content has more than ${transport.maxAnswer} bytes: save it to a file`);
  const pieces: Uint8Array[] = [];
  for await (const piece of parts(transport, content, options)) pieces.push(piece);
  return new Uint8Array(Buffer.concat(pieces));
}

/** Writes content to a new file, and leaves none if that fails. */
async function save(transport: Transport, content: Content, to: string | URL, options: RequestOptions): Promise<string> {
  const path = await destination(to, content.name);
  // The flag x makes the file or fails: it neither follows a link nor writes over anything.
  const file = await open(path, "wx");
  try {
    for await (const piece of parts(transport, content, options)) await file.writeFile(piece);
    await file.close();
  } catch (error) {
    await file.close().catch(() => {});
    await rm(path, { force: true });
    throw error;
  }
  return path;
}

/** Says where to save. A name that a server gave leads to nowhere but below the directory. */
async function destination(to: string | URL, name: string): Promise<string> {
  const given = to instanceof URL ? fileURLToPath(to) : to;
  if (given.endsWith("/") || given.endsWith(sep)) await mkdir(given, { recursive: true });
  else if (!(await stat(given).catch(() => undefined))?.isDirectory()) return given;
  const steps = name.split("/");
  const wrong = /[\0\\]|^[A-Za-z]:/.test(name) || (process.platform === "win32" && name.includes(":"));
  if (wrong || steps.some((step) => step.startsWith(".") || /^[ .]*$/.test(step))) {
    throw new InvalidError("invalid", "the name of what is to be saved is hidden, or no path below the directory: give the path of a file");
  }
  let path = given;
  for (const step of steps.slice(0, -1)) {
    path = join(path, step);
    const there = await lstat(path).catch(() => undefined);
    if (there?.isSymbolicLink()) throw new InvalidError("invalid", "a part of the path to save to is a link, which is not followed");
    if (there === undefined) await mkdir(path);
  }
  return join(path, steps.at(-1) ?? "");
}

/** Reads all of some content. */
export async function contentOf(content: Upload): Promise<Uint8Array> {
  const source = await openSource(content);
  try {
    return await source.read(0, source.size);
  } finally {
    await source.close();
  }
}

/** Content of this machine of which any part can be read. */
interface Source {
  name: string | undefined;
  size: number;
  /** Reads a part, of at most so many bytes. */
  read(at: number, size: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

async function openSource(content: Upload): Promise<Source> {
  if (typeof content === "string" || content instanceof URL) {
    const path = content instanceof URL ? fileURLToPath(content) : content;
    if (!(await stat(path)).isFile()) throw new InvalidError("invalid", "a file to send is not a regular file");
    const file = await open(path, "r");
    return await ofHandle(file, basename(path), () => file.close());
  }
  if (content instanceof Uint8Array) content = new Blob([content as Uint8Array<ArrayBuffer>]);
  if (content instanceof Blob) {
    const blob = content;
    const { name } = blob as { name?: unknown };
    return { name: typeof name === "string" ? name : undefined, size: blob.size, read: async (at, size) => new Uint8Array(await blob.slice(at, at + size).arrayBuffer()), close: async () => {} };
  }
  if (isHandle(content)) return await ofHandle(content, undefined, async () => {});
  if (typeof content === "object" && content !== null && Symbol.asyncIterator in content) return await spool(content);
  throw new InvalidError("invalid", "a file to send is a path, an open file, bytes, a Blob, or a stream of bytes");
}

function isHandle(content: object | null): content is FileHandle {
  return typeof content === "object" && content !== null && "fd" in content && "stat" in content && "read" in content;
}

async function ofHandle(file: FileHandle, name: string | undefined, close: () => Promise<void>): Promise<Source> {
  const info = await file.stat();
  if (!info.isFile()) throw new InvalidError("invalid", "an open file to send is not a regular file: give it as a stream");
  const { size } = info;
  const read = async (at: number, most: number): Promise<Uint8Array> => {
    const all = new Uint8Array(Math.min(most, size - at));
    for (let have = 0; have < all.length; ) {
      const { bytesRead } = await file.read(all, have, all.length - have, at + have);
      if (bytesRead === 0) throw new InvalidError("invalid", "the file to send became shorter while it was read");
      have += bytesRead;
    }
    return all;
  };
  return { name, size, read, close };
}

/** Keeps a stream in a file: its size has to be known first. */
async function spool(stream: AsyncIterable<Uint8Array>): Promise<Source> {
  const dir = await mkdtemp(join(tmpdir(), "haft-"));
  let file: FileHandle | undefined;
  const close = async (): Promise<void> => {
    await file?.close();
    await rm(dir, { recursive: true, force: true });
  };
  try {
    file = await open(join(dir, "content"), "wx+", 0o600);
    for await (const piece of stream) {
      if (!(piece instanceof Uint8Array)) throw new InvalidError("invalid", "a stream to send gives bytes, and no text");
      await file.writeFile(piece);
    }
    return await ofHandle(file, undefined, close);
  } catch (error) {
    await close();
    throw error;
  }
}

/** Yields files with the paths that were given for them. */
function* listed(files: FilesLike): Generator<[string | undefined, FileLike]> {
  if (Array.isArray(files)) for (const file of files as readonly FileLike[]) yield [undefined, file];
  else if (typeof files === "object" && Object.getPrototypeOf(files) === Object.prototype && !isFile(files)) yield* Object.entries(files);
  else yield [undefined, files as FileLike];
}

/** Reports whether an object is a file of the server, and not files by their paths. */
function isFile(file: object): boolean {
  const { id } = file as { id?: unknown };
  return typeof id === "string" && fileId.test(id);
}

const fileId = /^file_[0-9a-z]+$/;

/** Makes of a file what a call takes, if it needs nothing to be read. */
function kept(file: FileLike, given: string | undefined): FileBody | undefined {
  if (typeof file === "string") return fileId.test(file) && !exists(file) ? body(file, given) : undefined;
  if (Object.getPrototypeOf(file) !== Object.prototype) return undefined;
  const { id, path, data } = file as CallFile;
  return { ...body(id, given ?? path), ...(data === undefined ? {} : { data }) };
}

function body(id: string | undefined, path: string | undefined): FileBody {
  return { ...(id === undefined ? {} : { id }), ...(path === undefined ? {} : { path }) };
}

function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
