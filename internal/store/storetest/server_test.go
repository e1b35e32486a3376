package storetest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft/internal/store/storetest"
)

// childEnv makes the test process one that has a server and waits to be killed.
const childEnv = "HAFT_TEST_SERVER"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPostgres_child(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		t.Skip("this is what TestPostgres_ends_with_its_process runs")
	}
	fmt.Fprintln(os.Stdout, storetest.Postgres(t))
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestPostgres_ends_with_its_process(t *testing.T) {
	storetest.Postgres(t) // or skip
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPostgres_child$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if u, err := url.Parse(lines.Text()); err == nil && strings.HasPrefix(lines.Text(), "postgres://") {
			dir = u.Query().Get("host")
			break
		}
	}
	if dir == "" {
		t.Fatal("the child has no server")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return // its files go last
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the server of a process that was killed is still there")
		}
	}
}

func TestPostgres_databases_are_fresh(t *testing.T) {
	if a, b := storetest.Postgres(t), storetest.Postgres(t); a == b {
		t.Errorf("two tests have the database %s", a)
	}
}
