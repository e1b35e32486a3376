package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/store/sqlite"
)

// holdEnv names a directory that a second process is to hold.
const holdEnv = "HAFT_TEST_HOLD"

// writeEnv makes that process keep calls until it is killed.
const writeEnv = "HAFT_TEST_WRITE"

// busyEnv makes it keep them in the log.
const busyEnv = "HAFT_TEST_BUSY"

// TestMain is also the second process: it opens a store, says so and waits until
// its input ends or somebody kills it.
func TestMain(m *testing.M) {
	dir := os.Getenv(holdEnv)
	if dir == "" {
		goleak.VerifyTestMain(m)
		return
	}
	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir, Busy: os.Getenv(busyEnv) != ""})
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "held")
	if os.Getenv(writeEnv) != "" {
		for i := 0; ; i++ {
			b := calls(i, 1, haft.StatusRunning)
			b.Sure = os.Getenv(busyEnv) != ""
			if err := s.Commit(context.Background(), b); err != nil {
				fmt.Fprintln(os.Stdout, err)
				os.Exit(1)
			}
			fmt.Fprintln(os.Stdout, i) // acknowledged
		}
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = s.Close()
}
