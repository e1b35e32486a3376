package e2b

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/server"
)

// createWith makes a sandbox of alice of acme with a variable.
func createWith(t *testing.T, w *world, value string) string {
	t.Helper()
	rec := w.ask("acme/alice", "POST", "/v2/sandboxes", `{"templateID":"base","envVars":{"KEY":"`+value+`"}}`)
	var box sandboxAnswer
	if err := json.Unmarshal(rec.Body.Bytes(), &box); err != nil || rec.Code != http.StatusCreated {
		t.Fatal(rec.Code, rec.Body)
	}
	return box.ID
}

// want sends requests, of which each is the key, method, path and the status that is wanted.
func (w *world) want(t *testing.T, list ...[4]string) {
	t.Helper()
	for _, c := range list {
		if rec := w.ask(c[0], c[1], c[2], "{}"); fmt.Sprint(rec.Code) != c[3] {
			t.Errorf("%s: %s %s: %d, want %s: %s", c[0], c[1], c[2], rec.Code, c[3], rec.Body)
		}
	}
}

// forge adds a workspace of a principal that says that it is a paused sandbox, with the seal of another one.
func (s *spaces) forge(p haft.Principal, id, seal string) {
	name := p.Org + "/" + pausedPrefix + id
	s.kept[name] = haft.Workspace{Name: pausedPrefix + id, Owner: p}
	s.about[name] = `{"sandbox":"` + id + `","template":"base","started_at":"2026-01-02T03:04:05Z","seal":"` + seal + `"}`
}

// Who adds a workspace with the name of somebody else's paused sandbox gets neither the sandbox nor its variables, and
// takes neither from its owner.
func TestPaused_forged(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	id := createWith(t, w, "hunter2")
	at := "/sandboxes/" + id
	w.want(t, [4]string{"acme/alice", "POST", at + "/pause", "204"})
	var said about
	if err := json.Unmarshal([]byte(s.about["acme/"+pausedPrefix+id]), &said); err != nil || said.Seal == "" {
		t.Fatal(err, said)
	}
	eve := haft.Principal{Org: "evil", User: "eve"}
	for _, seal := range []string{"", said.Seal} {
		s.forge(eve, id, seal)
		w.want(t, [4]string{"evil/eve", "GET", at, "404"}, [4]string{"evil/eve", "POST", at + "/connect", "404"},
			[4]string{"evil/eve", "DELETE", at, "404"})
		if rec := w.ask("evil/eve", "GET", "/v2/sandboxes?state=paused", ""); strings.Contains(rec.Body.String(), id) {
			t.Errorf("it is listed: %s", rec.Body)
		}
	}
	// What keeps variables apart is whose they are, whatever the workspace says.
	s.forge(eve, id, w.api.seal(boxKey{"evil", "eve", "", id}))
	w.want(t, [4]string{"evil/eve", "POST", at + "/connect", "201"})
	if env := w.api.sandbox(id).env; len(env) > 0 {
		t.Errorf("somebody else has the variables %v", env)
	}
	w.want(t, [4]string{"evil/eve", "DELETE", at, "204"}, [4]string{"acme/alice", "POST", at + "/connect", "201"})
	if env := w.api.sandbox(id).env; env["KEY"] != "hunter2" {
		t.Errorf("the owner has the variables %v", env)
	}
}

// The id of a running sandbox is nobody else's: a paused sandbox of that id, however it came about, cannot be resumed,
// and what ends it leaves the running one.
func TestPaused_cannot_take_the_id_of_a_running_sandbox(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	id := createWith(t, w, "hunter2")
	running, at := w.api.sandbox(id), "/sandboxes/"+id
	s.forge(haft.Principal{Org: "evil", User: "eve"}, id, w.api.seal(boxKey{"evil", "eve", "", id}))
	w.want(t, [4]string{"evil/eve", "POST", at + "/connect", "404"}, [4]string{"evil/eve", "DELETE", at, "204"},
		[4]string{"acme/alice", "GET", at, "200"})
	other := w.api.newSandbox(haft.Principal{Org: "evil", User: "eve"}, &newSandbox{})
	other.id = id
	if err := w.api.add(other); err == nil {
		t.Error("the id is given away")
	}
	w.api.drop(other)
	if w.api.sandbox(id) != running {
		t.Error("the sandbox is not there any more")
	}
}

// The end of a sandbox waits for nobody who copies its files but ends the session first; what was paused meanwhile is
// removed.
func TestEnd_while_paused(t *testing.T) {
	for _, fails := range []bool{true, false} {
		w := newWorld(t)
		s := keepFiles(w)
		id := createWith(t, w, "hunter2")
		ended := make(chan struct{})
		saving, answers := make(chan struct{}), make(chan int)
		s.saving = func() error {
			close(saving)
			<-ended // the test hangs here unless the session ends first
			if fails {
				return missing("the session has ended")
			}
			return nil
		}
		go func() { answers <- w.ask("acme/alice", "POST", "/sandboxes/"+id+"/pause", `{}`).Code }()
		<-saving
		first := true
		w.ending = func() {
			if first {
				first = false
				close(ended)
			}
		}
		w.want(t, [4]string{"acme/alice", "DELETE", "/sandboxes/" + id, "204"})
		if code := <-answers; fails && code != http.StatusNotFound {
			t.Errorf("pause: %d", code)
		}
		if len(s.kept) > 0 || len(w.api.pausedEnv) > 0 || len(w.api.moving) > 0 {
			t.Errorf("left behind: %v %v %v", s.kept, w.api.pausedEnv, w.api.moving)
		}
	}
}

