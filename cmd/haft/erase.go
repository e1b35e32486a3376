package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"haft"
)

// exportCommand writes what is kept of an organisation or a user.
func exportCommand(std streams) *cobra.Command {
	var (
		of  haft.Subject
		out string
	)
	cmd := &cobra.Command{}
	p := attach(cmd)
	made := p.command(std, "export", "Write what is kept of an organisation or a user, as JSON lines", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) (err error) {
			var w io.Writer = std.out
			if out != "" {
				file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
				if err != nil {
					return usage(fmt.Errorf("write the export: %w", err))
				}
				defer func() { err = errors.Join(err, file.Close()) }()
				w = file
			}
			b := bufio.NewWriter(w)
			return errors.Join(s.Export(ctx, s.p, of, b), b.Flush())
		})
	cmd.Use, cmd.Short, cmd.Args, cmd.RunE = made.Use, made.Short, made.Args, made.RunE
	cmd.Long = `Write what is kept of an organisation, or of one user of it: calls with their events and
chains, approvals, API keys without their secrets, entries of the audit log and usage; of an
organisation also its agents, tools, MCP servers, webhooks and sandbox configurations. Each line is {"type": …, "data": …}. Values of secrets are not in it.`
	cmd.Example = `  haft export -o acme.jsonl --org acme
  haft export --of-user ann -o ann.jsonl`
	subjectFlags(cmd, &of)
	cmd.Flags().StringVarP(&out, "output", "o", "", "the `FILE` to write to; standard output if it is left out")
	return cmd
}

// subjectFlags say whose data is meant.
func subjectFlags(cmd *cobra.Command, of *haft.Subject) {
	cmd.Flags().StringVar(&of.User, "of-user", "", "one `USER`; else the whole organisation")
	cmd.Flags().StringVar(&of.Org, "of", "", "another `ORGANISATION`, for the operator of the server")
}

// eraseCommand removes what is kept of an organisation or a user.
func eraseCommand(std streams) *cobra.Command {
	var (
		of  haft.Subject
		yes bool
	)
	cmd := &cobra.Command{}
	p := attach(cmd)
	made := p.command(std, "erase", "Erase what is kept of an organisation or a user, for good", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			if !yes {
				return usage(errors.New("what is erased cannot be had again: export it with haft export, and " +
					"give --yes"))
			}
			of.Org = or(of.Org, s.p.Org)
			done, err := s.Erase(ctx, s.p, of)
			if err != nil {
				return err
			}
			return tell(s, done, fmt.Sprintf("erased: %d calls were cancelled, %d entries of the audit log lost "+
				"their content (%s)", done.Cancelled, done.Entries, done.ID))
		})
	cmd.Use, cmd.Short, cmd.Args, cmd.RunE = made.Use, made.Short, made.Args, made.RunE
	cmd.Long = `Erase what is kept of an organisation, or of one user of it. Calls are cancelled first.
Entries of the audit log lose their content, and haft audit verify still verifies the log
and says that they were erased. What somebody managed or approved loses its content only
if the operator of the server erases. What was used stays counted, under no name. Backups
are beyond its reach.`
	cmd.Example = `  haft erase --of-user ann --yes
  haft erase --of acme --yes               the whole organisation, by the operator`
	subjectFlags(cmd, &of)
	cmd.Flags().BoolVar(&yes, "yes", false, "erase it")
	return cmd
}
