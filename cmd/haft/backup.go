package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"haft/internal/datadir"
)

// backupCommand copies a data directory.
func backupCommand(std streams) *cobra.Command {
	var cfg datadir.BackupConfig
	cmd := &cobra.Command{
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
		Args: func(c *cobra.Command, list []string) error { return usageArgs(cobra.ExactArgs(1)(c, list)) },
	}
	p := attach(cmd)
	cmd.Flags().BoolVar(&cfg.NoMasterKey, "without-master-key", false,
		"leave out master.key: without it nobody can read the secrets in the copy")
	cmd.RunE = func(c *cobra.Command, list []string) error {
		if p.remote() {
			return usage(errors.New("backup works where the data is, and not on a server"))
		}
		dir, err := p.dir()
		if err != nil {
			return err
		}
		cfg.Data, cfg.To, cfg.FilesOnly = dir, list[0], p.database != ""
		made, err := datadir.Backup(c.Context(), cfg)
		if err != nil {
			return err
		}
		for _, name := range made {
			fmt.Fprintln(std.out, name)
		}
		if cfg.FilesOnly {
			fmt.Fprintln(std.err, "the database is not in it: copy it now with pg_dump")
		}
		return nil
	}
	return cmd
}
