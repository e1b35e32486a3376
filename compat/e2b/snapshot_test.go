package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"haft"
)

// spaces are workspaces in memory, which everybody of an organisation may read, and the files of sessions. Names are
// those of an organisation, a slash, and the name.
type spaces struct {
	haft.WorkspaceKeeper
	haft.WorkspaceReader
	kept  map[string]haft.Workspace
	about map[string]string
	// saving is called before files are kept, unless it is nil.
	saving func() error
	// listing is called when workspaces are listed, before they are given, unless it is nil.
	listing func()
	// denied is the error of who asks for a workspace, and removing that of who has removed one.
	denied, removing error
	// reading is called when a file of a workspace is read, unless it is nil.
	reading func(p haft.Principal)
}

// keepFiles gives a world workspaces.
func keepFiles(w *world) *spaces {
	s := &spaces{kept: map[string]haft.Workspace{}, about: map[string]string{}}
	w.api.cfg.Keeper, w.api.cfg.Workspaces = s, haft.Workspaces{WorkspaceKeeper: s, WorkspaceReader: s}
	return s
}

// SaveSession implements [Keeper].
func (s *spaces) SaveSession(_ context.Context, p haft.Principal, _ string, n haft.NewWorkspace, about []byte) error {
	if s.saving != nil {
		if err := s.saving(); err != nil {
			return err
		}
	}
	at := p.Org + "/" + n.Name
	if _, is := s.kept[at]; is {
		return &haft.Error{Code: haft.CodeConflict, Message: "there is one of this name"}
	}
	s.kept[at] = haft.Workspace{Name: n.Name, Owner: haft.Principal{Org: p.Org, User: p.Owner(), Agent: p.Agent}}
	s.about[at] = string(about)
	return nil
}

func (s *spaces) LoadSession(context.Context, haft.Principal, string, string) error { return nil }

func (s *spaces) Workspace(_ context.Context, p haft.Principal, name string) (*haft.Workspace, error) {
	if s.denied != nil {
		return nil, s.denied
	}
	w, is := s.kept[p.Org+"/"+name]
	if !is {
		return nil, missing("there is no such workspace")
	}
	return &w, nil
}

func (s *spaces) Workspaces(_ context.Context, p haft.Principal) iter.Seq2[haft.Workspace, error] {
	return func(yield func(haft.Workspace, error) bool) {
		kept := maps.Clone(s.kept)
		if s.listing != nil {
			s.listing()
		}
		for _, w := range kept {
			if w.Owner.Org == p.Org && !yield(w, nil) {
				return
			}
		}
	}
}

func (s *spaces) RemoveWorkspace(_ context.Context, p haft.Principal, name string) error {
	delete(s.kept, p.Org+"/"+name)
	return s.removing
}

func (s *spaces) OpenWorkspaceFile(_ context.Context, p haft.Principal, name,
	_ string) (*haft.WorkspaceEntry, io.ReadSeekCloser, error) {
	if s.reading != nil {
		s.reading(p)
	}
	return nil, file{strings.NewReader(s.about[p.Org+"/"+name])}, nil
}

// file is a text that is closed.
type file struct{ *strings.Reader }

func (file) Close() error { return nil }

