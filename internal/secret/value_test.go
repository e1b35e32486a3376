package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/internal/secret"
)

const hidden = "hunter2-correct-horse"

// holder has a value where no method of it is called.
type holder struct {
	Public  secret.Value
	private secret.Value
	Pointer *secret.Value
	Map     map[string]secret.Value
	List    []secret.Value
	Any     any
}

type inXML struct{ V secret.Value }

func newHolder() holder {
	v := secret.New(hidden)
	return holder{v, v, &v, map[string]secret.Value{"a": v}, []secret.Value{v}, v}
}

func TestValue_is_never_shown(t *testing.T) {
	h := newHolder()
	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%t", "%e", "%U",
		"%10.3s", "%-20v|"} {
		shown["Value "+verb] = fmt.Sprintf(verb, h.Public)
		shown["*Value "+verb] = fmt.Sprintf(verb, h.Pointer)
		shown["struct "+verb] = fmt.Sprintf(verb, h)
		shown["*struct "+verb] = fmt.Sprintf(verb, &h)
		shown["slice "+verb] = fmt.Sprintf(verb, h.List)
		shown["error "+verb] = fmt.Sprintf(verb, fmt.Errorf("wrapped: %w", errors.New(fmt.Sprint(h.Public))))
	}
	raw, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	shown["json"] = string(raw)
	if raw, err = xml.Marshal(inXML{h.Public}); err != nil {
		t.Fatal(err)
	}
	shown["xml"] = string(raw)
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(struct{ V secret.Value }{h.Public}); err != nil {
		t.Fatal(err)
	}
	shown["gob"] = buf.String()
	for _, handler := range []slog.Handler{slog.NewTextHandler(&buf, nil), slog.NewJSONHandler(&buf, nil)} {
		buf.Reset()
		slog.New(handler).Info("m", "v", h.Public, "s", h, "p", &h, "g", slog.GroupValue(slog.Any("v", h.Public)))
		shown[fmt.Sprintf("%T", handler)] = buf.String()
	}
	shown["diff"] = cmp.Diff(h.Public, secret.Value{}, cmp.Exporter(nil),
		cmp.Comparer(func(a, b secret.Value) bool { return a.Equal(b) }))
	shown["panic"] = func() (s string) {
		defer func() { s = fmt.Sprint(recover()) }()
		panic(h)
	}()
	for where, text := range shown {
		for _, form := range []string{hidden, fmt.Sprintf("%x", hidden), strings.ToUpper(fmt.Sprintf("%x", hidden)),
			fmt.Sprint([]byte(hidden))} {
			if strings.Contains(text, form) {
				t.Errorf("%s shows the value: %s", where, text)
			}
		}
	}
	if got := fmt.Sprint(h.Public); got != "[secret]" {
		t.Errorf("Sprint = %q", got)
	}
}

func TestValue(t *testing.T) {
	v, same, other := secret.New("abcd"), secret.New("abcd"), secret.New("abce")
	if v.Reveal() != "abcd" || v.IsZero() {
		t.Error("a value reveals its text")
	}
	if !v.Equal(same) || v.Equal(other) || v.Equal(secret.Value{}) || !(secret.Value{}).Equal(secret.New("")) {
		t.Error("values are equal by their text")
	}
	var zero secret.Value
	if zero.Reveal() != "" || !zero.IsZero() || !secret.New("").IsZero() {
		t.Error("the zero value is no secret")
	}
	var in struct{ Key secret.Value }
	if err := json.Unmarshal([]byte(`{"Key":"s3cr\u0065t"}`), &in); err != nil || in.Key.Reveal() != "s3cret" {
		t.Errorf("Unmarshal: %v, %q", err, in.Key.Reveal())
	}
	if err := json.Unmarshal([]byte(`{"Key":{"a":"leak-me"}}`), &in); err == nil ||
		strings.Contains(err.Error(), "leak-me") {
		t.Errorf("an object is no secret, and the error does not quote it: %v", err)
	}
}
