// Written by scripts/schemas.mjs from the OpenAPI document of the server. Do not edit.

import type { ArtifactContent } from "./files.js";

export type ApprovalState =
  | "pending"
  | "approved"
  | "denied"
  | "expired"
  | "used";

export type Code =
  | "invalid"
  | "unauthenticated"
  | "denied"
  | "not_found"
  | "conflict"
  | "rate_limited"
  | "unavailable"
  | "internal";

export type EventType =
  | "tool_queued"
  | "tool_executing"
  | "tool_retry"
  | "tool_progress"
  | "tool_output"
  | "tool_completed"
  | "approval_requested"
  | "approval_decided";

export type Kind =
  | "builtin"
  | "python"
  | "typescript"
  | "javascript"
  | "bash"
  | "mcp";

export type Level =
  | "none"
  | "reduced"
  | "namespaces"
  | "kernel"
  | "machine";

export type MessageRole =
  | "user"
  | "assistant"
  | "tool"
  | "summary";

export type RuleType =
  | "run_first"
  | "constrain_child_tools"
  | "parent_last_tool"
  | "conditional"
  | "exit_loop"
  | "continue_loop"
  | "required_before_exit"
  | "max_count_per_step"
  | "requires_approval";

export type SandboxType =
  | "local"
  | "gvisor"
  | "e2b"
  | "modal"
  | "process";

export type Severity =
  | "low"
  | "medium"
  | "high"
  | "critical";

export type Status =
  | "success"
  | "error"
  | "timeout"
  | "limit"
  | "validation_error"
  | "permission_denied"
  | "rate_limited"
  | "queued"
  | "running"
  | "pending_approval"
  | "denied_by_approver"
  | "cancelled"
  | "unknown";

export type TurnStatus =
  | "running"
  | "waiting"
  | "completed"
  | "failed"
  | "cancelled";

export interface AddAgentBody {
  /** What it is for. */
  description?: string;
  disabled?: boolean;
  /** Added to the environment of its calls. Values are never shown again; an empty one keeps what is there. */
  env?: { [name: string]: string };
  /** The revision that the agent must have, which is its ETag without quotes; If-Match does the same. */
  if_revision?: string;
  /** What its model gets before everything else. */
  instructions?: string;
  /** What programs keep with it: at most 100 values, 64 KiB. */
  metadata?: { [name: string]: unknown };
  /** The name of the model that it uses; see GET /v1/models. */
  model?: string;
  name: string;
  /** The sandbox of its calls for which neither call nor tool names one. */
  sandbox?: string;
  tags?: string[] | null;
  /** What people call it. */
  title?: string;
  tool_rules?: ToolRule[] | null;
  /** The names of the tools it may call. */
  tools?: string[] | null;
  /** The workspace of its calls which name none, if their tool takes one: a name, or NAME:ro. */
  workspace?: string;
}

export interface AddSandboxBody {
  /** Code and data of calls may leave the machine of the server, for sandboxes of this type. */
  allow_remote?: boolean;
  /** Calls for which nobody names a sandbox run in this one. */
  default?: boolean;
  description?: string;
  /** Those of tools that name none. */
  limits?: Limits;
  /** The hosts that tools may reach which name none themselves. */
  network?: string[] | null;
  /** Packages that every tool has besides its own. */
  requirements?: Requirements;
  /** Packages of calls that name the template. */
  templates?: SandboxTemplate[] | null;
  type: SandboxType;
}

export interface Added {
  category?: string;
  /** There was no such tool before. */
  created?: boolean;
  created_at: string;
  disabled?: boolean;
  /** How the files differ from those of the version before. */
  file_changes?: string[] | null;
  id: string;
  /** The settings that the draft left out and that stay as they were. */
  kept?: string[] | null;
  metadata?: { [name: string]: unknown };
  name: string;
  org: string;
  /** How the schema differs from that of the version before. */
  schema_changes?: string[] | null;
  tags?: string[] | null;
  unavailable?: string;
  /** The draft is the version that is current. */
  unchanged?: boolean;
  updated_at: string;
  version: Version;
  /** The number of the version that waits for review. */
  waiting?: number;
  warnings?: string[] | null;
}

export interface Agent {
  created_at: string;
  created_by?: string;
  description?: string;
  disabled?: boolean;
  env?: { [name: string]: string };
  id: string;
  if_revision?: string;
  instructions?: string;
  metadata?: { [name: string]: unknown };
  model?: string;
  name: string;
  org: string;
  sandbox?: string;
  tags?: string[] | null;
  title?: string;
  tool_rules?: ToolRule[] | null;
  tools?: string[] | null;
  updated_at: string;
  workspace?: string;
}

