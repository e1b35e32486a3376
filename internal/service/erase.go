package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/authority"
	"haft/internal/filestore"
	"haft/internal/pause"
	"haft/internal/store"
	"haft/internal/workspace"
)

// eraseWait is how long the calls of somebody may take to end who is erased.
const eraseWait = 30 * time.Second

// A DataManager gives out and erases what is kept of a user or an organisation.
type DataManager struct {
	*base
	tools      *ToolManager
	agents     *AgentManager
	approvals  *ApprovalManager
	servers    *ServerManager
	sandboxes  *SandboxManager
	files      *filestore.Store
	workspaces *workspace.Store
}

// subject returns whose data is meant, if p may do that to it.
func (d *DataManager) subject(p haft.Principal, a haft.Action, of haft.Subject) (haft.Subject, error) {
	of.Org = cmp.Or(of.Org, p.Org)
	return of, d.authority.Authorize(p, a, authority.Resource{Server: of.Org != p.Org})
}

// Erase implements [haft.Eraser].
func (d *DataManager) Erase(ctx context.Context, p haft.Principal, of haft.Subject) (*haft.Erasure, error) {
	of, err := d.subject(p, haft.DataErase, of)
	if err != nil {
		return nil, err
	}
	if !d.store.Shared() { // the next start rewrites the files of the store, unless this does
		if err := d.store.Settings.PutSetting(ctx, store.ScrubDue, "1"); err != nil {
			return nil, err
		}
	}
	done := &haft.Erasure{ID: "er_" + rand.Text()}
	if err := d.memory.TakeTurns(ctx, of.Org, of.User); err != nil { // else agents go on to make calls
		return nil, err
	}
	if done.Cancelled, err = d.endCalls(ctx, of); err != nil {
		return nil, err
	}
	if done.Entries, err = d.eraseEntries(ctx, p, of, done.ID); err != nil {
		return nil, err
	}
	if err := d.eraseKept(ctx, of); err != nil {
		return nil, err
	}
	if err := d.changes.AnnounceChange(ctx, of.Org); err != nil {
		return nil, err
	}
	// Rewriting the files keeps every organisation waiting: that is the operator's to decide.
	if !d.authority.Operates(p) {
		return done, nil
	}
	if err := d.store.Scrub(ctx); err != nil {
		return nil, err
	}
	return done, d.store.Settings.PutSetting(ctx, store.ScrubDue, "")
}

// eraseKept removes what the store has of a subject, and ends sessions with MCP servers,
// which hold logins in memory.
func (d *DataManager) eraseKept(ctx context.Context, of haft.Subject) error {
	var kinds []string
	var servers []haft.MCPServer
	if d.cfg.Upstream != nil {
		kinds = d.cfg.Upstream.Kinds()
		for s, err := range d.servers.MCPServerList(ctx, d.anyManager(of.Org)) {
			if err != nil {
				return err
			}
			servers = append(servers, s)
		}
	}
	err := cmp.Or(d.files.Erase(ctx, of.Org, of.User), d.workspaces.Erase(ctx, of.Org, of.User))
	if err != nil {
		return err
	}
	if of.User != "" {
		err = d.store.Erasure.EraseUser(ctx, of.Org, of.User, kinds)
	} else if err = d.store.Erasure.EraseOrg(ctx, of.Org); err == nil {
		err = d.store.Settings.PutSetting(ctx, retentionSetting(of.Org), "")
	}
	if err == nil { // with the agents of an organisation gone, nobody adds to what they remember
		err = d.memory.Erase(ctx, of.Org, of.User)
	}
	for _, s := range servers {
		d.cfg.Upstream.Drop(s)
	}
	return err
}

// endCalls cancels the calls of a subject, and waits until those have ended that were made
// before. Others may go on to be made: they are none that had to be erased.
func (d *DataManager) endCalls(ctx context.Context, of haft.Subject) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, eraseWait)
	defer cancel()
	open := haft.CallFilter{Org: of.Org, User: of.User, Until: time.Now(),
		Status: []haft.Status{haft.StatusQueued, haft.StatusRunning, haft.StatusPending}, Limit: 1}
	for n := 0; ; {
		m, err := d.operator.CancelAll(ctx, d.anyManager(of.Org), haft.Principal{Org: of.Org, User: of.User})
		if err != nil && haft.CodeOf(err) != haft.CodeUnavailable { // what runs elsewhere is waited for
			return n, err
		}
		n += m
		list, err := d.store.Calls.Records(ctx, open)
		if err != nil || len(list) == 0 {
			return n, err
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return n, &haft.Error{Code: haft.CodeUnavailable,
				Message: "calls still run, perhaps on another server: nothing was erased; try again", Err: err}
		}
	}
}

