package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"haft"
	"haft/audit"
	"haft/event"
)

var errUnwritten = errors.New("not written yet")

// Commit keeps all of b or nothing of it. It is durable when it returns.
func (s *Store) Commit(ctx context.Context, b Batch) error { return errUnwritten }

// PutTool adds a tool, or a version to the tool of that name.
func (s *Store) PutTool(ctx context.Context, t haft.Tool, opts PutOptions) (put haft.Tool, created, same bool, err error) {
	return t, false, false, errUnwritten
}

// Tool returns the tool of that name or id with its current version.
func (s *Store) Tool(ctx context.Context, org, ref string) (*haft.Tool, error) {
	return nil, errUnwritten
}

// ToolStamp tells whether a tool has changed.
func (s *Store) ToolStamp(ctx context.Context, org, ref string) (id haft.ToolID, number int, updated time.Time, err error) {
	return "", 0, time.Time{}, errUnwritten
}

// Version returns one version of a tool.
func (s *Store) Version(ctx context.Context, org string, id haft.ToolID, number int) (*haft.Version, error) {
	return nil, errUnwritten
}

// VersionByDigest returns the newest version with that digest.
func (s *Store) VersionByDigest(ctx context.Context, org string, id haft.ToolID, digest string) (*haft.Version, error) {
	return nil, errUnwritten
}

// Versions lists versions, newest first.
func (s *Store) Versions(ctx context.Context, org string, id haft.ToolID, before, limit int) ([]haft.Version, error) {
	return nil, errUnwritten
}

// SetTool changes a tool.
func (s *Store) SetTool(ctx context.Context, org string, id haft.ToolID, change func(*haft.Tool) error) (*haft.Tool, error) {
	return nil, errUnwritten
}

// SetReview keeps what was said to a version, and makes it current if activate is true.
func (s *Store) SetReview(ctx context.Context, org string, id haft.ToolID, number int, r haft.Review, activate bool) (*haft.Tool, error) {
	return nil, errUnwritten
}

// RemoveTool removes a tool with its versions.
func (s *Store) RemoveTool(ctx context.Context, org string, id haft.ToolID) error { return errUnwritten }

// Tools lists tools.
func (s *Store) Tools(ctx context.Context, org string, f haft.ToolFilter) ([]haft.Tool, error) {
	return nil, errUnwritten
}

// SearchTools finds tools by words.
func (s *Store) SearchTools(ctx context.Context, org, text string, limit int) ([]haft.Tool, error) {
	return nil, errUnwritten
}

// Record returns what is kept of a call, with what is sealed.
func (s *Store) Record(ctx context.Context, org string, id haft.CallID) (*haft.Record, error) {
	return nil, errUnwritten
}

// Records lists calls, newest first.
func (s *Store) Records(ctx context.Context, f haft.CallFilter) ([]haft.Record, error) {
	return nil, errUnwritten
}

// Turn lists the calls of a turn.
func (s *Store) Turn(ctx context.Context, org, agent, turn string) ([]haft.Record, error) {
	return nil, errUnwritten
}

// Open lists the calls that are not final.
func (s *Store) Open(ctx context.Context, owner string, limit int) ([]haft.Record, error) {
	return nil, errUnwritten
}

// Claim takes an idempotency key.
func (s *Store) Claim(ctx context.Context, org, scope, key, digest string, id haft.CallID, now time.Time) (winner haft.CallID, same bool, err error) {
	return "", false, errUnwritten
}

// Release gives an idempotency key back.
func (s *Store) Release(ctx context.Context, org, scope, key string, id haft.CallID) error {
	return errUnwritten
}

// PruneClaims forgets keys.
func (s *Store) PruneClaims(ctx context.Context, before time.Time) (int, error) {
	return 0, errUnwritten
}

// Beat says that a process lives.
func (s *Store) Beat(ctx context.Context, owner string, now time.Time) error { return errUnwritten }

// Dead lists processes.
func (s *Store) Dead(ctx context.Context, before time.Time) ([]string, error) {
	return nil, errUnwritten
}

// Bury forgets a process.
func (s *Store) Bury(ctx context.Context, owner string) error { return errUnwritten }

// Adopt takes calls over.
func (s *Store) Adopt(ctx context.Context, from, to string, ids []haft.CallID) (int, error) {
	return 0, errUnwritten
}

// Approval returns one.
func (s *Store) Approval(ctx context.Context, org string, id haft.ApprovalID) (*haft.Approval, error) {
	return nil, errUnwritten
}

// ApprovalOf returns the latest of a call.
func (s *Store) ApprovalOf(ctx context.Context, org string, call haft.CallID) (*haft.Approval, error) {
	return nil, errUnwritten
}

