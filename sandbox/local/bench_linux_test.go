package local_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"haft/sandbox"
	"haft/sandbox/local"
)

func BenchmarkRun_true(b *testing.B) {
	p := open(b, local.Config{})
	spec := sandbox.Spec{Argv: []string{"/bin/true"}, Mounts: system()}
	for b.Loop() {
		if _, err := p.Run(b.Context(), spec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBare_true(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBare_python(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "/usr/bin/python3", "-I", "-S", "-c", "pass").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTemplate_Run makes a sandbox, hears from it, and ends it.
func BenchmarkTemplate_Run(b *testing.B) {
	p := open(b, local.Config{})
	tpl := template(b, p, "import os\ndef main(fd):\n    os.write(fd, b'x'); os.read(fd, 1)\n")
	var made, ended, gone time.Duration
	cpu := processorTime()
	for b.Loop() {
		began := time.Now()
		c := park(b, tpl)
		made += time.Since(began)
		began = time.Now()
		close(c.finish)
		<-c.ended
		ended += time.Since(began)
		if err := <-c.done; err != nil {
			b.Fatal(err)
		}
		gone += time.Since(began)
		c.close()
	}
	n := float64(b.N)
	b.ReportMetric(float64(made.Microseconds())/n, "µs-made")
	b.ReportMetric(float64(ended.Microseconds())/n, "µs-told")
	b.ReportMetric(float64(gone.Microseconds())/n, "µs-gone")
	b.ReportMetric(float64((processorTime()-cpu).Microseconds())/n, "µs-cpu-here")
}

// processorTime is that of this process.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A idle is a sandbox that waits.
type idle struct {
	channel *os.File
	finish  chan struct{}
	ended   chan sandbox.Exit
	done    chan error
}

// park starts a fork and waits for its first byte.
func park(t testing.TB, tpl sandbox.Template) *idle {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &idle{os.NewFile(uintptr(fds[0]), "ours"), make(chan struct{}), make(chan sandbox.Exit, 1),
		make(chan error, 1)}
	theirs := os.NewFile(uintptr(fds[1]), "theirs")
	go func() {
		_, err := tpl.Run(t.Context(), sandbox.Spec{Channel: theirs, Finish: c.finish, Begin: make(chan struct{}),
			Ended: func(e sandbox.Exit) { c.ended <- e }})
		c.done <- err
	}()
	if _, err := c.channel.Read(make([]byte, 1)); err != nil {
		t.Fatal(err, <-c.done)
	}
	return c
}

// close gives our end of the channel back.
func (c *idle) close() { _ = c.channel.Close() }
