package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"haft"
	"haft/internal/registry"
)

// resolve resolves a tool and returns its source, or the code of the error.
func resolve(t testing.TB, r *registry.Registry, org, ref, digest string) string {
	t.Helper()
	c, err := r.Resolve(t.Context(), org, ref, digest)
	if err != nil {
		return string(haft.CodeOf(err)) + ": " + haft.MessageOf(err)
	}
	return c.Tool.Version.Source
}

func TestResolve(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			r := newRegistry(t, "run_code")
			if shared {
				r.Share()
			}
			is := func(want, org, ref, digest string) {
				t.Helper()
				for range 2 { // loaded, and kept
					if got := resolve(t, r, org, ref, digest); got != want {
						t.Fatalf("Resolve(%q, %q, %q) = %q, want %q", org, ref, digest, got, want)
					}
				}
			}
			const (
				noTool    = "not_found: there is no such tool"
				noVersion = "not_found: the tool has no version with that digest"
			)
			if got := resolve(t, r, "acme", "f", ""); !strings.HasPrefix(got, "not_found: ") {
				t.Fatalf("Resolve of nothing = %q", got)
			}
			one := mustPut(t, r, ann, haft.Draft{Source: "def f(): # 1."}).Tool
			is("def f(): # 1.", "acme", "f", "")
			is("def f(): # 1.", "acme", string(one.ID), one.Version.Digest)
			is(noVersion, "acme", "f", "sha256:other")
			is(noTool, "", "f", "")
			is(noTool, "acme", "", "")
			if got := resolve(t, r, "other", string(one.ID), ""); !strings.HasPrefix(got, "not_found: ") {
				t.Fatalf("Resolve for another organisation = %q", got)
			}
			two := mustPut(t, r, ann, haft.Draft{Source: "def f(): # 2."}).Tool
			is("def f(): # 2.", "acme", "f", "")
			is("def f(): # 2.", "acme", string(one.ID), "")
			is("def f(): # 1.", "acme", "f", one.Version.Digest)
			is("def f(): # 2.", "acme", "f", two.Version.Digest)
			set(t, r, ann, "f", haft.ToolState{Version: new(1)})
			is("def f(): # 1.", "acme", "f", "")
			is("def f(): # 2.", "acme", "f", two.Version.Digest)
			set(t, r, ann, "f", haft.ToolState{Disabled: new(true)})
			is("denied: the tool is disabled", "acme", "f", "")
			is("denied: the tool is disabled", "acme", string(one.ID), two.Version.Digest)
			mustPut(t, r, ann, haft.Draft{Source: "def f(): # 3."})
			is("denied: the tool is disabled", "acme", "f", "")
			set(t, r, ann, "f", haft.ToolState{Disabled: new(false)})
			is("def f(): # 3.", "acme", "f", "")
			if err := r.Remove(t.Context(), ann, "f", ""); err != nil {
				t.Fatal(err)
			}
			if got := resolve(t, r, "acme", "f", one.Version.Digest); !strings.HasPrefix(got, "not_found: ") {
				t.Fatalf("Resolve of what was removed = %q", got)
			}
			// Built-in tools are there for everybody, without source.
			c, err := r.Resolve(t.Context(), "acme", "run_code", "")
			if err != nil || c.Tool.Org != "" {
				t.Fatalf("Resolve of a built-in tool = %+v, %v", c, err)
			}
			is("", "other", "run_code", c.Tool.Version.Digest)
			is("", "other", string(c.Tool.ID), "")
			is(noVersion, "acme", "run_code", one.Version.Digest)
		})
	}
}

// set changes a tool.
func set(t testing.TB, r *registry.Registry, p haft.Principal, ref string, s haft.ToolState) *haft.Tool {
	t.Helper()
	tool, err := r.Set(t.Context(), p, ref, s)
	if err != nil {
		t.Fatalf("Set(%s, %+v): %v", ref, s, err)
	}
	return tool
}

// Two processes over one shared store see each other's changes at once.
func TestResolve_sees_what_others_write(t *testing.T) {
	s := open(t)
	cfg := registry.Config{Derive: derive, Review: scan}
	here, there := registry.New(s, cfg), registry.New(s, cfg)
	here.Share()
	there.Share()
	for n := range 20 {
		source := fmt.Sprintf("def f(): # %d.", n)
		put := mustPut(t, there, ann, haft.Draft{Source: source}).Tool
		if got := resolve(t, here, "acme", "f", ""); got != source {
			t.Fatalf("Resolve = %q, want %q", got, source)
		}
		if got := resolve(t, here, "acme", string(put.ID), put.Version.Digest); got != source {
			t.Fatalf("Resolve by digest = %q, want %q", got, source)
		}
	}
	set(t, there, ann, "f", haft.ToolState{Disabled: new(true)})
	if got := resolve(t, here, "acme", "f", ""); got != "denied: the tool is disabled" {
		t.Errorf("Resolve of what another process disabled = %q", got)
	}
}

func TestResolve_keeps_so_many(t *testing.T) {
	r := registry.New(open(t), registry.Config{Derive: derive, Review: scan, Cache: 5})
	for n := range 12 {
		mustPut(t, r, ann, haft.Draft{Source: fmt.Sprintf("def f%d(): # F.", n)})
		if got := resolve(t, r, "acme", fmt.Sprintf("f%d", n), ""); !strings.HasPrefix(got, "def") {
			t.Fatal(got)
		}
	}
	if n := r.Cached(); n != 5 {
		t.Errorf("%d tools are kept, want 5", n)
	}
	hit, err := r.Resolve(t.Context(), "acme", "f11", "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Resolve(t.Context(), "acme", "f11", ""); err != nil || again != hit {
		t.Errorf("Resolve compiled again what was kept (%v)", err)
	}
}

