// Package webhook sends events to where organisations want them: webhooks.
//
// A [Sender] reads the log of events for each webhook from the place where it
// stands, and posts those that it is for. Requests are signed as Standard Webhooks
// has it (https://www.standardwebhooks.com): whoever has the secret can tell that
// they are ours, and that they are new.
//
//	log of events ─► page ─► by call, some at once ─► POST ─► 2xx: done
//	      ▲                                            │ else: wait longer, again
//	      └── position, in the store ◄── whole page ───┘ too often: a dead letter
//
// # What is promised
//
//   - At least once: the place of a webhook is in the store, and moves when all up
//     to there is received or dead. After a crash some are sent again, with the
//     same id.
//   - In order within a call: an event is sent when the one before it was received
//     or is dead.
//   - A receiver that is away or slow costs others nothing: those that fail wait
//     longer and longer, and what they are tried with is not what others need.
//   - Nothing is lost in silence: what cannot be delivered is a dead letter, which
//     can be sent again; a webhook that fails for too long is disabled, which the
//     log, the audit and the webhook itself say.
//   - Receivers are reached through the client that is given, which knows where one
//     may connect to. Redirects are not followed, answers are not kept.
//
// Several processes may share a store: a lease says who delivers for a webhook.
package webhook
