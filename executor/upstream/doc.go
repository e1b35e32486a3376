// Package upstream calls tools of other people's MCP servers.
//
// A [Pool] keeps one session for each organisation, server and set of credentials.
// A server is either a command, which runs in a sandbox and is spoken to over its
// standard streams, or an address that is reached over streamable HTTP or SSE. The
// pool opens a session on first use, shares it between callers with the same
// credentials, and closes it when it has been idle for a while.
//
//	Execute ─► Directory: find the server ─► fill in its templates ─► session ─► tools/call
//	                                          from the call's variables  │
//	                              no session: connect, once for all waiting callers
//	                              failed recently: fail fast until the backoff is over
//
// # What is promised
//
//   - A server that hangs, floods, lies or dies harms nobody else: every wait ends,
//     every size is bounded, and each server has its own circuit breaker.
//   - An error says whose fault it is: the tool's (it reported an error), the
//     protocol's (the server does not speak MCP) or the network's (the server cannot be
//     reached). A call whose connection broke after it was sent may have run, and is
//     not repeated.
//   - A cancelled call is cancelled at the server, too. A command that no longer
//     answers is ended.
//   - An OAuth grant is used only for calls of the person who granted it.
//
// The official SDK implements the protocol itself.
package upstream