export interface AgentBody {
  /** What it is for. */
  description?: string;
  disabled?: boolean;
  /** Added to the environment of its calls. Values are never shown again; an empty one keeps what is there. */
  env?: { [name: string]: string };
  /** The revision that the agent must have, which is its ETag without quotes; If-Match does the same. */
  if_revision?: string;
  /** What its model gets before everything else. */
  instructions?: string;
  /** What programs keep with it: at most 100 values, 64 KiB. */
  metadata?: { [name: string]: unknown };
  /** The name of the model that it uses; see GET /v1/models. */
  model?: string;
  /** The sandbox of its calls for which neither call nor tool names one. */
  sandbox?: string;
  tags?: string[] | null;
  /** What people call it. */
  title?: string;
  tool_rules?: ToolRule[] | null;
  /** The names of the tools it may call. */
  tools?: string[] | null;
  /** The workspace of its calls which name none, if their tool takes one: a name, or NAME:ro. */
  workspace?: string;
}

export interface Annotations {
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
  readOnlyHint?: boolean;
  title?: string;
}

export interface Answer {
  approve: boolean;
  args?: unknown;
  reason?: string;
}

export interface Approval {
  approver?: Principal;
  args?: unknown;
  binds: string;
  call_id: string;
  created_at: string;
  decided_at?: string;
  edited?: boolean;
  expires_at: string;
  id: string;
  reason?: string;
  requester: Principal;
  rule?: string;
  state: ApprovalState;
  terms?: Terms;
  tool: string;
}

export interface ApproveBody {
  /** Arguments that replace those that were asked for. */
  args?: unknown;
  reason?: string;
}

export interface Argument {
  name: string;
  whole?: boolean;
}

export interface Artifact extends ArtifactContent {
  content_type: string;
  data?: string;
  file_id?: string;
  name: string;
  size: number;
}

export interface Backoff {
  initial_ms?: number;
  max_ms?: number;
  strategy?: "constant" | "exponential" | "exponential_jitter";
  stretch?: number;
  tries?: number;
}

export interface BatchBody {
  calls: BatchCall[];
}

export interface BatchCall {
  /** The agent that calls, by name or id. The credential must be for it. */
  agent?: string;
  /** The arguments: an object, or the text of one as models write it. */
  args?: unknown;
  deadline?: string;
  /** The version to run; the current one if it is left out. */
  digest?: string;
  /** Added to the environment of the run. */
  env?: { [name: string]: string };
  /** Files that the tool finds in its working directory. */
  files?: FileBody[] | null;
  /** A second call with the same key and arguments gets the result of the first. */
  idempotency_key?: string;
  limits?: Limits;
  sandbox?: string;
  /** A template of the sandbox configuration, whose packages the call gets besides. */
  template?: string;
  /** The name or id of the tool. */
  tool: string;
  /** Groups the calls of one loop of an agent, which its tool rules look at. */
  turn?: string;
  /** A directory that outlives the call. */
  workspace?: WorkspaceBody;
}

export interface BatchedBody {
  results: Result[];
}

export interface Binding {
  basic?: string;
  header?: string;
  hosts: string[] | null;
  oauth?: OAuth;
  prefix?: string;
  query?: string;
}

export interface Block {
  created_at: string;
  description?: string;
  id: string;
  label: string;
  limit: number;
  org: string;
  read_only?: boolean;
  updated_at: string;
  value: string;
  version: number;
}

export interface BlockBody {
  description?: string;
  /** What tools call it. */
  label: string;
  /** How many characters the value may have; 0 means 100,000. */
  limit?: number;
  /** Tools cannot change it. */
  read_only?: boolean;
  value?: string;
}

export interface Budget {
  max_cost_micros?: number;
  max_steps?: number;
  max_time_ms?: number;
  max_tokens?: number;
}

export interface CallEvent {
  call_id: string;
  cursor: number;
  data?: unknown;
  principal: Principal;
  seq: number;
  time: string;
  tool: string;
  type: EventType;
}

export interface CallFile {
  data?: string;
  id?: string;
  path?: string;
  sha256?: string;
}

export interface CallOfRecord {
  args?: unknown;
  chain?: string;
  deadline?: string;
  digest?: string;
  env?: { [name: string]: string };
  files?: CallFile[] | null;
  id?: string;
  idempotency_key?: string;
  limits?: Limits;
  parent?: string;
  principal: Principal;
  requirements?: Requirements;
  sandbox?: string;
  template?: string;
  tool: string;
  trace?: string;
  turn?: string;
  workspace?: CallWorkspace;
}

