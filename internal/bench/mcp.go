package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"haft"
)

// mcpRounds is how often the server is started: it takes a hundred calls' time.
const mcpRounds = 20

// upstream measures a call of an MCP server that is a command, with its session
// kept, against one for which the server is started, as clients do that keep none.
func (b *bench) upstream(ctx context.Context) error {
	if len(b.cfg.Server) == 0 {
		return nil
	}
	b.cfg.Progress("a call of an MCP server")
	server := haft.MCPServer{Name: "everything", Command: b.cfg.Server, Connect: haft.Millis(2 * time.Minute)}
	const what = "call of an MCP server on stdio, session kept, against starting it for the call, p50"
	s, err := b.openService(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	owner := tenant("local")
	spawn := func() error {
		change, err := s.PutMCPServer(ctx, owner, server)
		if err == nil && change.Server.State.Error != "" {
			err = fmt.Errorf("the server does not start: %s", change.Server.State.Error)
		}
		return err
	}
	call := func() error {
		res, err := s.Call(ctx, haft.Call{Tool: "everything__echo", Args: json.RawMessage(`{"message":"hi"}`),
			Principal: owner})
		if err == nil && res.Status != haft.StatusSuccess {
			err = fmt.Errorf("the call ended with %s: %v", res.Status, res.Error)
		}
		return err
	}
	if err := spawn(); err != nil { // it is installed first
		b.add(Row{What: what, Must: 1. / 100, Aim: 1. / 200, Unmeasured: err.Error()})
		return ctx.Err()
	}
	spawned, err := Interleave(min(b.cfg.Rounds, mcpRounds),
		[]Way{{"haft: an MCP server started for one call", func() error {
			if err := spawn(); err != nil {
				return err
			}
			return call()
		}}})
	if err != nil {
		return err
	}
	kept, err := Interleave(b.cfg.Rounds, []Way{{"haft: call of an MCP server on stdio", call}})
	if err != nil {
		return err
	}
	ours, theirs := kept[0].Quantile(.5), spawned[0].Quantile(.5)
	b.add(Row{What: what, Ours: label(ms(ours)), Theirs: label(ms(theirs)) + " started",
		Ratio: float64(ours) / float64(theirs), Must: 1. / 100, Aim: 1. / 200})
	b.report.Samples = append(b.report.Samples, kept[0])
	return nil
}
