// Package mcpserver is the MCP endpoint: it makes the tools of a [haft.Service] tools of
// a Model Context Protocol server, over stdio and over streamable HTTP.
//
//	client ─► transport ─► view ─► Service
//	          both wires    what this caller sees: its tools, its artifacts
//
// A [Server] has a view for each [Caller]: an MCP server of the official SDK whose
// tools are looked up when they are asked for. Sessions, notifications, artifacts
// and cursors belong to a view, so that tenants cannot reach each other's.
//
// # Guarantees
//
//   - A caller is given by the transport, see [Caller], and never by a message.
//   - A tool that fails is a result with isError; what is wrong with the message is
//     an error of JSON-RPC. Both have the words of [haft.Error], and repeat nothing.
//   - A request that is cancelled cancels its call.
//   - A call that waits for a person asks the person at the client, if the client can
//     ask and policy lets that person answer. Else the result says how to go on.
//   - The id of a session is of no use to another caller: it names the caller that it was
//     made for, and the answer to others is that there is no such session.
//   - Messages, sessions, lists and what is shown of results are bounded.
//
// Both generations of the protocol are spoken: sessions (up to 2025-11-25) and the
// stateless one (2026-07-28). On HTTP the headers of a request distinguish them.
//
// [Server.Handler] does not check Host and Origin. Package server, which calls it, does
// (DNS rebinding).
package mcpserver
