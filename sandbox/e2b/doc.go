// Package e2b runs commands in machines of E2B, or of a server that speaks its API.
//
//	Run ─ acquire ─ a machine of the same tenant and configuration, or a new one     pool.go, control.go
//	    │
//	    └ start ──► relay.py in the machine: it starts the command, carries its streams and the channel,
//	    │           sets rlimits, kills what the command leaves, and sends the files that it left  run.go, envd.go
//	    └ release ─ the machine is kept for the next run, or ended
//
// A machine serves one run at a time, and never two tenants. It lives for a short time only, which is extended
// while it is used: if Haft is gone, so are its machines soon after. Machines that no process of the same owner knows
// are ended at the start and on a timer.
//
// What E2B does to confine a machine cannot be seen from here. So the level is stated, and no control.
package e2b
