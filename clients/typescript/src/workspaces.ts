import { type ListOptions, list } from "./page.js";
import type { CallWorkspace, File, NewWorkspaceBody, Workspace, WorkspaceDiff, WorkspaceListing } from "./schemas.js";
import { type RequestOptions, type Transport, part } from "./transport.js";

/** The workspace of a call: its name, `NAME:ro` to only read it, or more. */
export type WorkspaceLike = string | CallWorkspace;

/** How a workspace is added. With `from` it is a fork: it begins with the files of that one, or of a snapshot. */
export type NewWorkspaceOptions = RequestOptions & Omit<NewWorkspaceBody, "name">;

/** Makes of a workspace what a call takes. */
export function workspaceOf(given: WorkspaceLike): CallWorkspace {
  if (typeof given !== "string") return given;
  return given.endsWith(":ro") ? { name: given.slice(0, -3), read_only: true } : { name: given };
}

/** Directories that outlive calls, with their files and snapshots. */
export class Workspaces {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Adds a workspace. */
  async add(name: string, { signal, timeoutMs, ...settings }: NewWorkspaceOptions = {}): Promise<Workspace> {
    return await this.#transport.read({ signal, timeoutMs, method: "POST", path: "/v1/workspaces", body: { ...settings, name } });
  }

  /** Lists workspaces by name. */
  list(options: ListOptions = {}): AsyncGenerator<Workspace, void, undefined> {
    return list(this.#transport, "/v1/workspaces", options);
  }

  /** Shows a workspace. */
  async show(name: string, options: RequestOptions = {}): Promise<Workspace> {
    return await this.#transport.read({ ...options, path: path(name) });
  }

  /** Removes a workspace with its snapshots, or a snapshot. A {@link ConflictError} means that a call uses it. */
  async remove(name: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: path(name) });
  }

  /** Lists what is in a workspace, or in a directory of it and below. */
  async files(name: string, { dir, ...options }: RequestOptions & { dir?: string | undefined } = {}): Promise<WorkspaceListing> {
    return await this.#transport.read({ ...options, path: `${path(name)}/files`, query: { dir } });
  }

  /** Gives the content of a file. */
  async read(name: string, file: string, options: RequestOptions = {}): Promise<Uint8Array> {
    return await this.#transport.bytes({ ...options, path: `${path(name)}/files/content`, query: { path: file } });
  }

  /** Writes a file, and the directories that it is in: bytes, or a file that was uploaded. */
  async write(name: string, file: string, content: Uint8Array | File, options: RequestOptions = {}): Promise<void> {
    const bytes = content instanceof Uint8Array;
    await this.#transport.read({
      ...options,
      method: "PUT",
      path: `${path(name)}/files`,
      query: { path: file, file: bytes ? undefined : content.id },
      body: bytes ? content : new Uint8Array(),
      headers: { "Content-Type": "application/octet-stream" },
      again: true,
    });
  }

  /** Deletes a file, or a directory with everything in it. */
  async delete(name: string, file: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: `${path(name)}/files`, query: { path: file } });
  }

  /** Keeps the present state as `NAME@SNAPSHOT`, to which nobody writes. */
  async snapshot(name: string, snapshot: string, options: RequestOptions = {}): Promise<Workspace> {
    return await this.add(`${name}@${snapshot}`, options);
  }

  /** Gives a workspace the files of a snapshot, or of another one. Its own are lost. */
  async restore(name: string, from: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "POST", path: `${path(name)}/restore`, body: { from }, again: true });
  }

  /** Says what was changed from a workspace or snapshot to another one. */
  async diff(from: string, to: string, options: RequestOptions = {}): Promise<WorkspaceDiff> {
    return await this.#transport.read({ ...options, path: `${path(from)}/diff`, query: { to } });
  }
}

function path(name: string): string {
  return `/v1/workspaces${part("workspace", name)}`;
}
