// Package server is the HTTP API: it turns requests into calls of a
// [haft.Service] and answers into JSON.
//
// A [Server] knows the vocabulary of the root and nothing of what is behind it. It
// is given a service, an [Authenticator], and in [Config] what else it may offer:
// policies, the forms of model vendors, the audit, measures. What it is not given
// it answers with [haft.CodeNotFound].
//
//	request ─► host, origin ─► route ─► authenticate ─► may? ─► body ─► handler ─► Service
//	           id, log, panic           Identity        action  bounded  typed      decides
//
// # What is promised
//
//   - A principal comes from the authenticator and from nowhere else. No body, path
//     or header names an organisation, a user, a role or the id of a new call. A
//     body, or as in a query, may name an agent only if the credential may act as it.
//   - Nothing of a body is read before its sender is known, and never more than
//     [Config.MaxBody].
//   - Errors are RFC 9457 problem details with our codes ([Problem]). They say where
//     a request does not fit by JSON Pointer and never repeat a value.
//   - What belongs to another organisation is not there: 404, as for what never was.
//   - Requests whose Host is not ours are refused, and so are those that a page of
//     another origin sends: a name that is pointed at a loopback address by somebody
//     else's DNS (rebinding) reaches nothing. There is no CORS and no cookie.
//   - Streams of events resume after a cursor without loss or repetition, or say that
//     events are gone. A reader that is too slow is told and dropped.
//   - The log has methods, routes, sizes and ids; never arguments, values or queries.
//
// The document at /openapi.json is made from the Go types that the handlers take
// and return, and a test pins it.
package server
