package limit_test

import (
	"reflect"
	"strings"
	"testing"

	"haft"
	"haft/internal/limit"
)

// A version that permits everything, held to a current one that restricts everything, is not weaker than that one, but
// where another place looks at both. Settings.Weaker knows every field: a new one fails here until it is held, too.
func TestRestrict(t *testing.T) {
	now := haft.Settings{Secrets: []string{"TOKEN"}, Sandbox: "local", MinIsolation: haft.LevelMachine,
		AuditFiles:       true,
		RequiresApproval: true, Roles: []string{"chief"}, Rate: haft.Rate{PerSecond: 1, Burst: 1}, Concurrency: 1,
		NoArtifacts: true, Output: haft.Output{Type: haft.OutputText, Validators: []string{"true"}, Strict: true,
			MaxChars: 1}}
	limits := reflect.ValueOf(&now.Limits).Elem()
	for i := range limits.NumField() {
		limits.Field(i).SetInt(1)
	}
	loose := haft.Settings{Network: []string{"a.example"}, Programs: []string{"git"}, Idempotent: true, Cacheable: true,
		Parallel: true, Fallback: "other", OnError: []haft.Reaction{{Disable: true}},
		Limits: haft.Limits{Memory: 1 << 40}}
	elsewhere := map[string]string{
		"roles": "hasRoles asks for one of each", "network": "mayReach refuses", "programs": "MorePrograms",
		"idempotent": "what the version is about", "parallel": "what the version is about",
		"fallback": "what the version is about", "on_error": "what the version is about",
		"output": "how its value is read; max_chars is held",
	}
	got := map[string]bool{}
	for _, what := range limit.Restrict(loose, now).Weaker(now) {
		name, _, _ := strings.Cut(what, ":")
		if got[name] = true; elsewhere[name] == "" || strings.Contains(what, "more of its value") {
			t.Errorf("a version that is not the current one: %s", what)
		}
	}
	for name := range elsewhere {
		if !got[name] {
			t.Errorf("%s is held in one place more than is said here", name)
		}
	}
}
