package builtin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/goldentest"
	"haft/sandbox"
	"haft/schema"
)

// echoIn has one property of each sort.
type echoIn struct {
	Text   string   `json:"text" jsonschema:"what to say"`
	Times  int      `json:"times,omitempty" jsonschema:"how often"`
	Loud   *bool    `json:"loud,omitempty"`
	Rate   float64  `json:"rate,omitzero"`
	Tags   []string `json:"tags,omitempty"`
	Mode   string   `json:"mode,omitempty"`
	Nested []struct {
		Name string `json:"name"`
	} `json:"nested,omitempty"`
}

type echoOut struct {
	Text string `json:"text"`
}

// add adds a tool or fails the test.
func add[In, Out any](t testing.TB, s *builtin.Set, name string,
	fn func(context.Context, builtin.Call, In) (Out, error)) {
	t.Helper()
	if err := builtin.Add(s, builtin.Def{Name: name, Description: "A tool."}, fn); err != nil {
		t.Fatal(err)
	}
}

// echo returns a set with one tool.
func echo(t testing.TB, fn func(ctx context.Context, c builtin.Call, in echoIn) (echoOut, error)) *builtin.Set {
	t.Helper()
	s := builtin.New()
	add(t, s, "echo", fn)
	return s
}

// request asks for the tool echo.
func request(args string) executor.Request {
	return executor.Request{Call: "c_1", Org: "acme", Principal: haft.Principal{Org: "acme", User: "ann"},
		Kind: haft.KindBuiltin, Tool: "echo", Args: json.RawMessage(args)}
}

func TestSet_tools_are_pinned(t *testing.T) {
	s := builtin.New()
	d := builtin.Def{
		Name: "echo", Description: "Says it again.", Category: "demo", Tags: []string{"a"}, Version: "1",
		Enums: map[string][]string{"mode": {"plain", "fancy"}}, Settings: haft.Settings{Parallel: true},
	}
	err := errors.Join(
		builtin.Add(s, d, func(context.Context, builtin.Call, echoIn) (echoOut, error) { return echoOut{}, nil }),
		builtin.RunCode(s, s, builtin.CodeConfig{}),
		builtin.FetchWebpage(s, http.DefaultClient, nil),
		builtin.HTTPRequest(s, http.DefaultClient),
	)
	if err != nil {
		t.Fatal(err)
	}
	tools := s.Tools()
	if len(tools) != 4 {
		t.Fatalf("there are %d tools", len(tools))
	}
	for _, tool := range tools {
		t.Run(tool.Name, func(t *testing.T) {
			v := tool.Version
			if tool.ID != haft.ToolID("builtin:"+tool.Name) || tool.Org != "" || v.Number != 1 ||
				v.Kind != haft.KindBuiltin {
				t.Errorf("got %+v", tool)
			}
			if v.Health.Status != haft.HealthStrict && tool.Name != "http_request" { // whose headers have any name
				t.Errorf("the health is %+v", v.Health)
			}
			for _, raw := range []json.RawMessage{v.Parameters, v.Returns} {
				tree, err := schema.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := schema.Compile(tree); err != nil {
					t.Errorf("%s does not compile: %v", raw, err)
				}
			}
			golden(t, filepath.Join("testdata", tool.Name+".json"), tool)
		})
	}
}

// golden compares v as JSON with a file.
func golden(t *testing.T, file string, v any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	goldentest.Equal(t, file, b.Bytes())
}

