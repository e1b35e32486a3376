package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/internal/cli"
	"haft/internal/datadir"
	"haft/internal/exit"
	"haft/internal/terminal"
)

// backupCommand copies a data directory.
func backupCommand(*cli.Profile) cli.Command {
	var cfg datadir.BackupConfig
	return cli.Command{
		Use: "backup DIR", Short: "Copy the data directory, also of a running server, into an empty directory",
		Long: `backup writes a copy of the database, of one moment, and of the keys into DIR, which is
made or is empty. A server may be running: the copy has everything that it acknowledged
before. It works where the data is, for whoever may read the data directory. The copy
holds the keys, in files that nobody else can read: keep it as safe as the data
directory. Packages (layers) are left out: they are installed again.

With --database only the files are copied; copy the Postgres with pg_dump afterwards.

Exit codes: 0 done; 2 used wrongly; 3 DIR is not empty, or others can write to it; 70 it
cannot be copied. Then nothing is left in DIR.`,
		Example: `  haft backup /backup/monday --data /var/lib/haft
  haft restore /backup/monday --data /var/lib/haft-new`,
		Flags: []cli.Flag{{&cfg.NoMasterKey, "without-master-key",
			"leave out master.key: without it nobody can read the secrets in the copy"}},
		Plain: func(ctx context.Context, p *cli.Profile, args []string) (err error) {
			if p.Remote() {
				return exit.Misuse(errors.New("backup works where the data is, and not on a server"))
			}
			if cfg.Data, err = p.Dir(); err != nil {
				return err
			}
			cfg.To, cfg.FilesOnly = args[0], p.Database != ""
			made, err := datadir.Backup(ctx, cfg)
			if err != nil {
				return err
			}
			for _, name := range made {
				fmt.Fprintln(p.Out, name)
			}
			if cfg.FilesOnly {
				fmt.Fprintln(p.Err, "the database is not in it: copy it now with pg_dump")
			}
			return nil
		},
	}
}

// restoreFlags are the flags of restore.
type restoreFlags struct {
	accept, yes bool
	sink        string
}

// restoreCommand copies a backup back, or goes on with a database that is older than what was
// signed.
func restoreCommand(*cli.Profile) cli.Command {
	var r restoreFlags
	return cli.Command{
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
		Flags: []cli.Flag{
			{&r.accept, "accept-loss", "say that what is lost may be lost; needed"},
			{&r.yes, "yes", "do not ask"},
			{&r.sink, "audit-sink", "the `FILE` of the audit sink, if it knows more than audit.head"},
		},
		Env: []string{"audit-sink"},
		Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
			if len(args) == 1 {
				return r.copyBackup(ctx, p, args[0])
			}
			return r.acceptLoss(ctx, p)
		},
	}
}

// copyBackup copies a backup into an empty data directory.
func (r restoreFlags) copyBackup(ctx context.Context, p *cli.Profile, from string) error {
	if p.Remote() || p.Database != "" {
		return exit.Misuse(errors.New("restore FROM works on a data directory; put back a Postgres with " +
			"pg_restore, and copy the files of the backup"))
	}
	if r.accept {
		return exit.Misuse(errors.New("restore needs FROM or --accept-loss, and not both"))
	}
	dir, err := p.Dir()
	if err != nil {
		return err
	}
	entries, err := datadir.PutBack(ctx, from, dir, p.Principal())
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Out, "put back: %d entries of the audit log verified\n", entries)
	return nil
}

// acceptLoss goes on without what is lost.
func (r restoreFlags) acceptLoss(ctx context.Context, p *cli.Profile) error {
	if p.Remote() {
		return exit.Misuse(errors.New("restore works where the data is, and not on a server"))
	}
	if !r.accept {
		return exit.Misuse(errors.New("restore needs the directory of a backup, or --accept-loss, which gives up " +
			"entries of the audit log"))
	}
	dir, err := p.Dir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err != nil {
		return exit.Misuse(fmt.Errorf("look at the data directory: %w", err))
	}
	// A server keeps the directory: there is nothing to wait for.
	cfg := app.ServiceConfig{Data: dir, Database: p.Database, Wait: 200 * time.Millisecond, AuditSink: r.sink}
	accepted, asked := false, false
	err = app.Restore(ctx, cfg, p.Principal(), func(loss datadir.Loss) (_ bool, err error) {
		asked = true
		accepted, err = r.confirm(p, loss)
		return accepted, err
	})
	switch {
	case err != nil:
		return err
	case !asked:
		fmt.Fprintln(p.Out,
			"nothing is lost: no file is missing, and the database continues the audit log that was signed last")
	case !accepted:
		fmt.Fprintln(p.Err, "nothing was changed")
		return exit.With(exit.Tool)
	default:
		fmt.Fprintln(p.Out, "accepted: the audit log says so, and is signed from here on")
	}
	return nil
}

