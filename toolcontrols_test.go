package haft_test

import (
	"reflect"
	"testing"
	"time"

	"haft"
)

// strict are settings in which every field controls something.
func strict() haft.Settings {
	s := haft.Settings{
		Network: []string{"a.example"}, Secrets: []string{"TOKEN"}, Sandbox: "local",
		MinIsolation:     haft.Levels()[len(haft.Levels())-1],
		RequiresApproval: true, AuditFiles: true, Roles: []string{"chief"}, Rate: haft.Rate{PerSecond: 1, Burst: 1},
		Concurrency: 1, NoArtifacts: true,
		Output: haft.Output{Type: haft.OutputText, Validators: []string{"value != ''"}, Strict: true,
			MaxChars: 10},
	}
	l := reflect.ValueOf(&s.Limits).Elem()
	for i := range l.NumField() {
		l.Field(i).SetInt(1)
	}
	return s
}

// TestSettings_Weaker_knows_every_field: a field that is new has to be in one of the two
// lists, so that nobody can take away a control without being told.
func TestSettings_Weaker_knows_every_field(t *testing.T) {
	neutral := map[string]string{
		"Retry":    "how often a failure is repeated is no permission",
		"CacheFor": "it counts only for what is cacheable",
		"Letta":    "what is converted is checked, and nothing is permitted",
	}
	if got := strict().Weaker(strict()); len(got) > 0 {
		t.Errorf("nothing is changed, and yet: %q", got)
	}
	typ := reflect.TypeFor[haft.Settings]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		before, after := strict(), strict()
		v := reflect.ValueOf(&after).Elem().Field(i)
		if v.IsZero() && v.Kind() == reflect.Bool { // it allows something
			v.SetBool(true)
		} else if v.IsZero() && v.Kind() == reflect.String {
			v.SetString("other")
		} else {
			v.SetZero()
		}
		if f.Name == "Network" {
			after.Network = []string{"a.example", "b.example"}
		}
		if f.Name == "OnError" {
			after.OnError = []haft.Reaction{{Disable: true}}
		}
		if f.Name == "Programs" {
			after.Programs = []string{"git"}
		}
		weaker := len(after.Weaker(before)) > 0
		if _, ok := neutral[f.Name]; !ok && !weaker {
			t.Errorf("%s can be changed from %+v to %+v, and nobody is told", f.Name, before, v)
		}
	}
	limits := reflect.TypeFor[haft.Limits]()
	for i := range limits.NumField() {
		for _, n := range []int64{0, 2} {
			after := strict()
			reflect.ValueOf(&after.Limits).Elem().Field(i).SetInt(n)
			if len(after.Weaker(strict())) != 1 {
				t.Errorf("limit %s can be changed to %d, and nobody is told", limits.Field(i).Name, n)
			}
		}
	}
	window := haft.Rate{Calls: 60, Within: haft.Millis(time.Minute)}
	for _, r := range []haft.Rate{{}, {Calls: 61, Within: window.Within}, {Calls: 60, Within: 1}, {PerSecond: 1}} {
		if len((haft.Settings{Rate: r}).Weaker(haft.Settings{Rate: window})) != 1 {
			t.Errorf("60 calls in a minute can become %+v, and nobody is told", r)
		}
	}
	// What is stricter is nothing to tell.
	if got := strict().Weaker(haft.Settings{Network: []string{"a.example"}}); len(got) > 0 {
		t.Errorf("stricter settings are weaker in %q", got)
	}
}
