package haft_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"haft"
	"haft/internal/goldentest"
)

// when is a fixed time for golden files.
var when = time.Date(2026, 11, 15, 12, 30, 0, 0, time.UTC)

// TestWire pins the JSON of typical values. TestWire_every_field pins all names.
func TestWire(t *testing.T) {
	principal := haft.Principal{Org: "acme", User: "ann", Agent: "planner", Roles: []string{"operator"}}
	approver := haft.Principal{Org: "acme", User: "bob"}
	limits := haft.DefaultLimits()
	isolation := haft.Isolation{
		Level:    haft.LevelNamespaces,
		Controls: []haft.Control{haft.ControlUserNS, haft.ControlSeccomp},
		Missing:  []haft.Gap{{Control: haft.ControlMemory, Reason: "no memory controller is delegated"}},
	}
	schema := json.RawMessage(`{"type":"object","properties":{}}`)
	version := haft.Version{
		Number: 3, Kind: haft.KindPython, Digest: "sha256:00", Description: "Adds.", Source: "def add(): ...",
		Function: "add", Parameters: schema, Returns: json.RawMessage(`{"type":"integer"}`),
		Health: haft.SchemaHealth{Status: haft.HealthNonStrict, Reasons: []haft.HealthReason{
			{Path: "root.properties.a", Message: "'additionalProperties' not explicitly set"},
		}},
		Requirements: haft.Requirements{Pip: []string{"numpy==2.1"}, NPM: []string{"zod@4"}},
		Settings: haft.Settings{
			Limits: limits, Network: []string{"api.example.com"}, Secrets: []string{"API_KEY"}, Sandbox: "local",
			MinIsolation:     haft.LevelNamespaces,
			RequiresApproval: true, Parallel: true, Idempotent: true, Cacheable: true,
			Output: haft.Output{Type: haft.OutputJSON, Validators: []string{"value.n > 0"}, Strict: true,
				MaxChars: 100},
		},
		Author: "ann", Created: when,
	}
	event, err := haft.NewEvent(haft.Call{ID: "c_1", Tool: "add", Principal: principal}, haft.EventCompleted, when,
		json.RawMessage(`{"status":"success"}`))
	if err != nil {
		t.Fatal(err)
	}
	event.Seq, event.Cursor = 4, 1763210000000007
	for name, v := range map[string]any{
		"tool": haft.Tool{
			ID: "tool_1", Org: "acme", Name: "add", Category: "maths", Tags: []string{"demo"}, Disabled: true,
			Created: when, Updated: when, Version: version,
		},
		"call": haft.Call{
			ID: "c_1", Tool: "add", Digest: "sha256:00", Args: json.RawMessage(`{"a":1}`), Principal: principal,
			IdempotencyKey: "k", Deadline: when, Env: map[string]string{"LANG": "C"}, Sandbox: "local",
			Limits: haft.Limits{Memory: 1 << 20}, Parent: "c_0",
		},
		"result": haft.Result{
			Call: "c_1", Tool: "add", Digest: "sha256:00", Status: haft.StatusError, Value: json.RawMessage(`null`),
			Error: &haft.Failure{
				Kind: haft.FailException, Message: "ValueError: no", Retry: haft.RetryChanged,
				RetryAfter: haft.Millis(time.Second),
				Type:       "ValueError", Traceback: "line 2, in add",
				Misfits: []haft.Misfit{{Pointer: "/a", Message: "must be an integer"}},
			},
			Stdout: "out", Stderr: "err",
			Content: []haft.Content{{
				Type: haft.ContentResource, Text: "t", Artifact: "a.txt", URI: "file:///a", Name: "a", Title: "A",
				Description: "d", Size: 2,
				MIME: "text/plain", Audience: []string{"user"},
			}},
			Artifacts: []haft.Artifact{{Name: "a.txt", ContentType: "text/plain", Size: 2, Data: []byte("hi")}},
			Usage: haft.Usage{
				Wall: haft.Millis(1500 * time.Microsecond), CPU: haft.Millis(time.Millisecond), MaxRSS: 1 << 20,
				Processes: 2, Disk: 4096, Stdout: 3, Stderr: 3,
			},
			Sandbox: haft.Sandbox{Provider: "local", Isolation: isolation},
			Timeline: haft.Timeline{
				Queue: 1e6, Validate: 1e6, Policy: 1e6, Approval: 1e6, Cell: "hit", Setup: 1e6, Execute: 1e6,
				Serialise: 1e6, Total: 7e6,
			},
			Truncated: haft.Truncated{Stdout: 1, Stderr: 2, Value: 3},
		},
		"result_minimal": haft.Result{Call: "c_1", Tool: "add", Status: haft.StatusSuccess,
			Value: json.RawMessage(`3`)},
		"approval": haft.Approval{
			ID: "ap_1", Call: "c_1", Tool: "add", State: haft.ApprovalApproved, Binds: "sha256:11",
			Args:      json.RawMessage(`{"a":1}`),
			Requester: principal, Approver: &approver, Reason: "fine", Created: when, Expires: when, Decided: when,
		},
		"event": event,
	} {
		t.Run(name, func(t *testing.T) { golden(t, filepath.Join("testdata", "wire", name+".json"), v) })
	}
}

// TestWire_every_field pins the JSON name of every field of the types that APIs send and
// take. The fields are set by reflection, so that a new one cannot be forgotten: it changes
// the file.
func TestWire_every_field(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[haft.Agent](), reflect.TypeFor[haft.Answer](), reflect.TypeFor[haft.Approval](),
		reflect.TypeFor[haft.Call](), reflect.TypeFor[haft.Chain](), reflect.TypeFor[haft.DeadLetter](),
		reflect.TypeFor[haft.Draft](), reflect.TypeFor[haft.Erasure](), reflect.TypeFor[haft.Event](),
		reflect.TypeFor[haft.Kept](), reflect.TypeFor[haft.MCPAnswer](), reflect.TypeFor[haft.MCPChange](),
		reflect.TypeFor[haft.MCPServer](), reflect.TypeFor[haft.Plan](), reflect.TypeFor[haft.Record](),
		reflect.TypeFor[haft.Result](), reflect.TypeFor[haft.SandboxConfig](), reflect.TypeFor[haft.Tool](),
		reflect.TypeFor[haft.ToolState](), reflect.TypeFor[haft.UsageSum](), reflect.TypeFor[haft.Webhook](),
	} {
		t.Run(typ.Name(), func(t *testing.T) {
			v := reflect.New(typ).Elem()
			setAll(v, typ.Name(), nil)
			golden(t, filepath.Join("testdata", "wire", "every_field", typ.Name()+".json"), v.Interface())
		})
	}
}

// setAll sets v and all that is in it to something that is not zero. Texts have the name
// of their field. A type within itself stays empty.
func setAll(v reflect.Value, name string, within []reflect.Type) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(when))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"json":"` + name + `"}`)))
		return
	}
	if slices.Contains(within, v.Type()) {
		return
	}
	within = append(slices.Clip(within), v.Type())
	switch v.Kind() {
	case reflect.String:
		v.SetString(name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(3_000_000) // as a duration 3 ms
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setAll(v.Elem(), name, within)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		setAll(v.Index(0), name, within)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		setAll(key, name, within)
		setAll(value, name, within)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf(name))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				setAll(v.Field(i), f.Name, within)
			}
		}
	default:
		panic("setAll knows no values of " + v.Type().String())
	}
}

// golden compares v as JSON with a file.
func golden(t *testing.T, file string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	goldentest.Equal(t, file, got)
}
