package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/audit"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/service"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
	"haft/policy"
)

// TestMain is also the process that is killed: see [TestKill].
func TestMain(m *testing.M) {
	if where := os.Getenv("HAFT_TEST_VICTIM"); where != "" {
		if err := victim(where, os.Getenv("HAFT_TEST_MARKS")); err != nil {
			fmt.Fprintln(os.Stdout, "FAIL", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// openStore opens a directory or the address of a Postgres.
func openStore(ctx context.Context, where string) (*store.Store, error) {
	if strings.HasPrefix(where, "postgres") {
		return postgres.Open(ctx, where, postgres.Config{})
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: where, Wait: 10 * time.Second, Busy: true})
}

// marked is an engine whose only tool leaves a mark in a file each time it runs.
func marked(ctx context.Context, s *store.Store, marks string) (*api, error) {
	file, err := os.OpenFile(marks, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	set := builtin.New()
	err = builtin.Add(set, builtin.Def{Name: "mark", Description: "Leave a mark."},
		func(_ context.Context, c builtin.Call, _ nothing) (nothing, error) {
			_, err := file.WriteString(string(c.ID) + "\n") // one write: the kernel appends it whole
			return nothing{}, err
		})
	if err != nil {
		return nil, err
	}
	rules, err := policy.Compile([]byte(allowAll))
	if err != nil {
		return nil, err
	}
	return openAPI(ctx, engine.Parts{
		Store: s, Registry: registry.New(s, registry.Config{Builtin: set.Tools()}),
		Executors: map[haft.Kind]executor.Executor{haft.KindBuiltin: set},
	}, engine.Config{Policy: rules, Beat: 100 * time.Millisecond, DeadAfter: time.Second}, service.Config{})
}

// victim makes calls as fast as it can and says which were acknowledged, until it
// is killed.
func victim(where, marks string) error {
	ctx := context.Background()
	s, err := openStore(ctx, where)
	if err != nil {
		return err
	}
	e, err := marked(ctx, s, marks)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "READY")
	var out sync.Mutex
	say := func(what string, id haft.CallID, status haft.Status) {
		out.Lock()
		defer out.Unlock()
		fmt.Fprintln(os.Stdout, what, id, status)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for {
				c := haft.Call{Tool: "mark", Principal: user("o"+strconv.Itoa(i%4), "ann")}
				if i%2 == 0 {
					rec, err := e.Submit(ctx, c)
					if err != nil {
						say("FAIL", c.ID, haft.Status(err.Error()))
						return
					}
					say("QUEUED", rec.Call.ID, rec.Status)
					continue
				}
				res, err := e.Call(ctx, c)
				if err != nil {
					say("FAIL", c.ID, haft.Status(err.Error()))
					return
				}
				say("DONE", res.Call, res.Status)
			}
		})
	}
	wg.Wait()
	return nil
}

// TestKill kills a process under load at random moments, again and again: no
// acknowledged call is lost, none runs twice, and the audit verifies.
// HAFT_SOAK_KILLS says how often; 12 by default.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	kills := 12
	if n, err := strconv.Atoi(os.Getenv("HAFT_SOAK_KILLS")); err == nil {
		kills = n
	}
	t.Run("sqlite", func(t *testing.T) { killing(t, filepath.Join(t.TempDir(), "data"), kills) })
	t.Run("postgres", func(t *testing.T) { killing(t, storetest.Postgres(t), kills) })
}

func killing(t *testing.T, where string, kills int) {
	marks := filepath.Join(t.TempDir(), "marks")
	acked := map[haft.CallID]haft.Status{}
	for i := range kills {
		oneKill(t, where, marks, acked, i%2 == 0)
	}
	s, err := openStore(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	e, err := marked(t.Context(), s, marks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, e.Close()) })
	waitClosed(t, s)
	t.Logf("%d kills, %d acknowledged calls", kills, len(acked))
	if len(acked) < kills/2 {
		t.Error("hardly any call was acknowledged: the test shows nothing")
	}
	runs := countMarks(t, marks)
	checkAcked(t, e, acked, runs)
	for id, n := range runs {
		if n > 1 {
			t.Errorf("call %s ran %d times", id, n)
		}
	}
	for i := range 4 {
		verifyChain(t, s, "o"+strconv.Itoa(i))
	}
}

