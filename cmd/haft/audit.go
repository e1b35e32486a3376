package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"haft"
	"haft/internal/audit"
	"haft/internal/authority"
)

// auditCommand proves what was done.
func auditCommand(std streams) *cobra.Command {
	cmd := group("audit", "Prove what was done: verify, export and show the audit log", `  haft audit verify
  haft audit show --kind call.refused --since 3d
  haft audit export -o audit.jsonl
  haft audit key > audit.pem
  haft audit verify-file audit.jsonl --key audit.pem    on any machine, without the store
  haft audit verify --head sink.jsonl                   against checkpoints that were kept elsewhere`)
	p := attach(cmd)
	p.evidence = true
	cmd.AddCommand(auditVerify(p, std), auditExport(p, std), auditVerifyFile(p, std), auditShow(p, std),
		auditKey(p, std))
	return cmd
}

// auditOnly refuses those who may not read the log of their organisation.
func auditOnly(s *session) error {
	return advise(authority.Rules{}.Authorize(s.p, haft.AuditRead, authority.Resource{}),
		"work as an administrator with --role admin")
}

// auditVerify verifies the log in the store.
func auditVerify(p *persona, std streams) *cobra.Command {
	var head string
	cmd := p.command(std, "verify", "Say whether the audit log is what was written; exit code 1 if it is not",
		cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			if err := auditOnly(s); err != nil {
				return err
			}
			var marks []audit.Mark
			if head != "" {
				text, err := s.AuditKeys(ctx, s.p)
				if err != nil {
					return err
				}
				keys, err := audit.ParseKeys(text)
				if err != nil {
					return err
				}
				if marks, err = readMarks(head, s.p.Org, keys); err != nil {
					return err
				}
			}
			rep, err := s.VerifyAudit(ctx, s.p, marks)
			if err != nil {
				return err
			}
			return printAudit(std, p.json, rep)
		})
	headFlag(cmd, &head)
	return cmd
}

// headFlag is for what is known of a log from elsewhere.
func headFlag(cmd *cobra.Command, head *string) {
	cmd.Flags().StringVar(head, "head", "",
		"a `FILE` kept elsewhere that the log must fit: a copy of audit.head, or what --audit-sink wrote")
}

// readMarks reads what is known of a log from elsewhere.
func readMarks(name, org string, keys audit.Keys) (marks []audit.Mark, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usage(fmt.Errorf("read the heads: %w", err))
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return audit.ReadMarks(f, org, keys)
}