export interface CallRecord {
  args_digest?: string;
  call: CallOfRecord;
  created_at: string;
  digest?: string;
  ended_at?: string;
  owner?: string;
  redacted?: boolean;
  result?: Result;
  result_digest?: string;
  started_at?: string;
  status: Status;
  tool_id?: string;
  tries?: number;
}

export interface CallWorkspace {
  id?: string;
  name: string;
  origins?: string[] | null;
  read_only?: boolean;
  workdir?: boolean;
}

export interface Called<V = unknown> {
  approval_id?: string;
  artifacts?: Artifact[] | null;
  cached?: boolean;
  call_id: string;
  content?: Content[] | null;
  digest?: string;
  error?: Failure;
  /** The same as call_id. */
  id: string;
  notices?: string[] | null;
  sandbox: SandboxUsed;
  status: Status;
  stderr: string;
  stdout: string;
  timeline: Timeline;
  timestamp?: string;
  tool: string;
  tries?: number;
  truncated?: Truncated;
  usage: Usage;
  value: V;
  workspace?: WorkspaceUse;
}

export interface CancelAllBody {
  agent?: string;
  /** All calls of the organisation, which is for managers. */
  all?: boolean;
  /** Whose calls; one's own if neither is given. */
  user?: string;
}

export interface CancelledBody {
  cancelled: number;
}

export interface Chain {
  created_at: string;
  error?: Failure;
  id: string;
  plan: Plan;
  principal: Principal;
  status: Status;
  steps: StepResult[] | null;
  turn?: string;
  updated_at: string;
}

export interface ChangeBlockBody {
  description?: string;
  label?: string;
  limit?: number;
  read_only?: boolean;
  value?: string;
  /** The version that it replaces; 0 means whatever there is. */
  version?: number;
}

export interface ChildArgs {
  args?: { [name: string]: unknown };
  name: string;
}

export interface Content {
  artifact?: string;
  audience?: string[] | null;
  description?: string;
  mime_type?: string;
  name?: string;
  size?: number;
  text?: string;
  title?: string;
  type: string;
  uri?: string;
}

export interface ContextListBody {
  contexts: SessionContext[] | null;
}

export interface DeadLetter {
  died_at: string;
  event: CallEvent;
  failure: string;
  id: string;
  tries: number;
  webhook_id: string;
}

export interface DenyBody {
  reason?: string;
}

export interface Draft {
  annotations?: Annotations;
  args_json_schema?: unknown;
  category?: string;
  description?: string;
  descriptions_required?: boolean;
  file?: string;
  files?: ToolFile[] | null;
  function?: string;
  if_digest?: string;
  keep_settings?: boolean;
  name?: string;
  named_settings?: string[] | null;
  new?: boolean;
  parameters?: unknown;
  relock?: boolean;
  requirements?: Requirements;
  returns?: unknown;
  settings?: Settings;
  source_code: string;
  source_type?: Kind;
  tags?: string[] | null;
}

export interface EraseOfBody {
  /** The organisation: that of the caller, or for the operator of the server any. */
  org: string;
  /** One user; if it is left out, everything of the organisation. */
  user?: string;
}

export interface Erasure {
  audit_entries: number;
  cancelled: number;
  erasure: string;
}

export interface ExplainBody {
  /** The agent that calls, by name or id. The credential must be for it. */
  agent?: string;
  /** The arguments: an object, or the text of one as models write it. */
  args?: unknown;
  deadline?: string;
  /** The version to run; the current one if it is left out. */
  digest?: string;
  /** Added to the environment of the run. */
  env?: { [name: string]: string };
  /** Files that the tool finds in its working directory. */
  files?: FileBody[] | null;
  /** A second call with the same key and arguments gets the result of the first. */
  idempotency_key?: string;
  limits?: Limits;
  /** As if with these roles. */
  roles?: string[] | null;
  sandbox?: string;
  /** A template of the sandbox configuration, whose packages the call gets besides. */
  template?: string;
  /** The name or id of the tool. */
  tool: string;
  /** Groups the calls of one loop of an agent, which its tool rules look at. */
  turn?: string;
  /** As if that user called, which is for managers. */
  user?: string;
  /** A directory that outlives the call. */
  workspace?: WorkspaceBody;
}

export interface Failure {
  kind: string;
  message: string;
  misfits?: Misfit[] | null;
  retry: string;
  retry_after_ms?: number;
  severity?: Severity;
  traceback?: string;
  type?: string;
}

export interface File {
  call_id?: string;
  content_type: string;
  created_at: string;
  expires_at: string;
  id: string;
  name: string;
  sha256?: string;
  size: number;
  uploaded: number;
}

