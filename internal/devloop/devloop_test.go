package devloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/backend"
	"haft/schema"
)

// fake is a system with the tools of its sources: the word behind def is the name.
type fake struct {
	backend.System // methods that the loop does not use are missing

	mu      sync.Mutex
	puts    []string
	removed []string
	calls   []string
	events  chan haft.Event
	stopped chan struct{} // is closed when the call of the tool wait was stopped
}

func (f *fake) PutTool(_ context.Context, _ haft.Principal, d haft.Draft) (*haft.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, found := strings.CutPrefix(strings.TrimSpace(d.Source), "def ")
	f.puts = append(f.puts, d.Source)
	if !found {
		fault := &schema.SourceError{Line: 3, Column: 5, Function: "f", Message: "a type is missing\x1b[2J"}
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "hidden", Err: fmt.Errorf("derive: %w", fault)}
	}
	c := &haft.Change{Created: len(f.puts) == 1, Tool: haft.Tool{Name: name, Version: haft.Version{Number: len(f.puts),
		Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer",
		"default":3}}, "required":["city"]}`), Health: haft.SchemaHealth{Status: haft.HealthStrict}}}}
	if name == "risky" {
		c.Waiting, c.Warnings = 1, []string{"line 1: eval"}
	}
	return c, nil
}

func (f *fake) RemoveTool(_ context.Context, _ haft.Principal, ref, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, ref)
	return nil
}

func (f *fake) Tool(_ context.Context, _ haft.Principal, ref string) (*haft.Tool, error) {
	if ref == "unknown" {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such tool"}
	}
	return &haft.Tool{Name: ref, Version: haft.Version{Number: 1, Parameters: []byte(
		`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}`)}}, nil
}

func (f *fake) SetTool(_ context.Context, _ haft.Principal, _ string, _ haft.ToolState) (*haft.Tool, error) {
	return nil, &haft.Error{Code: haft.CodeDenied, Message: "somebody else has to"}
}

func (f *fake) Stream(ctx context.Context, c haft.Call, _ func(haft.Event)) (*haft.Result, bool, error) {
	f.mu.Lock()
	f.calls = append(f.calls, c.Tool+string(c.Args))
	f.mu.Unlock()
	switch c.Tool {
	case "wait":
		<-ctx.Done()
		close(f.stopped)
		return nil, false, ctx.Err()
	case "ask":
		return &haft.Result{Call: "c_1", Status: haft.StatusPending, Approval: "a_1"}, false, nil
	}
	return &haft.Result{Call: "c_1", Status: haft.StatusSuccess, Value: []byte(`"sun\u001b[2J"`)}, true, nil
}

func (f *fake) Decide(_ context.Context, _ haft.Principal, id haft.ApprovalID, _ haft.Answer) (*haft.Approval, error) {
	return &haft.Approval{ID: id, Call: "c_1", State: haft.ApprovalApproved}, nil
}

func (f *fake) Wait(context.Context, haft.Principal, haft.CallID) (*haft.Result, error) {
	return &haft.Result{Call: "c_1", Status: haft.StatusSuccess, Value: []byte(`"done"`)}, nil
}

func (f *fake) Watch(ctx context.Context, _ haft.Principal, _ haft.EventFilter, _ int64) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		for {
			select {
			case e := <-f.events:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// A console is a person who types and looks.
type console struct {
	t    *testing.T
	keys *io.PipeWriter
	done chan error

	mu   sync.Mutex
	seen strings.Builder
	grew chan struct{}
}

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Write(b)
	select {
	case c.grew <- struct{}{}:
	default:
	}
	return len(b), nil
}

// shows waits until a text is shown, and forgets what was shown up to it.
func (c *console) shows(text string) {
	c.t.Helper()
	for end := time.After(2 * time.Minute); ; {
		c.mu.Lock()
		all := c.seen.String()
		_, rest, ok := strings.Cut(all, text)
		if ok {
			c.seen.Reset()
			c.seen.WriteString(rest)
		}
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.grew:
		case <-end:
			c.t.Fatalf("%q is not shown but\n%s", text, all)
		}
	}
}

// types types a line.
func (c *console) types(line string) {
	if _, err := io.WriteString(c.keys, line+"\n"); err != nil {
		c.t.Error(err)
	}
}

// start starts the loop on a directory.
func start(t *testing.T, f *fake, dir string, remove bool) *console {
	in, keys := io.Pipe()
	c := &console{t: t, keys: keys, done: make(chan error, 1), grew: make(chan struct{}, 1)}
	go func() {
		c.done <- Run(t.Context(), Config{System: f, Principal: haft.Principal{Org: "local", User: "ann"}, Dir: dir,
			Split: byLine, Remove: remove, In: in, Out: c})
	}()
	return c
}

// put writes a file.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A person saves, breaks and mends a file, calls tools, deletes the file and leaves.
func TestRun(t *testing.T) {
	dir, f := t.TempDir(), &fake{events: make(chan haft.Event)}
	put(t, dir, "a.py", "def forecast")
	c := start(t, f, dir, false)
	c.shows("created forecast version 1")
	c.shows("forecast(city: string, days: integer = 3)")
	c.shows("schema STRICT_COMPLIANT")
	c.shows("watching")
	put(t, dir, "a.py", "broken")
	c.shows("failed " + filepath.Join(dir, "a.py") + `:3:5: function f: a type is missing\x1b[2J`)
	c.shows("forecast stays as it was")
	put(t, dir, "a.py", "def forecast ")
	c.shows("updated forecast version 3")
	put(t, dir, "b.py", "def risky")
	c.shows("waiting risky version")
	c.shows("accept risky")

	c.types("forecast city=7 days=2")
	c.shows(`sun\x1b[2J`)
	c.types("") // again
	c.shows("sun")
	c.types(`forecast {"city": "x y"}`)
	c.shows("sun")
	c.types("unknown")
	c.shows("there is no command or tool of that name")
	c.types("forecast Oslo")
	c.shows("an argument is NAME=VALUE")
	c.types("accept risky")
	c.shows("haft init --solo")
	c.types("approve")
	c.shows("no call of this prompt waits")
	c.types("ask")
	c.shows("approve a_1")
	c.types("approve")
	c.shows("done")
	f.events <- haft.Event{Type: haft.EventCompleted, Call: "c_1", Tool: "own"} // is not shown
	f.events <- haft.Event{Type: haft.EventCompleted, Call: "c_2", Tool: "forecast",
		Data: []byte(`{"status":"success"}`), Principal: haft.Principal{User: "bob"}}
	c.shows("\ncall forecast success, by bob")

	if err := os.Remove(filepath.Join(dir, "a.py")); err != nil {
		t.Fatal(err)
	}
	c.shows("a.py: the tool stays; remove it with: remove forecast")
	c.types("remove forecast")
	c.shows("removed forecast")
	c.types("quit")
	if err := <-c.done; err != nil {
		t.Error(err)
	}
	want := []string{`forecast{"city":"7","days":2}`, `forecast{"city":"7","days":2}`, `forecast{"city": "x y"}`,
		`ask{}`}
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Errorf("the calls (-want +got):\n%s", diff)
	}
	if len(f.puts) != 4 {
		t.Errorf("files that did not change were registered: %q", f.puts)
	}
	if diff := cmp.Diff([]string{"forecast"}, f.removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

// A tool that another file has stays, and with Remove the tool of a deleted file goes.
func TestRun_removes_if_asked(t *testing.T) {
	dir, f := t.TempDir(), &fake{events: make(chan haft.Event)}
	put(t, dir, "a.py", "def forecast")
	put(t, dir, "b.py", "def other")
	c := start(t, f, dir, true)
	c.shows("watching")
	put(t, dir, "c.py", "def forecast")
	c.shows("forecast version 3")
	for _, name := range []string{"a.py", "b.py"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c.shows("another file has the tool forecast")
	c.shows("removed the tool other")
	if err := c.keys.Close(); err != nil {
		t.Fatal(err)
	}
	// Not one line was typed: the loop goes on, as in the background.
	put(t, dir, "d.py", "def late")
	c.shows("late version")
	if diff := cmp.Diff([]string{"other"}, f.removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

// A directory that is not there is an error, and not a loop that waits for ever.
func TestRun_without_a_directory(t *testing.T) {
	c := start(t, &fake{events: make(chan haft.Event)}, filepath.Join(t.TempDir(), "none"), false)
	if err := <-c.done; haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Run = %v", err)
	}
}

// Ctrl-C stops a call that runs, and does not end the loop.
func TestInterruptible(t *testing.T) {
	f := &fake{stopped: make(chan struct{})}
	l := &loop{Config: Config{System: f}, in: &input{interrupts: make(chan struct{}, 1)}, out: io.Discard,
		own: map[haft.CallID]bool{}}
	l.in.interrupts <- struct{}{}
	if err := l.call(t.Context(), "wait", "{}"); !errors.Is(err, context.Canceled) {
		t.Errorf("call = %v", err)
	}
	<-f.stopped
}

// Ctrl-C is no part of a line.
func TestInput_Read(t *testing.T) {
	i := &input{in: strings.NewReader("a\x03b"), interrupts: make(chan struct{}, 1)}
	b := make([]byte, 10)
	n, err := i.Read(b)
	if err != nil || string(b[:n]) != "ab" || len(i.interrupts) != 1 {
		t.Errorf("Read = %q, %v", b[:n], err)
	}
}

func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                        nil,
		"a=1  b=2":                {"a=1", "b=2"},
		`a="x y" b='z "q"'`:       {"a=x y", `b=z "q"`},
		`a={"k": "x y"} b=[1, 2]`: {`a={"k": "x y"}`, "b=[1, 2]"},
		`a={"k": "}"} b=1`:        {`a={"k": "}"}`, "b=1"},
		"a=x]":                    {"a=x]"},
	} {
		got, err := splitWords(line)
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s is %q, want %q: %v", line, got, want, err)
		}
	}
	for _, line := range []string{`a="x`, `a={`, `a=["x]`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%s is %q", line, got)
		}
	}
}

// byLine makes a tool of each line of a source.
func byLine(_ context.Context, _ string, d haft.Draft) (drafts []haft.Draft, _ error) {
	for line := range strings.Lines(d.Source) {
		d.Source = line
		drafts = append(drafts, d)
	}
	return drafts, nil
}

// Every tool of a file is registered, and one that is no longer in it is named.
func TestRun_registers_all_tools_of_a_file(t *testing.T) {
	dir, f := t.TempDir(), &fake{events: make(chan haft.Event)}
	put(t, dir, "a.py", "def one\ndef two\n")
	c := start(t, f, dir, true)
	c.shows("one version 1")
	c.shows("two version 2")
	c.shows("watching")
	put(t, dir, "a.py", "def one\n")
	c.shows("removed the tool two")
	put(t, dir, "a.py", "def one\nbroken\n")
	c.shows("a.py:3:5")
	if err := os.Remove(filepath.Join(dir, "a.py")); err != nil {
		t.Fatal(err)
	}
	c.shows("removed the tool one")
	if diff := cmp.Diff([]string{"two", "one"}, f.removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}
