package registry_test

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"testing"
	"time"

	"haft"
	"haft/internal/registry"
)

// full is a version with something in every field that a digest covers.
func full() haft.Version {
	yes := true
	return haft.Version{
		Number: 3, Kind: haft.KindPython, Digest: "sha256:old", Description: "Adds.", Source: "def add(a): ...",
		Function: "add", Pass: []haft.Argument{{Name: "a"}}, Injected: []string{"agent_id"},
		Parameters: json.RawMessage(`{"type":"object"}`), Returns: json.RawMessage(`{"type":"number"}`),
		Health: haft.SchemaHealth{Status: haft.HealthStrict}, Requirements: haft.Requirements{Pip: []string{"numpy"}},
		Settings: haft.Settings{Network: []string{"a.test"}}, Annotations: haft.Annotations{ReadOnly: &yes},
		Review: haft.Review{State: haft.ReviewPassed}, Author: "ann", Created: time.Unix(1, 0),
	}
}

// TestDigest_covers decides for every field of a version whether the digest
// changes with it. A field that is added fails the test until it is decided.
func TestDigest_covers(t *testing.T) {
	no := false
	fields := map[string]struct {
		covered bool
		change  func(*haft.Version)
	}{
		"Number":      {false, func(v *haft.Version) { v.Number = 4 }},
		"Kind":        {true, func(v *haft.Version) { v.Kind = haft.KindBash }},
		"Digest":      {false, func(v *haft.Version) { v.Digest = "" }},
		"Description": {true, func(v *haft.Version) { v.Description += " " }},
		"Source":      {true, func(v *haft.Version) { v.Source += "\n" }},
		"File":        {true, func(v *haft.Version) { v.File = "tools.py" }},
		"Files":       {true, func(v *haft.Version) { v.Files = []haft.ToolFile{{Path: "a.py"}} }},
		"Function":    {true, func(v *haft.Version) { v.Function = "sub" }},
		"Server":      {true, func(v *haft.Version) { v.Server = "files" }},
		"Origin":      {true, func(v *haft.Version) { v.Origin = "00" }},
		"Pass":        {true, func(v *haft.Version) { v.Pass[0].Whole = true }},
		"Injected":    {true, func(v *haft.Version) { v.Injected = nil }},
		"Parameters": {true,
			func(v *haft.Version) { v.Parameters = json.RawMessage(`{"type":"object","required":[]}`) }},
		"Returns":      {true, func(v *haft.Version) { v.Returns = nil }},
		"Health":       {false, func(v *haft.Version) { v.Health.Status = haft.HealthNonStrict }},
		"Requirements": {true, func(v *haft.Version) { v.Requirements.NPM = []string{"zod"} }},
		"Lock":         {true, func(v *haft.Version) { v.Lock.Pip = "sha256:b" }},
		"Settings":     {true, func(v *haft.Version) { v.Settings.Limits.Memory = 1 << 20 }},
		"Annotations":  {true, func(v *haft.Version) { v.Annotations.ReadOnly = &no }},
		"Review":       {false, func(v *haft.Version) { v.Review = haft.Review{} }},
		"Author":       {false, func(v *haft.Version) { v.Author = "bob" }},
		"Created":      {false, func(v *haft.Version) { v.Created = time.Unix(2, 0) }},
	}
	typ := reflect.TypeFor[haft.Version]()
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		f, ok := fields[name]
		if !ok {
			t.Errorf("haft.Version has a field %s: decide whether a digest covers it", name)
			continue
		}
		before, v := registry.Digest(full()), full()
		f.change(&v)
		if reflect.DeepEqual(full(), v) {
			t.Fatalf("the change of %s changes nothing", name)
		}
		if changed := registry.Digest(v) != before; changed != f.covered {
			t.Errorf("Digest after a change of %s: changed %v, want %v", name, changed, f.covered)
		}
		delete(fields, name)
	}
	for name := range fields {
		t.Errorf("haft.Version has no field %s any more", name)
	}
}

// Settings are covered one by one: none may be left out of JSON.
func TestDigest_covers_every_setting(t *testing.T) {
	typ := reflect.TypeFor[haft.Settings]()
	for i := range typ.NumField() {
		v := full()
		v.Settings = haft.Settings{}
		before := registry.Digest(v)
		if !fill(reflect.ValueOf(&v.Settings).Elem().Field(i)) {
			t.Fatalf("setting %s cannot be filled", typ.Field(i).Name)
		}
		if registry.Digest(v) == before {
			t.Errorf("Digest does not change with setting %s", typ.Field(i).Name)
		}
	}
}

// fill gives a value of any kind, or its first field, something in it.
func fill(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Float64:
		v.SetFloat(2)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		return fill(v.Field(0))
	default:
		return false
	}
	return true
}

func TestDigest_form(t *testing.T) {
	d := registry.Digest(full())
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(d) {
		t.Errorf("Digest = %q", d)
	}
	// Pinned: a change of the form would change what approvals are bound to.
	if got, want := registry.Digest(haft.Version{Kind: haft.KindBash, Source: "echo"}),
		"sha256:a7ef682d16786c212d71d839cdfaa0790d0eca4f1b2000a174c856d4c55e773f"; got != want {
		t.Errorf("Digest = %q, want %q", got, want)
	}
	// A version is the same after a store has kept it as JSON.
	text, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	var v haft.Version
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if got := registry.Digest(v); got != d {
		t.Errorf("Digest after JSON = %q, want %q", got, d)
	}
	for name, v := range map[string]haft.Version{
		"broken schema":   {Parameters: json.RawMessage(`{`)},
		"infinite number": {Settings: haft.Settings{Rate: haft.Rate{PerSecond: math.Inf(1)}}},
	} {
		if got := registry.Digest(v); got != "" {
			t.Errorf("Digest of a %s = %q, want none", name, got)
		}
	}
}