export interface FileBody {
  /** The content as base64, instead of an id. */
  data?: string;
  /** A file that was added. */
  id?: string;
  /** Where the tool finds it; the name of the file if it is left out. */
  path?: string;
}

export interface Finding {
  file?: string;
  line?: number;
  message: string;
  rule: string;
  scanner: string;
  severity: Severity;
}

export interface Gap {
  control: string;
  reason: string;
}

export interface HealthReason {
  message: string;
  path: string;
}

export interface Isolation {
  controls: string[] | null;
  level: Level;
  missing?: Gap[] | null;
}

export interface IssuedKey {
  agent?: string;
  created_at: string;
  disabled?: boolean;
  expires_at?: string;
  id: string;
  last_used_at?: string;
  name?: string;
  org: string;
  overlap_until?: string;
  roles?: string[] | null;
  rotated_at?: string;
  scope?: string[] | null;
  /** The text of the key. It is shown this once. */
  secret: string;
  signed_only?: boolean;
  user?: string;
}

export interface Kept {
  calls: number;
  most: Retention;
  oldest?: string;
  refused: number;
  retention: Retention;
}

export interface Key {
  agent?: string;
  created_at: string;
  disabled?: boolean;
  expires_at?: string;
  id: string;
  last_used_at?: string;
  name?: string;
  org: string;
  overlap_until?: string;
  roles?: string[] | null;
  rotated_at?: string;
  scope?: string[] | null;
  signed_only?: boolean;
  user?: string;
}

export interface KeyState {
  disabled?: boolean;
  expires_at?: string;
  name?: string;
}

export interface Limits {
  artifact_bytes?: number;
  artifacts?: number;
  cpu_ms?: number;
  disk_bytes?: number;
  file_bytes?: number;
  grace_ms?: number;
  inodes?: number;
  memory_bytes?: number;
  network_bytes?: number;
  open_files?: number;
  processes?: number;
  result_bytes?: number;
  stderr_bytes?: number;
  stdout_bytes?: number;
  wall_ms?: number;
}

export interface Lock {
  npm?: string;
  pip?: string;
  set?: string;
}

export interface LoginMCPServerBody {
  /** Where the authorisation server sends the person: an address of the caller's, on this machine or with https. */
  redirect_uri: string;
}

export interface MCPAnswer {
  code?: string;
  error?: string;
  iss?: string;
  state: string;
}

export interface MCPChange {
  added?: string[] | null;
  changed?: string[] | null;
  removed?: string[] | null;
  server: MCPServer;
  waiting?: string[] | null;
  warnings?: string[] | null;
}

export interface MCPLink {
  /** To be opened by a person. Empty means that the server wants no login. */
  link: string;
}

export interface MCPMount {
  dir: string;
  inside?: string;
  writable?: boolean;
}

export interface MCPOAuth {
  client_id?: string;
  client_secret?: string;
  scopes?: string[] | null;
}

export interface MCPProblem {
  reasons: string[] | null;
  tool: string;
}

export interface MCPServer {
  command?: string[] | null;
  connect_ms?: number;
  created_at: string;
  disabled?: boolean;
  env?: { [name: string]: string };
  headers?: { [name: string]: string };
  id: string;
  if_revision?: string;
  limits?: Limits;
  list_ms?: number;
  mounts?: MCPMount[] | null;
  name: string;
  network?: string[] | null;
  oauth?: MCPOAuth;
  org: string;
  requirements?: Requirements;
  state?: MCPState;
  transport: "stdio" | "http" | "sse";
  updated_at: string;
  url?: string;
}

export interface MCPServerBody {
  /** Program and arguments of a server that runs in a sandbox here. Policy says who may have which. */
  command?: string[] | null;
  connect_ms?: number;
  disabled?: boolean;
  /** As headers, for a command. */
  env?: { [name: string]: string };
  /** {{ NAME }} stands for a variable of the call. Values are not shown again; an empty one keeps what is there. */
  headers?: { [name: string]: string };
  limits?: Limits;
  list_ms?: number;
  mounts?: MCPMount[] | null;
  /** The hosts that a command may reach. */
  network?: string[] | null;
  oauth?: MCPOAuth;
  requirements?: Requirements;
  /** Empty means stdio for a command, and else http. */
  transport?: "stdio" | "http" | "sse";
  url?: string;
}

export interface MCPState {
  error?: string;
  invalid?: MCPProblem[] | null;
  listed_at?: string;
  listing?: string;
  login_needed?: boolean;
  protocol?: string;
  title?: string;
  tools: number;
}

