package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/audit"
	"haft/internal/egress/route"
	"haft/internal/engine"
	"haft/internal/secret"
	"haft/internal/store/sqlite"
)

// The marks of the tests. A filter masks one, and the vault has the other.
const (
	filtered = "ZZFILTEREDZZ"
	stored   = "s3cr3tStoredValueOfTheVault"
)

// marks masks the one mark wherever a tool says it.
const marks = `
version: 1
roles:
  user: ["tool:*"]
  admin: ["tool:*"]
rules:
  - {id: asks, effect: ask, tools: ["tool:asks"], approval: {roles: [approver]}}
filters:
  - {id: marks, on: output, action: mask, pattern: 'ZZFILTEREDZZ'}
`

// unfilled are fields of a result that the test leaves alone, and why.
var unfilled = map[string]string{
	"Result.Sandbox": "said by the sandbox provider that the operator chose, before the tool runs",
}

// fill puts mark into every text of v, with its path so that a leak says where it is.
// A field that is new is filled like the others.
func fill(v reflect.Value, path, mark string) {
	if unfilled[path] != "" {
		return
	}
	raw := reflect.TypeFor[json.RawMessage]()
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Type() == raw:
		v.SetBytes([]byte(`{"a": ["` + path + " " + mark + `", 17]}`))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes([]byte("\x00\xff" + path + " " + mark + "\xfe"))
	case v.Kind() == reflect.String:
		v.SetString(path + " " + mark)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, mark)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), path, mark)
		}
	case v.Kind() == reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, path+"(key)", mark)
		fill(value, path, mark)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), path+"."+f.Name, mark)
			}
		}
	}
}

// spans is an observer that keeps all it is told.
type spans struct {
	mu  sync.Mutex
	all strings.Builder
}

func (s *spans) add(v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.all, "%+v\n", v)
}

func (s *spans) Begin(ctx context.Context, _ haft.Call) (context.Context, engine.Span) { return ctx, s }
func (s *spans) Stage(name string, _ time.Duration)                                    { s.add(name) }
func (s *spans) Tool(name string)                                                      { s.add(name) }

func (s *spans) End(res *haft.Result, err error) {
	s.add(err)
	if res != nil {
		raw, _ := json.Marshal(res) //nolint:errchkjson // of our own types
		s.add(string(raw))
	}
}

// fakeGuard is an egress guard whose connections are filled with marks.
type fakeGuard struct{ mark *string }

func (g fakeGuard) Host(entry string) (string, error) { return entry, nil }

func (g fakeGuard) Open(context.Context, route.Request) (*route.Route, error) {
	return &route.Route{Session: session(g)}, nil
}

type session struct{ mark *string }

func (session) Serve(context.Context, net.Conn) {}
func (session) Refused() bool                   { return true }

func (p session) Close() ([]route.Connection, []secret.Named) {
	var c route.Connection
	fill(reflect.ValueOf(&c).Elem(), "Contact", *p.mark)
	return []route.Connection{c}, nil
}

// everything is a world that keeps all that leaves it: answers, records, events, the
// audit, logs, spans, and the bytes of its database.
type everything struct {
	*world
	dir  string
	mark *string
	log  *bytes.Buffer
	seen *spans
	fell strings.Builder
	out  strings.Builder // answers
}

