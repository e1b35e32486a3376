package main

import (
	"context"
	"time"

	"haft/internal/backend"
	"haft/internal/cli"
)

// chatCommand talks to an agent.
func chatCommand(p *cli.Profile) cli.Command {
	t := &backend.Talk{Since: time.Now()}
	p.Talks, p.Lasting = true, true
	return cli.Command{
		Use: "chat [AGENT]", Short: "Talk to an agent, which answers with a model and with its tools",
		Long: `chat talks to an agent: assistant if none is named, which is made the first time. The model
is that of the agent, of --model, or the first one that there is: from the file of
--models, or from ANTHROPIC_API_KEY, OPENAI_API_KEY (with OPENAI_BASE_URL another server
that speaks its Chat Completions), GEMINI_API_KEY or OLLAMA_HOST.

Ctrl-C stops the turn, and leaves at the prompt. A turn that is under way goes on when
haft chat is started again. Without a terminal every line of the input is a message.`,
		Example: `  ANTHROPIC_API_KEY=… haft chat
  haft chat helper --models models.toml --model local
  OLLAMA_HOST=127.0.0.1 haft chat helper --model ollama/qwen3:8b
  echo "what is in the news?" | haft chat helper`,
		Missing: "see which agents there are with: haft agent list",
		Env:     []string{"models"},
		Flags: []cli.Flag{
			{&p.Models, "models", "the `FILE` that says which models there are ($HAFT_MODELS)"},
			{&t.Model, "model", "a model, instead of that of the agent; without --models also VENDOR/MODEL"},
			{&t.Resume, "resume", "show the last messages first"},
			{&t.Budget.Steps, "max-steps", "how often the model is asked in a turn"},
		},
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			if len(args) > 0 {
				t.Agent = args[0]
			}
			t.In, t.Out, t.Err, t.JSON = s.In, s.Out, s.Err, s.JSON
			return t.Run(ctx, s.System, s.Who)
		},
	}
}