func TestAdd_refuses(t *testing.T) {
	ok := builtin.Def{Name: "x", Description: "d"}
	for name, c := range map[string]struct {
		add  func(*builtin.Set) error
		says string
	}{
		"no_name": {func(s *builtin.Set) error {
			return builtin.Add(s, builtin.Def{}, func(context.Context, builtin.Call, struct{}) (int, error) {
				return 0,
					nil
			})
		}, "needs a name"},
		"a_name_that_is_taken": {func(s *builtin.Set) error {
			f := func(context.Context, builtin.Call, struct{}) (int, error) { return 0, nil }
			if err := builtin.Add(s, ok, f); err != nil {
				return fmt.Errorf("the first: %w", err)
			}
			return builtin.Add(s, ok, f)
		}, "two built-in tools"},
		"arguments_that_are_no_object": {func(s *builtin.Set) error {
			return builtin.Add(s, ok, func(context.Context, builtin.Call, []string) (int, error) { return 0, nil })
		}, ""},
		"arguments_without_a_schema": {func(s *builtin.Set) error {
			return builtin.Add(s, ok, func(context.Context, builtin.Call, struct{ F func() }) (int, error) {
				return 0,
					nil
			})
		}, ""},
		"values_of_no_property": {func(s *builtin.Set) error {
			d := ok
			d.Enums = map[string][]string{"nope": {"a"}}
			return builtin.Add(s, d, func(context.Context, builtin.Call, echoIn) (int, error) { return 0, nil })
		}, "no property nope"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.add(builtin.New()); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

func TestDigest_changes_with_what_people_rely_on(t *testing.T) {
	seen := map[string]string{}
	digest := func(d builtin.Def) string {
		s := builtin.New()
		if err := builtin.Add(s, d, func(context.Context, builtin.Call, echoIn) (echoOut, error) {
			return echoOut{},
				nil
		}); err != nil {
			t.Fatal(err)
		}
		return s.Tools()[0].Version.Digest
	}
	yes := true
	base := builtin.Def{Name: "x", Description: "d"}
	for name, change := range map[string]func(*builtin.Def){
		"nothing": func(*builtin.Def) {}, "name": func(d *builtin.Def) { d.Name = "y" },
		"description": func(d *builtin.Def) { d.Description = "e" },
		"version":     func(d *builtin.Def) { d.Version = "2" },
		"settings":    func(d *builtin.Def) { d.Settings.Parallel = true },
		"annotations": func(d *builtin.Def) { d.Annotations.ReadOnly = &yes },
		"schema":      func(d *builtin.Def) { d.Enums = map[string][]string{"mode": {"a"}} },
	} {
		d := base
		change(&d)
		got := digest(d)
		if other, ok := seen[got]; ok || got != digest(d) {
			t.Errorf("%s and %s have one digest, or one has two", name, other)
		}
		seen[got] = name
	}
}

func TestExecute_result(t *testing.T) {
	var progress []string
	var streamed bytes.Buffer
	var late builtin.Call
	s := echo(t, func(_ context.Context, c builtin.Call, in echoIn) (echoOut, error) {
		late = c
		c.Progress(map[string]int{"percent": 50})
		c.Progress(math.NaN())
		c.Progress(strings.Repeat("x", 1<<20))
		c.Stdout([]byte("hé\xffllo\x00"))
		if c.ID != "c_1" || c.Principal.User != "ann" || c.Env["A"] != "1" || c.Limits.Wall.D() != 7*time.Second ||
			c.Limits.Memory == 0 {
			return echoOut{}, fmt.Errorf("the call is %+v", c)
		}
		return echoOut{in.Text + "<&>"}, nil
	})
	req := request(`{"text":"日本 \u202e\ud83d\ude00","times":2,"loud":null}`)
	req.Env, req.Limits = map[string]string{"A": "1"}, haft.Limits{Wall: haft.Millis(7 * time.Second), Stdout: 6}
	req.Progress = func(b json.RawMessage) { progress = append(progress, string(b)) }
	req.Stdout = func(b []byte) { streamed.Write(b) }
	res, err := s.Execute(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	late.Progress(1)
	late.Stdout([]byte("too late"))
	if res.Status != haft.StatusSuccess || string(res.Value) != "{\"text\":\"日本 \u202e😀<&>\"}" || res.Error != nil {
		t.Errorf("got %s %s %+v", res.Status, res.Value, res.Error)
	}
	if res.Call != "c_1" || res.Tool != "echo" || res.Digest != s.Tools()[0].Version.Digest {
		t.Errorf("it is called %s %s %s", res.Call, res.Tool, res.Digest)
	}
	if res.Stdout != "hé\uFFFDll" || streamed.String() != "hé\xffll" || res.Truncated.Stdout != 2 ||
		res.Usage.Stdout != 8 {
		t.Errorf("stdout %q, streamed %q, %+v", res.Stdout, streamed.String(), res.Truncated)
	}
	if diff := cmp.Diff([]string{`{"percent":50}`}, progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	want := haft.Sandbox{Provider: "builtin", Isolation: haft.Isolation{Level: haft.LevelNone,
		Controls: []haft.Control{}}}
	if diff := cmp.Diff(want, res.Sandbox); diff != "" {
		t.Errorf("sandbox (-want +got):\n%s", diff)
	}
	if res.Timeline.Execute <= 0 || res.Timeline.Total < res.Timeline.Execute || res.Usage.Wall <= 0 {
		t.Errorf("the timeline is %+v", res.Timeline)
	}
}

func TestExecute_fails_by_error(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		status haft.Status
		kind   haft.FailureKind
		retry  haft.Retry
		says   string
	}{
		{"invalid", &haft.Error{Code: haft.CodeInvalid, Message: "say less", Misfits: []haft.Misfit{{Pointer: "/text"}},
			Err: errors.New("hunter2")}, haft.StatusValidation, haft.FailValidation, haft.RetryChanged, "say less"},
		{"denied", &haft.Error{Code: haft.CodeDenied, Message: "no"}, haft.StatusDenied, haft.FailDenied,
			haft.RetryNever, "no"},
		{"rate", &haft.Error{Code: haft.CodeRateLimited, Message: "slower", RetryAfter: 5}, haft.StatusRate,
			haft.FailRate, haft.RetrySame, "slower"},
		{"unavailable", fmt.Errorf("wrapped hunter2: %w", &haft.Error{Code: haft.CodeUnavailable, Message: "away"}),
			haft.StatusError, haft.FailException, haft.RetrySame, "away"},
		{"not_found", &haft.Error{Code: haft.CodeNotFound, Message: "none"}, haft.StatusError, haft.FailException,
			haft.RetryChanged, "none"},
		{"internal", &haft.Error{Code: haft.CodeInternal, Message: "ours"}, haft.StatusError, haft.FailInternal,
			haft.RetryNever, "ours"},
		{"other", errors.New("plain \x1b[31mwords\xff"), haft.StatusError, haft.FailException, haft.RetryChanged,
			"plain \uFFFD[31mwords\uFFFD"},
		{"long", errors.New(strings.Repeat("ü", 1<<20)), haft.StatusError, haft.FailException, haft.RetryChanged, "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := echo(t, func(context.Context, builtin.Call, echoIn) (echoOut, error) { return echoOut{"x"}, c.err })
			res, err := s.Execute(t.Context(), request(`{"text":"x"}`))
			if err != nil {
				t.Fatal(err)
			}
			f := res.Error
			if res.Status != c.status || f == nil || f.Kind != c.kind || f.Retry != c.retry ||
				!strings.Contains(f.Message, c.says) || string(res.Value) != "null" {
				t.Fatalf("got %s %s %+v, want %s %s %s %q", res.Status, res.Value, f, c.status, c.kind, c.retry, c.says)
			}
			if strings.Contains(f.Message, "hunter2") || len(f.Message) > 5000 {
				t.Errorf("the message is %.200s (%d bytes)", f.Message, len(f.Message))
			}
		})
	}
}

func TestExecute_has_no_result(t *testing.T) {
	s := echo(t, func(context.Context, builtin.Call, echoIn) (echoOut, error) {
		return echoOut{}, fmt.Errorf("the line is cut: %w", executor.ErrMaybeRan)
	})
	for name, c := range map[string]struct {
		change func(*executor.Request)
		code   haft.Code
	}{
		"unknown_tool":   {func(r *executor.Request) { r.Tool = "nope" }, haft.CodeNotFound},
		"other_kind":     {func(r *executor.Request) { r.Kind = haft.KindPython }, haft.CodeNotFound},
		"other_version":  {func(r *executor.Request) { r.Digest = "sha256:00" }, haft.CodeConflict},
		"huge_arguments": {func(r *executor.Request) { r.Args = make([]byte, 17<<20) }, haft.CodeInvalid},
		"needs_a_level": {func(r *executor.Request) { r.Need = sandbox.Need{Level: haft.LevelReduced} },
			haft.CodeDenied},
		"needs_control": {func(
			r *executor.Request) {
			r.Need = sandbox.Need{Controls: []haft.Control{haft.ControlSeccomp}}
		}, haft.CodeDenied},
		"may_have_run": {func(*executor.Request) {}, haft.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(`{"text":"x"}`)
			c.change(&req)
			res, err := s.Execute(t.Context(), req)
			if res != nil || haft.CodeOf(err) != c.code ||
				errors.Is(err, executor.ErrMaybeRan) != (name == "may_have_run") {
				t.Errorf("got %+v, %v, want %s", res, err, c.code)
			}
		})
	}
}

func TestExecute_reads_arguments_strictly(t *testing.T) {
	s := echo(t, func(_ context.Context, _ builtin.Call, in echoIn) (echoOut, error) { return echoOut{in.Text}, nil })
	for args, want := range map[string]haft.Status{
		`{"text":"x"}`: haft.StatusSuccess, `{}`: haft.StatusSuccess, ``: haft.StatusSuccess,
		` {"text":"x"} `:        haft.StatusSuccess,
		`{"text":"x","more":1}`: haft.StatusValidation, `{"text":1}`: haft.StatusValidation,
		`{"text":"x"}{}`: haft.StatusValidation,
		`{"text":"x"} x`: haft.StatusValidation, `[]`: haft.StatusValidation, `{"text":`: haft.StatusValidation,
		`{!`:                      haft.StatusValidation,
		`{"nested":[{"nope":1}]}`: haft.StatusValidation, `{"times":1e99}`: haft.StatusValidation,
	} {
		res, err := s.Execute(t.Context(), request(args))
		if err != nil || res.Status != want {
			t.Errorf("%q: got %+v, %v, want %s", args, res, err, want)
		}
	}
}

func TestExecute_panics_are_contained(t *testing.T) {
	var log bytes.Buffer
	for name, c := range map[string]struct {
		do   func(in echoIn)
		logs string
	}{
		"with_an_argument": {func(in echoIn) { panic(in.Text) }, "panic=string"},
		"with_an_error":    {func(echoIn) { panic(errors.New("hunter2")) }, "panic=*errors.errorString"},
		"nil_pointer":      {func(echoIn) { var p *echoIn; p.Text = "" }, "nil pointer"},
		"index":            {func(in echoIn) { _ = in.Tags[len(in.Text)] }, "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			log.Reset()
			s := echo(t, func(_ context.Context, _ builtin.Call, in echoIn) (echoOut,
				error) {
				c.do(in)
				return echoOut{}, nil
			})
			s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			res, err := s.Execute(t.Context(), request(`{"text":"hunter2"}`))
			if err != nil || res.Status != haft.StatusError || res.Error.Kind != haft.FailInternal ||
				res.Error.Retry != haft.RetryNever {
				t.Fatalf("got %+v, %v", res, err)
			}
			if m := res.Error.Message; strings.Contains(m, "hunter2") || strings.Contains(m, ".go") ||
				strings.Contains(m, "goroutine") {
				t.Errorf("the message is %q", m)
			}
			if l := log.String(); !strings.Contains(l, c.logs) || !strings.Contains(l, "set_test.go") ||
				strings.Contains(l, "hunter2") {
				t.Errorf("the log is %s", l)
			}
		})
	}
}

// never is a value that breaks its encoder.
type never struct{}

// MarshalJSON panics.
func (never) MarshalJSON() ([]byte, error) { panic("no") }

func TestExecute_values_that_cannot_be(t *testing.T) {
	s := builtin.New()
	add(t, s, "nan", func(context.Context, builtin.Call, struct{}) (float64, error) { return math.NaN(), nil })
	add(t, s, "never", func(context.Context, builtin.Call, struct{}) (never, error) { return never{}, nil })
	add(t, s, "huge", func(context.Context, builtin.Call, struct{}) (string, error) {
		return strings.Repeat("x", 5<<20),
			nil
	})
	add(t, s, "fits", func(context.Context, builtin.Call, struct{}) (string, error) {
		return strings.Repeat("x", 4<<20-2), nil
	})
	add(t, s, "nothing", func(context.Context, builtin.Call, struct{}) (any, error) { return nil, nil })
	for name, want := range map[string]haft.FailureKind{"nan": haft.FailValue, "never": haft.FailInternal,
		"huge": haft.FailResult, "fits": "", "nothing": ""} {
		res := execute(t, s, name, struct{}{}, nil)
		if want == "" && res.Error != nil || want != "" && (res.Error == nil || res.Error.Kind != want) {
			t.Errorf("%s: got %s %+v, want %q", name, res.Status, res.Error, want)
		}
		if name == "huge" && res.Status != haft.StatusLimit {
			t.Errorf("the status is %s", res.Status)
		}
	}
}

func TestExecute_time(t *testing.T) {
	wait := func(ctx context.Context, _ builtin.Call, _ echoIn) (echoOut, error) {
		<-ctx.Done()
		return echoOut{}, ctx.Err()
	}
	stop := errors.New("stopped by a person")
	for _, c := range []struct {
		name   string
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		limit  time.Duration
		took   time.Duration
		status haft.Status
		says   string
	}{
		{"default_limit", nil, 0, 30 * time.Second, haft.StatusTimeout, "longer than 30s"},
		{"own_limit", nil, 2 * time.Second, 2 * time.Second, haft.StatusTimeout, "longer than 2s"},
		{"ceiling", nil, 100 * time.Hour, time.Hour, haft.StatusTimeout, "longer than 1h"},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, 0, time.Second, haft.StatusTimeout, "allowed to"},
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(3*time.Second, func() { cancel(stop) })
			return ctx, func() { cancel(nil) }
		}, 0, 3 * time.Second, haft.StatusCancelled, "stopped"},
		{"cancelled_before", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, 0, 0, haft.StatusCancelled, "stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := echo(t, wait)
				ctx := t.Context()
				if c.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = c.ctx(ctx)
					defer cancel()
				}
				req := request(`{"text":"x"}`)
				req.Limits.Wall = haft.Millis(c.limit)
				began := time.Now()
				res, err := s.Execute(ctx, req)
				if err != nil || res.Status != c.status || !strings.Contains(res.Error.Message, c.says) ||
					time.Since(began) != c.took {
					t.Errorf("got %+v, %v after %v, want %s that says %q after %v", res, err, time.Since(began),
						c.status, c.says, c.took)
				}
			})
		})
	}
}