// watchAll makes one.
func watchAll(t *testing.T, rules string) *everything {
	t.Helper()
	x := &everything{dir: t.TempDir(), log: &bytes.Buffer{}, seen: &spans{}, mark: new(string)}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: x.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	fell := func(_ context.Context, r haft.Record) {
		raw, _ := json.Marshal(r) //nolint:errchkjson // of our own types
		x.fell.Write(raw)
	}
	hooks := map[haft.Severity]func(context.Context, haft.Record){}
	for _, severity := range haft.Severities() {
		hooks[severity] = fell
	}
	x.world = open(t, s, rules, engine.Config{
		Logger: slog.New(slog.NewTextHandler(x.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Observer: x.seen,
		AuditArgs: true,
		Vault:     &memory{values: map[string]map[string]string{"acme/": {"API_TOKEN": stored}}},
		Egress:    fakeGuard{x.mark},
		Sealer:    rot{}, OnFailure: hooks,
		Recoveries: []haft.Recovery{{Tool: "recovered",
			Recover: func(context.Context, haft.Call, *haft.Result) *haft.Result {
				res := &haft.Result{}
				fill(reflect.ValueOf(res).Elem(), "Result", *x.mark)
				res.Status, res.Error = haft.StatusSuccess, nil
				return res
			}}},
	})
	return x
}

// rot is a Sealer that hides texts from a search.
type rot struct{}

func (rot) Seal(plain, _ []byte) ([]byte, error) {
	out := bytes.Clone(plain)
	for i := range out {
		out[i] ^= 0x5a
	}
	return out, nil
}

func (r rot) Open(sealed, label []byte) ([]byte, error) { return r.Seal(sealed, label) }

// answer keeps an answer.
func (x *everything) answer(v any, err error) {
	raw, _ := json.Marshal(v) //nolint:errchkjson // of our own types
	fmt.Fprintf(&x.out, "%s %v %s\n", raw, err, haft.MessageOf(err))
}

// leaks looks for a mark in everything that has left.
func (x *everything) leaks(t *testing.T, mark string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	places := map[string]string{"answers": x.out.String(), "log": x.log.String(), "spans": x.seen.all.String(),
		"failures": x.fell.String()}
	for r, err := range x.Records(ctx, admin("acme"), haft.CallFilter{Limit: 1000}) {
		check(t, err)
		raw, _ := json.Marshal(r) //nolint:errchkjson // of our own types
		places["records"] += string(raw) + "\n"
	}
	last, err := x.Cursor(ctx)
	check(t, err)
	for e, err := range x.Watch(ctx, admin("acme"), haft.EventFilter{}, 0) {
		check(t, err)
		raw, _ := json.Marshal(e) //nolint:errchkjson // of our own types
		places["events"] += string(raw) + "\n"
		if e.Cursor >= last {
			break
		}
	}
	list, err := x.store.Audit.AuditEntries(ctx, "acme", 0, 1000)
	check(t, err)
	var export bytes.Buffer
	for _, e := range list {
		raw, _ := json.Marshal(struct {
			audit.Entry
			Body string
		}{e, string(e.Body)}) //nolint:errchkjson // of our own types
		export.Write(raw)
	}
	places["audit"] = export.String()
	check(t, filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		places["file "+filepath.Base(path)] = string(raw)
		return err
	}))
	for where, text := range places {
		// The redo log is empty when its rows have just been moved to the database.
		if text == "" && where != "log" && where != "failures" && where != "file redo.log" {
			t.Errorf("nothing was collected from %s", where)
		}
		for rest := text; ; {
			at := strings.Index(rest, mark)
			if at < 0 {
				break
			}
			t.Errorf("in the clear in %s: …%q…", where, rest[max(0, at-60):at+len(mark)])
			if rest = rest[at+len(mark):]; len(rest) < len(text)-len(text)/2 {
				break
			}
		}
	}
}

// TestOutgoing_results fills every text that an executor, a recovery, a cache and the way
// out can give with a mark, and looks for it in everything that leaves.
func TestOutgoing_results(t *testing.T) {
	for _, mark := range []string{filtered, stored} {
		for name, adjust := range map[string]func(*haft.Result){
			"as it is":  func(*haft.Result) {},
			"a success": func(r *haft.Result) { r.Status, r.Error = haft.StatusSuccess, nil },
			"a failure": func(r *haft.Result) { r.Status = haft.StatusError },
			"a timeout": func(r *haft.Result) { r.Status, r.Error.Kind = haft.StatusTimeout, haft.FailTimeout },
			"pure": func(r *haft.Result) {
				r.Status, r.Error, r.Content, r.Artifacts = haft.StatusSuccess, nil,
					nil, nil
			},
			"exception": func(r *haft.Result) {
				r.Status, r.Error.Kind, r.Error.Retry = haft.StatusError, haft.FailException, haft.RetrySame
			},
			"a key that is secret": func(r *haft.Result) {
				r.Status, r.Error, r.Value = haft.StatusSuccess, nil, json.RawMessage(`{"`+mark+`": {"`+mark+`": [1]}}`)
			},
		} {
			t.Run(mark+"/"+name, func(t *testing.T) {
				x := watchAll(t, marks)
				*x.mark = mark
				x.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
					say(req, mark)
					switch req.Tool {
					case "lost":
						return nil, fmt.Errorf("%w: it said %s", executor.ErrMaybeRan, mark)
					case "broken":
						return nil, fmt.Errorf("it said %s", mark)
					case "panics":
						panic("it said " + mark)
					}
					res := &haft.Result{}
					fill(reflect.ValueOf(res).Elem(), "Result", mark)
					adjust(res)
					return res, nil
				})
				x.tool("acme", "plain", func(d *haft.Draft) { d.Settings.Network = []string{"a.example"} })
				x.tool("acme", "pure", func(d *haft.Draft) { d.Settings.Cacheable = true })
				x.tool("acme", "recovered", nil)
				x.tool("acme", "lost", nil)
				x.tool("acme", "broken", nil)
				x.tool("acme", "panics", nil)
				x.tool("acme", "falls", func(d *haft.Draft) { d.Settings.Fallback = "pure" })
				x.tool("acme", "again", func(d *haft.Draft) {
					d.Settings.Idempotent, d.Settings.Retry = true, haft.Backoff{Tries: 2, Initial: 1}
				})
				for _, tool := range []string{"plain", "pure", "pure", "recovered", "falls", "again", "lost", "broken",
					"panics"} {
					x.answer(x.Call(t.Context(), haft.Call{Tool: tool, Principal: user("acme", "ann")}))
				}
				x.answer(x.Batch(t.Context(), []haft.Call{{Tool: "plain", Principal: user("acme", "ann")}}))
				x.answer(x.Run(t.Context(), user("acme", "ann"), haft.Plan{Steps: []haft.Step{
					{ID: "one", Tool: "plain", OnError: haft.OnErrorContinue},
					{ID: "two", Tool: "pure",
						Args: json.RawMessage(`{"path": {"$from": "one.stdout", "default": "x"}}`)},
				}}))
				x.leaks(t, mark)
			})
		}
	}
}

