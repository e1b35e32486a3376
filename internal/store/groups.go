package store

// The types below are the tables of a store by what they are about. Each has its methods in the file
// of that name; all of them write in transactions of the same store.
type (
	// Tools are tools with their versions, words for searching them, and locks of packages.
	Tools struct{ db *Store }
	// Agents are agents with their variables.
	Agents struct{ db *Store }
	// Policies are the texts of policies.
	Policies struct{ db *Store }
	// Sandboxes are sandbox configurations of organisations.
	Sandboxes struct{ db *Store }
	// MCPServers are the MCP servers of organisations.
	MCPServers struct{ db *Store }
	// Calls are records of calls, and idempotency keys, which name one.
	Calls struct{ db *Store }
	// Chains are chains of calls.
	Chains struct{ db *Store }
	// Approvals are requests for approval.
	Approvals struct{ db *Store }
	// Processes are the processes that share a store, and whose calls are whose.
	Processes struct{ db *Store }
	// Events are what happened to calls, in order.
	Events struct{ db *Store }
	// Audit is the audit log with its checkpoints.
	Audit struct{ db *Store }
	// Erasure removes what is kept of a user or an organisation.
	Erasure struct{ db *Store }
	// Keys are the keys of callers.
	Keys struct{ db *Store }
	// Secrets are sealed variables and the keyset that they are sealed with.
	Secrets struct{ db *Store }
	// Webhooks are webhooks with what could not be delivered.
	Webhooks struct{ db *Store }
	// Settings are settings of the server, marks of changes, and leases.
	Settings struct{ db *Store }
	// Limits are the states of rates and quotas.
	Limits struct{ db *Store }
	// Cache has values of tools that give the same value each time.
	Cache struct{ db *Store }
)

// group makes the tables of a store.
func (s *Store) group() {
	s.Tools, s.Agents, s.Policies = Tools{s}, Agents{s}, Policies{s}
	s.Sandboxes, s.MCPServers, s.Calls = Sandboxes{s}, MCPServers{s}, Calls{s}
	s.Chains, s.Approvals, s.Processes = Chains{s}, Approvals{s}, Processes{s}
	s.Events, s.Audit, s.Erasure = Events{s}, Audit{s}, Erasure{s}
	s.Keys, s.Secrets, s.Webhooks = Keys{s}, Secrets{s}, Webhooks{s}
	s.Settings, s.Limits, s.Cache = Settings{s}, Limits{s}, Cache{s}
}
