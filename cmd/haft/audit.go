package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/authority"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/toolfile"
)

// auditCommand proves what was done.
func auditCommand(p *cli.Profile) cli.Command {
	p.Evidence = true
	var (
		f                   auditFilter
		head, keyFile, file string
	)
	f.Limit = 20
	marks := cli.Flag{&head, "head",
		"a `FILE` kept elsewhere that the log must fit: a copy of audit.head, or what --audit-sink wrote"}
	return cli.Command{
		Use: "audit", Short: "Prove what was done: verify, export and show the audit log",
		Example: `  haft audit verify
  haft audit show --kind call.refused --since 3d
  haft audit export -o audit.jsonl
  haft audit key > audit.pem
  haft audit verify-file audit.jsonl --key audit.pem    on any machine, without the store
  haft audit verify --head sink.jsonl                   against checkpoints that were kept elsewhere`,
		Subs: []cli.Command{
			{Use: "verify", Short: "Say whether the audit log is what was written; exit code 1 if it is not",
				Flags: []cli.Flag{marks}, Run: forAuditors(func(ctx context.Context, s *cli.Session, _ []string) error {
					return verifyAudit(ctx, s, head)
				})},
			{Use: "export", Short: "Write the audit log with its signatures, for haft audit verify-file",
				Flags: append(f.flags(),
					cli.Flag{&file, "output,o", "the `FILE` to write; standard output if it is not given"}),
				Run: forAuditors(func(ctx context.Context, s *cli.Session, _ []string) error {
					return exportAudit(ctx, s, &f, file)
				})},
			{Use: "verify-file FILE", Short: "Say whether an export is what was written; exit code 1 if it is not",
				Flags: []cli.Flag{marks, {&keyFile, "key",
					"a `PEM` file with the public keys to trust; that of the data directory if it is not given"}},
				Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
					return verifyExport(ctx, p, args[0], keyFile, head)
				}},
			{Use: "show", Aliases: []string{"list"},
				Short: "List entries of the audit log: the last, or with --oldest the first",
				Flags: append(f.flags(), cli.Flag{&f.Limit, "limit", "the most to list"},
					cli.Flag{&f.Oldest, "oldest", "the first instead of the last"}),
				Run: forAuditors(func(ctx context.Context, s *cli.Session, _ []string) error {
					return showAudit(ctx, s, &f)
				})},
			{Use: "key", Short: "Print the public key with which exports are verified", Plain: printAuditKey},
		},
	}
}

// forAuditors refuses those who may not read the log of their organisation.
func forAuditors(do cli.Work) cli.Work {
	return func(ctx context.Context, s *cli.Session, args []string) error {
		if err := (authority.Rules{}).Authorize(s.Who, haft.AuditRead, authority.Resource{}); err != nil {
			return exit.Advise(err, "work as an administrator with --role admin")
		}
		return do(ctx, s, args)
	}
}

// verifyAudit verifies the log in the store.
func verifyAudit(ctx context.Context, s *cli.Session, head string) error {
	var marks []audit.Mark
	if head != "" {
		text, err := s.AuditKeys(ctx, s.Who)
		if err != nil {
			return err
		}
		keys, err := audit.ParseKeys(text)
		if err != nil {
			return err
		}
		if marks, err = readMarks(head, s.Who.Org, keys); err != nil {
			return err
		}
	}
	rep, err := s.VerifyAudit(ctx, s.Who, marks)
	if err != nil {
		return err
	}
	return printAudit(s.Profile, s.Out, rep)
}

// readMarks reads what is known of a log from elsewhere. No file means nothing.
func readMarks(name, org string, keys audit.Keys) ([]audit.Mark, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, exit.Misuse(fmt.Errorf("read the heads: %w", err))
	}
	defer f.Close()
	return audit.ReadMarks(f, org, keys)
}

// printAudit prints the report on a log, and fails if the log is not sound.
func printAudit(p *cli.Profile, w io.Writer, rep audit.Report) error {
	document := struct {
		Sound bool `json:"sound"`
		audit.Report
	}{rep.Sound(), rep}
	if err := p.Print(document, func() { printAuditReport(w, rep) }); err != nil {
		return err
	}
	if !rep.Sound() {
		return exit.With(exit.Tool)
	}
	return nil
}

// printAuditReport prints the report on a log for people.
func printAuditReport(w io.Writer, rep audit.Report) {
	if rep.Sound() {
		signed := fmt.Sprintf("a signature vouches for them up to entry %d", rep.Signed)
		switch rep.Signed {
		case 0:
			signed = "no signature vouches for them, so the end may have been cut off"
		case rep.Head.Seq:
			signed = "a signature vouches for all of them"
		}
		fmt.Fprintf(w, "%s: %d entries of %s, each linked to the one before; %s\n", paint(w, green, "sound"),
			rep.Entries, rep.Head.Org, signed)
	} else {
		fmt.Fprintf(w, "%s: the audit log of %s is not what was written\n", paint(w, red, "broken"), rep.Head.Org)
	}
	for _, problem := range rep.Problems {
		fmt.Fprintln(w, "  "+problem.String())
	}
	for _, warning := range rep.Warnings {
		fmt.Fprintln(w, "  "+paint(w, yellow, "odd:"), warning.String())
	}
	if rep.Unlisted > 0 {
		fmt.Fprintf(w, "  and %d more\n", rep.Unlisted)
	}
}

