package local

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// startThreads makes the Go runtime start n threads, which it keeps.
//
// Where no cgroup counts processes, RLIMIT_NPROC does, and it counts the threads
// of the init with those of the command. A runtime that needs one more thread
// when a fork bomb has taken all of them ends the program: everything in the sandbox
// would end, as it should, but without a cause in the result.
func startThreads(n int) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("start threads: %w", err)
	}
	var all sync.WaitGroup
	here := make(chan struct{}, n)
	for range n {
		all.Go(func() {
			here <- struct{}{}
			var b [1]byte
			_, _ = unix.Read(pipe[0], b[:]) // a call that blocks takes a thread; it ends with the pipe
		})
	}
	for range n {
		<-here
	}
	if err := unix.Close(pipe[1]); err != nil {
		return fmt.Errorf("start threads: %w", err)
	}
	all.Wait()
	if err := unix.Close(pipe[0]); err != nil {
		return fmt.Errorf("start threads: %w", err)
	}
	return nil
}
