// Package upstream runs tools of other people's MCP servers.
//
// A [Pool] keeps one session for each organisation, server and set of credentials:
// with a command that runs in a sandbox and is spoken to on its standard streams,
// or with an address over streamable HTTP or SSE. Sessions are made when they are
// needed first, shared by the calls of whoever has the same credentials, and
// closed when nobody has used them for a while.
//
//	Execute ─► Directory: what the server is ─► templates filled in ─► session ─► tools/call
//	                                               of the call's variables    │
//	                                           none: connect, once for all who wait
//	                                           failed of late: refused until the backoff is over
//
// # What is promised
//
//   - A server that hangs, floods, lies or dies is alone with it: every wait has an
//     end, every size a bound, and each server has a circuit of its own.
//   - Whose fault it was is told: the tool's (it said so), the protocol's (the server
//     did not speak it), the network's (it could not be reached). A call whose
//     connection broke after it was sent may have run, and is not repeated.
//   - A call that is cancelled is cancelled there: the server is told, and a command
//     that does not answer any more is ended.
//   - What people were granted by OAuth is theirs: nobody else's call uses it.
//
// The protocol itself is the official SDK's.
package upstream
