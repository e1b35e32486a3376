// Package conversation runs the turns of agents: it asks the model of an agent, makes the calls that the model wants,
// and goes on until the model has answered. [Service] implements [haft.Conversations].
//
//	sender           Service              store           model        engine
//	  │── Send ────────►│── BeginTurn ─────►│ turn, message │            │
//	  │                 │── Generate ───────────────────────►│            │
//	  │◄─ deltas ───────│◄──────────────────────── answer ───│            │
//	  │◄─ message ──────│── AdvanceTurn ───►│ assistant, with the ids of its calls
//	  │                 │── Call, with that id and its idempotency key ──►│
//	  │◄─ message ──────│── AdvanceTurn ───►│ tool            │◄── result ─│
//	  │                 │   … until an answer has no calls    │            │
//	  │◄─ turn ─────────│── AdvanceTurn ───►│ assistant, and that the turn has ended
//
// # What is promised
//
//   - What a turn does next is a function of the messages that are kept of it. So any process can go on with a turn at
//     any point: [Service] claims turns whose process has ended, and its own that no goroutine runs.
//   - No call is made twice. The id of a call is kept before the call is made, and the engine takes an id once. A call
//     that was made is waited for; the model is told of one whose outcome nobody knows.
//   - Only the owner of a turn writes to it. A process that has lost a turn learns it at its next write at the latest.
//   - Every tool call of a conversation has exactly one answer when the model is asked next, and when a turn has ended,
//     unless the memory of the agent has no room for the answers; a model is not shown calls without answers.
//   - A turn that waits for a person takes no place and no goroutine. It goes on within a second or two of the answer.
//   - Only who acts as an agent has it work: a message is refused unless the principal is the agent's. Agents send each
//     other messages by [Service.Deliver] and [Service.Reply], within a turn, over at most four agents.
//   - While an operator has stopped all calls, or the engine is about to end, no message is taken and turns pause. A
//     call that the engine refused for that reason is not answered until all goes on, here or in the next process.
//   - A turn takes what its [haft.Budget] allows, together with all turns that it begins by messages, as far as they
//     run in the same process; requests that are under way are not cut short. What a server does not say is estimated.
//   - A turn belongs to its sender. Its model gets the messages of the sender's own turns with the agent that were kept
//     before it began, and those of the turn; the memory of the agent is for all who may use it.
//   - A model is shown the images that its tools return, if it sees images. A message keeps where an image is, and the
//     sender of a turn must still be allowed to see that call when the model is asked.
//   - Whoever listens slows nothing down. A listener that is slow misses pieces of text, and no message that is kept.
//
// The time of a [haft.Budget] is that in which models and calls work for the turn; waiting for a person does not count.
// Each user has one turn of an agent at a time. So an agent that is asked by another one cannot ask back: it gets a
// conflict, and answers without.
package conversation
