package e2b

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"haft"
)

// A Keeper keeps the files of sessions in workspaces.
type Keeper interface {
	// SaveSession adds a workspace with the files of a session, and about as the file [about.json].
	SaveSession(ctx context.Context, p haft.Principal, id string, n haft.NewWorkspace, about []byte) error
	// LoadSession adds the files of such a workspace to those of a session.
	LoadSession(ctx context.Context, p haft.Principal, id, workspace string) error
}

// What the names of workspaces begin with that have the files of sandboxes: paused ones, and snapshots.
const (
	pausedPrefix   = "e2b-paused-"
	snapshotPrefix = "e2b-snapshot-"
	aboutFile      = "about.json"
)

// about says what the files in a workspace are of. Variables are not a part of it: they may be secrets, and whoever may
// read the workspace would have them.
type about struct {
	// Sandbox is whose files they are, Template what it was made from, and Packages the template of the sandbox
	// configuration that its packages come from.
	Sandbox  string            `json:"sandbox"`
	Template string            `json:"template"`
	Packages string            `json:"packages,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Started  time.Time         `json:"started_at"`
	// Seal shows that this server has written it for its owner: see [API.seal].
	Seal string `json:"seal"`
}

// A kept is a workspace with the files of a sandbox.
type kept struct {
	about
	workspace string
	changed   time.Time
}

// snapshotHandlers pause sandboxes and keep snapshots of them. Both keep files, and nothing else of a sandbox.
type snapshotHandlers struct{ *API }

// errMemory answers those who want processes to be kept.
var errMemory = invalid("memory is not kept here: use the mode filesystem (keepMemory: false), or none")

// memoryRequest is what a request says about memory. Without it, it is for the server to say: it is not kept.
type memoryRequest struct {
	Memory *bool  `json:"memory"`
	Name   string `json:"name"`
}

// maxAbout bounds what is read of what a workspace says, whose owner may write anything there.
const maxAbout = 128 << 10

// save keeps the files of a sandbox.
func (a snapshotHandlers) save(ctx context.Context, p haft.Principal, s *sandbox, name string) error {
	raw, err := json.Marshal(about{Sandbox: s.id, Template: s.template, Packages: s.packages, Metadata: s.metadata,
		Started: s.started, Seal: a.seal(keyOf(p, s.id))})
	if err != nil {
		return fmt.Errorf("describe a sandbox: %w", err)
	}
	if len(raw) > maxAbout {
		return invalid("the metadata of the sandbox is too large to be kept: it has many characters that JSON escapes")
	}
	disk := a.cfg.Limits.Or(haft.DefaultLimits()).Disk
	err = a.cfg.Keeper.SaveSession(ctx, p, s.session, haft.NewWorkspace{Name: name,
		Quota: haft.WorkspaceSize{Bytes: disk + disk/4}}, raw) // blocks on a disk are larger than files
	if haft.CodeOf(err) == haft.CodeConflict {
		err = &haft.Error{Code: haft.CodeInvalid, Message: haft.MessageOf(err), Err: err} // 409 means: it is paused
	}
	return err
}

// find returns the files of a sandbox that p has kept itself, or [haft.CodeNotFound].
func (a snapshotHandlers) find(ctx context.Context, p haft.Principal, name string) (*kept, error) {
	gone := missing("there is no such sandbox")
	if a.cfg.Keeper == nil {
		return nil, gone
	}
	w, err := a.cfg.Workspaces.Workspace(ctx, p, name)
	switch haft.CodeOf(err) {
	case haft.CodeNotFound:
		a.forgetRemoved(keyOf(p, strings.TrimPrefix(name, pausedPrefix)))
		return nil, gone
	case haft.CodeDenied: // another key of its owner may have it, or this one later
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	if !keptBy(p, w) {
		return nil, gone
	}
	return a.read(ctx, p, w)
}

// keptBy reports whether p has added a workspace itself: others who may read it, such as managers, have no part in
// p's sandboxes.
func keptBy(p haft.Principal, w *haft.Workspace) bool {
	return p.Owner() != "" && w.Owner.User == p.Owner() && w.Owner.Agent == p.Agent
}

// read reads what the files of a workspace are of. Its owner may have written anything there.
func (a snapshotHandlers) read(ctx context.Context, p haft.Principal, w *haft.Workspace) (*kept, error) {
	_, f, err := a.cfg.Workspaces.OpenWorkspaceFile(ctx, p, w.Name, aboutFile)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxAbout))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read what a workspace is of: %w", err)
	}
	k := &kept{workspace: w.Name, changed: w.Changed}
	err = cmp.Or(decode(raw, &k.about), checkPairs("metadata", k.Metadata))
	if err != nil || !isID(k.Sandbox) || !haft.IsTemplateName(k.Template) ||
		k.Packages != "" && !haft.IsTemplateName(k.Packages) {
		return nil, invalid("the workspace " + w.Name + " does not say what it is of")
	}
	if id, is := strings.CutPrefix(w.Name, pausedPrefix); is && (id != k.Sandbox || !a.sealed(keyOf(p, id), k.Seal)) {
		return nil, missing("there is no such sandbox")
	}
	return k, nil
}

// all returns the files that p has kept in workspaces whose names are prefix and a name that fits, the newest first. It
// reads those of an owner once at a time: what 1,000 of them say can be 100 MB.
func (a snapshotHandlers) all(ctx context.Context, p haft.Principal, prefix string,
	fits func(name string) bool) ([]*kept, error) {
	list := []*kept{}
	if a.cfg.Keeper == nil {
		return list, nil
	}
	leave, err := a.enter(ctx, keyOf(p, ""), true)
	if err != nil {
		return nil, err
	}
	defer leave()
	for w, err := range a.cfg.Workspaces.Workspaces(ctx, p) {
		if haft.CodeOf(err) == haft.CodeDenied {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if name, is := strings.CutPrefix(w.Name, prefix); !is || !fits(name) || !keptBy(p, &w) {
			continue
		}
		k, err := a.read(ctx, p, &w)
		if c := haft.CodeOf(err); c == haft.CodeInvalid || c == haft.CodeNotFound || c == haft.CodeDenied {
			continue // it is none, or is being removed
		}
		if err != nil {
			return nil, err
		}
		if prefix == snapshotPrefix { // nobody asks for theirs, and many lists are answered at once
			k.Metadata = nil
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(x, y *kept) int { return y.changed.Compare(x.changed) })
	return list, nil
}

// keeping reads a request to keep files, enters the sandbox and returns it. It looks for the sandbox last: one that was
// paused before has other variables and another session than the one that was there.
func (a snapshotHandlers) keeping(w http.ResponseWriter, r *http.Request, p haft.Principal,
	in *memoryRequest) (s *sandbox, leave func(), err error) {
	id := r.PathValue("id")
	if err := readJSON(w, r, in); err != nil {
		return nil, nil, err
	}
	if in.Memory != nil && *in.Memory {
		return nil, nil, errMemory
	}
	if !isID(id) {
		return nil, nil, missing("there is no such sandbox")
	}
	if leave, err = a.enter(r.Context(), keyOf(p, id), false); err != nil {
		return nil, nil, err
	}
	if s, err = a.own(r.Context(), p, id); err == nil && a.cfg.Keeper == nil {
		err = &fault{code: "unimplemented", status: http.StatusNotImplemented,
			message: "this server keeps no files of sandboxes"}
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return s, leave, nil
}

// openWith makes the session of a sandbox, with the files of a workspace if that has a name.
func (a *API) openWith(ctx context.Context, s *sandbox, ttl haft.Millis, workspace string) error {
	if err := (controlHandlers{a}).open(ctx, s, ttl); err != nil || workspace == "" {
		return err
	}
	err := a.cfg.Keeper.LoadSession(ctx, s.owner, s.session, workspace)
	if err != nil {
		_ = a.cfg.Sessions.EndSession(context.WithoutCancel(ctx), s.owner, s.session) // nobody knows of it
	}
	return err
}

// snapshotAnswer is a snapshot for a client.
type snapshotAnswer struct {
	ID    string   `json:"snapshotID"`
	Names []string `json:"names"`
}

// snapshot keeps the files of a sandbox, which lives on.
func (a snapshotHandlers) snapshot(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	var in memoryRequest
	s, leave, err := a.keeping(w, r, p, &in)
	if err != nil {
		return err
	}
	defer leave()
	name := cmp.Or(in.Name, "s"+strings.ToLower(rand.Text())[:20])
	if !haft.IsTemplateName(name) || len(snapshotPrefix+name) > 64 || slices.Contains(templates, name) {
		return invalid("the name of a snapshot has at most 51 lower-case letters, digits, dots, underscores and " +
			"hyphens, begins with a letter or a digit, and is not that of a template of the server")
	}
	if err := a.save(r.Context(), p, s, snapshotPrefix+name); err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, snapshotAnswer{name, namesOf(name, in.Name != "")})
	return nil
}

// namesOf returns the names of a snapshot, if somebody gave it one.
func namesOf(name string, given bool) []string {
	if given {
		return []string{name}
	}
	return []string{}
}

// listSnapshots lists the snapshots of p, the newest first.
func (a snapshotHandlers) listSnapshots(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	q := r.URL.Query()
	list, err := a.all(r.Context(), p, snapshotPrefix, func(name string) bool {
		return q.Get("name") == "" || q.Get("name") == name
	})
	if err != nil {
		return err
	}
	out := []snapshotAnswer{}
	for _, k := range list {
		name := strings.TrimPrefix(k.workspace, snapshotPrefix)
		if of := q.Get("sandboxID"); of == "" || of == k.Sandbox {
			out = append(out, snapshotAnswer{name, namesOf(name, true)})
		}
	}
	out, err = paged(w, r, out, func(s snapshotAnswer) string { return s.ID })
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}
