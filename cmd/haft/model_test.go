package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"haft/internal/modeltest"
)

// modelKey finds the model of a script.
type modelKey struct{}

// startModel starts the model of a script. It has nothing to say until the script says what.
func startModel(e *testscript.Env) (*modeltest.Server, error) {
	server, stop, err := modeltest.Listen(modeltest.NewHandler())
	if err != nil {
		return nil, err
	}
	e.Defer(stop)
	e.Values[modelKey{}] = server
	return server, nil
}

// modelsFile is the file of models that has the model of a script.
func modelsFile(server *modeltest.Server) string {
	return fmt.Sprintf("[models.scripted]\nformat = \"openai\"\nmodel = \"test\"\nurl = %q\n", server.URL)
}

// modelCmd has the agents of a script use a model, which follows what is in a file: model FILE. It speaks the format
// of $MODEL_FORMAT.
func modelCmd(ts *testscript.TestScript, _ bool, args []string) {
	steps, err := modeltest.Read(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	server := ts.Value(modelKey{}).(*modeltest.Server)
	server.Add(steps...)
	ts.Setenv("HAFT_MODELS", ts.MkAbs("models.toml"))
	ts.Setenv("MODEL_URL", server.URL)
	file := strings.Replace(modelsFile(server), `"openai"`, `"`+cmp.Or(ts.Getenv("MODEL_FORMAT"), "openai")+`"`, 1)
	ts.Check(os.WriteFile(ts.MkAbs("models.toml"), []byte(file), 0o600))
}

// askedCmd checks that the last request to the model has a pattern, or has none: asked PATTERN
func askedCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := ts.Value(modelKey{}).(*modeltest.Server)
	for _, why := range m.Refusals() {
		ts.Fatalf("the model refused a request: %s", why)
	}
	all := m.Requests()
	if len(all) == 0 {
		ts.Fatalf("the model was not asked")
	}
	last := all[len(all)-1]
	text := last.System
	for _, m := range last.Messages {
		text += "\n" + m.Text
	}
	if found := regexp.MustCompile(args[0]).MatchString(text); found == neg {
		ts.Fatalf("the model was asked %s", text)
	}
}

// sentCmd checks that the last request to the model has a pattern in its body: sent PATTERN
func sentCmd(ts *testscript.TestScript, neg bool, args []string) {
	all := ts.Value(modelKey{}).(*modeltest.Server).Requests()
	if len(all) == 0 || regexp.MustCompile(args[0]).Match(all[len(all)-1].Body) == neg {
		ts.Fatalf("the model was sent something else than %s", args[0])
	}
}
