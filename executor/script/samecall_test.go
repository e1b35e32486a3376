package script

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"reflect"
	"testing"

	"haft/executor"
	"haft/sandbox"
)

// notSent are the fields of a request that the harness does not get, with why two requests
// that differ in them may share a preloaded cell.
var notSent = map[string]string{
	"Digest":       "names the version, whose source is compared",
	"Principal":    "is for built-in tools and MCP servers",
	"Turn":         "is for built-in tools",
	"Changed":      "is used by this process",
	"Stored":       "decides whether the source is kept, and not what runs",
	"Server":       "is for MCP servers",
	"Origin":       "is for MCP servers",
	"Bound":        "says which variables are placeholders; those are in Env",
	"Secrets":      "is for MCP servers",
	"Limits":       "are compared as the provider fills them in",
	"ServeEgress":  "is used by this process; whether there is a network is compared",
	"Egress":       "is for built-in tools",
	"Route":        "names what ServeEgress serves",
	"Redactor":     "is for sessions",
	"Sandbox":      "is for sessions",
	"Packages":     "is for built-in tools",
	"Requirements": "are among Packages",
	"Output":       "is used after the run",
	"NoArtifacts":  "is used after the run",
	"Stdout":       "is used by this process",
	"Stderr":       "is used by this process",
	"Progress":     "is used by this process",
	"Places":       "is for who chooses the executor",
	"PlaceReason":  "is for who chooses the executor",
}

// TestSameCall_looks_at_every_field: whoever adds a field to a request says here whether
// the harness is told of it.
func TestSameCall_looks_at_every_field(t *testing.T) {
	typ := reflect.TypeFor[executor.Request]()
	for i := range typ.NumField() {
		field := typ.Field(i)
		t.Run(field.Name, func(t *testing.T) {
			var a, b executor.Request
			fill(t, reflect.ValueOf(&b).Elem().Field(i))
			_, free := notSent[field.Name]
			if same := sameCall(&a, &b); same != free {
				t.Errorf("two requests that differ in %s are the same call: %v, want %v", field.Name, same, free)
			}
		})
	}
	if !sameCall(&executor.Request{}, &executor.Request{}) {
		t.Error("equal requests are not the same call")
	}
}

// fill makes a value differ from the zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch at := v.Addr().Interface().(type) {
	case *executor.Others:
		*at = nobody{}
		return
	case *sandbox.Need:
		at.Level = "vm"
		return
	case *func(context.Context, net.Conn):
		*at = func(context.Context, net.Conn) {}
		return
	case *func(http.RoundTripper) http.RoundTripper:
		*at = func(next http.RoundTripper) http.RoundTripper { return next }
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type() != reflect.TypeFor[json.RawMessage]() {
			fill(t, v.Index(0))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("other"), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(t, v.Field(i))
				return
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	default:
		t.Fatalf("a field of kind %s cannot be filled: add it here", v.Kind())
	}
}

// nobody has no other tools.
type nobody struct{ executor.Others }
