// Package webhook sends events to where organisations want them: webhooks.
//
// A [Sender] reads the log of events for each webhook from the webhook's position, and posts
// the events that match it. Requests are signed as in Standard Webhooks
// (https://www.standardwebhooks.com): a receiver that has the secret can verify the sender
// and the time.
//
//	log of events ─► page ─► by call, some at once ─► POST ─► 2xx: done
//	      ▲                                            │ else: wait longer, again
//	      └── position, in the store ◄── whole page ───┘ too often: a dead letter
//
// # Guarantees
//
//   - At least once: the place of a webhook is in the store, and moves when all up
//     to there is received or dead. After a crash some are sent again, with the
//     same id.
//   - In order within a call: an event is sent when the one before it was received
//     or is dead.
//   - A receiver that is away or slow costs others nothing: failed deliveries wait longer
//     and longer, and use no resources that other webhooks need.
//   - Nothing is lost in silence: what cannot be delivered is a dead letter, which
//     can be sent again; a webhook that fails for too long is disabled, which the
//     log, the audit and the webhook itself say.
//   - Receivers are reached through the given client, which restricts the addresses.
//     Redirects are not followed, answers are not kept.
//
// Several processes may share a store: a lease says who delivers for a webhook.
package webhook
