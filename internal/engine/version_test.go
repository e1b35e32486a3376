package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/policy"
)

// pinAll is a policy by which everybody may call every version.
const pinAll = allowAll + `
rules:
  - {id: pin, effect: allow, pin: true}
`

// A version that is not the current one is held to the settings of both.
func TestPinned_settings(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, now haft.Settings
		by       haft.Principal
		want     haft.Status // of the second call
	}{
		{"nothing is demanded", haft.Settings{}, haft.Settings{}, user("o", "ann"), haft.StatusSuccess},
		{"a role of the current version", haft.Settings{}, haft.Settings{Roles: []string{"cleaner"}}, user("o", "ann"),
			haft.StatusDenied},
		{"a role of its own", haft.Settings{Roles: []string{"cleaner"}}, haft.Settings{}, user("o", "ann"),
			haft.StatusDenied},
		{"a role of each", haft.Settings{Roles: []string{"user"}}, haft.Settings{Roles: []string{"cleaner"}},
			user("o", "ann"), haft.StatusDenied},
		{"approval by the current version", haft.Settings{}, haft.Settings{RequiresApproval: true}, user("o", "ann"),
			haft.StatusPending},
		{"approval of its own", haft.Settings{RequiresApproval: true}, haft.Settings{}, user("o", "ann"),
			haft.StatusPending},
		{"the rate of the current version", haft.Settings{Rate: haft.Rate{PerSecond: 100}},
			haft.Settings{Rate: haft.Rate{PerSecond: 0.0001}}, user("o", "ann"), haft.StatusRate},
		{"its own rate", haft.Settings{Rate: haft.Rate{PerSecond: 0.0001, Burst: 1}},
			haft.Settings{Rate: haft.Rate{PerSecond: 100, Burst: 100}}, user("o", "ann"), haft.StatusRate},
		{"its own burst", haft.Settings{Rate: haft.Rate{PerSecond: 0.0001}},
			haft.Settings{Rate: haft.Rate{PerSecond: 0.0001, Burst: 50}}, user("o", "ann"), haft.StatusRate},
		{"hosts that the current version has not", haft.Settings{Network: []string{"old.example.com"}},
			haft.Settings{Network: []string{"new.example.com"}}, user("o", "ann"), haft.StatusDenied},
		{"programs that the current version has not", haft.Settings{Programs: []string{"git", "sh"}},
			haft.Settings{Programs: []string{"git"}}, user("o", "ann"), haft.StatusDenied},
		{"programs of both", haft.Settings{Programs: []string{"git"}}, haft.Settings{Programs: []string{"git", "sh"}},
			user("o", "ann"), haft.StatusSuccess},
		{"hosts where the current version has none", haft.Settings{Network: []string{"old.example.com"}},
			haft.Settings{}, user("o", "ann"), haft.StatusDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := setup(t, pinAll, engine.Config{})
			old := w.tool("o", "wipe", func(d *haft.Draft) { d.Settings = c.old })
			w.tool("o", "wipe", func(d *haft.Draft) { d.Settings, d.Source = c.now, "def wipe(): now()" })
			call := haft.Call{Tool: "wipe", Digest: old.Version.Digest, Principal: c.by}
			w.do(call)
			want(t, w.do(call), c.want)
			effect := map[haft.Status]policy.Effect{haft.StatusSuccess: policy.Allow, haft.StatusRate: policy.Allow,
				haft.StatusPending: policy.NeedsApproval, haft.StatusDenied: policy.Deny}
			if d, err := w.Explain(t.Context(), call); err != nil || d.Effect != effect[c.want] {
				t.Errorf("Explain: %s, %v, want %s", d, err, effect[c.want])
			}
		})
	}
}

// What bounds a run is the lower of both versions.
func TestPinned_limits(t *testing.T) {
	w := setup(t, pinAll, engine.Config{})
	old := w.tool("o", "wipe", func(d *haft.Draft) {
		d.Settings.Limits, d.Settings.MinIsolation = haft.Limits{Memory: 2 << 30, Processes: 3}, haft.LevelKernel
	})
	w.tool("o", "wipe", func(d *haft.Draft) {
		d.Source, d.Settings.NoArtifacts = "def wipe(): now()", true
		d.Settings.Limits, d.Settings.MinIsolation = haft.Limits{Memory: 64 << 20, Wall: haft.Millis(time.Second)},
			haft.LevelNamespaces
	})
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		if r.Limits.Memory != 64<<20 || r.Limits.Processes != 3 || r.Limits.Wall.D() != time.Second ||
			r.Need.Level != haft.LevelKernel || !r.NoArtifacts {
			t.Errorf("it runs with %+v and %s, without artifacts %v", r.Limits, r.Need.Level, r.NoArtifacts)
		}
		return ok(r, "1"), nil
	})
	want(t, w.do(haft.Call{Tool: "wipe", Digest: old.Version.Digest, Principal: user("o", "ann"),
		Limits: haft.Limits{Memory: 4 << 30}}), haft.StatusSuccess)
}