// exportAudit writes the log, or the entries of it that a filter selects.
func exportAudit(ctx context.Context, s *cli.Session, which *auditFilter, name string) error {
	f, err := which.read(ctx, s)
	if err != nil {
		return err
	}
	f.Oldest, f.Limit = true, 0
	return s.WithOutput(name, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		if !f.Narrow() {
			rep, err := s.ExportAudit(ctx, s.Who, b)
			if err = errors.Join(err, b.Flush()); err != nil {
				return err
			}
			people := *s.Profile
			people.JSON = false
			return printAudit(&people, s.Err, rep)
		}
		n, out := 0, json.NewEncoder(b)
		out.SetEscapeHTML(false)
		for e, err := range s.FindAudit(ctx, s.Who, f) {
			if err == nil {
				err = out.Encode(e)
			}
			if err != nil {
				return errors.Join(err, b.Flush())
			}
			n++
		}
		if err := b.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "%d entries, one on each line: a part of the log, which proves nothing by itself\n", n)
		return nil
	})
}

// verifyExport verifies an export, without a store.
func verifyExport(ctx context.Context, p *cli.Profile, name, keyFile, head string) error {
	keys, err := auditKeys(ctx, p, keyFile)
	if err != nil {
		return err
	}
	marks, err := readMarks(head, p.Org, keys)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return exit.Misuse(fmt.Errorf("read the export: %w", err))
	}
	defer f.Close()
	rep, err := audit.Read(f, p.Org, keys, marks, nil)
	if haft.CodeOf(err) == haft.CodeInvalid {
		cli.Report(p.Err, err)
		return exit.With(exit.Tool)
	}
	if err != nil {
		return err
	}
	return printAudit(p, p.Out, rep)
}

// auditKeys returns the public keys to trust: those of a file, of the server, or of the
// data directory.
func auditKeys(ctx context.Context, p *cli.Profile, file string) (keys audit.Keys, err error) {
	if file != "" {
		text, err := toolfile.ReadBounded(file, 1<<20)
		if err != nil {
			return nil, exit.Misuse(fmt.Errorf("read the keys: %w", err))
		}
		return audit.ParseKeys(text)
	}
	if p.Remote() {
		err := p.Do(ctx, func(ctx context.Context, s *cli.Session) error {
			text, err := s.AuditKeys(ctx, s.Who)
			if err == nil {
				keys, err = audit.ParseKeys(text)
			}
			return err
		})
		return keys, err
	}
	dir, err := p.Dir()
	if err != nil {
		return nil, err
	}
	text, err := toolfile.ReadBounded(filepath.Join(dir, "audit.key"), 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Misuse(errors.New("there is no key in the data directory: give the public one with " +
			"--key; haft audit key prints it where the log was written"))
	}
	if err != nil {
		return nil, exit.Misuse(fmt.Errorf("read the key of the audit log: %w", err))
	}
	signer, err := audit.ParseSigner(text)
	if err != nil {
		return nil, err
	}
	return audit.MakeKeys(signer.Public()), nil
}

// printAuditKey prints the public key.
func printAuditKey(ctx context.Context, p *cli.Profile, _ []string) error {
	keys, err := auditKeys(ctx, p, "")
	if err != nil {
		return err
	}
	text, err := keys.PEM()
	if err != nil {
		return err
	}
	return p.Print(map[string]string{"pem": string(text)}, func() { fmt.Fprint(p.Out, string(text)) })
}

// An auditFilter says which entries of the log are meant.
type auditFilter struct {
	haft.AuditFilter
	since, until string
}

func (a *auditFilter) flags() []cli.Flag {
	return []cli.Flag{
		{&a.Kind, "kind", "only of a kind, such as call.refused"},
		{&a.User, "of-user", "only what a user did"},
		{&a.Agent, "of-agent", "only what an agent did"},
		{&a.Tool, "tool", "only of a tool"},
		{&a.Call, "call", "only of the call with that `ID`"},
		{&a.since, "since", "only since a `TIME`: 90s, 2h, 3d, or 2006-01-02T15:04:05Z"},
		{&a.until, "until", "only before a `TIME`"},
	}
}

// read returns the filter of the flags.
func (a *auditFilter) read(ctx context.Context, s *cli.Session) (f haft.AuditFilter, err error) {
	f, now := a.AuditFilter, time.Now()
	if f.Since, err = flagvalue.ParseSince(a.since, now); err == nil {
		f.Until, err = flagvalue.ParseSince(a.until, now)
	}
	if err != nil {
		return f, exit.Misuse(err)
	}
	if local, ok := s.System.(*backend.Local); !ok || local.Engine != nil { // else there is only the store
		f.Agent = s.AgentID(ctx, f.Agent)
	}
	return f, nil
}

// showAudit lists entries.
func showAudit(ctx context.Context, s *cli.Session, which *auditFilter) error {
	if which.Limit < 1 || which.Limit > 10_000 {
		return exit.Misuse(errors.New("--limit is between 1 and 10000"))
	}
	f, err := which.read(ctx, s)
	if err != nil {
		return err
	}
	list, err := cli.Collect(s.FindAudit(ctx, s.Who, f))
	if err != nil {
		return err
	}
	if !f.Oldest {
		slices.Reverse(list) // the last are read last
	}
	return s.Print(list, func() {
		cli.PrintTable(s.Out, list, cli.Listing[audit.Entry]{"SEQ,WHEN,KIND,WHO,TOOL,CALL,BODY",
			func(e audit.Entry) []any {
				return []any{e.Seq, cli.Since(e.Time), cli.Shaded(e.Kind, cyan), who(e.Actor), e.Tool, e.Call,
					string(e.Body)}
			}, "nothing of that was done yet"})
	})
}