func TestExecute_a_value_counts_even_if_it_is_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := echo(t, func(ctx context.Context, _ builtin.Call, _ echoIn) (echoOut, error) {
			<-ctx.Done()
			return echoOut{"done all the same"}, nil
		})
		res, err := s.Execute(t.Context(), request(`{"text":"x"}`))
		if err != nil || res.Status != haft.StatusSuccess {
			t.Errorf("got %+v, %v", res, err)
		}
	})
}

func TestAddRaw(t *testing.T) {
	inner := haft.Sandbox{Provider: "local", Isolation: haft.Isolation{Level: haft.LevelNamespaces}}
	away := &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
	s := builtin.New()
	err := builtin.AddRaw[echoIn, echoOut](s, builtin.Def{Name: "echo"},
		func(ctx context.Context, req executor.Request, in echoIn) (*haft.Result, error) {
			switch in.Text {
			case "error":
				return nil, away
			case "panic":
				panic("no")
			case "stopped":
				<-ctx.Done()
				return nil, ctx.Err()
			case "nothing":
				return nil, nil
			}
			return &haft.Result{Status: haft.StatusLimit, Error: &haft.Failure{Kind: haft.FailMemory},
				Value: json.RawMessage(`1`), Stdout: "out", Stderr: "err",
				Usage: haft.Usage{MaxRSS: 5}, Sandbox: inner, Timeline: haft.Timeline{Cell: "hit", Execute: 7},
				Artifacts: []haft.Artifact{{Name: "a"}}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	need := func(text string) executor.Request {
		r := request(`{"text":"` + text + `"}`)
		r.Need.Level = haft.LevelNamespaces // which the tool passes on
		return r
	}
	res, err := s.Execute(t.Context(), need("fine"))
	if err != nil || res.Status != haft.StatusLimit || res.Stdout != "out" || res.Stderr != "err" ||
		res.Usage.MaxRSS != 5 || res.Timeline.Cell != "hit" || res.Timeline.Execute != 7 || len(res.Artifacts) != 1 {
		t.Errorf("got %+v, %v", res, err)
	}
	if diff := cmp.Diff(inner, res.Sandbox); diff != "" || res.Call != "c_1" || res.Tool != "echo" || res.Digest == "" {
		t.Errorf("got %+v", res)
	}
	if res, err := s.Execute(t.Context(), need("error")); res != nil || !errors.Is(err, away) {
		t.Errorf("an error gives %+v, %v", res, err)
	}
	if res, err := s.Execute(t.Context(), need("panic")); err != nil || res.Error.Kind != haft.FailInternal {
		t.Errorf("a panic gives %+v, %v", res, err)
	}
	if res, err := s.Execute(t.Context(), need("nothing")); err != nil || res.Error == nil ||
		res.Error.Kind != haft.FailInternal {
		t.Errorf("no result gives %+v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if res, err := s.Execute(ctx, need("stopped")); err != nil || res.Status != haft.StatusTimeout {
		t.Errorf("an end gives %+v, %v", res, err)
	}
}