export interface Message {
  agent_id: string;
  call_id?: string;
  created_at: string;
  id: string;
  name?: string;
  reasoning?: string;
  replaces_seq?: number;
  role: MessageRole;
  seq: number;
  status?: Status;
  text?: string;
  tool_call_id?: string;
  tool_calls?: ToolCall[] | null;
  turn_id: string;
}

export interface MessageBody {
  /** What the turn may take, within what the server allows. */
  budget?: Budget;
  /** Of several messages with one key the first counts. */
  idempotency_key?: string;
  /** The name of a model for this turn, instead of that of the agent. */
  model?: string;
  text: string;
}

export interface Misfit {
  message: string;
  pointer: string;
}

export interface Model {
  context_tokens?: number;
  default?: boolean;
  model: string;
  name: string;
  provider?: string;
  unavailable?: string;
}

export interface MoveSessionFileBody {
  from: string;
  to: string;
}

export interface NewCall {
  /** The agent that calls, by name or id. The credential must be for it. */
  agent?: string;
  /** The arguments: an object, or the text of one as models write it. */
  args?: unknown;
  deadline?: string;
  /** The version to run; the current one if it is left out. */
  digest?: string;
  /** Added to the environment of the run. */
  env?: { [name: string]: string };
  /** Files that the tool finds in its working directory. */
  files?: FileBody[] | null;
  /** A second call with the same key and arguments gets the result of the first. */
  idempotency_key?: string;
  limits?: Limits;
  sandbox?: string;
  /** A template of the sandbox configuration, whose packages the call gets besides. */
  template?: string;
  /** The name or id of the tool. */
  tool: string;
  /** Groups the calls of one loop of an agent, which its tool rules look at. */
  turn?: string;
  /** true waits until there is a result, false does not wait, and a number waits so many seconds. */
  wait?: boolean | number;
  /** A directory that outlives the call. */
  workspace?: WorkspaceBody;
}

export interface NewKey {
  /** The name or id of the agent that it acts as. */
  agent?: string;
  expires_at?: string;
  /** What it is for. */
  name?: string;
  roles?: string[] | null;
  /** Actions, such as calls:read, and tools, such as tool:NAME, that it is confined to. Left out it is confined to nothing less than its roles allow, and an empty list makes it good for nothing. */
  scope?: string[] | null;
  /** It only signs requests, and is never sent. */
  signed_only?: boolean;
  /** On whose behalf it acts. */
  user?: string;
}

export interface NewSessionBody {
  /** After how long without use it ends. */
  idle_seconds?: number;
  /** The language of a context to start with it. */
  language?: string;
  /** What the owner calls it; a name is made up if it is left out. */
  name?: string;
  /** Packages that code of the session can import, besides those of the organisation. */
  requirements?: Requirements;
  /** The sandbox that it runs in, one of the server's machine; calls in the session follow it. */
  sandbox?: string;
  /** How long the session lives at the most, from now on. */
  timeout_seconds?: number;
  /** Commands of the session may have terminals. */
  tty?: boolean;
  /** A workspace, which the session has at /workspace until it ends. */
  workspace?: SessionWorkspace;
}

export interface NewWebhook {
  agents?: string[] | null;
  created_at: string;
  delivered_at?: string;
  description?: string;
  disabled?: boolean;
  disabled_reason?: string;
  failing_since?: string;
  failure?: string;
  id: string;
  if_revision?: string;
  org: string;
  position: number;
  /** By which a receiver knows us: requests are signed with it as Standard Webhooks has it. It is shown this once. */
  secret: string;
  tools?: string[] | null;
  types?: EventType[] | null;
  updated_at: string;
  url: string;
  users?: string[] | null;
}

export interface NewWorkspaceBody {
  /** A workspace or a snapshot whose files it begins with. */
  from?: string;
  /** Lower-case letters, digits, dots, underscores and hyphens. Unique in the organisation. That of a snapshot has an @. */
  name: string;
  quota?: QuotaBody;
  /** Let everybody in the organisation use it. */
  shared?: boolean;
}

export interface OAuth {
  audience?: string;
  client_id: string;
  grant: string;
  post?: boolean;
  scope?: string;
  token_url: string;
}

export interface OutputSettings {
  max_chars?: number;
  strict?: boolean;
  type?: "json" | "text" | "number" | "boolean" | "list";
  validators?: string[] | null;
}

export interface Passage {
  agent_id: string;
  created_at: string;
  id: string;
  score?: number;
  tags?: string[] | null;
  text: string;
}

export interface PassageBody {
  tags?: string[] | null;
  text: string;
}

