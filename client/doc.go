// Package client is the service of a Haft server, over HTTP.
//
// A [Client] implements [haft.Service], as the engine does: it makes calls and manages tools,
// agents and approvals. Its fields manage the rest, each one kind of resource: [Client.Keys],
// [Client.Secrets], [Client.Policies], [Client.Webhooks] and so on. [Client.Memory] and
// [Client.Conversations] are what agents remember, and what is said to them. Methods give the answers that
// the engine behind the server gives, and errors with the same [haft.Code] and misfits.
//
//	c, err := client.New(client.Config{URL: "https://haft.example.com", Key: key})
//	…
//	res, err := c.Call(ctx, haft.Call{Tool: "forecast", Args: args})
//	hook, err := c.Webhooks.Webhook(ctx, haft.Principal{}, id)
//
// # Who is asking
//
// Only the key says who asks. Methods take a principal because [haft.Service] does: the zero
// principal means that of the key, and any other must be that of the key, or the request is not
// sent. Only the agent may differ: the key must then be allowed to act as that agent.
//
// # Guarantees
//
//   - A request is repeated only if that does no harm: requests that only read, and
//     calls with an idempotency key. If the client cannot know whether the server did
//     what was asked, the error wraps [ErrMaybeDone].
//   - A key is sent only to the configured address: redirects are not followed.
//     Over a connection that others can read, requests are signed with the key,
//     which is not sent.
//   - Answers are bounded, and so are the lines of streams.
//   - A watch whose connection is cut goes on after the last event: no event is lost or
//     repeated, or the error says that events are no longer kept.
package client
