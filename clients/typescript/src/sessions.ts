import { valueOf, type Calls, type Output } from "./calls.js";
import { NotFoundError } from "./errors.js";
import { opened, read } from "./events.js";
import { type Upload, contentOf } from "./files.js";
import type { Artifact, Called, ContextListBody, NewSessionBody, Result, Session, SessionChange, SessionContext, SessionDir, SessionListBody, SessionTimes, Status } from "./schemas.js";
import { type RequestOptions, type Transport, part } from "./transport.js";

/** Why code or a command failed. */
export interface CodeError {
  kind: string;
  /** The type of an exception. */
  type?: string;
  message: string;
  traceback?: string;
}

/** One thing that code displayed. */
export interface CodeShown {
  text?: string;
  json?: unknown;
  /** Its rows, with columns and index. */
  table?: unknown;
  /** The names of artifacts that have its images and documents. */
  files?: string[];
}

/** What became of code or of a command in a session. */
export interface CodeResult<V = unknown> {
  call_id: string;
  status: Status;
  /** The value of the last expression. */
  value?: V;
  stdout: string;
  stderr: string;
  /** The status that it ended with, if it chose one. */
  exit_code?: number;
  error?: CodeError;
  /** What it displayed besides its value. */
  results?: CodeShown[];
  /** The names of the artifacts. */
  files?: string[];
  /** What is missing here, and why. */
  notes?: string[];
  /** The files that it left in `out`, and the images and documents that it displayed. */
  artifacts: Artifact[];
}

export interface CodeOptions extends RequestOptions {
  /** python, which it is if this is left out, javascript, typescript or bash. */
  language?: string | undefined;
  /** The interpreter, by a name of yours; left out, the one of the language. */
  context?: string | undefined;
  /** After how many seconds the code is interrupted. */
  limit?: number | undefined;
}

export interface CommandOptions extends RequestOptions {
  /** The working directory; /work if it is left out. */
  cwd?: string | undefined;
  /** Added to its environment. */
  env?: { readonly [name: string]: string } | undefined;
  /** What it reads from its standard input. */
  stdin?: string | undefined;
  /** After how many seconds it is stopped. */
  limit?: number | undefined;
}

export interface StartOptions extends CommandOptions {
  /** It can be sent input while it runs. */
  input?: boolean | undefined;
  /** It has a terminal, and can be sent input. */
  tty?: boolean | undefined;
}

/** What is sent to a command that runs. Data is sent before a signal. */
export interface Input {
  data?: string | Uint8Array | undefined;
  /** There is no more input. */
  close?: boolean | undefined;
  /** Such as SIGINT. */
  signal?: string | undefined;
  /** The size of its terminal. */
  rows?: number | undefined;
  cols?: number | undefined;
}

/** Sandboxes that live for many calls: variables, files and processes stay between them. */
export class Sessions {
  readonly #transport: Transport;
  readonly #calls: Calls;

  constructor(transport: Transport, calls: Calls) {
    this.#transport = transport;
    this.#calls = calls;
  }

  /** Makes a session. `close` ends it, and so does `await using`. */
  async create(settings: NewSessionBody = {}, options: RequestOptions = {}): Promise<OpenSession> {
    return this.#of(await this.#transport.read<Session>({ ...options, slow: true, method: "POST", path: "/v1/sessions", body: settings }));
  }

  /** Lists your sessions, the oldest first; all of the organisation for somebody who sees all calls. */
  async list(options: RequestOptions = {}): Promise<Session[]> {
    return (await this.#transport.read<SessionListBody>({ ...options, path: "/v1/sessions" })).sessions ?? [];
  }

  /** Gives a session that there is, by its id or the name that you gave it. */
  async get(session: string, options: RequestOptions = {}): Promise<OpenSession> {
    const known = (await this.list(options)).find(({ id, name }) => id === session || name === session);
    if (known === undefined) throw new NotFoundError("not_found", "there is no such session");
    return this.#of(known);
  }

  /** Ends a session with all that is in it. */
  async end(session: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: `/v1/sessions${part("session", session)}`, again: true });
  }

  #of(info: Session): OpenSession {
    return new OpenSession(this.#transport, this.#calls, info);
  }
}

