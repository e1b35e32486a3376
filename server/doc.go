// Package server is the HTTP API: it turns requests into calls of a
// [haft.Service] and answers into JSON.
//
// A [Server] depends on interfaces only. It is given a service, an [Authenticator], and in
// [Config] the parts that not every server has, such as policies, the audit and metrics.
// Operations on a part that it was not given answer [haft.CodeNotFound].
//
//	request ─► host, origin ─► route ─► authenticate ─► may? ─► body ─► handler ─► Service
//	           id, log, panic           Identity        action  bounded  typed      decides
//
// # Guarantees
//
//   - A principal comes from the authenticator and from nowhere else. No body, path
//     or header names an organisation, a user, a role or the id of a new call. A
//     body, or as in a query, may name an agent only if the credential may act as it.
//   - Nothing of a body is read before its sender is known, and never more than
//     [Config.MaxBody].
//   - Errors are RFC 9457 problem details with our codes ([Problem]). They say where
//     a request does not fit by JSON Pointer and never repeat a value.
//   - A resource of another organisation is answered with 404, as if it did not exist.
//   - Requests for another Host are refused, and so are requests that a page of another
//     origin sends: DNS rebinding, a foreign name that points at a loopback address,
//     reaches nothing. There is no CORS and no cookie.
//   - Streams of events resume after a cursor without loss or repetition, or say that
//     events are gone. A reader that is too slow gets an error and is disconnected.
//   - The log has methods, routes, sizes and ids; never arguments, values or queries.
//
// The document at /openapi.json is made from the Go types that the handlers take
// and return, and a test pins it.
package server