// A paused sandbox and a snapshot are nobody's but who made them, also if others may read the workspace; and no
// variables are written down.
func TestPaused_and_snapshot_are_their_owners(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	rec := w.ask("acme/alice", "POST", "/v2/sandboxes", `{"templateID":"base","envVars":{"KEY":"hunter2"}}`)
	var box sandboxAnswer
	if err := json.Unmarshal(rec.Body.Bytes(), &box); err != nil || rec.Code != http.StatusCreated {
		t.Fatal(rec.Code, rec.Body)
	}
	at := "/sandboxes/" + box.ID
	for _, c := range []struct {
		key, method, path, body string
		want                    int
	}{
		{"acme/alice", "POST", at + "/snapshots", `{"name":"snap"}`, 201},
		{"acme/alice", "POST", at + "/snapshots", `{"name":"snap"}`, 400},
		{"acme/alice", "POST", at + "/snapshots", `{"name":"../x"}`, 400},
		{"acme/alice", "POST", at + "/snapshots", `{"memory":true}`, 400},
		{"acme/bob", "POST", "/v2/sandboxes", `{"templateID":"snap"}`, 404},
		{"acme/bob", "DELETE", "/templates/snap", "", 404},
		{"acme/bob", "POST", at + "/pause", `{}`, 404},
		{"acme/alice", "POST", at + "/pause", `{"memory":true}`, 400},
		{"acme/alice", "POST", at + "/pause", `{"memory":false}`, 204},
		{"acme/alice", "POST", at + "/pause", `{}`, 409},
		{"acme/bob", "POST", at + "/pause", `{}`, 404},
		{"acme/bob", "GET", at, "", 404},
		{"acme/bob", "POST", at + "/connect", `{}`, 404},
		{"acme/bob", "DELETE", at, "", 404},
		{"evil/alice", "POST", at + "/connect", `{}`, 404},
		{"acme/alice", "POST", "/sandboxes/snapshot-snap/connect", `{}`, 404},
		{"acme/alice", "POST", "/sandboxes/..%2F" + box.ID + "/connect", `{}`, 404},
		{"acme/alice", "GET", at, "", 200},
		{"acme/alice", "POST", at + "/connect", `{}`, 201},
		{"acme/alice", "POST", at + "/connect", `{}`, 200},
		{"acme/alice", "POST", at + "/pause", `{}`, 204},
		{"acme/alice", "DELETE", at, "", 204},
		{"acme/alice", "DELETE", at, "", 404},
		{"acme/alice", "POST", "/v2/sandboxes", `{"templateID":"snap"}`, 201},
		{"acme/alice", "DELETE", "/templates/snap", "", 204},
	} {
		if rec := w.ask(c.key, c.method, c.path, c.body); rec.Code != c.want {
			t.Errorf("%s: %s %s %s: %d, want %d: %s", c.key, c.method, c.path, c.body, rec.Code, c.want, rec.Body)
		}
	}
	for name, text := range s.about {
		if strings.Contains(text, "hunter2") || !bytes.Contains([]byte(text), []byte(box.ID)) {
			t.Errorf("%s says %s", name, text)
		}
	}
	if len(s.kept) > 0 || len(w.api.pausedEnv) > 0 || len(w.api.moving) > 0 {
		t.Errorf("left behind: %v %v %v", s.kept, w.api.pausedEnv, w.api.moving)
	}
}

// What the workspaces of an owner say is read for one list at a time. With 250 snapshots, 60 lists at once took 1.6 GB.
func TestLists_read_once_at_a_time(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	for _, user := range []string{"alice", "bob"} {
		name := snapshotPrefix + user
		s.kept["acme/"+name] = haft.Workspace{Name: name, Owner: haft.Principal{Org: "acme", User: user}}
		s.about["acme/"+name] = `{"sandbox":"i` + strings.Repeat("a", 20) + `","template":"base"}`
	}
	reading, goOn, answers := make(chan string, 9), make(chan struct{}), make(chan int)
	s.reading = func(p haft.Principal) {
		reading <- p.User
		if p.User == "alice" {
			<-goOn
		}
	}
	list := func(key string) {
		go func() { answers <- w.ask(key, "GET", "/snapshots", "").Code }()
	}
	list("acme/alice")
	<-reading
	list("acme/bob") // who waits for nobody else
	if code, who := <-answers, <-reading; code != http.StatusOK || who != "bob" {
		t.Errorf("%s reads too; the answer is %d", who, code)
	}
	list("acme/alice")
	select {
	case <-reading:
		t.Error("they are read for two lists at once")
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	for range 2 {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a list is answered %d", code)
		}
	}
}