/** A sandbox that lives for many calls. */
export class OpenSession {
  /** What the server said last of the session. */
  info: Session;
  readonly files: SessionFiles;
  readonly #transport: Transport;
  readonly #calls: Calls;
  readonly #path: string;

  constructor(transport: Transport, calls: Calls, info: Session) {
    this.info = info;
    this.#transport = transport;
    this.#calls = calls;
    this.#path = `/v1/sessions${part("session", info.id)}`;
    this.files = new SessionFiles(transport, `${this.#path}/files`);
  }

  get id(): string {
    return this.info.id;
  }

  /**
   * Runs code in an interpreter of the session, which keeps variables and imports. Code that
   * fails is no error: look at `error`. A call that did not run it is a CallError.
   */
  async runCode<V = unknown>(code: string, options: CodeOptions = {}): Promise<CodeResult<V>> {
    const { language = "python", context, limit, ...rest } = options;
    const args = { session: this.id, code, language, context, timeout_seconds: limit };
    return outcome<V>(await this.#calls.run("run_code", args, rest));
  }

  /**
   * Runs a command to its end: a line for Bash, or a program and its arguments. What it prints
   * is given to `onOutput` as it comes.
   */
  async runCommand(command: string | readonly string[], options: CommandOptions = {}, onOutput?: (output: Output) => void): Promise<CodeResult> {
    if (onOutput === undefined) {
      const { args, rest } = commandOf(this.id, command, options);
      return outcome(await this.#calls.run("run_command", args, rest));
    }
    const started = await this.startCommand(command, options);
    try {
      for await (const output of started.output({ signal: options.signal })) onOutput(output);
      return await started.wait(options);
    } catch (error) {
      // Nobody waits for it any more. If that cannot be told, the limits of the tool end it.
      await started.cancel().catch(() => {});
      throw error;
    }
  }

  /** Starts a command and does not wait for it. */
  async startCommand(command: string | readonly string[], options: StartOptions = {}): Promise<Command> {
    const { args, rest } = commandOf(this.id, command, options);
    return new Command(this.#transport, this.#calls, await this.#calls.start("run_command", args, rest));
  }

  /** Lists the interpreters of the session with their variables. */
  async contexts(options: RequestOptions = {}): Promise<SessionContext[]> {
    return (await this.#transport.read<ContextListBody>({ ...options, path: `${this.#path}/contexts` })).contexts ?? [];
  }

  /** Ends an interpreter with all that it started. The next code that names it begins anew. */
  async restart(context = "python", options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: `${this.#path}/contexts${part("context", context)}` });
  }

  /** Lets the session live longer, or less long: seconds from now on. */
  async extend(times: SessionTimes, options: RequestOptions = {}): Promise<Session> {
    this.info = await this.#transport.read<Session>({ ...options, method: "PATCH", path: this.#path, body: times });
    return this.info;
  }

  /** Ends the session with all that is in it. One that has ended is no error. */
  async close(options: RequestOptions = {}): Promise<void> {
    try {
      await this.#transport.read({ ...options, method: "DELETE", path: this.#path, again: true });
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A command that was started in a session. */
export class Command {
  /** The call that the command is. */
  readonly callId: string;
  readonly #transport: Transport;
  readonly #calls: Calls;

  constructor(transport: Transport, calls: Calls, started: Called) {
    this.#transport = transport;
    this.#calls = calls;
    this.callId = started.call_id;
  }

  /** Yields what the command prints, from its beginning until it ends. */
  output(options: Pick<RequestOptions, "signal"> = {}): AsyncGenerator<Output, void, undefined> {
    return this.#calls.output(this.callId, options.signal === undefined ? {} : { signal: options.signal });
  }

  /** Waits until the command takes input, or has ended. */
  async ready(options: Pick<RequestOptions, "signal"> = {}): Promise<void> {
    for await (const event of this.#calls.events(this.callId, options.signal === undefined ? {} : { signal: options.signal })) {
      if (event.type === "tool_progress") return;
    }
  }

  /** Sends input, the end of the input, a signal, or the size of its terminal. */
  async send(input: Input, options: RequestOptions = {}): Promise<void> {
    const { data, ...rest } = input;
    const body = data === undefined ? rest : { ...rest, data: Buffer.from(data).toString("base64") };
    await this.#transport.read({ ...options, method: "POST", path: `/v1/calls${part("call", this.callId)}/input`, body });
  }

  /** Waits until the command has ended. */
  async wait({ signal, timeoutMs }: RequestOptions = {}): Promise<CodeResult> {
    return outcome(await this.#calls.wait(this.callId, { signal, timeoutMs }));
  }

  /** Stops the command with what it has started. */
  async cancel(options: RequestOptions = {}): Promise<void> {
    await this.#calls.cancel(this.callId, options);
  }
}

/** The files of a session. Paths are absolute, or relative to /work. */
export class SessionFiles {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, path: string) {
    this.#transport = transport;
    this.#path = path;
  }

  /** Lists a directory, and those in it down to `depth`; with depth 0 it describes the one file. */
  async list(path = "/work", { depth, ...options }: RequestOptions & { depth?: number } = {}): Promise<SessionDir> {
    return await this.#transport.read({ ...options, path: this.#path, query: { path, depth } });
  }

  /** Gives the content of a file. Secrets of the session's calls are masked. */
  async read(path: string, options: RequestOptions = {}): Promise<Uint8Array> {
    return await this.#transport.bytes({ ...options, path: `${this.#path}/content`, query: { path } });
  }

  /** Makes a file, with the directories that it needs. */
  async write(path: string, content: Upload, options: RequestOptions = {}): Promise<void> {
    const headers = { "Content-Type": "application/octet-stream" };
    await this.#transport.read({ ...options, method: "PUT", path: `${this.#path}/content`, query: { path }, body: await contentOf(content), headers, again: true });
  }

  /**
   * Watches the files of a directory, and of those in it: yields what happens after the promise is
   * kept. A loop that is left ends the watch, and so does an aborted signal. A connection that is cut
   * is an UnavailableError: watch again, and list the directory.
   */
  async watch(path = "/work", options: Pick<RequestOptions, "signal"> = {}): Promise<AsyncGenerator<SessionChange, void, undefined>> {
    return await opened(this.#transport, { path: `${this.#path}/watch`, query: { path } }, ({ data }) => (data === "" ? undefined : read<SessionChange>(data, ({ file }) => typeof file === "object")), options.signal);
  }

  /** Makes a directory, and those that lead to it. */
  async makeDir(path: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "PUT", path: `${this.#path}/directory`, query: { path } });
  }

  /** Gives a file or directory another name. */
  async move(from: string, to: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "POST", path: `${this.#path}/move`, body: { from, to } });
  }

  /** Removes a file, or a directory with all that is in it. */
  async remove(path: string, options: RequestOptions = {}): Promise<void> {
    await this.#transport.read({ ...options, method: "DELETE", path: this.#path, query: { path } });
  }
}

/** Makes the arguments of run_command. */
function commandOf(session: string, command: string | readonly string[], options: StartOptions): { args: object; rest: RequestOptions } {
  const { cwd, env, stdin, limit, input, tty, ...rest } = options;
  const what = typeof command === "string" ? { command } : { argv: command };
  return { args: { session, ...what, cwd, env, stdin, input, tty, timeout_seconds: limit }, rest };
}

/** Says what became of code or of a command. */
function outcome<V>(result: Result): CodeResult<V> {
  return { ...(valueOf(result) as Omit<CodeResult<V>, "call_id" | "artifacts">), call_id: result.call_id, artifacts: result.artifacts ?? [] };
}
