// Package migrations brings the tables of a database up to date.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"haft"
)

// A Dialect has the words of a database that migrations need.
type Dialect struct {
	// Name is the database's: sqlite3 or postgres.
	Name string
	// Text is the type of indexed text, which is ordered byte by byte.
	Text string
	// Serial is the type of a number of 64 bits that is a primary key.
	Serial string
	// Bytes is the type of binary content.
	Bytes string
	// Lock waits until no other session holds the lock of the migrations, and
	// Unlock gives it back. Empty where there are no others.
	Lock, Unlock string
}

// The migrations are named by their number. They only go forward, and none that
// was released is ever changed. {text}, {serial} and {bytes} stand for words of
// the [Dialect]; statements are parted by an empty line.
//
//go:embed *.sql
var files embed.FS

// versionTable is where the numbers of the migrations are kept that were made.
const versionTable = "haft_version"

// Latest returns the number of the newest migration.
func Latest() int64 {
	steps, err := steps(Dialect{})
	if err != nil {
		panic(fmt.Sprintf("migrations: %v", err)) // the files are part of the program
	}
	return steps[len(steps)-1].Version
}

// Run brings a database up to one version. Several processes may do so at once. Only tests
// need another version than [Latest].
func Run(ctx context.Context, db *sql.DB, d Dialect, version int64) error {
	steps, err := steps(d)
	if err != nil {
		return err
	}
	if d.Lock != "" {
		unlock, err := lock(ctx, db, d)
		if err != nil {
			return fmt.Errorf("wait for others who migrate: %w", err)
		}
		defer unlock()
	}
	p, err := goose.NewProvider(goose.Dialect(d.Name), db, nil,
		goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true),
		goose.WithTableName(versionTable), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if err := older(ctx, p); err != nil {
		return err
	}
	if version <= 0 {
		return nil // nothing but the table of versions
	}
	if _, err := p.UpTo(ctx, version); err != nil {
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			return fmt.Errorf("migration %d: %w", partial.Failed.Source.Version, partial.Err)
		}
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// lock takes the lock of the migrations. goose has one too, which asks again and
// again, and does not cover the making of its own table.
func lock(ctx context.Context, db *sql.DB, d Dialect) (unlock func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, d.Lock); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() {
		// If either fails the connection is gone, and the lock with it.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), d.Unlock)
		_ = conn.Close()
	}, nil
}

// older reports that the database is of a newer program. Nothing is changed then:
// what we do not know we would destroy.
func older(ctx context.Context, p *goose.Provider) error {
	have, know, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the database: %w", err)
	}
	if have > know {
		return &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf(
			"the database is of a newer haft (version %d, this one knows %d): use that one, or another database", have,
			know)}
	}
	return nil
}

// steps reads the migrations for a dialect, in order.
func steps(d Dialect) ([]*goose.Migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var all []*goose.Migration
	words := strings.NewReplacer("{text}", d.Text, "{serial}", d.Serial, "{bytes}", d.Bytes)
	for _, name := range names {
		digits, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the migration %s has no number: %w", name, err)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		statements := strings.Split(strings.TrimSpace(words.Replace(string(text))), "\n\n")
		all = append(all, goose.NewGoMigration(version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error { return run(ctx, tx, statements) },
		}, nil))
	}
	return all, nil
}

func run(ctx context.Context, tx *sql.Tx, statements []string) error {
	for i, text := range statements {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("statement %d: %w", i+1, err)
		}
	}
	return nil
}
