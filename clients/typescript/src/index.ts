/**
 * Client of a Haft server: registers TypeScript functions as tools, and runs them in its
 * sandboxes.
 *
 * @packageDocumentation
 */

export { type CallFilter, type CallOptions, type Calls, type Chains, type NewBatchCall, type Output, type WaitOptions, valueOf } from "./calls.js";
export type { MessageFilter, Messages, SendOptions, TurnFilter, TurnWatchOptions, Turns } from "./conversations.js";
export {
  CallError,
  ConflictError,
  DeniedError,
  type ErrorDetails,
  HaftError,
  InternalError,
  InvalidError,
  NotFoundError,
  RateLimitedError,
  ReviewError,
  SignatureError,
  SourceError,
  TimeoutError,
  UnauthenticatedError,
  UnavailableError,
} from "./errors.js";
export type { EventFilter, Events, WatchOptions } from "./events.js";
export type { ArtifactContent, FileLike, Files, FilesLike, Upload, UploadOptions } from "./files.js";
export { Haft, type HaftOptions, type ToolAnswers, type ToolCallsOptions, type UsageQuery } from "./haft.js";
export type { BlockFilter, Blocks, PassageFilter, Passages } from "./memory.js";
export type { Outcome } from "./outcome.js";
export type { ListOptions } from "./page.js";
export type { AgentFilter, Agents, ApprovalFilter, Approvals, Audit, Keys, SecretOptions, Secrets, Webhooks } from "./resources.js";
export type { Decision, MCPServers, Policies, Policy, PolicyOf, PutPolicyOptions, SandboxConfigs } from "./rules.js";
export type * from "./schemas.js";
export type { CodeError, CodeOptions, CodeResult, CodeShown, Command, CommandOptions, Input, OpenSession, SessionFiles, Sessions, StartOptions } from "./sessions.js";
export type { Json, RemoteTool, ToolSettings, ToolsOf } from "./tool.js";
export type { Format, Schemas, SchemasOptions, ToolFilter, Tools } from "./tools.js";
export { type AISDK, type AISDKTool, type LangChain, ModelTool, ToolError, type ToolLike, Toolset, type ToolsetOptions } from "./toolset.js";
export type { Answer, Parameter, Query, RequestOptions } from "./transport.js";
export type { NewWorkspaceOptions, WorkspaceLike, Workspaces } from "./workspaces.js";
export { type VerifyOptions, type WebhookHeaders, type WebhookMessage, verifyWebhook } from "./webhook.js";