// printAudit prints what was found in a log, and fails if it is not sound.
func printAudit(std streams, asJSON bool, rep audit.Report) error {
	if asJSON {
		if err := printJSON(std.out, struct {
			Sound bool `json:"sound"`
			audit.Report
		}{rep.Sound(), rep}); err != nil {
			return err
		}
	} else {
		w := std.out
		if rep.Sound() {
			fmt.Fprintf(w, "%s: %d entries of %s, each linked to the one before; %s\n", paint(w, green, "sound"),
				rep.Entries, rep.Head.Org, signedText(rep))
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
	if !rep.Sound() {
		return &exit{code: exitTool}
	}
	return nil
}

// signedText says how far signatures vouch for a log.
func signedText(rep audit.Report) string {
	switch {
	case rep.Signed == 0:
		return "no signature vouches for them, so the end may have been cut off"
	case rep.Signed == rep.Head.Seq:
		return "a signature vouches for all of them"
	}
	return fmt.Sprintf("a signature vouches for them up to entry %d", rep.Signed)
}

// signer reads the key that signs the log, or nil where there is none.
func (p *persona) signer() (*audit.Signer, error) {
	dir, err := p.dir()
	if err != nil {
		return nil, err
	}
	pem, err := readBounded(filepath.Join(dir, "audit.key"), 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, usage(fmt.Errorf("read the key of the audit log: %w", err))
	}
	return audit.ParseSigner(pem)
}

// auditExport writes the log to a file.
func auditExport(p *persona, std streams) *cobra.Command {
	var out string
	var which auditFlags
	cmd := p.command(std, "export", "Write the audit log with its signatures, for haft audit verify-file", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) (err error) {
			if err := auditOnly(s); err != nil {
				return err
			}
			f, err := which.filter(ctx, s)
			if err != nil {
				return err
			}
			f.Oldest = true
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
			if f.Narrow() {
				n, err := writeEntries(b, s.FindAudit(ctx, s.p, f))
				if err = errors.Join(err, b.Flush()); err != nil {
					return err
				}
				fmt.Fprintf(std.err,
					"%d entries, one on each line: a part of the log, which proves nothing by itself\n", n)
				return nil
			}
			rep, err := s.ExportAudit(ctx, s.p, b)
			if err = errors.Join(err, b.Flush()); err != nil {
				return err
			}
			words := std
			words.out = std.err
			return printAudit(words, false, rep)
		})
	cmd.Flags().StringVarP(&out, "output", "o", "", "the `FILE` to write; standard output if it is not given")
	which.add(cmd)
	return cmd
}

// writeEntries writes entries as JSON lines, and counts them.
func writeEntries(w io.Writer, list iter.Seq2[audit.Entry, error]) (n int, err error) {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for e, err := range list {
		if err == nil {
			err = out.Encode(e)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// auditVerifyFile verifies an export, without a store.
func auditVerifyFile(p *persona, std streams) *cobra.Command {
	var keyFile, head string
	cmd := &cobra.Command{
		Use: "verify-file FILE", Short: "Say whether an export is what was written; exit code 1 if it is not",
		Args: func(c *cobra.Command, args []string) error { return usageArgs(cobra.ExactArgs(1)(c, args)) },
		RunE: func(c *cobra.Command, args []string) error {
			keys, err := p.keys(c.Context(), std, keyFile)
			if err != nil {
				return err
			}
			var marks []audit.Mark
			if head != "" {
				if marks, err = readMarks(head, p.org, keys); err != nil {
					return err
				}
			}
			f, err := os.Open(args[0])
			if err != nil {
				return usage(fmt.Errorf("read the export: %w", err))
			}
			defer f.Close()
			rep, err := audit.Read(f, p.org, keys, marks, nil)
			if haft.CodeOf(err) == haft.CodeInvalid {
				report(std.err, err)
				return &exit{code: exitTool}
			}
			if err != nil {
				return err
			}
			return printAudit(std, p.json, rep)
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "",
		"a `PEM` file with the public keys to trust; that of the data directory if it is not given")
	headFlag(cmd, &head)
	return cmd
}

// keys returns the public keys to trust: those of a file, of the server, or of the
// data directory.
func (p *persona) keys(ctx context.Context, std streams, name string) (audit.Keys, error) {
	if name == "" && p.remote() {
		var keys audit.Keys
		err := p.do(ctx, std, func(ctx context.Context, s *session) error {
			text, err := s.AuditKeys(ctx, s.p)
			if err != nil {
				return err
			}
			keys, err = audit.ParseKeys(text)
			return err
		})
		return keys, err
	}
	if name != "" {
		text, err := readBounded(name, 1<<20)
		if err != nil {
			return nil, usage(fmt.Errorf("read the keys: %w", err))
		}
		return audit.ParseKeys(text)
	}
	s, err := p.signer()
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, usage(errors.New("there is no key in the data directory: give the public one with --key; haft " +
			"audit key prints it where the log was written"))
	}
	return audit.MakeKeys(s.Public()), nil
}

// auditKey prints the public key.
func auditKey(p *persona, std streams) *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "Print the public key with which exports are verified",
		Args: func(c *cobra.Command, args []string) error { return usageArgs(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			keys, err := p.keys(c.Context(), std, "")
			if err != nil {
				return err
			}
			text, err := keys.PEM()
			if err != nil {
				return err
			}
			if p.json {
				return printJSON(std.out, map[string]string{"pem": string(text)})
			}
			fmt.Fprint(std.out, string(text))
			return nil
		},
	}
}
