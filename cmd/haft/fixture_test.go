package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/store/storetest"
)

// TestFixtures opens what earlier versions left: a data directory that was closed, one whose
// server was killed, and a Postgres database. scripts/fixture made them.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/fixture/*.tar.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, file := range files {
		dir := t.TempDir()
		unpack(t, file, dir)
		for _, kind := range []string{"closed", "killed", "postgres"} {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz")+"/"+kind, func(t *testing.T) {
				f := &fixture{data: filepath.Join(dir, kind)}
				if kind == "postgres" {
					f.database = storetest.PostgresDump(t, filepath.Join(f.data, "dump.sql"))
				}
				f.try(t)
			})
		}
	}
}

// A fixture is what one earlier version left.
type fixture struct{ data, database string }

// try upgrades the store, reads its calls, goes on with the open ones and makes new ones.
func (f *fixture) try(t *testing.T) {
	f.verify(t) // which upgrades it
	sys, err := app.OpenServer(t.Context(), f.config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
		f.verify(t)
	}()
	p := haft.Principal{Org: "local", User: "olga", Roles: []string{haft.RoleAdmin, haft.RoleApprover}}
	text, err := os.ReadFile(filepath.Join(f.data, "expect.txt"))
	if err != nil {
		t.Fatal(err)
	}
	chain := haft.ChainID("")
	for line := range strings.Lines(string(text)) {
		part := strings.Fields(line)
		r := ended(t, sys, p, haft.CallID(part[0]), part[2] == string(haft.StatusPending))
		if !fits(r, haft.Status(part[2])) {
			t.Errorf("call %s of %s is %s, and was %s", part[0], part[1], r.Status, part[2])
		}
		if chain == "" {
			chain = r.Call.Chain
		}
	}
	f.goOn(t, sys, p, chain)
}

// fits reports whether a call may be as r if it was as status when the fixture was made.
func fits(r *haft.Record, was haft.Status) bool {
	switch {
	case was == haft.StatusQueued:
		return r.Status == haft.StatusSuccess
	case was == haft.StatusRunning && r.Call.Tool == "hold": // which may run twice
		return r.Status == haft.StatusSuccess || r.Status == haft.StatusCancelled
	case was == haft.StatusRunning:
		return r.Status == haft.StatusUnknown || r.Status == haft.StatusCancelled
	}
	return r.Status == was
}

// goOn answers what waits for a person, and makes calls.
func (f *fixture) goOn(t *testing.T, sys *app.Server, p haft.Principal, chain haft.ChainID) {
	bob := haft.Principal{Org: "local", User: "bob", Roles: []string{haft.RoleApprover}}
	answered, late := 0, false
	for a, err := range sys.Approvals(t.Context(), bob, haft.ApprovalFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		want := haft.StatusSuccess
		if time.Now().After(a.Expires) { // a year later
			want, late = haft.StatusRejected, true
		} else if _, err := sys.Decide(t.Context(), bob, a.ID, haft.Answer{Approve: true}); err != nil {
			t.Fatal(err)
		}
		answered++
		if r := ended(t, sys, p, a.Call, false); r.Status != want {
			t.Errorf("the call that waited for a person is %s, want %s", r.Status, want)
		}
	}
	if answered != 2 {
		t.Errorf("%d calls waited for a person, want 2", answered)
	}
	for status := haft.StatusRunning; status != haft.StatusSuccess && !late; <-time.After(20 * time.Millisecond) {
		c, err := sys.Chain(t.Context(), p, chain)
		if err != nil || c.Status.Final() && c.Status != haft.StatusSuccess {
			t.Fatalf("the chain: %+v, %v", c, err)
		}
		status = c.Status
	}
	res, err := sys.Call(t.Context(), haft.Call{Principal: p, Tool: "add", Args: []byte(`{"a": 20, "b": 22}`)})
	if err != nil || string(res.Value) != "42" {
		t.Fatalf("a new call: %+v, %v", res, err)
	}
}

// ended returns the record of a call when it has ended, or waits for a person if that is enough.
func ended(t *testing.T, sys *app.Server, p haft.Principal, id haft.CallID, waits bool) *haft.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		r, err := sys.Record(ctx, p, id)
		if err != nil {
			t.Fatalf("call %s: %v", id, err)
		}
		if r.Status.Final() || waits && r.Status == haft.StatusPending {
			return r
		}
		select {
		case <-ctx.Done():
			t.Fatalf("call %s stays %s", id, r.Status)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// verify has the audit log of both organisations verified.
func (f *fixture) verify(t *testing.T) {
	t.Helper()
	for _, org := range []string{"local", "other"} {
		f.verifyOrg(t, org)
	}
}

// verifyOrg has the audit log of an organisation verified.
func (f *fixture) verifyOrg(t *testing.T, org string) {
	t.Helper()
	args := []string{"audit", "verify", "--org", org, "--data", f.data}
	if f.database != "" {
		args = append(args, "--database", f.database)
	}
	var out, errs bytes.Buffer
	if code := run(context.WithoutCancel(t.Context()), args,
		cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != exit.OK ||
		!strings.HasPrefix(out.String(), "sound") {
		t.Fatalf("haft audit verify of %s ends with %d:\n%s%s", org, code, &out, &errs)
	}
}

func (f *fixture) config() app.ServerConfig {
	var cfg app.ServerConfig
	cfg.Data, cfg.Database, cfg.AllowReduced = f.data, f.database, true
	return cfg
}

// unpack unpacks an archive.
func unpack(t *testing.T, file, dir string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			err = root.MkdirAll(h.Name, 0o700)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = root.WriteFile(h.Name, data, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