// PendingApprovals lists those that wait, oldest first.
func (s *Store) PendingApprovals(ctx context.Context, org string, after haft.ApprovalID, limit int) ([]haft.Approval, error) {
	return nil, errUnwritten
}

// ExpiredApprovals lists those of all organisations that wait although their time is over.
func (s *Store) ExpiredApprovals(ctx context.Context, now time.Time, limit int) ([]haft.Approval, error) {
	return nil, errUnwritten
}

// MoveApproval replaces an approval if its state is from.
func (s *Store) MoveApproval(ctx context.Context, org string, id haft.ApprovalID, from haft.ApprovalState, next haft.Approval) error {
	return errUnwritten
}

// AuditEntries lists entries in order.
func (s *Store) AuditEntries(ctx context.Context, org string, after int64, limit int) ([]audit.Entry, error) {
	return nil, errUnwritten
}

// AuditHead returns where a chain stands.
func (s *Store) AuditHead(ctx context.Context, org string) (audit.Head, error) {
	return audit.Head{}, errUnwritten
}

// AuditOrgs lists the organisations that have a chain.
func (s *Store) AuditOrgs(ctx context.Context) ([]string, error) { return nil, errUnwritten }

// PutCheckpoint keeps a checkpoint.
func (s *Store) PutCheckpoint(ctx context.Context, c audit.Checkpoint) error { return errUnwritten }

// Checkpoints lists checkpoints in order.
func (s *Store) Checkpoints(ctx context.Context, org string, after int64, limit int) ([]audit.Checkpoint, error) {
	return nil, errUnwritten
}

// EventsAfter lists events.
func (s *Store) EventsAfter(ctx context.Context, f event.Filter, after int64, limit int) ([]haft.Event, error) {
	return nil, errUnwritten
}

// LastEvents says where the events stand.
func (s *Store) LastEvents(ctx context.Context, calls []haft.CallID) (cursor int64, seqs map[haft.CallID]int64, err error) {
	return 0, nil, errUnwritten
}

// PruneEvents forgets old events.
func (s *Store) PruneEvents(ctx context.Context, before time.Time) (int, error) {
	return 0, errUnwritten
}

// PutAgent adds an agent, or replaces the one of that name.
func (s *Store) PutAgent(ctx context.Context, a haft.Agent) (*haft.Agent, error) {
	return nil, errUnwritten
}

// Agent returns the agent of that name or id.
func (s *Store) Agent(ctx context.Context, org, ref string) (*haft.Agent, error) {
	return nil, errUnwritten
}

// Agents lists agents by name.
func (s *Store) Agents(ctx context.Context, org, after string, limit int) ([]haft.Agent, error) {
	return nil, errUnwritten
}

// RemoveAgent removes the agent of that name or id.
func (s *Store) RemoveAgent(ctx context.Context, org, ref string) error { return errUnwritten }

// Limits returns the states that are kept of keys.
func (s *Store) Limits(ctx context.Context, keys []string) ([]LimitState, error) {
	return nil, errUnwritten
}

// Cached returns a value.
func (s *Store) Cached(ctx context.Context, org, key string, now time.Time) (json.RawMessage, bool, error) {
	return nil, false, errUnwritten
}

// PutCached keeps a value.
func (s *Store) PutCached(ctx context.Context, org, key string, raw json.RawMessage, now, expires time.Time) error {
	return errUnwritten
}

// PruneCached forgets values.
func (s *Store) PruneCached(ctx context.Context, now time.Time) (int, error) { return 0, errUnwritten }

// Chain returns a chain.
func (s *Store) Chain(ctx context.Context, org string, id haft.ChainID) (*haft.Chain, error) {
	return nil, errUnwritten
}

// OpenChains lists chains that are not final.
func (s *Store) OpenChains(ctx context.Context, limit int) ([]haft.Chain, error) {
	return nil, errUnwritten
}

// Policy returns the policy of an organisation; "" is the server's.
func (s *Store) Policy(ctx context.Context, org string) (text []byte, updated time.Time, err error) {
	return nil, time.Time{}, errUnwritten
}

// PutPolicy replaces a policy.
func (s *Store) PutPolicy(ctx context.Context, org string, text []byte, author string, now time.Time) error {
	return errUnwritten
}

// Setting returns a setting, or "".
func (s *Store) Setting(ctx context.Context, key string) (string, error) { return "", errUnwritten }

// PutSetting keeps a setting.
func (s *Store) PutSetting(ctx context.Context, key, value string) error { return errUnwritten }
