// Package session keeps sandboxes that live for many commands.
//
// A [Session] is one sandbox with an agent in it, a program of Haft that is as confined as
// the code that it starts. The agent starts commands and code contexts, and reads and
// writes files, because the host asks it to, over one channel:
//
//	host                                                   agent
//	  │ {"id":7,"op":"exec","argv":[…]} ─────────────────► │ starts it
//	  │ ◄──────────────── {"id":7,"event":"started",…} ─── │
//	  │ ◄──────────────── data of 7: what it prints ────── │
//	  │ {"id":7,"op":"read_by","n":…} ───────────────────► │ may send as much again
//	  │ data of 7: what it is to read ───────────────────► │
//	  │ ◄──────────────── {"id":7,"event":"exited",…} ──── │
//
// The code of a session can do whatever its agent can, and can be its agent. So nothing
// that comes from the channel is trusted: a message that breaks the protocol or its bounds
// ends the session, and what it says is only about the session itself.
//
// A [Manager] has the sessions of a server. Each belongs to one principal and ends after
// a time, when it was not used for a while, or with the server.
package session
