package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"haft"
	"haft/audit"
	"haft/authority"
)

// eraseWait is how long the calls of somebody may take to end who is erased.
const eraseWait = 30 * time.Second

var _ haft.Eraser = (*Engine)(nil)

// subject returns whose data is meant, if p may do that to it.
func (e *Engine) subject(p haft.Principal, a haft.Action, of haft.Subject) (haft.Subject, error) {
	of.Org = cmp.Or(of.Org, p.Org)
	return of, e.Authorize(p, a, authority.Resource{Server: of.Org != p.Org})
}

// Erase implements [haft.Eraser].
func (e *Engine) Erase(ctx context.Context, p haft.Principal, of haft.Subject) (*haft.Erasure, error) {
	of, err := e.subject(p, haft.DataErase, of)
	if err != nil {
		return nil, err
	}
	done := &haft.Erasure{ID: newID("er_")}
	if done.Cancelled, err = e.endCalls(ctx, of); err != nil {
		return nil, err
	}
	list, said, err := e.erased(ctx, of, done.ID)
	if err != nil {
		return nil, err
	}
	done.Entries = said.Entries
	body, err := json.Marshal(struct {
		audit.Erased
		Of string `json:"of"`
	}{said, subjectKind(of)})
	if err != nil {
		return nil, fmt.Errorf("encode an entry of the audit: %w", err)
	}
	entry := audit.Entry{Org: of.Org, Time: time.Now(), Kind: audit.ErasedKind, Actor: p, Body: body}
	if err := e.store.EraseAudit(ctx, done.ID, entry, list); err != nil {
		return nil, err
	}
	if of.User == "" {
		err = e.store.EraseOrg(ctx, of.Org)
	} else {
		err = e.store.EraseUser(ctx, of.Org, of.User)
	}
	if err != nil {
		return nil, err
	}
	if err := e.changed(ctx, of.Org); err != nil {
		return nil, err
	}
	return done, e.store.Scrub(ctx)
}

// changed has what is kept in memory of an organisation read again, here and elsewhere.
func (e *Engine) changed(ctx context.Context, org string) error {
	e.rules.forget(org)
	if e.store.Shared() {
		if err := e.store.MarkChange(ctx, org); err != nil {
			return err
		}
	}
	e.permissionsChanged(org)
	return nil
}

// endCalls cancels the calls of a subject, and waits until they have ended.
func (e *Engine) endCalls(ctx context.Context, of haft.Subject) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, eraseWait)
	defer cancel()
	everybody := haft.Principal{Org: of.Org, User: "haft", Roles: e.managers()}
	open := haft.CallFilter{Org: of.Org, User: of.User, Status: []haft.Status{haft.StatusQueued, haft.StatusRunning, haft.StatusPending}, Limit: 1}
	for n := 0; ; {
		m, err := e.CancelAll(ctx, everybody, haft.Principal{Org: of.Org, User: of.User})
		if err != nil {
			return n, err
		}
		n += m
		list, err := e.store.Records(ctx, open)
		if err != nil || len(list) == 0 {
			return n, err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return n, &haft.Error{Code: haft.CodeUnavailable, Message: "calls still run, perhaps on another server: nothing was erased; try again", Err: err}
		}
	}
}

// managers are the roles of those who manage.
func (e *Engine) managers() []string {
	if len(e.cfg.Managers) > 0 {
		return e.cfg.Managers
	}
	return []string{haft.RoleAdmin}
}

// about returns which entries of the audit are about a subject: what the user did, and what
// others did about the user's calls.
func (e *Engine) about(ctx context.Context, of haft.Subject) (func(audit.Entry) bool, error) {
	if of.User == "" {
		return func(audit.Entry) bool { return true }, nil
	}
	calls := map[haft.CallID]bool{}
	for entry, err := range e.store.Trail(ctx, of.Org) {
		if err != nil {
			return nil, err
		}
		if entry.Actor.User == of.User && strings.HasPrefix(entry.Kind, "call.") {
			calls[entry.Call] = true
		}
	}
	delete(calls, "")
	return func(entry audit.Entry) bool { return entry.Actor.User == of.User || calls[entry.Call] }, nil
}

// erased returns the entries of the audit that are to lose their content, and what is to be
// said of them. Those that say what was erased before stay.
func (e *Engine) erased(ctx context.Context, of haft.Subject, id string) ([]int64, audit.Erased, error) {
	about, err := e.about(ctx, of)
	if err != nil {
		return nil, audit.Erased{}, err
	}
	var list []int64
	var eraser audit.Eraser
	for entry, err := range e.store.Trail(ctx, of.Org) {
		if err != nil {
			return nil, audit.Erased{}, err
		}
		if entry.Erased == "" && entry.Kind != audit.ErasedKind && about(entry) {
			eraser.Add(entry)
			list = append(list, entry.Seq)
		}
	}
	return list, eraser.Erased(id), nil
}

// subjectKind says of what kind a subject is; the audit must not name it again.
func subjectKind(of haft.Subject) string {
	if of.User != "" {
		return "user"
	}
	return "organisation"
}
