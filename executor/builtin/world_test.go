package builtin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/executor/script"
	"haft/internal/skiptest"
	"haft/sandbox"
	"haft/sandbox/process"
)

// languages are those of run_code, with the kind of their interpreter and what
// HAFT_REQUIRE calls it.
var languages = map[string]struct {
	kind  haft.Kind
	thing string
}{
	"python": {haft.KindPython, "python"}, "javascript": {haft.KindJavaScript, "node"},
	"typescript": {haft.KindTypeScript, "node"}, "bash": {haft.KindBash, "bash"},
}

// openProcess returns a provider without isolation.
func openProcess(t testing.TB) *process.Provider {
	t.Helper()
	p, err := process.Open(process.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newFinder returns a finder of interpreters.
func newFinder(t testing.TB) *script.Finder {
	t.Helper()
	return script.NewFinder(openProcess(t), script.FinderConfig{Path: os.Getenv("PATH"), Home: os.Getenv("HOME")})
}

// typeScript is what the assembly gives to run_code.
func typeScript(source string) (string, json.RawMessage, *haft.Failure) {
	res := api.Transform(source, api.TransformOptions{
		Loader: api.LoaderTS, Target: api.ES2022, Sourcemap: api.SourceMapExternal, Sourcefile: "code.ts",
		LogLevel: api.LogLevelSilent,
	})
	if len(res.Errors) > 0 {
		return "", nil, &haft.Failure{Kind: haft.FailSource, Message: res.Errors[0].Text, Retry: haft.RetryChanged}
	}
	return string(res.Code), res.Map, nil
}

// newScript returns an executor of scripts over provider.
func newScript(t testing.TB, provider sandbox.Provider, name string) *script.Executor {
	t.Helper()
	x := script.New(context.WithoutCancel(t.Context()), provider, name, newFinder(t), script.Config{})
	t.Cleanup(x.Close)
	return x
}

// newRunner returns a set with run_code over provider.
func newRunner(t testing.TB, provider sandbox.Provider, name string) *builtin.Set {
	t.Helper()
	s := builtin.New()
	if err := builtin.RunCode(s, newScript(t, provider, name), builtin.CodeConfig{TypeScript: typeScript}); err != nil {
		t.Fatal(err)
	}
	return s
}

// need skips the test if the interpreter of a language is not here.
func need(t testing.TB, language string) {
	t.Helper()
	l := languages[language]
	if _, err := newFinder(t).Find(t.Context(), l.kind, ""); err != nil {
		skiptest.Lacking(t, l.thing, err.Error())
	}
}

// everywhere is egress that refuses nothing.
func everywhere(next http.RoundTripper) http.RoundTripper { return next }

// execute calls a tool, which must give a result.
func execute(t testing.TB, s *builtin.Set, tool string, args any, more func(*executor.Request)) *haft.Result {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	req := executor.Request{Call: "c_1", Org: "acme", Principal: haft.Principal{Org: "acme"}, Kind: haft.KindBuiltin,
		Tool: tool, Args: raw, Egress: everywhere}
	if more != nil {
		more(&req)
	}
	res, err := s.Execute(t.Context(), req)
	if err != nil {
		t.Fatalf("Execute: %v", err)
	}
	if !json.Valid(res.Value) {
		t.Fatalf("the value is no JSON: %q", res.Value)
	}
	return res
}
