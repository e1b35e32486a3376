package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/internal/engine"
	"haft/internal/filestore"
)

// A file that is an argument has the name that it was added with, and the call would keep that.
func TestOutgoing_name_of_a_file_that_is_an_argument(t *testing.T) {
	x := watchAll(t, allowAll)
	x.tool("acme", "look", func(d *haft.Draft) {
		d.Parameters = json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","format":"haft-file"}}}`)
	})
	ann := user("acme", "ann")
	files := filestore.New(x.store, filestore.Config{})
	for name, want := range map[string]haft.Status{"a.txt": haft.StatusSuccess,
		stored + ".txt": haft.StatusValidation} {
		f, err := files.Add(t.Context(), ann, haft.NewFile{Name: name, Size: 1}, "", []byte("x"))
		check(t, err)
		res := x.call(ann, "look", `{"x":"`+string(f.ID)+`"}`)
		if res.Status != want {
			t.Errorf("a file named %q: %s %+v, want %s", name, res.Status, res.Error, want)
		}
		rec, err := x.Record(t.Context(), ann, res.Call)
		check(t, err)
		if raw, err := json.Marshal(rec); err != nil || strings.Contains(string(raw), stored) {
			t.Errorf("the record has the secret: %s, %v", raw, err)
		}
	}
}

// A request whose file is gone cannot be agreed to, but refused.
func TestApproval_of_a_file_that_is_gone(t *testing.T) {
	w := setup(t, askFirst, engine.Config{})
	w.tool("o", "delete", func(d *haft.Draft) {
		d.Parameters = json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","format":"haft-file"}}}`)
	})
	ann, files := user("o", "ann"), filestore.New(w.store, filestore.Config{})
	f, err := files.Add(t.Context(), ann, haft.NewFile{Name: "a.txt", Size: 1}, "", []byte("x"))
	check(t, err)
	res, a := w.pending(ann, "delete", `{"x":"`+string(f.ID)+`"}`)
	check(t, files.Remove(t.Context(), *f))
	_, err = w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Approve: true})
	if haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("it is agreed to: %v", err)
	}
	_, err = w.Decide(t.Context(), approver("o"), a.ID, haft.Answer{Reason: "no"})
	check(t, err)
	want(t, w.end(ann, res.Call), haft.StatusRejected)
}
