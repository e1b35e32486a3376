// Package letta is the API for those who come from Letta: it speaks the part of
// its REST API that is about tools, agents, their memory and their messages, so that
// its clients work unchanged with their base URL set to /letta of this server.
//
//	client = Letta(base_url="http://127.0.0.1:7717/letta", api_key=KEY)
//
// An [API] turns requests into calls of a [haft.Service] and answers into Letta's
// shapes: bare arrays that page by the id of their last item and end, errors with a
// detail, and a tool that fails as 200 with the status "error", because its clients
// send every 5xx a second time. Nothing is decided here: keys, policies, limits,
// approvals and the audit are those of every API.
//
// # Messages
//
// A run is a turn of [haft.Conversations]. A flow makes Letta's messages of the events of
// a turn, for answers and for streams alike. A turn that waits for a person ends the
// answer; the message that approves goes on with the same turn.
//
// # Ids
//
// Ids of blocks, passages, messages and runs are those of Haft. Letta's are a word and a UUID.
// Those of tools and agents are the ids of
// Haft written as a UUID, and can be read back; nothing is kept of them. What has an
// id of another form, such as a built-in tool, has a UUID made of its digest, and is
// found by looking at those that there are.
//
// docs/letta.md says what differs from Letta, and why.
package letta
