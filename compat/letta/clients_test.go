package letta_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/compat/letta"
	"haft/executor"
	"haft/internal/model"
	"haft/internal/skiptest"
)

// play is the model of the scripts: it asks for a roll where it is told to, and then says what was rolled.
func play(req model.Request, _ func(model.Chunk)) *model.Answer {
	last := req.Messages[len(req.Messages)-1]
	switch {
	case last.Role == haft.RoleTool:
		return &model.Answer{Reasoning: "hm", Text: "You rolled 6.", Stop: model.StopEnd}
	case strings.Contains(last.Text, "roll"):
		a := call(req.Tools[0].Name, `{"a":6}`)
		return &a
	}
	a := say("Hello.")
	return &a
}

// Letta's own clients, of both of their lines and in both languages, talk to agents.
func TestClients_talk(t *testing.T) {
	t.Parallel()
	python := filepath.Join(skiptest.Part(t, "letta", "lettapy"), "bin", "python")
	for _, tt := range []struct{ script, path string }{{"talk.py", ""},
		{"talk_old.py", skiptest.Part(t, "letta", "lettaold")}, {"talk.mjs", ""}, {"talk_old.mjs", ""}} {
		t.Run(tt.script, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.answer = play
			w.run = func(req executor.Request) *haft.Result {
				return &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusSuccess,
					Value: json.RawMessage("6")}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a machine that is busy
			defer cancel()
			cmd := exec.CommandContext(ctx, "node", filepath.Join("testdata", tt.script))
			if strings.HasSuffix(tt.script, ".py") {
				cmd = exec.CommandContext(ctx, python, "-W", "ignore", filepath.Join("testdata", tt.script))
			}
			cmd.Env = append(os.Environ(), "BASE="+w.http.URL+letta.Prefix, "KEY="+admin, "BOSS="+boss,
				"MODEL=openai/gpt-4.1", "CLIENTS="+skiptest.Part(t, "letta", "lettajs"), "PYTHONPATH="+tt.path,
				"LETTA_LOG=")
			if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