// anyManager is a manager of an organisation, who sees all of it and no value of a secret.
func (d *DataManager) anyManager(org string) haft.Principal {
	roles := d.cfg.Rules.Managers
	if len(roles) == 0 {
		roles = []string{haft.RoleAdmin}
	}
	return haft.Principal{Org: org, User: "haft", Roles: roles}
}

// about returns which entries of the audit are about the calls of a subject, or about all
// that the subject did.
func (d *DataManager) about(ctx context.Context, of haft.Subject, all bool) (func(audit.Entry) bool, error) {
	ofCall := func(entry audit.Entry) bool { return strings.HasPrefix(entry.Kind, "call.") }
	if of.User == "" {
		return func(entry audit.Entry) bool { return all || entry.Call != "" || ofCall(entry) }, nil
	}
	calls := map[haft.CallID]bool{}
	for entry, err := range d.store.Audit.Trail(ctx, of.Org) {
		if err != nil {
			return nil, err
		}
		if entry.Actor.User == of.User && ofCall(entry) {
			calls[entry.Call] = true
		}
	}
	delete(calls, "")
	return func(entry audit.Entry) bool {
		return calls[entry.Call] || entry.Actor.User == of.User && (all || ofCall(entry))
	}, nil
}

// erasedAtOnce is how many entries of the audit lose their content in one transaction:
// others wait for it, about 50 ms.
const erasedAtOnce = 10_000

// eraseEntries takes the content of the entries of the audit about a subject, and returns of
// how many. Each transaction adds an entry that vouches for its part, so the log is sound
// wherever this ends. Those that say what was erased before stay. So does, unless the operator
// of the server erases, what somebody managed or approved: managers do not remove the traces
// of what they did.
func (d *DataManager) eraseEntries(ctx context.Context, p haft.Principal, of haft.Subject, id string) (int64, error) {
	about, err := d.about(ctx, of, d.authority.Operates(p))
	if err != nil {
		return 0, err
	}
	var n int64
	var part []audit.Entry
	parts := 0
	erase := func() error {
		parts++
		n += int64(len(part))
		err := d.erasePart(ctx, p, of, fmt.Sprintf("%s.%d", id, parts), part)
		part = part[:0]
		return err
	}
	for entry, err := range d.store.Audit.Trail(ctx, of.Org) {
		if err == nil && entry.Erased == "" && entry.Kind != audit.ErasedKind && about(entry) {
			if part = append(part, entry); len(part) == erasedAtOnce {
				err = erase()
			}
		}
		if err != nil {
			return n, err
		}
	}
	if len(part) > 0 || parts == 0 { // also where nothing was found somebody asked for it
		if err := erase(); err != nil {
			return n, err
		}
	}
	return n, d.store.Erasure.DropAuditIndex(ctx, of.Org)
}

// erasePart takes the content of some entries, and adds the one that vouches for that.
func (d *DataManager) erasePart(ctx context.Context, p haft.Principal, of haft.Subject, id string,
	part []audit.Entry) error {
	var eraser audit.Eraser
	seqs := make([]int64, len(part))
	for i, entry := range part {
		eraser.Add(entry)
		seqs[i] = entry.Seq
	}
	body, err := json.Marshal(struct {
		audit.Erased
		Of string `json:"of"`
	}{eraser.Erased(id), subjectKind(of)})
	if err != nil {
		return fmt.Errorf("encode an entry of the audit: %w", err)
	}
	entry := audit.Entry{Org: of.Org, Time: time.Now(), Kind: audit.ErasedKind, Actor: p, Body: body}
	return d.store.Erasure.EraseAudit(ctx, id, entry, seqs)
}

// subjectKind says of what kind a subject is; the audit must not name it again.
func subjectKind(of haft.Subject) string {
	if of.User != "" {
		return "user"
	}
	return "organisation"
}