// Who may not choose a version chooses none by any way in; the engine's own choice,
// for a call that waited, is held to both versions all the same.
func TestPinned_is_a_permission(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	ann := user("o", "ann")
	old := w.tool("o", "wipe", func(d *haft.Draft) { d.Settings.RequiresApproval = true })
	first := w.call(ann, "wipe", `{}`)
	second := w.call(ann, "wipe", `{}`)
	w.tool("o", "wipe", func(d *haft.Draft) { d.Source = "def wipe(): now()" })
	current := w.call(ann, "wipe", `{}`)
	want(t, current, haft.StatusSuccess)
	call := haft.Call{Tool: "wipe", Digest: old.Version.Digest, Principal: ann}
	want(t, w.do(call), haft.StatusDenied)
	want(t, w.do(haft.Call{Tool: "wipe", Digest: current.Digest, Principal: ann}), haft.StatusSuccess)
	rec, err := w.Submit(t.Context(), call)
	if err != nil || rec.Status != haft.StatusDenied {
		t.Errorf("Submit: %+v, %v", rec, err)
	}
	results, err := w.Batch(t.Context(), []haft.Call{call})
	if err != nil || results[0].Status != haft.StatusDenied {
		t.Errorf("Batch: %+v, %v", results, err)
	}
	// A call that was made when the version was current runs in it.
	if _, err := w.Decide(t.Context(), approver("o"), first.Approval, haft.Answer{Approve: true}); err != nil {
		t.Fatal(err)
	}
	end := w.end(ann, first.Call)
	want(t, end, haft.StatusSuccess)
	if end.Digest != old.Version.Digest {
		t.Errorf("version %s ran", end.Digest)
	}
	if res, err := w.Replay(t.Context(), ann, first.Call); err != nil || res.Status != haft.StatusDenied {
		t.Errorf("Replay: %+v, %v", res, err)
	}
	// But not without the role that the current version demands by then.
	w.tool("o", "wipe", func(d *haft.Draft) { d.Source, d.Settings.Roles = "def wipe(): later()", []string{"cleaner"} })
	// The review after that change may have ended the call before it is approved.
	_, err = w.Decide(t.Context(), approver("o"), second.Approval, haft.Answer{Approve: true})
	if err != nil && haft.CodeOf(err) != haft.CodeConflict {
		t.Fatal(err)
	}
	want(t, w.end(ann, second.Call), haft.StatusDenied)
}

// An agent is its id in everything that is kept, whatever it was called by.
func TestAgent_is_known_by_its_id(t *testing.T) {
	w := setup(t, allowAll+`
rules:
  - {id: no-bots, effect: deny, agents: [bot], tools: ["tool:wipe"]}
`, engine.Config{})
	w.tool("o", "wipe", nil)
	w.tool("o", "look", nil)
	a, err := w.PutAgent(t.Context(), admin("o"), haft.Agent{Name: "bot", Tools: []string{"wipe", "look"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{"bot", string(a.ID)} {
		p := user("o", "ann")
		p.Agent = as
		want(t, w.call(p, "wipe", `{}`), haft.StatusDenied)
		res := w.call(p, "look", `{}`)
		want(t, res, haft.StatusSuccess)
		if r := w.record("o", res.Call); r.Call.Principal.Agent != string(a.ID) {
			t.Errorf("called as %s: the record has %q", as, r.Call.Principal.Agent)
		}
		c, err := w.Run(t.Context(), p,
			haft.Plan{Steps: []haft.Step{{ID: "s", Tool: "wipe", Args: json.RawMessage(`{}`)}}})
		if err != nil || c.Principal.Agent != string(a.ID) || c.Steps[0].Result.Status != haft.StatusDenied {
			t.Errorf("a chain of %s: %+v, %v", as, c, err)
		}
	}
	if _, err := w.PutAgent(t.Context(), admin("o"),
		haft.Agent{Name: string(a.ID)}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("an agent that is named like the id of another: %v", err)
	}
}
