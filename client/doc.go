// Package client is the service of a Haft server, over HTTP.
//
// A [Client] implements [haft.Service], as the engine does, and besides it what
// the operator of a server asks for: policies, keys, secrets, the audit. Its
// methods give the answers that the engine behind the server gives, and errors
// with the same [haft.Code] and misfits.
//
//	c, err := client.New(client.Config{URL: "https://haft.example.com", Key: key})
//	…
//	res, err := c.Call(ctx, haft.Call{Tool: "forecast", Args: args})
//
// # Who is asking
//
// Who somebody is says the key and nothing else. Methods take a principal because
// [haft.Service] does: the zero principal means that of the key, and any other must
// be that of the key, or the request is not sent. Only the agent may differ: a key
// that may act as an agent is then asked to.
//
// # What is promised
//
//   - A request is repeated only where that does no harm: those that only look, and
//     calls with an idempotency key. If it cannot be known whether something was
//     done, the error wraps [ErrMaybeDone].
//   - A key is sent only to the address that was given: redirects are not followed.
//     Over a connection that others can read, requests are signed with the key,
//     which is not sent.
//   - Answers are bounded, and so are the lines of streams.
//   - A watch that is cut goes on after the last event it got: nothing is lost or
//     repeated, or the error says that events are no longer kept.
package client