// say prints a mark and tells it as progress, in pieces of all sizes.
func say(req executor.Request, mark string) {
	for n := 1; n < len(mark); n += 5 {
		for _, to := range []func([]byte){req.Stdout, req.Stderr} {
			if to != nil {
				to([]byte("streamed " + mark[:n]))
				to([]byte(mark[n:] + "\n"))
			}
		}
	}
	if req.Progress != nil {
		req.Progress(json.RawMessage(`{"message": "streamed ` + mark + `"}`))
	}
}

// TestOutgoing_rule_that_is_new checks that what was cached before there was a filter is
// filtered when it is used again.
func TestOutgoing_rule_that_is_new(t *testing.T) {
	x := watchAll(t, allowAll)
	x.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
		return ok(req, `"`+filtered+`"`), nil
	})
	x.tool("acme", "pure", func(d *haft.Draft) { d.Settings.Cacheable = true })
	if res := x.call(user("acme", "ann"), "pure", `{}`); string(res.Value) != `"`+filtered+`"` {
		t.Fatalf("without a filter: %s", res.Value)
	}
	_, err := x.PutPolicy(t.Context(), admin("acme"), false, haft.PolicyText{Text: []byte(marks)})
	check(t, err)
	res := x.call(user("acme", "ann"), "pure", `{}`)
	if !res.Cached || strings.Contains(string(res.Value), filtered) || len(res.Notices) == 0 {
		t.Errorf("cached %t: %s, %v", res.Cached, res.Value, res.Notices)
	}
	refuse := strings.ReplaceAll(marks, "action: mask", "action: refuse")
	kept, err := x.Policy(t.Context(), admin("acme"), false)
	check(t, err)
	_, err = x.PutPolicy(t.Context(), admin("acme"), false, haft.PolicyText{Text: []byte(refuse), If: kept.Revision()})
	check(t, err)
	if res := x.call(user("acme", "ann"), "pure", `{}`); res.Status != haft.StatusError ||
		res.Error.Kind != haft.FailFiltered || string(res.Value) != "null" {
		t.Errorf("refused: %s %s %+v", res.Status, res.Value, res.Error)
	}
}

// TestOutgoing_refused checks that a filter that refuses one text withholds all of the
// tool, wherever the text stands.
func TestOutgoing_refused(t *testing.T) {
	const other = "what-else-it-said"
	refuse := strings.ReplaceAll(marks, "action: mask", "action: refuse")
	for name, put := range map[string]func(*haft.Result){
		"stderr": func(r *haft.Result) { r.Stderr = filtered },
		"type": func(r *haft.Result) {
			r.Status, r.Error = haft.StatusError, &haft.Failure{Kind: haft.FailException, Type: filtered,
				Message: other}
		},
		"artifact": func(r *haft.Result) {
			r.Artifacts = append(r.Artifacts, haft.Artifact{Name: "a", Data: []byte("\x00" + filtered)})
		},
		"name": func(r *haft.Result) {
			r.Artifacts = append(r.Artifacts, haft.Artifact{Name: filtered, Data: []byte(other)})
		},
		"key": func(r *haft.Result) { r.Value = json.RawMessage(`{"` + filtered + `": 1}`) },
	} {
		t.Run(name, func(t *testing.T) {
			x := watchAll(t, refuse)
			*x.mark = other
			x.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
				say(req, other)
				res := ok(req, `"`+other+`"`)
				res.Stdout, res.Artifacts = other, []haft.Artifact{{Name: other, Data: []byte(other)}}
				put(res)
				return res, nil
			})
			x.tool("acme", "plain", func(d *haft.Draft) { d.Settings.Network = []string{"a.example"} })
			res := x.call(user("acme", "ann"), "plain", `{}`)
			x.answer(res, nil)
			if res.Error == nil || res.Error.Kind != haft.FailFiltered || len(res.Notices) == 0 {
				t.Errorf("%s: %+v, %v", res.Status, res.Error, res.Notices)
			}
			x.leaks(t, other)
			x.leaks(t, filtered)
		})
	}
}