export interface Plan {
  background?: boolean;
  input?: unknown;
  steps: Step[] | null;
  workspace?: CallWorkspace;
}

export interface Principal {
  actions?: string[] | null;
  agent?: string;
  credential?: string;
  org: string;
  roles?: string[] | null;
  scope?: string[] | null;
  user?: string;
}

export interface PutSecretBody {
  /** Where it may go, and nowhere else. Without it, where the one that is there may; no hosts means that tools have it. */
  bound?: Binding;
  /** It is never shown again. */
  value: string;
}

export interface QuotaBody {
  /** Of all files; what the server allows if it is left out. */
  bytes?: number;
  /** Files, directories and links. */
  inodes?: number;
}

export interface Rate {
  burst?: number;
  calls?: number;
  per_second?: number;
  within_ms?: number;
}

export interface Reaction {
  args?: unknown;
  disable?: boolean;
  kinds?: string[] | null;
  types?: string[] | null;
  value?: unknown;
}

export interface RedeliverBody {
  /** The id of a dead letter; all if it is left out. */
  letter?: string;
}

export interface RedeliveredBody {
  /** How many were received, and are not dead any more. */
  delivered: number;
}

export interface RefreshMCPServerBody {
  /** Accept what is new or changed without review. */
  accept?: boolean;
}

export interface Replied {
  messages: Message[];
  turn: Turn;
}

export interface Requirements {
  npm?: string[] | null;
  pip?: string[] | null;
}

export interface RestoreWorkspaceBody {
  /** The snapshot, or another workspace. */
  from: string;
}

export interface Result<V = unknown> {
  approval_id?: string;
  artifacts?: Artifact[] | null;
  cached?: boolean;
  call_id: string;
  content?: Content[] | null;
  digest?: string;
  error?: Failure;
  notices?: string[] | null;
  sandbox: SandboxUsed;
  status: Status;
  stderr: string;
  stdout: string;
  timeline: Timeline;
  timestamp?: string;
  tool: string;
  tries?: number;
  truncated?: Truncated;
  usage: Usage;
  value: V;
  workspace?: WorkspaceUse;
}

export interface Retention {
  calls_count?: number;
  calls_ms?: number;
  refused_count?: number;
  refused_ms?: number;
}

export interface Review {
  at?: string;
  by?: string;
  findings?: Finding[] | null;
  reason?: string;
  state?: string;
}

export interface RotateKeyBody {
  /** For how long the old text is good too; it ends at once if this is left out. */
  overlap_ms?: number;
}

export interface RunPlanBody {
  /** The agent that calls, by name or id. */
  agent?: string;
  background?: boolean;
  input?: unknown;
  steps: Step[] | null;
  workspace?: CallWorkspace;
}

export interface SandboxBody {
  /** Code and data of calls may leave the machine of the server, for sandboxes of this type. */
  allow_remote?: boolean;
  /** Calls for which nobody names a sandbox run in this one. */
  default?: boolean;
  description?: string;
  /** Those of tools that name none. */
  limits?: Limits;
  /** The hosts that tools may reach which name none themselves. */
  network?: string[] | null;
  /** Packages that every tool has besides its own. */
  requirements?: Requirements;
  /** Packages of calls that name the template. */
  templates?: SandboxTemplate[] | null;
}

export interface SandboxConfig {
  allow_remote?: boolean;
  created_at: string;
  default?: boolean;
  description?: string;
  id: string;
  if_revision?: string;
  limits?: Limits;
  network?: string[] | null;
  org: string;
  requirements?: Requirements;
  templates?: SandboxTemplate[] | null;
  type: SandboxType;
  updated_at: string;
}

export interface SandboxTemplate {
  created_at?: string;
  name: string;
  requirements?: Requirements;
}

export interface SandboxUsed {
  isolation: Isolation;
  provider: string;
  reason?: string;
}

export interface SchemaHealth {
  reasons?: HealthReason[] | null;
  status: string;
}

export interface SecretInfo {
  bound?: Binding;
  created_at: string;
  fingerprint: string;
  name: string;
  updated_at: string;
}

export interface Self {
  /** What the principal may do with this credential: its scope and its roles allow it. Rules and ownership decide what with. */
  actions: string[];
  /** When the credential expires; never if it is left out. */
  expires_at?: string;
  /** The principal runs the whole server. */
  operator?: boolean;
  principal: Principal;
  /** That of the server. */
  version: string;
}

export interface SendInputBody {
  /** There is no more input. */
  close?: boolean;
  cols?: number;
  /** Bytes for the command as base64, in place of text. */
  data?: string;
  /** The size of its terminal. */
  rows?: number;
  /** A signal for the command, such as SIGINT. */
  signal?: string;
  /** Text for the command. */
  text?: string;
}

