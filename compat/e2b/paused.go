package e2b

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"haft"
)

// A boxKey names a sandbox and its owner. Ids alone are not enough for what is paused: a paused sandbox is what a
// workspace says that it is, and everybody may add workspaces.
type boxKey struct{ org, owner, agent, id string }

// keyOf returns the key of a sandbox of p.
func keyOf(p haft.Principal, id string) boxKey { return boxKey{p.Org, p.Owner(), p.Agent, id} }

// seal returns what only this server can write about a paused sandbox. Without it, p could add a workspace that says
// that it is somebody else's sandbox.
func (a *API) seal(k boxKey) string {
	raw, _ := json.Marshal([]string{k.org, k.owner, k.agent, k.id}) // strings can always be encoded
	mac := hmac.New(sha256.New, a.cfg.Key)
	mac.Write(append([]byte("e2b.paused\x00"), raw...)) // hash.Hash never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// sealed reports whether this server has made a seal.
func (a *API) sealed(k boxKey, seal string) bool { return hmac.Equal([]byte(a.seal(k)), []byte(seal)) }

// isID reports whether text can be the id of a sandbox.
func isID(text string) bool {
	return len(text) == 21 && text[0] == 'i' && haft.IsTemplateName(text) && !strings.ContainsAny(text, "._-")
}

// enter makes sure that one request at a time keeps the files of a sandbox, resumes it or ends it. Unless it waits, a
// second request is refused.
func (a *API) enter(ctx context.Context, k boxKey, wait bool) (leave func(), err error) {
	for {
		a.mu.Lock()
		busy := a.moving[k]
		if busy == nil {
			done := make(chan struct{})
			a.moving[k] = done
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				delete(a.moving, k)
				a.mu.Unlock()
				close(done)
			}, nil
		}
		a.mu.Unlock()
		if !wait {
			return nil, &haft.Error{Code: haft.CodeUnavailable,
				Message: "the sandbox is being paused, kept, resumed or ended"}
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Of how many paused sandboxes of an owner, and of an organisation, variables are remembered.
const (
	maxPausedEnv    = 64
	maxPausedEnvOrg = 1024
)

// variables are those of a paused sandbox.
type variables struct{ values map[string]string }

// keepEnv remembers the variables of a sandbox that is about to be paused.
func (a snapshotHandlers) keepEnv(ctx context.Context, p haft.Principal, k boxKey, env map[string]string) error {
	if len(env) == 0 || a.tryKeepEnv(k, env) {
		return nil
	}
	if err := a.forgetGone(ctx, p); err != nil {
		return err
	}
	if a.tryKeepEnv(k, env) {
		return nil
	}
	return &haft.Error{Code: haft.CodeRateLimited, Message: "too many sandboxes with variables are paused: " +
		"resume or end some of them"}
}

// forgetGone forgets the variables of the paused sandboxes of p whose workspaces somebody has removed.
func (a *API) forgetGone(ctx context.Context, p haft.Principal) error {
	p.Actions = nil // nobody sees the list
	known, there := map[boxKey]*variables{}, map[string]bool{}
	a.mu.Lock()
	for k, env := range a.pausedEnv { // the workspace of one that moves may not be there yet
		if k == keyOf(p, k.id) && a.moving[k] == nil {
			known[k] = env
		}
	}
	a.mu.Unlock()
	if len(known) == 0 {
		return nil
	}
	for w, err := range a.cfg.Workspaces.Workspaces(ctx, p) {
		if err != nil {
			return err
		}
		there[w.Name] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, env := range known {
		if !there[pausedPrefix+k.id] && a.pausedEnv[k] == env { // else it was paused again
			delete(a.pausedEnv, k)
		}
	}
	return nil
}

// changeTime bounds how long it is looked at what a change has ended.
const changeTime = 30 * time.Second

// Changed handles a change of an organisation, or of all if org is empty. It does not block. However many changes there
// are, one goroutine looks at what they have ended.
func (a *API) Changed(org string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed[org] = true
	if !a.looking {
		a.looking = true
		go a.forgetChanged()
	}
}

// forgetChanged looks at the organisations that were changed, one after the other, until none is left.
func (a *API) forgetChanged() {
	for {
		a.mu.Lock()
		org, found := "", false
		for org = range a.changed {
			found = true
			break
		}
		delete(a.changed, org)
		goesOn := found && a.ctx.Err() == nil
		a.looking = goesOn
		a.mu.Unlock()
		if !goesOn {
			return
		}
		ctx, cancel := context.WithTimeout(a.ctx, changeTime)
		a.forgetEnded(ctx, org)
		cancel()
	}
}

// forgetEnded forgets sandboxes of an organisation whose sessions have ended, and the variables of those whose
// workspaces somebody has removed: an erasure does both.
func (a *API) forgetEnded(ctx context.Context, org string) {
	owners := map[boxKey]bool{}
	note := func(k boxKey) {
		if org == "" || k.org == org {
			owners[boxKey{k.org, k.owner, k.agent, ""}] = true
		}
	}
	a.mu.Lock()
	for _, s := range a.sandboxes {
		note(keyOf(s.owner, ""))
	}
	for k := range a.pausedEnv {
		note(k)
	}
	a.mu.Unlock()
	for k := range owners { // an owner whose sessions or workspaces cannot be listed is looked at after the next change
		p := haft.Principal{Org: k.org, User: k.owner, Agent: k.agent}
		_, _ = a.live(ctx, p)
		_ = a.forgetGone(ctx, p)
	}
}

// tryKeepEnv remembers variables if there is room.
func (a *API) tryKeepEnv(k boxKey, env map[string]string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	own, org := 0, 0
	for old := range a.pausedEnv {
		if old.org == k.org {
			org++
			if old.owner == k.owner {
				own++
			}
		}
	}
	if own >= maxPausedEnv || org >= maxPausedEnvOrg {
		return false
	}
	a.pausedEnv[k] = &variables{env}
	return true
}

// forgetEnv forgets the variables of a sandbox that is paused no more.
func (a *API) forgetEnv(k boxKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pausedEnv, k)
}

// paused returns the sandbox of p with this id that is paused.
func (a snapshotHandlers) paused(ctx context.Context, p haft.Principal, id string) (*kept, error) {
	if !isID(id) {
		return nil, missing("there is no such sandbox")
	}
	return a.find(ctx, p, pausedPrefix+id)
}

// forgetRemoved forgets the variables of a paused sandbox whose workspace is not there, unless it is being paused.
func (a *API) forgetRemoved(k boxKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.moving[k] == nil {
		delete(a.pausedEnv, k)
	}
}

// pause keeps the files of a sandbox, and ends it.
func (a snapshotHandlers) pause(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	s, leave, err := a.keeping(w, r, p, new(memoryRequest))
	if haft.CodeOf(err) == haft.CodeNotFound {
		if _, again := a.paused(r.Context(), p, r.PathValue("id")); again == nil {
			return &haft.Error{Code: haft.CodeConflict, Message: "the sandbox is paused"}
		}
	}
	if err != nil {
		return err
	}
	defer leave()
	key := keyOf(p, s.id)
	if err := a.keepEnv(r.Context(), p, key, s.env); err != nil { // first: none is lost silently
		return err
	}
	if err := a.save(r.Context(), p, s, pausedPrefix+s.id); err != nil {
		a.forgetEnv(key)
		return err
	}
	a.drop(s)
	err = a.cfg.Sessions.EndSession(context.WithoutCancel(r.Context()), p, s.session)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// resume makes a paused sandbox again, with its files and without its processes.
func (a snapshotHandlers) resume(ctx context.Context, p haft.Principal, id string, ttl haft.Millis) (*sandbox, error) {
	if !isID(id) {
		return nil, missing("there is no such sandbox")
	}
	key := keyOf(p, id)
	leave, err := a.enter(ctx, key, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	if a.sandbox(id) != nil { // of whomever it is
		return nil, missing("there is no such sandbox that is paused")
	}
	k, err := a.paused(ctx, p, id)
	if err != nil {
		return nil, err
	}
	// A session of this name would give the sandbox its own files and processes.
	if err := a.cfg.Sessions.EndSession(ctx, p, id); err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return nil, err
	}
	var env map[string]string
	a.mu.Lock()
	if kept := a.pausedEnv[key]; kept != nil {
		env = kept.values
	}
	a.mu.Unlock()
	s := a.newSandbox(p, &newSandbox{Template: k.Template, Metadata: k.Metadata, Env: env})
	s.id, s.packages, s.started = id, k.Packages, k.Started
	if err := a.openWith(ctx, s, ttl, k.workspace); err != nil {
		s.cancel()
		return nil, err
	}
	// A crash before this leaves a paused sandbox with the files that it had. Whoever may not remove it, keeps it.
	err = a.add(s)
	if err == nil {
		err = a.removeKept(context.WithoutCancel(ctx), p, k.workspace)
	}
	if err != nil {
		a.drop(s)
		_ = a.cfg.Sessions.EndSession(context.WithoutCancel(ctx), p, s.session) // it is paused still
		return nil, err
	}
	a.forgetEnv(key)
	return s, nil
}

// endPaused removes a paused sandbox.
func (a snapshotHandlers) endPaused(ctx context.Context, p haft.Principal, id string) error {
	leave, err := a.enter(ctx, keyOf(p, id), false)
	if err != nil {
		return err
	}
	defer leave()
	return a.removePaused(ctx, p, id)
}

// removePaused is endPaused of who has entered.
func (a snapshotHandlers) removePaused(ctx context.Context, p haft.Principal, id string) error {
	k, err := a.paused(ctx, p, id)
	if err != nil {
		return err
	}
	a.forgetEnv(keyOf(p, id))
	return a.removeKept(ctx, p, k.workspace)
}

// removeKept removes a workspace. That it is removed counts, whatever fails after that: the sandbox that was resumed
// from it has the only copy of its files.
func (a *API) removeKept(ctx context.Context, p haft.Principal, name string) error {
	err := a.cfg.Workspaces.RemoveWorkspace(ctx, p, name)
	if err != nil {
		if _, gone := a.cfg.Workspaces.Workspace(ctx, p, name); haft.CodeOf(gone) == haft.CodeNotFound {
			return nil
		}
	}
	return err
}
