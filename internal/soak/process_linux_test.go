package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"haft/internal/skiptest"
)

// starter starts processes that die with this one. The kernel sends the signal when
// the thread ends that started the process, so one thread starts them all and stays.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}

// A node is one haft server.
type node struct {
	name  string
	bin   string
	flags []string
	env   []string
	log   *os.File

	mu  sync.Mutex
	cmd *exec.Cmd
	url string
}

func (n *node) base() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.url
}

// remove kills the server if it still runs.
func (n *node) remove() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill() // it has ended, as a rule
		_ = n.cmd.Wait()
	}
}

// start runs the server and returns when it listens. A context that ends kills it.
func (n *node) start(ctx context.Context) error {
	args := append([]string{"serve", "--addr", "127.0.0.1:0", "--log-level", "warn"}, n.flags...)
	cmd := exec.CommandContext(ctx, n.bin, args...)
	cmd.Env, cmd.Stderr = n.env, n.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := start(cmd); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	at := ""
	for at == "" && lines.Scan() {
		at, _ = strings.CutPrefix(lines.Text(), "listening on ")
		if !strings.HasPrefix(at, "http") {
			at = ""
		}
	}
	if at == "" {
		return fmt.Errorf("server %s does not start, see %s: %w", n.name, n.log.Name(),
			errors.Join(lines.Err(), cmd.Wait()))
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until the server ends
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cmd, n.url = cmd, at
	return nil
}

// signal sends a signal, and waits for the end of the process if it is one that ends it.
func (n *node) signal(sig syscall.Signal) error {
	if err := n.cmd.Process.Signal(sig); err != nil {
		return err
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		if err := n.cmd.Wait(); err != nil && sig == syscall.SIGTERM {
			return fmt.Errorf("server %s: %w", n.name, err)
		}
	}
	return nil
}

// A database is a Postgres of one test, which can be stopped and started again.
type database struct {
	url string
	say io.WriteCloser
	ack *bufio.Reader
}

// postgresScript runs a server until its input ends, which it does when the test
// process does, and obeys the words of its input: stop and start.
const postgresScript = `trap '' INT HUP TERM
cd "$2" || exit 1
options="-k '$2' -c listen_addresses= -c max_connections=200 -c fsync=off"
start() { "$1/pg_ctl" -w -t 60 -D data -l log -o "$options" start >>log 2>&1; }
stop() { "$1/pg_ctl" -w -m immediate -D data stop >>log 2>&1; }
"$1/initdb" -D data -U haft --auth=trust -E UTF8 --locale=C --no-sync >log 2>&1 && start "$@" && echo ready
while read -r word; do "$word" "$@"; echo "$word $?"; done
stop "$@"
cd / && rm -rf "$2"
`

// openDatabase starts a Postgres, or skips the test where there is none.
func openDatabase(t *testing.T) *database {
	t.Helper()
	bin, err := findPostgres()
	if err != nil {
		skiptest.Lacking(t, "postgres", err.Error())
	}
	dir, err := os.MkdirTemp("", "haft-soak-pg-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", postgresScript, "sh", bin, dir)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Setpgid: true}
	if err := notRoot(cmd, dir); err != nil {
		t.Fatal(err)
	}
	say, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil { // it ends with its input
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = say.Close()
		_ = cmd.Wait()
	})
	d := &database{say: say, ack: bufio.NewReader(out)}
	if line, err := d.ack.ReadString('\n'); line != "ready\n" {
		log, _ := os.ReadFile(filepath.Join(dir, "log")) // nothing to read is nothing to show
		t.Fatalf("Postgres does not start: %v\n%s", err, log)
	}
	socket := url.Values{"host": {dir}}.Encode()
	u := url.URL{Scheme: "postgres", User: url.User("haft"), Path: "/postgres", RawQuery: socket}
	d.url = u.String()
	return d
}

// tell stops or starts the server.
func (d *database) tell(word string) error {
	if _, err := io.WriteString(d.say, word+"\n"); err != nil {
		return err
	}
	if line, err := d.ack.ReadString('\n'); line != word+" 0\n" {
		return fmt.Errorf("%s Postgres: %q %w", word, line, err)
	}
	return nil
}

// findPostgres returns the directory of Postgres' programs.
func findPostgres() (string, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	if name, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(name); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "pg_ctl")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the programs initdb and pg_ctl are not on this machine")
}

// notRoot makes cmd run as another user if this one is root, which Postgres refuses.
func notRoot(cmd *exec.Cmd, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err1 := strconv.ParseUint(who.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(who.Gid, 10, 32)
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return errors.Join(err1, err2, os.Chown(dir, int(uid), int(gid)))
}

// until polls until done says so, and reports whether it did in time.
func until(ctx context.Context, most time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return done()
		}
	}
	return true
}
