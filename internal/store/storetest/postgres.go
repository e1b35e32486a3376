package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft/internal/skiptest"
)

// A server is a Postgres of this test process.
type server struct {
	bin string // the directory of its programs
	dir string // its files and its socket
}

// The one server, made when it is first asked for.
var only struct {
	once   sync.Once
	server *server
	err    error
	hold   *os.File     // open as long as this process lives
	count  atomic.Int64 // databases
}

// Postgres returns the URL of a fresh database of a real Postgres server, which is
// dropped when the test ends. The server belongs to the test process and ends with
// it, whatever becomes of it, and leaves nothing behind.
//
// Without Postgres the test is skipped, or fails if HAFT_REQUIRE names postgres.
func Postgres(t testing.TB) string {
	t.Helper()
	only.once.Do(func() { only.server, only.err = startServer(context.WithoutCancel(t.Context())) })
	s := only.server
	if only.err != nil {
		skiptest.Lacking(t, "postgres", only.err.Error())
	}
	name := fmt.Sprintf("haft_%d_%d", os.Getpid(), only.count.Add(1))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	// Not every database orders text byte by byte: this one orders like a person,
	// if the server can.
	if out, err := s.psql(ctx, "CREATE DATABASE "+name+
		" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en'"); err != nil {
		if more, err := s.psql(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
			t.Fatalf("make a database: %v\n%s\n%s", err, out, more)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if out, err := s.psql(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the database: %v\n%s", err, out)
		}
	})
	u := url.URL{Scheme: "postgres", User: url.User("haft"), Path: "/" + name,
		RawQuery: url.Values{"host": {s.dir}}.Encode()}
	return u.String()
}

// PostgresDump is [Postgres] with a database that holds what pg_dump wrote to a file.
func PostgresDump(t testing.TB, file string) string {
	t.Helper()
	address := Postgres(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := only.server.client(t.Context(), strings.TrimPrefix(u.Path, "/"), "-v", "ON_ERROR_STOP=1", "-f",
		file); err != nil {
		t.Fatalf("load the dump: %v\n%s", err, out)
	}
	return address
}

// psql runs one statement.
func (s *server) psql(ctx context.Context, text string) (string, error) {
	return s.client(ctx, "postgres", "-c", text)
}

// client runs psql on a database.
func (s *server) client(ctx context.Context, database string, args ...string) (string, error) {
	args = append([]string{"-X", "-q", "-h", s.dir, "-U", "haft", "-d", database}, args...)
	out, err := exec.CommandContext(ctx, filepath.Join(s.bin, "psql"), args...).CombinedOutput()
	return string(out), err
}

// script runs a server until its input ends, which it does when the test process
// does, and then removes its files. It keeps out of the way of signals that a
// terminal sends to all. The server itself is never killed in a test while its data
// is needed, so it does not wait for the disk.
const script = `trap '' INT HUP TERM
cd "$2" || exit 1
"$1/initdb" -D data -U haft --auth=trust -E UTF8 --locale=C --no-sync >log 2>&1 &&
"$1/pg_ctl" -w -t 60 -D data -l log -o "-k '$2' -c listen_addresses= -c max_connections=200 -c fsync=off -c full_page_writes=off" start >>log 2>&1 && echo ready
read -r end
"$1/pg_ctl" -m immediate -D data stop >/dev/null 2>&1
cd / && rm -rf "$2"
`

// startServer makes and starts a server.
func startServer(ctx context.Context) (*server, error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "haft-pg-")
	if err != nil {
		return nil, err
	}
	s := &server{bin, dir}
	if err := s.run(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log")) // nothing to read is nothing to say
		return nil, errors.Join(fmt.Errorf("start Postgres of %s: %w\n%s", bin, err, log), os.RemoveAll(dir))
	}
	return s, nil
}

// run starts the script and waits until it says that the server is ready. The
// write end of its input stays open as long as this process lives.
func (s *server) run(ctx context.Context) error {
	in, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, say, err := os.Pipe()
	if err != nil {
		return errors.Join(err, hold.Close())
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", s.bin, s.dir)
	cmd.Stdin, cmd.Stdout = in, say
	cmd.Dir = "/"
	err = s.asOther(cmd)
	if err == nil {
		err = cmd.Start()
	}
	if err = errors.Join(err, say.Close()); err != nil {
		return errors.Join(err, hold.Close())
	}
	if err := out.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return errors.Join(err, hold.Close())
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) != "ready" {
		return errors.Join(fmt.Errorf("it does not start: %w", err), hold.Close())
	}
	only.hold = hold
	return nil
}

// findPostgres returns the directory of Postgres' programs.
func findPostgres() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		dirs = append(dirs, found...)
	}
next:
	for _, dir := range dirs {
		for _, program := range []string{"initdb", "pg_ctl", "postgres", "psql"} {
			if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
				continue next
			}
		}
		return dir, nil
	}
	return "", errors.New("there are no programs initdb, pg_ctl, postgres and psql on this machine")
}