// Variables are remembered of some paused sandboxes of each owner. One more is not paused rather than without them;
// those whose workspaces somebody has removed do not count.
func TestPaused_variables_are_bounded(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	last := ""
	for range maxPausedEnv {
		last = createWith(t, w, "x")
		w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + last + "/pause", "204"})
	}
	id := createWith(t, w, "y")
	w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + id + "/pause", "429"},
		[4]string{"acme/alice", "GET", "/sandboxes/" + id, "200"})
	bob := w.ask("acme/bob", "POST", "/v2/sandboxes", `{"templateID":"base","envVars":{"KEY":"z"}}`)
	var box sandboxAnswer
	if err := json.Unmarshal(bob.Body.Bytes(), &box); err != nil {
		t.Fatal(err)
	}
	w.want(t, [4]string{"acme/bob", "POST", "/sandboxes/" + box.ID + "/pause", "204"})
	delete(s.kept, "acme/"+pausedPrefix+last)
	w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + id + "/pause", "204"})
	if len(w.api.pausedEnv) != maxPausedEnv+1 {
		t.Errorf("variables of %d sandboxes", len(w.api.pausedEnv))
	}
	delete(s.kept, "acme/"+pausedPrefix+id)
	w.want(t, [4]string{"acme/alice", "GET", "/sandboxes/" + id, "404"})
	if len(w.api.pausedEnv) != maxPausedEnv {
		t.Errorf("the variables of what is gone are remembered: %d", len(w.api.pausedEnv))
	}
}

// What a workspace says is read as far as a server writes it, and believed if it can be so.
func TestKept_about(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	owner := haft.Principal{Org: "acme", User: "alice"}
	id := "i" + strings.Repeat("a", 20)
	for name, text := range map[string]string{
		"good": `{"sandbox":"` + id + `","template":"base"}`, "id": `{"sandbox":"x","template":"base"}`,
		"template": `{"sandbox":"` + id + `","template":"../x"}`, "none": `{}`,
		"packages": `{"sandbox":"` + id + `","template":"base","packages":"A B"}`,
		"large":    `{"sandbox":"` + id + `","template":"base"}` + strings.Repeat(" ", maxAbout) + "x",
	} {
		s.kept["acme/"+snapshotPrefix+name] = haft.Workspace{Name: snapshotPrefix + name, Owner: owner}
		s.about["acme/"+snapshotPrefix+name] = text
	}
	for path, want := range map[string]string{"/snapshots": "[good large]", "/snapshots?name=good": "[good]",
		"/snapshots?name=id": "[]", "/snapshots?sandboxID=" + id: "[good large]"} {
		var list []snapshotAnswer
		rec := w.ask("acme/alice", "GET", path, "")
		if err := json.Unmarshal(rec.Body.Bytes(), &list); err != nil {
			t.Fatal(err, rec.Body)
		}
		names := map[string]bool{}
		for _, one := range list {
			names[one.ID] = true
		}
		got := []string{}
		for _, name := range []string{"good", "large", "id", "template", "none", "packages"} {
			if names[name] {
				got = append(got, name)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
	}
}

// After an erasure, which ends sessions and removes workspaces, nothing is remembered of their sandboxes. What others
// have, and what is paused while it is looked, stays.
func TestChanged_forgets_what_is_gone(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	pause := func(id string) {
		t.Helper()
		w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + id + "/pause", "204"})
	}
	gone, stays := createWith(t, w, "1"), createWith(t, w, "2")
	running, ended := createWith(t, w, "3"), createWith(t, w, "4")
	pause(gone)
	pause(stays)
	delete(s.kept, "acme/"+pausedPrefix+gone)
	delete(w.sessions, ended)
	w.api.forgetEnded(t.Context(), "evil")
	if len(w.api.pausedEnv) != 2 || w.api.sandbox(ended) == nil {
		t.Error("a change of others has ended something")
	}
	s.listing = func() {
		s.listing = nil
		pause(running)
		w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + stays + "/connect", "201"})
		pause(stays)
	}
	w.api.forgetEnded(t.Context(), "acme")
	if w.api.sandbox(ended) != nil {
		t.Error("a sandbox whose session has ended is remembered")
	}
	for id, want := range map[string]bool{gone: false, stays: true, running: true} {
		if env := w.api.pausedEnv[keyOf(haft.Principal{Org: "acme", User: "alice"}, id)]; (env != nil) != want {
			t.Errorf("the variables of sandbox %s are %v", id, env)
		}
	}
}