export interface Session {
  busy: boolean;
  created_at: string;
  expires_at: string;
  id: string;
  idle_timeout_ms: number;
  isolation: Isolation;
  name?: string;
  org: string;
  owner: string;
  requirements?: Requirements;
  sandbox?: SandboxType;
  used_at: string;
  workspace?: SessionWorkspace;
}

export interface SessionChange {
  file: SessionFile;
  type: string;
}

export interface SessionContext {
  busy?: boolean;
  language: string;
  name: string;
  variables: SessionVariable[] | null;
}

export interface SessionDir {
  cut?: boolean;
  files: SessionFile[] | null;
}

export interface SessionFile {
  mode: number;
  modified_at: string;
  name: string;
  path: string;
  size: number;
  target?: string;
  type: string;
}

export interface SessionListBody {
  sessions: Session[] | null;
}

export interface SessionTimes {
  /** After how long without use it ends. */
  idle_seconds?: number;
  /** How long the session lives at the most, from now on. */
  timeout_seconds?: number;
}

export interface SessionVariable {
  name: string;
  text: string;
  type: string;
}

export interface SessionWorkspace {
  name: string;
  read_only?: boolean;
}

export interface SetAgentBody {
  description?: string;
  disabled?: boolean;
  /** Merged into what is there; null removes a variable. */
  env?: { [name: string]: string | null };
  instructions?: string;
  metadata?: { [name: string]: unknown };
  model?: string;
  sandbox?: string;
  tags?: string[];
  title?: string;
  tool_rules?: ToolRule[];
  tools?: string[];
  workspace?: string;
}

export interface Settings {
  audit_files?: boolean;
  cache_ms?: number;
  cacheable?: boolean;
  concurrency?: number;
  fallback?: string;
  idempotent?: boolean;
  letta?: boolean;
  limits?: Limits;
  min_isolation?: Level;
  network?: string[] | null;
  no_artifacts?: boolean;
  on_error?: Reaction[] | null;
  output?: OutputSettings;
  parallel?: boolean;
  programs?: string[] | null;
  rate?: Rate;
  requires_approval?: boolean;
  retry?: Backoff;
  roles?: string[] | null;
  sandbox?: string;
  secrets?: string[] | null;
}

export interface Step {
  after?: string[] | null;
  args?: unknown;
  id: string;
  if?: string;
  on_error?: "stop" | "continue" | "skip";
  tool: string;
}

export interface StepResult {
  call_id?: string;
  id: string;
  reason?: string;
  result?: Result;
  state: string;
}

export interface StopBody {
  /** End the calls that run; else they may finish. */
  kill?: boolean;
  /** Is told to those whose calls are refused. */
  reason?: string;
}

export interface Terms {
  agent?: string;
  binds: string;
  credentials_webhook?: boolean;
  digest: string;
  env?: Variable[] | null;
  files?: CallFile[] | null;
  limits?: Limits;
  lock?: Lock;
  min_isolation?: Level;
  more_env?: number;
  network?: string[] | null;
  network_within?: (string[] | null)[] | null;
  organisation_requirements?: Requirements;
  programs?: string[] | null;
  requirements?: Requirements;
  sandbox?: string;
  server?: TermsServer;
  workspace?: CallWorkspace;
}

export interface TermsServer {
  command?: string[] | null;
  env?: string[] | null;
  headers?: string[] | null;
  mounts?: MCPMount[] | null;
  name: string;
  network?: string[] | null;
  requirements?: Requirements;
  url?: string;
}

export interface Timeline {
  approval_ms?: number;
  cell?: string;
  execute_ms?: number;
  packages_ms?: number;
  policy_ms?: number;
  queue_ms?: number;
  serialise_ms?: number;
  setup_ms?: number;
  total_ms: number;
  validate_ms?: number;
}

export interface Tool {
  category?: string;
  created_at: string;
  disabled?: boolean;
  id: string;
  metadata?: { [name: string]: unknown };
  name: string;
  org: string;
  tags?: string[] | null;
  unavailable?: string;
  updated_at: string;
  version: Version;
}

export interface ToolCall {
  args: unknown;
  call_id?: string;
  id: string;
  malformed?: string;
  tool: string;
}

export interface ToolFile {
  content?: string;
  content_base64?: string;
  content_omitted?: boolean;
  path: string;
}

export interface ToolRule {
  args?: { [name: string]: unknown };
  child_arg_nodes?: ChildArgs[] | null;
  child_output_mapping?: { [name: string]: string };
  children?: string[] | null;
  default_child?: string;
  max_count_limit?: number;
  prompt_template?: string;
  require_output_mapping?: boolean;
  tool_name: string;
  type: RuleType;
}