// confirm says what is lost, and asks.
func (r restoreFlags) confirm(p *cli.Profile, loss datadir.Loss) (bool, error) {
	if err := printLoss(p, loss); err != nil || r.yes {
		return r.yes, err
	}
	if !terminal.Is(p.In) {
		return false, exit.Misuse(errors.New("nobody can be asked here: look at what is lost, and give --yes"))
	}
	fmt.Fprint(p.Err, "Go on without that? Type yes: ")
	answer, err := bufio.NewReader(p.In).ReadString('\n')
	if err != nil {
		return false, nil //nolint:nilerr // no answer means no
	}
	return strings.TrimSpace(answer) == "yes", nil
}

// printLoss prints what is lost.
func printLoss(p *cli.Profile, loss datadir.Loss) error {
	plan := loss.Audit
	if plan == nil {
		return p.Print(map[string]any{"files": loss.Files}, func() {
			for _, file := range loss.Files {
				fmt.Fprintln(p.Out, safe(p.Out, file))
			}
		})
	}
	return p.Print(plan, func() {
		if plan.Signed == 0 {
			fmt.Fprintln(p.Out, "nothing says what was signed last, so nobody knows what is lost")
		} else {
			fmt.Fprintf(p.Out, "signed last: checkpoint %d; last in the database: checkpoint %d\n", plan.Signed,
				plan.Have)
		}
		for _, l := range plan.Losses {
			fmt.Fprintln(p.Out, "  "+safe(p.Out, l.String()))
		}
	})
}

// subjectFlags say whose data is meant.
func subjectFlags(of *haft.Subject) []cli.Flag {
	return []cli.Flag{
		{&of.User, "of-user", "one `USER`; else the whole organisation"},
		{&of.Org, "of", "another `ORGANISATION`, for the operator of the server"},
	}
}

// exportCommand writes what is kept of an organisation or a user.
func exportCommand(*cli.Profile) cli.Command {
	var of haft.Subject
	var file string
	return cli.Command{
		Use: "export", Short: "Write what is kept of an organisation or a user, as JSON lines",
		Long: `Write what is kept of an organisation, or of one user of it: calls with their events and
chains, approvals, API keys without their secrets, entries of the audit log and usage; of an
organisation also its agents, tools, MCP servers, webhooks and sandbox configurations. Each line is {"type": …, "data": …}. Values of secrets are not in it.`,
		Example: `  haft export -o acme.jsonl --org acme
  haft export --of-user ann -o ann.jsonl`,
		Flags: append(subjectFlags(&of),
			cli.Flag{&file, "output,o", "the `FILE` to write to; standard output if it is left out"}),
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			return s.WithOutput(file, func(w io.Writer) error {
				b := bufio.NewWriter(w)
				return errors.Join(s.Export(ctx, s.Who, of, b), b.Flush())
			})
		},
	}
}

// eraseCommand removes what is kept of an organisation or a user.
func eraseCommand(*cli.Profile) cli.Command {
	var of haft.Subject
	var yes bool
	return cli.Command{
		Use: "erase", Short: "Erase what is kept of an organisation or a user, for good",
		Long: `Erase what is kept of an organisation, or of one user of it. Calls are cancelled first.
Entries of the audit log lose their content, and haft audit verify still verifies the log
and says that they were erased. What somebody managed or approved loses its content only
if the operator of the server erases. What was used stays counted, under no name. Backups
are beyond its reach.`,
		Example: `  haft erase --of-user ann --yes
  haft erase --of acme --yes               the whole organisation, by the operator`,
		Flags: append(subjectFlags(&of), cli.Flag{&yes, "yes", "erase it"}),
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			if !yes {
				return exit.Misuse(errors.New("what is erased cannot be had again: export it with haft export, and " +
					"give --yes"))
			}
			of.Org = cmp.Or(of.Org, s.Who.Org)
			done, err := s.Erase(ctx, s.Who, of)
			if err != nil {
				return err
			}
			return s.PrintLine(done, fmt.Sprintf("erased: %d calls were cancelled, %d entries of the audit log lost "+
				"their content (%s)", done.Cancelled, done.Entries, done.ID))
		},
	}
}