// callFields are fields of a call that the test leaves alone, and why.
var callFields = map[string]string{
	"Principal": "said by whoever authenticated the caller; its agent is tried below",
	"Deadline":  "no text", "Limits": "no text",
	"Chain": "set by the engine for its own steps",
}

// TestOutgoing_labels puts a stored secret into every field of a call that its caller
// chooses, one by one, and looks for it in everything that is kept.
func TestOutgoing_labels(t *testing.T) {
	typ := reflect.TypeFor[haft.Call]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if callFields[f.Name] != "" {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			x := watchAll(t, allowAll)
			x.tool("acme", "plain", nil)
			_, err := x.Workspaces.AddWorkspace(t.Context(), user("acme", "ann"), haft.NewWorkspace{Name: "kept"})
			check(t, err)
			for _, mark := range []string{stored, "x-" + strings.ToUpper(stored), "4a" + fmt.Sprintf("%x", stored)} {
				c := haft.Call{Tool: "plain", Principal: user("acme", "ann")}
				v := reflect.ValueOf(&c).Elem().Field(i)
				switch {
				case v.Type() == reflect.TypeFor[json.RawMessage]():
					v.SetBytes([]byte(`{"path": "` + mark + `", "` + mark + `": 1}`))
				case v.Kind() == reflect.String:
					v.SetString(mark)
				case v.Kind() == reflect.Map:
					v.Set(reflect.ValueOf(map[string]string{"A" + strings.ReplaceAll(mark, "-", "_"): mark}))
				case v.Type() == reflect.TypeFor[[]haft.CallFile]():
					v.Set(reflect.ValueOf([]haft.CallFile{{Path: mark, Data: []byte("x")}}))
				case v.Type() == reflect.TypeFor[haft.Requirements]():
					v.Set(reflect.ValueOf(haft.Requirements{Pip: []string{"pandas"}, NPM: []string{mark}}))
				case v.Type() == reflect.TypeFor[*haft.CallWorkspace]():
					// One that is there: what a caller says of it is kept nowhere.
					x.answer(x.Call(t.Context(), haft.Call{Tool: "plain", Principal: user("acme", "ann"),
						Workspace: &haft.CallWorkspace{Name: "kept", ID: mark, Origins: []string{mark}}}))
					v.Set(reflect.ValueOf(&haft.CallWorkspace{Name: mark, ID: mark, Origins: []string{mark}}))
				default:
					t.Fatalf("the test does not know how to fill a %s", v.Type())
				}
				res, err := x.Call(t.Context(), c)
				if v.Kind() == reflect.Map || v.Type() == reflect.TypeFor[json.RawMessage]() || f.Name == "Tool" {
					x.answer(res, err)
				} else if haft.CodeOf(err) != haft.CodeInvalid {
					t.Errorf("%s is taken: %v, %v", f.Name, res, err)
				}
				rec, err := x.Submit(t.Context(), c)
				if f.Name != "Env" && f.Name != "Args" {
					x.answer(nil, err)
				}
				if rec != nil {
					_, _ = x.Wait(t.Context(), user("acme", "ann"), rec.Call.ID)
				}
			}
			x.call(user("acme", "ann"), "plain", `{}`)
			x.fell.WriteString("-")
			for _, mark := range []string{stored, strings.ToUpper(stored), fmt.Sprintf("%x", stored)} {
				x.leaks(t, mark)
			}
		})
	}
}