export interface ToolState {
  category?: string;
  disabled?: boolean;
  if_revision?: string;
  metadata?: { [name: string]: unknown };
  review?: Answer;
  tags?: string[];
  version?: number;
}

export interface Truncated {
  artifacts?: number;
  stderr?: number;
  stdout?: number;
  value?: number;
}

export interface Turn {
  agent_id: string;
  approval_ids?: string[] | null;
  budget?: Budget;
  created_at: string;
  depth?: number;
  ended_at?: string;
  error?: string;
  id: string;
  model: string;
  parent_id?: string;
  status: TurnStatus;
  stop_reason?: string;
  usage: TurnUsage;
}

export interface TurnEvent {
  delta?: string;
  event?: CallEvent;
  message?: Message;
  notice?: string;
  result?: Result;
  thinking?: string;
  turn?: Turn;
}

export interface TurnUsage {
  cached_tokens?: number;
  cost_micros?: number;
  input_tokens: number;
  output_tokens: number;
  steps: number;
  time_ms?: number;
}

export interface Usage {
  cpu_ms: number | null;
  disk_bytes?: number;
  max_processes?: number;
  max_rss_bytes: number | null;
  network_ms?: number;
  received_bytes?: number;
  sent_bytes?: number;
  stderr_bytes?: number;
  stdout_bytes?: number;
  wall_ms: number;
}

export interface UsageSum {
  agent?: string;
  by_status: { [name: string]: number };
  cached: number;
  calls: number;
  cpu_ms: number | null;
  max_rss_bytes: number | null;
  network_ms: number;
  output_bytes: number;
  start?: string;
  tool?: string;
  user?: string;
  wall_ms: number;
}

export interface UsageSumsBody {
  data: UsageSum[];
}

export interface Variable {
  hosts?: string[] | null;
  name: string;
  origin: string;
  replaces?: string;
}

export interface Version {
  annotations?: Annotations;
  author?: string;
  created_at: string;
  description: string;
  digest: string;
  file?: string;
  files?: ToolFile[] | null;
  function?: string;
  injected?: string[] | null;
  kind: Kind;
  lock?: Lock;
  number: number;
  origin?: string;
  parameters: unknown;
  pass?: Argument[] | null;
  requirements?: Requirements;
  returns?: unknown;
  review?: Review;
  schema_health: SchemaHealth;
  server?: string;
  settings?: Settings;
  source_code?: string;
}

export interface Webhook {
  agents?: string[] | null;
  created_at: string;
  delivered_at?: string;
  description?: string;
  disabled?: boolean;
  disabled_reason?: string;
  failing_since?: string;
  failure?: string;
  id: string;
  if_revision?: string;
  org: string;
  position: number;
  tools?: string[] | null;
  types?: EventType[] | null;
  updated_at: string;
  url: string;
  users?: string[] | null;
}

export interface WebhookBody {
  /** Ids of agents; all if it is left out. */
  agents?: string[] | null;
  description?: string;
  /** It keeps its place and is sent nothing. */
  disabled?: boolean;
  /** Names of tools; all if it is left out. */
  tools?: string[] | null;
  /** Types of events; all if it is left out. */
  types?: EventType[] | null;
  /** Where to send events, with https. */
  url: string;
  /** Users; all if it is left out. */
  users?: string[] | null;
}

export interface Workspace {
  changed_at: string;
  created_at: string;
  enforced: string;
  name: string;
  origins?: string[] | null;
  quota: WorkspaceSize;
  shared?: boolean;
  used: WorkspaceSize;
}

export interface WorkspaceBody {
  /** The name of the workspace. */
  name: string;
  /** Only read it, beside other calls. Otherwise the call has it alone. */
  read_only?: boolean;
  /** Make it the working directory of the tool. */
  workdir?: boolean;
}

export interface WorkspaceChange {
  after?: number;
  before?: number;
  change: string;
  path: string;
}

export interface WorkspaceDiff {
  changes: WorkspaceChange[] | null;
  more?: boolean;
}

export interface WorkspaceEntry {
  kind: string;
  modified_at: string;
  path: string;
  size?: number;
}

export interface WorkspaceListing {
  entries: WorkspaceEntry[] | null;
  more?: boolean;
}

export interface WorkspaceSize {
  bytes?: number;
  inodes?: number;
}

export interface WorkspaceUse {
  enforced: string;
  name: string;
  quota: WorkspaceSize;
  used: WorkspaceSize;
}