// A sandbox that is resumed has the files that were kept, and none of a session that somebody gave its name.
func TestResume_ends_a_session_of_its_name(t *testing.T) {
	w := newWorld(t)
	keepFiles(w)
	id := createWith(t, w, "x")
	w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + id + "/pause", "204"})
	w.sessions[id] = haft.Session{ID: "sess_" + id, Org: "acme", Owner: "planted", Name: id,
		Expires: time.Now().Add(time.Hour)}
	w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + id + "/connect", "201"})
	if w.sessions[id].Owner != "alice" {
		t.Error("the sandbox has the session that was there")
	}
}

// The files of a sandbox are kept once at a time.
func TestSnapshot_one_at_a_time(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	id := createWith(t, w, "x")
	saving, over := make(chan struct{}, 9), make(chan struct{})
	s.saving = func() error {
		saving <- struct{}{}
		<-over
		return nil
	}
	first := make(chan int)
	go func() { first <- w.ask("acme/alice", "POST", "/sandboxes/"+id+"/snapshots", `{"name":"a"}`).Code }()
	<-saving
	second := make(chan int, 2)
	go func() {
		second <- w.ask("acme/alice", "POST", "/sandboxes/"+id+"/snapshots", `{"name":"b"}`).Code
		second <- w.ask("acme/alice", "POST", "/sandboxes/"+id+"/pause", `{}`).Code
	}()
	for range 2 {
		select {
		case code := <-second:
			if code != http.StatusServiceUnavailable {
				t.Errorf("another one is answered %d", code)
			}
		case <-saving:
			t.Error("two are made at once")
		}
	}
	close(over)
	if code := <-first; code != http.StatusCreated {
		t.Errorf("the first one is answered %d", code)
	}
}

// A request that may not see a paused sandbox, because of a new rule or a key for less, does not make the sandbox lose
// its variables.
func TestPaused_denied_keeps_variables(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	id := createWith(t, w, "hunter2")
	at := "/sandboxes/" + id
	w.want(t, [4]string{"acme/alice", "POST", at + "/pause", "204"})
	s.denied = &haft.Error{Code: haft.CodeDenied, Message: "no"}
	w.want(t, [4]string{"acme/alice", "GET", at, "404"}, [4]string{"acme/alice", "POST", at + "/connect", "404"})
	s.denied = nil
	w.want(t, [4]string{"acme/alice", "POST", at + "/connect", "201"})
	if env := w.api.sandbox(id).env; env["KEY"] != "hunter2" {
		t.Errorf("the sandbox has the variables %v", env)
	}
}

// Two clients that pause a sandbox at once do not make it lose its variables, and keep its files once.
func TestPause_at_once(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	id := createWith(t, w, "hunter2")
	at := "/sandboxes/" + id
	w.listed = func() { // the first one has looked, and the second one does all
		w.listed = nil
		w.ask("acme/alice", "POST", at+"/pause", `{}`)
	}
	w.ask("acme/alice", "POST", at+"/pause", `{}`)
	w.want(t, [4]string{"acme/alice", "POST", at + "/pause", "409"},
		[4]string{"acme/alice", "POST", at + "/connect", "201"})
	if env := w.api.sandbox(id).env; env["KEY"] != "hunter2" || len(s.kept) > 0 || len(w.api.moving) > 0 {
		t.Errorf("the sandbox has the variables %v; left behind: %v %v", env, s.kept, w.api.moving)
	}
}

// A sandbox is resumed when its workspace is gone, also if something fails after that: it has the only copy.
func TestResume_keeps_the_only_copy(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	id := createWith(t, w, "x")
	at := "/sandboxes/" + id
	w.want(t, [4]string{"acme/alice", "POST", at + "/pause", "204"})
	s.removing = &haft.Error{Code: haft.CodeInternal, Message: "the audit cannot be written"}
	w.want(t, [4]string{"acme/alice", "POST", at + "/connect", "201"}, [4]string{"acme/alice", "GET", at, "200"})
	if len(w.sessions) != 1 {
		t.Error("its session was ended")
	}
}

// Changes that come while an earlier one is handled are handled together, so that many changes need one goroutine.
func TestChanged_looks_once_at_a_time(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	id := createWith(t, w, "x")
	w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + id + "/pause", "204"})
	looks, looking, goOn := 0, make(chan struct{}, 100), make(chan struct{})
	s.listing = func() {
		looks++
		looking <- struct{}{}
		<-goOn
	}
	w.api.Changed("acme")
	<-looking
	for range 50 {
		w.api.Changed("acme")
	}
	close(goOn)
	for over := false; !over; time.Sleep(time.Millisecond) {
		w.api.mu.Lock()
		over = !w.api.looking
		w.api.mu.Unlock()
	}
	if looks != 2 {
		t.Errorf("51 changes are looked at %d times, want 2", looks)
	}
}

// A server passes its changes on.
func TestMount_passes_changes_on(t *testing.T) {
	w := newWorld(t)
	s := keepFiles(w)
	id := createWith(t, w, "x")
	w.want(t, [4]string{"acme/alice", "POST", "/sandboxes/" + id + "/pause", "204"})
	listed := make(chan struct{})
	s.listing = func() { close(listed) }
	var cfg server.Config
	w.api.Mount(&cfg)
	cfg.Noting("acme")
	<-listed // the test hangs here unless they are passed on
}
