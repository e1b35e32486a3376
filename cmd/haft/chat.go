package main

import (
	"context"

	"haft/internal/backend"
)

// chatCommand talks to an agent.
func chatCommand(p *profile) command {
	t := &backend.Talk{}
	p.talks = true
	return command{
		use: "chat [AGENT]", short: "Talk to an agent, which answers with a model and with its tools",
		long: `chat talks to an agent: assistant if none is named, which is made the first time. The model
is that of the agent, of --model, or the first one that there is: from the file of
--models, or from ANTHROPIC_API_KEY, OPENAI_API_KEY (with OPENAI_BASE_URL another server
that speaks its Chat Completions), GEMINI_API_KEY or OLLAMA_HOST.

Ctrl-C stops the turn, and leaves at the prompt. A turn that is under way goes on when
haft chat is started again. Without a terminal every line of the input is a message.`,
		example: `  ANTHROPIC_API_KEY=… haft chat
  haft chat helper --models models.toml --model local
  OLLAMA_HOST=127.0.0.1 haft chat helper --model ollama/qwen3:8b
  echo "what is in the news?" | haft chat helper`,
		missing: "see which agents there are with: haft agent list",
		env:     []string{"models"},
		flags: []flag{
			{&p.models, "models", "the `FILE` that says which models there are ($HAFT_MODELS)"},
			{&t.Model, "model", "a model, instead of that of the agent; without --models also VENDOR/MODEL"},
			{&t.Resume, "resume", "show the last messages first"},
			{&t.Budget.Steps, "max-steps", "how often the model is asked in a turn"},
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if len(args) > 0 {
				t.Agent = args[0]
			}
			t.In, t.Out, t.Err, t.JSON = s.in, s.out, s.err, s.json
			return t.Run(ctx, s.system, s.p)
		},
	}
}
