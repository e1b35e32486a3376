package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft/app"
	"haft/internal/datadir"
)

// restoring has the flags of restore.
type restoring struct {
	accept, yes bool
	sink        string
}

// restoreCommand goes on with a database that is older than what was signed.
func restoreCommand(std streams) *cobra.Command {
	var r restoring
	cmd := &cobra.Command{
		Use:   "restore {FROM | --accept-loss}",
		Short: "Put back a backup, or go on with an older database and write into the audit log what was lost",
		Long: `restore FROM copies a backup that haft backup made into a data directory that is empty
or not there yet, and verifies the audit log in it.

restore --accept-loss is for a data directory whose database was put back on purpose, so that it does
not have what audit.head says was signed last. It says which entries of the audit log
are lost, asks, writes an entry audit.restored for each organisation that lost some,
signs it, and writes audit.head anew. It is also for one in which files are missing, or
are not those that belong there: redo.log after a crash, haft.db, audit.key, digest.key
or auth.key. It says which, asks, writes an entry audit.restored, and goes on without
them; a log or key that is of no use is kept as NAME.lost. No server may be running.
With nothing lost it changes nothing.

Exit codes: 0 done, or nothing to do; 1 not confirmed; 2 used wrongly; 3 something else
uses the database.`,
		Example: `  haft restore /backup/monday --data /var/lib/haft
  haft restore --accept-loss --data /var/lib/haft
  haft restore --accept-loss --yes --data /var/lib/haft --database postgres://…`,
		Args: func(c *cobra.Command, list []string) error { return usageArgs(cobra.MaximumNArgs(1)(c, list)) },
	}
	p := attach(cmd)
	f := cmd.Flags()
	f.BoolVar(&r.accept, "accept-loss", false, "say that what is lost may be lost; needed")
	f.BoolVar(&r.yes, "yes", false, "do not ask")
	f.StringVar(&r.sink, "audit-sink", os.Getenv("HAFT_AUDIT_SINK"),
		"the `FILE` of the audit sink, if it knows more than audit.head ($HAFT_AUDIT_SINK)")
	cmd.RunE = func(c *cobra.Command, list []string) error {
		if len(list) == 1 {
			return r.putBack(c, p, std, list[0])
		}
		return r.run(c, p, std)
	}
	return cmd
}

// putBack copies a backup into an empty data directory.
func (r restoring) putBack(c *cobra.Command, p *persona, std streams, from string) error {
	if p.remote() || p.database != "" {
		return usage(errors.New("restore FROM works on a data directory; put back a Postgres with pg_restore, and " +
			"copy the files of the backup"))
	}
	if r.accept {
		return usage(errors.New("restore needs FROM or --accept-loss, and not both"))
	}
	dir, err := p.dir()
	if err != nil {
		return err
	}
	entries, err := datadir.PutBack(c.Context(), from, dir, p.principal())
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "put back: %d entries of the audit log verified\n", entries)
	return nil
}

func (r restoring) run(c *cobra.Command, p *persona, std streams) error {
	if p.remote() {
		return usage(errors.New("restore works where the data is, and not on a server"))
	}
	if !r.accept {
		return usage(errors.New("restore needs the directory of a backup, or --accept-loss, which gives up entries " +
			"of the audit log"))
	}
	dir, err := p.dir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		return usage(fmt.Errorf("look at the data directory: %w", err))
	}
	// A server keeps the directory: there is nothing to wait for.
	cfg := app.ServiceConfig{Data: dir, Database: p.database, Wait: 200 * time.Millisecond, AuditSink: r.sink}
	done, nothing := false, true
	err = app.Restore(c.Context(), cfg, p.principal(), func(loss datadir.Loss) (yes bool, err error) {
		nothing = false
		done, err = r.confirm(loss, std, p.json)
		return done, err
	})
	switch {
	case err != nil:
		return err
	case nothing:
		fmt.Fprintln(std.out,
			"nothing is lost: no file is missing, and the database continues the audit log that was signed last")
	case !done:
		fmt.Fprintln(std.err, "nothing was changed")
		return &exit{code: exitTool}
	default:
		fmt.Fprintln(std.out, "accepted: the audit log says so, and is signed from here on")
	}
	return nil
}

// confirm says what is lost, and asks.
func (r restoring) confirm(loss datadir.Loss, std streams, asJSON bool) (bool, error) {
	plan := loss.Audit
	switch {
	case asJSON && plan == nil:
		if err := printJSON(std.out, map[string]any{"files": loss.Files}); err != nil {
			return false, err
		}
	case asJSON:
		if err := printJSON(std.out, plan); err != nil {
			return false, err
		}
	case plan == nil:
		for _, file := range loss.Files {
			fmt.Fprintln(std.out, safe(std.out, file))
		}
	default:
		if plan.Signed == 0 {
			fmt.Fprintln(std.out, "nothing says what was signed last, so nobody knows what is lost")
		} else {
			fmt.Fprintf(std.out, "signed last: checkpoint %d; last in the database: checkpoint %d\n", plan.Signed,
				plan.Have)
		}
		for _, l := range plan.Losses {
			fmt.Fprintln(std.out, "  "+safe(std.out, l.String()))
		}
	}
	if r.yes {
		return true, nil
	}
	if in, ok := std.in.(*os.File); !ok || !isTerminal(in) {
		return false, usage(errors.New("nobody can be asked here: look at what is lost, and give --yes"))
	}
	fmt.Fprint(std.err, "Go on without that? Type yes: ")
	answer, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil {
		return false, nil //nolint:nilerr // no answer means no
	}
	return strings.TrimSpace(answer) == "yes", nil
}
