package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/internal/audit"
)

// auditFlags say which entries of the log are meant.
type auditFlags struct {
	f            haft.AuditFilter
	call         string
	since, until string
}

func (a *auditFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&a.f.Kind, "kind", "", "only of a kind, such as call.refused")
	fl.StringVar(&a.f.User, "of-user", "", "only what a user did")
	fl.StringVar(&a.f.Agent, "of-agent", "", "only what an agent did")
	fl.StringVar(&a.f.Tool, "tool", "", "only of a tool")
	fl.StringVar(&a.call, "call", "", "only of the call with that `ID`")
	fl.StringVar(&a.since, "since", "", "only since a `TIME`: 90s, 2h, 3d, or 2006-01-02T15:04:05Z")
	fl.StringVar(&a.until, "until", "", "only before a `TIME`")
}

// filter makes a filter of the flags.
func (a *auditFlags) filter(ctx context.Context, s *session) (f haft.AuditFilter, err error) {
	f, now := a.f, time.Now()
	f.Call = haft.CallID(a.call)
	if f.Since, err = parseSince(a.since, now); err == nil {
		f.Until, err = parseSince(a.until, now)
	}
	if err != nil {
		return f, err
	}
	if local, ok := s.system.(*embedded); !ok || local.Engine != nil { // else there is only the store
		f.Agent = s.agentID(ctx, f.Agent)
	}
	return f, nil
}

// auditShow lists the last entries.
func auditShow(p *persona, std streams) *cobra.Command {
	var which auditFlags
	var limit int
	var oldest bool
	cmd := p.command(std, "show", "List entries of the audit log: the last, or with --oldest the first", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			if err := auditOnly(s); err != nil {
				return err
			}
			if limit < 1 || limit > 10_000 {
				return usage(errors.New("--limit is between 1 and 10000"))
			}
			f, err := which.filter(ctx, s)
			if err != nil {
				return err
			}
			f.Limit, f.Oldest = limit, oldest
			list := []audit.Entry{}
			for e, err := range s.FindAudit(ctx, s.p, f) {
				if err != nil {
					return err
				}
				list = append(list, e)
			}
			if !oldest {
				slices.Reverse(list) // the last are read last
			}
			if s.as.json {
				return printJSON(s.std.out, list)
			}
			now := time.Now()
			tab := newTable(s.std.out, "SEQ", "WHEN", "KIND", "WHO", "TOOL", "CALL", "BODY")
			for _, e := range list {
				tab.row(e.Seq, ago(e.Time, now), cell{e.Kind, cyan}, who(e.Actor), e.Tool, e.Call, string(e.Body))
			}
			tab.print("nothing of that was done yet")
			return nil
		})
	cmd.Aliases = []string{"list"}
	which.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 20, "the most to list")
	cmd.Flags().BoolVar(&oldest, "oldest", false, "the first instead of the last")
	return cmd
}