// TestOutgoing_labels_of_others are names that are chosen elsewhere: of an agent, of the
// steps of a plan, of a reason.
func TestOutgoing_labels_of_others(t *testing.T) {
	x := watchAll(t, marks)
	x.tool("acme", "asks", nil)
	x.tool("acme", "plain", nil)
	p := user("acme", "ann")
	p.Agent = "agent-" + stored
	x.answer(x.Call(t.Context(), haft.Call{Tool: "plain", Principal: p}))
	x.answer(x.Run(t.Context(), user("acme", "ann"), haft.Plan{Steps: []haft.Step{{ID: "a" + stored, Tool: "plain"}}}))
	x.answer(x.Run(t.Context(), user("acme", "ann"),
		haft.Plan{Input: json.RawMessage(`"` + stored + `"`), Steps: []haft.Step{
			{ID: "a", Tool: "asks", If: `"` + stored + `" != "x"`, Args: json.RawMessage(`{"path": "` + stored + `"}`)},
			{ID: "b", Tool: "none" + stored, After: []string{"a"}},
			{ID: "c", Tool: "none" + stored},
		}}))
	for a, err := range x.Approvals(t.Context(), approver("acme"), haft.ApprovalFilter{}) {
		check(t, err)
		x.answer(a, nil)
		x.answer(x.Decide(t.Context(), approver("acme"), a.ID, haft.Answer{Reason: "no: " + stored}))
		x.answer(x.Approval(t.Context(), approver("acme"), a.ID))
	}
	check(t, x.Stop(t.Context(), admin("acme"), "because of "+stored, false))
	x.answer(x.Call(t.Context(), haft.Call{Tool: "plain", Principal: user("acme", "ann")}))
	x.leaks(t, stored)
}

// TestOutgoing_ends checks that filters stop when the deadline of the call passes, and
// that nothing they have not seen leaves.
func TestOutgoing_ends(t *testing.T) {
	rules := strings.ReplaceAll(marks, `'ZZFILTEREDZZ'`, `'(a?){100}[bZ]'`)
	for name, status := range map[string]haft.Status{"deadline": haft.StatusTimeout, "client": haft.StatusCancelled,
		"budget": haft.StatusError} {
		t.Run(name, func(t *testing.T) {
			x := watchAll(t, rules)
			x.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
				res := ok(req, `"`+stored+`"`)
				res.Stdout = strings.Repeat("a", 32<<20)
				return res, nil
			})
			x.tool("acme", "plain", nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := time.Now()
			c := haft.Call{Tool: "plain", Principal: user("acme", "ann")}
			switch name {
			case "deadline":
				c.Deadline = began.Add(500 * time.Millisecond)
			case "client":
				defer time.AfterFunc(500*time.Millisecond, cancel).Stop()
			}
			res, err := x.Call(ctx, c)
			check(t, err)
			if res.Status != status || res.Stdout != "" || string(res.Value) != "null" ||
				!strings.Contains(res.Error.Message, "withheld") {
				t.Errorf("%s, %d bytes, %+v", res.Status, len(res.Stdout), res.Error)
			}
			// To the end it would take a quarter of an hour.
			if took := time.Since(began); took > time.Minute {
				t.Errorf("the filters went on for %s", took)
			}
		})
	}
}

// TestCheck_parts checks that a value of very many parts is refused before anything
// looks into it: it costs no more than one of the same size that is a text.
func TestCheck_parts(t *testing.T) {
	x := setup(t, allowAll, engine.Config{})
	x.tool("acme", "plain", nil)
	cost := func(value string) uint64 {
		x.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) { return ok(req, value), nil })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res := x.call(user("acme", "ann"), "plain", `{}`)
		runtime.ReadMemStats(&after)
		if many := value[0] == '['; many != (res.Status == haft.StatusLimit) ||
			many && res.Error.Kind != haft.FailResult {
			t.Errorf("%.10s: %s %+v", value, res.Status, res.Error)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	text := cost(`"` + strings.Repeat("x", 4<<20) + `"`)
	for _, part := range []string{"1,", "[],", "{},", `"",`, "null,"} {
		if parts := cost("[" + strings.Repeat(part, 4<<20/len(part)) + "1]"); parts > 2*text {
			t.Errorf("4 MiB of %s take %d bytes, and a text %d", part, parts, text)
		}
	}
}

// Items of a generator whose value is checked at its end do not leave before.
func TestItems_wait_for_the_check_of_the_value(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "free", nil)
	w.tool("o", "checked", func(d *haft.Draft) { d.Settings.Output.Validators = []string{"size(value) < 1"} })
	w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
		req.Progress(json.RawMessage(`{"progress":1,"item":"private"}`))
		return ok(req, `["private"]`), nil
	})
	for tool, shown := range map[string]bool{"free": true, "checked": false} {
		res := w.call(user("o", "ann"), tool, `{}`)
		events, err := w.EventsOf(t.Context(), user("o", "ann"), res.Call, 0, 100)
		check(t, err)
		raw, err := json.Marshal(events)
		check(t, err)
		if strings.Contains(string(raw), `"item":"private"`) != shown || !strings.Contains(string(raw), `"progress":1`) {
			t.Errorf("%s: %s, events %s", tool, res.Status, raw)
		}
	}
}