// oneKill runs a victim for a while and kills it: at a random moment, which on a
// busy machine is before anything is acknowledged, or else at a random
// acknowledgement, however long that takes.
func oneKill(t *testing.T, where, marks string, acked map[haft.CallID]haft.Status, byTime bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "HAFT_TEST_VICTIM="+where, "HAFT_TEST_MARKS="+marks)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "READY" {
		t.Fatalf("the victim says %q", lines.Text())
	}
	kill := sync.OnceFunc(func() { check(t, cmd.Process.Kill()) })
	after, left := 30*time.Second, 1+rand.IntN(60)
	if byTime {
		after, left = time.Duration(5+rand.IntN(150))*time.Millisecond, 0
	}
	timer := time.AfterFunc(after, kill)
	defer timer.Stop()
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			continue // cut by the kill
		}
		switch f[0] {
		case "FAIL":
			t.Errorf("the victim failed: %s", lines.Text())
		case "DONE":
			acked[haft.CallID(f[1])] = haft.Status(f[2])
		case "QUEUED":
			acked[haft.CallID(f[1])] = ""
		}
		if left--; left == 0 {
			kill()
		}
	}
	_ = cmd.Wait() // it was killed
}

// waitClosed waits until no call is open.
func waitClosed(t *testing.T, s *store.Store) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		var open []haft.Record
		for i := range 4 {
			list, err := s.Calls.Records(t.Context(), haft.CallFilter{Org: "o" + strconv.Itoa(i), Limit: 10,
				Status: []haft.Status{haft.StatusQueued, haft.StatusRunning, haft.StatusPending}})
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, list...)
		}
		if len(open) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d and more calls stay open, such as %+v", len(open), open[0])
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // it is another engine's goroutines that close them
	}
}

// checkAcked holds what was acknowledged against the records.
func checkAcked(t *testing.T, e *api, acked map[haft.CallID]haft.Status, runs map[haft.CallID]int) {
	t.Helper()
	unknown := 0
	for id, status := range acked {
		var rec *haft.Record
		var err error
		for i := range 4 {
			if rec, err = e.Record(t.Context(), admin("o"+strconv.Itoa(i)), id); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("call %s was acknowledged and is lost: %v", id, err)
			continue
		}
		switch {
		case !rec.Status.Final():
			t.Errorf("call %s stays %s", id, rec.Status)
		case status != "" && rec.Status != status:
			t.Errorf("call %s was %s, and its record says %s", id, status, rec.Status)
		case rec.Status == haft.StatusSuccess && runs[id] != 1:
			t.Errorf("call %s is a success and ran %d times", id, runs[id])
		case rec.Status == haft.StatusUnknown:
			unknown++
		}
	}
	t.Logf("%d of them are unknown", unknown)
}

// countMarks reads how often each call ran.
func countMarks(t *testing.T, marks string) map[haft.CallID]int {
	t.Helper()
	raw, err := os.ReadFile(marks)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[haft.CallID]int{}
	for line := range strings.Lines(string(raw)) {
		runs[haft.CallID(strings.TrimSpace(line))]++
	}
	return runs
}

// verifyChain verifies the whole audit of an organisation.
func verifyChain(t *testing.T, s *store.Store, org string) {
	t.Helper()
	report, err := audit.Verify(s.Audit.Trail(t.Context(), org), nil, nil, audit.Genesis(org))
	if err != nil {
		t.Errorf("the audit of %s cannot be read: %v", org, err)
	}
	if !report.Sound() || report.Entries == 0 {
		t.Errorf("the audit of %s does not verify: %v, %d entries", org, report.Err(), report.Entries)
	}
	t.Logf("%s: %d entries", org, report.Entries)
}