// Those who want a tool at the same time get one and the same.
func TestResolve_compiles_once(t *testing.T) {
	r := newRegistry(t)
	mustPut(t, r, ann, haft.Draft{Source: "def f(): # F."})
	var wg sync.WaitGroup
	begin := make(chan struct{})
	got := make([]*registry.Compiled, 32)
	for i := range got {
		wg.Go(func() {
			<-begin
			c, err := r.Resolve(t.Context(), "acme", "f", "")
			if err != nil {
				t.Error(err)
			}
			got[i] = c
		})
	}
	close(begin)
	wg.Wait()
	for _, c := range got {
		if c != got[0] {
			t.Fatal("Resolve gave two compiled forms of one version")
		}
	}
}

// The end of one caller's context is not the business of those who wait for the
// same tool: one of them loads it in turn.
func TestResolve_cancelled(t *testing.T) {
	s := open(t)
	synctest.Test(t, func(t *testing.T) {
		r := registry.New(s, registry.Config{})
		gone, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := r.Load(gone, "f", func(ctx context.Context) (int64, error) {
				<-ctx.Done()
				return 0, fmt.Errorf("read a tool: %w", ctx.Err())
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who is cancelled gets %v", err)
			}
		})
		synctest.Wait()
		var loads atomic.Int64
		for range 4 {
			wg.Go(func() {
				_, err := r.Load(t.Context(), "f", func(context.Context) (int64, error) { loads.Add(1); return 1, nil })
				if err != nil {
					t.Errorf("who waits for one that is cancelled gets %v", err)
				}
			})
		}
		impatient, stop := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := r.Load(impatient, "f", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("who does not want to wait gets %v", err)
			}
		})
		synctest.Wait()
		if n := r.Waiting(); n != 1 {
			t.Errorf("%d loads are under way, want 1", n)
		}
		stop()
		synctest.Wait()
		cancel()
		wg.Wait()
		if n := loads.Load(); n != 1 {
			t.Errorf("loaded %d times after the first was cancelled, want once", n)
		}
	})
}

// A load that panics does not leave the others waiting.
func TestResolve_panics(t *testing.T) {
	s := open(t)
	synctest.Test(t, func(t *testing.T) {
		r := registry.New(s, registry.Config{})
		begin := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = r.Load(t.Context(), "f", func(context.Context) (int64, error) { <-begin; panic("bug") })
		})
		synctest.Wait()
		wg.Go(func() {
			if loaded, err := r.Load(t.Context(), "f", nil); loaded || err == nil {
				t.Errorf("who waited for a panic gets loaded %v, %v", loaded, err)
			}
		})
		synctest.Wait()
		close(begin)
		wg.Wait()
	})
}

// What is kept is bounded in size too: a thousand large sources are a gigabyte.
func TestResolve_keeps_so_much(t *testing.T) {
	r := registry.New(open(t), registry.Config{})
	load := func(name string, cost int64) bool {
		t.Helper()
		loaded, err := r.Load(t.Context(), name, func(context.Context) (int64, error) { return cost, nil })
		if err != nil {
			t.Fatal(err)
		}
		return loaded
	}
	load("a", registry.MaxCost/2)
	load("b", registry.MaxCost/4)
	if load("a", 0) {
		t.Error("a was forgotten early")
	}
	load("c", registry.MaxCost/2) // b is the one that nobody asked for of late
	if n := r.Cached(); n != 2 || load("a", 0) || load("c", 0) || !load("b", 0) {
		t.Errorf("%d are kept, and not the ones that were asked for last", n)
	}
	load("d", 2*registry.MaxCost)
	if n := r.Cached(); n != 1 {
		t.Errorf("%d are kept beside one that is too large", n)
	}
}

// TestHammer resolves while versions are put, set and removed. After a write has
// returned, nobody may get what was before.
func TestHammer(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			r := registry.New(open(t), registry.Config{Derive: derive, Review: scan, Cache: 4})
			if shared {
				r.Share()
			}
			const tools, rounds = 3, 20
			var low [tools]atomic.Int64 // the number of the last version whose Put has returned
			for i := range tools {
				mustPut(t, r, ann, haft.Draft{Source: fmt.Sprintf("def f%d(): # 1.", i)})
				low[i].Store(1)
			}
			done := make(chan struct{})
			var readers, writers sync.WaitGroup
			for i := range 4 {
				readers.Go(func() {
					for n := i; ; n++ {
						select {
						case <-done:
							return
						default:
						}
						k := n % tools
						least := low[k].Load()
						c, err := r.Resolve(t.Context(), "acme", fmt.Sprintf("f%d", k), "")
						switch {
						case err != nil:
							t.Errorf("Resolve(f%d): %v", k, err)
							return
						case int64(c.Tool.Version.Number) < least:
							t.Errorf("Resolve(f%d) gave version %d after version %d was put", k, c.Tool.Version.Number,
								least)
							return
						}
					}
				})
			}
			for k := range tools {
				writers.Go(func() {
					for n := 2; n < rounds; n++ {
						c, err := r.Put(t.Context(), ann, haft.Draft{Source: fmt.Sprintf("def f%d(): # %d.", k, n)})
						if err != nil {
							t.Errorf("Put: %v", err)
							return
						}
						low[k].Store(int64(c.Tool.Version.Number))
					}
				})
			}
			writers.Wait()
			close(done)
			readers.Wait()
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	r := newRegistry(b)
	mustPut(b, r, ann, haft.Draft{Source: "def f(a: string): # F."})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Resolve(b.Context(), "acme", "f", ""); err != nil {
			b.Fatal(err)
		}
	}
}
