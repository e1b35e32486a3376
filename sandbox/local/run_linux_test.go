package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
)

// py wraps a Python program for the shell.
func py(program string) string { return "exec /usr/bin/python3 -I -S -c '" + program + "'" }

func TestRun_ends(t *testing.T) {
	p := open(t, local.Config{})
	tests := []struct {
		name   string
		script string
		limits haft.Limits
		want   sandbox.Exit   // Cause, Code, Signal and Limit
		needs  []haft.Control // skipped without them
	}{
		{name: "success", script: "true", want: sandbox.Exit{Cause: sandbox.CauseExit}},
		{name: "exit code", script: "exit 3", want: sandbox.Exit{Cause: sandbox.CauseExit, Code: 3}},
		{name: "own signal", script: "kill -SEGV $$", want: sandbox.Exit{Cause: sandbox.CauseSignal, Signal: 11}},
		{name: "own SIGKILL", script: "kill -9 $$", want: sandbox.Exit{Cause: sandbox.CauseSignal, Signal: 9}},
		{name: "killing everything in reach", script: "trap '' TERM; kill -TERM -1; kill -9 1; exit 4",
			want: sandbox.Exit{Cause: sandbox.CauseExit, Code: 4}, needs: []haft.Control{haft.ControlPIDNS}},
		{name: "sleep hits the wall", script: "sleep 100", limits: haft.Limits{Wall: ms(150)},
			want: sandbox.Exit{Cause: sandbox.CauseTimeout, Limit: haft.FailTimeout, Signal: 15}},
		{name: "deaf to SIGTERM", script: "trap '' TERM INT HUP; while :; do sleep 100; done",
			limits: haft.Limits{Wall: ms(150)}, want: sandbox.Exit{Cause: sandbox.CauseTimeout,
				Limit: haft.FailTimeout}},
		{name: "busy loop hits the processor limit", script: "while :; do :; done", limits: haft.Limits{CPU: ms(200)},
			want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailCPU}},
		{name: "busy children hit it together", script: "for i in 1 2 3; do (while :; do :; done) & done; wait",
			limits: haft.Limits{CPU: ms(200)}, want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailCPU}},
		{name: "memory", script: py(`b = []
while True: b.append(bytearray(1 << 20))`), limits: haft.Limits{Memory: 64 << 20}, want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailMemory}},
		{name: "memory in /dev/shm", script: "head -c 200M /dev/zero > /dev/shm/x",
			limits: haft.Limits{Memory: 64 << 20, FileSize: 1 << 30, Disk: 1 << 30},
			want:   sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailMemory},
			needs:  []haft.Control{haft.ControlMemory, haft.ControlRoot}},
		{name: "fork bomb", script: "f() { f | f & }; f; sleep 5", limits: haft.Limits{Processes: 20},
			want:  sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailPIDs},
			needs: []haft.Control{haft.ControlUserNS}},
		{name: "one file", script: "head -c 2M /dev/zero > x", limits: haft.Limits{FileSize: 1 << 20},
			want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailFileSize}},
		{name: "all files", script: "for i in 1 2 3 4; do head -c 1M /dev/zero > $i || exit 1; done",
			limits: haft.Limits{Disk: 2 << 20}, want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailDisk},
			needs: []haft.Control{haft.ControlDisk}},
		{name: "number of files", script: "for i in $(seq 200); do : > /tmp/$i || exit 1; done",
			limits: haft.Limits{Inodes: 100}, want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailInodes},
			needs: []haft.Control{haft.ControlDisk}},
		{name: "flood", script: "cat /dev/zero", want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailOutput}},
		{name: "forbidden call", script: py(`import ctypes
ctypes.CDLL(None).syscall(169, 0, 0, 0, 0)`), want: sandbox.Exit{Cause: sandbox.CauseBlocked, Signal: 31}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range tt.needs {
				if !must(p.Isolation(t.Context())).Has(c) {
					lacking(t, c)
				}
			}
			began := time.Now()
			e, out := sh(t, p, tt.script, func(s *sandbox.Spec) { s.Limits = tt.limits })
			got := sandbox.Exit{Cause: e.Cause, Code: e.Code, Signal: e.Signal, Limit: e.Limit}
			if e.Cause == sandbox.CauseTimeout || e.Cause == sandbox.CauseLimit {
				tt.want.Signal, got.Signal = 0, 0 // by whichever signal it went
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("run %q = %+v, want %+v\n%.2000s", tt.script, got, tt.want, out)
			}
			if took := time.Since(began); took > 90*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func ms(n int) haft.Millis { return haft.Millis(time.Duration(n) * time.Millisecond) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestRun_carries_input_and_output(t *testing.T) {
	p := open(t, local.Config{})
	var out, errs bytes.Buffer
	e, err := p.Run(t.Context(), sandbox.Spec{
		Argv: []string{"/bin/bash", "-c", "cat; echo ü >&2; cat dir/a.txt; echo $X"}, Mounts: system(),
		Env:   []string{"X=y z"},
		Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errs,
		Files: []sandbox.File{{Name: "dir/a.txt", Data: []byte("file\n")}},
	})
	if err != nil || e.Cause != sandbox.CauseExit || e.Code != 0 {
		t.Fatalf("Run = %+v, %v\n%s", e, err, errs.String())
	}
	if got, want := out.String()+errs.String(), "in\nfile\ny z\nü\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

func TestRun_cuts_output_and_counts(t *testing.T) {
	p := open(t, local.Config{})
	e, out := sh(t, p, "head -c 3000000 /dev/zero", func(s *sandbox.Spec) { s.Limits.Stdout = 1000 })
	if len(out) != 1000 || e.DroppedStdout != 2999000 || e.Usage.Stdout != 3000000 || e.Cause != sandbox.CauseExit {
		t.Errorf("kept %d, dropped %d, wrote %d, %s", len(out), e.DroppedStdout, e.Usage.Stdout, e.Cause)
	}
}

func TestRun_shows_nothing_of_the_host(t *testing.T) {
	p := open(t, local.Config{})
	t.Setenv("HAFT_SECRET", "sesame")
	leak, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, leak.Fd(), syscall.F_SETFD, 0); errno != 0 {
		t.Fatal(errno)
	}
	_, out := sh(t, p,
		`env; cat /proc/1/environ /proc/1/cmdline; ls /proc/*/environ; cat /etc/shadow; ls /root /home /sys /proc/sys; ls /proc/self/fd; tty`)
	for _, secret := range []string{"sesame", "root:", "haft-sandbox-init", "/etc/passwd"} {
		if strings.Contains(out, secret) {
			t.Errorf("%q is visible:\n%s", secret, out)
		}
	}
}

func TestRun_leaves_no_daemon(t *testing.T) {
	p := open(t, local.Config{})
	secs := fmt.Sprint(100000 + os.Getpid())
	e, out := sh(t, p, "(setsid setsid nohup sleep "+secs+" >/dev/null 2>&1 </dev/null &); sleep 0.1; echo up")
	if e.Cause != sandbox.CauseExit || !strings.Contains(out, "up") {
		t.Errorf("Run = %+v\n%s", e, out)
	}
	if pids := running(secs); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
}

// running lists the processes of the machine that have word among their arguments.
func running(word string) []string {
	var pids []string
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte("\x00"+word+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

func TestRun_refuses(t *testing.T) {
	p := open(t, local.Config{})
	tests := []struct {
		name string
		spec sandbox.Spec
		code haft.Code
		step string
	}{
		{"no command", sandbox.Spec{}, haft.CodeInvalid, ""},
		{"relative command", sandbox.Spec{Argv: []string{"true"}}, haft.CodeInvalid, ""},
		{"file outside", sandbox.Spec{Argv: []string{"/bin/true"}, Files: []sandbox.File{{Name: "../x"}}},
			haft.CodeInvalid, ""},
		{"absolute file", sandbox.Spec{Argv: []string{"/bin/true"}, Files: []sandbox.File{{Name: "/x"}}},
			haft.CodeInvalid, ""},
		{"NUL", sandbox.Spec{Argv: []string{"/bin/true", "a\x00b"}}, haft.CodeInvalid, ""},
		{"too many arguments", sandbox.Spec{Argv: []string{"/bin/true", strings.Repeat("x", 2<<20)}}, haft.CodeInvalid,
			""},
		{"unknown network", sandbox.Spec{Argv: []string{"/bin/true"}, Network: "some"}, haft.CodeInvalid, ""},
		{"more isolation than there is", sandbox.Spec{Argv: []string{"/bin/true"},
			Need: sandbox.Need{Level: haft.LevelMachine}}, haft.CodeDenied, ""},
		{"a control that is not there", sandbox.Spec{Argv: []string{"/bin/true"},
			Need: sandbox.Need{Controls: []haft.Control{haft.ControlKernel}}}, haft.CodeDenied, ""},
		{"missing mount", sandbox.Spec{Argv: []string{"/bin/true"},
			Mounts: []sandbox.Mount{{Host: "/no/such", Inside: "/no/such"}}}, "", "mount"},
		{"missing command", sandbox.Spec{Argv: []string{"/no/such"}, Mounts: system()}, "", "exec"},
		{"command that is a directory", sandbox.Spec{Argv: []string{"/usr"}, Mounts: system()}, "", "exec"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := p.Run(t.Context(), tt.spec)
			var step *sandbox.SetupError
			switch {
			case tt.code != "" && haft.CodeOf(err) != tt.code:
				t.Errorf("Run = %v, want code %s", err, tt.code)
			case tt.step != "" && (!errors.As(err, &step) || step.Step != tt.step):
				t.Errorf("Run = %v, want step %s", err, tt.step)
			}
		})
	}
}

func TestRun_is_cancelled(t *testing.T) {
	p := open(t, local.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		_, _ = r.Read(make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	e, err := p.Run(ctx, sandbox.Spec{Argv: []string{"/bin/bash", "-c", "trap '' TERM; echo up; sleep 100"},
		Mounts: system(), Stdout: w})
	if err != nil || e.Cause != sandbox.CauseCancelled {
		t.Errorf("Run = %+v, %v", e, err)
	}
	_ = w.Close()
	if e, err := p.Run(ctx, sandbox.Spec{Argv: []string{"/bin/true"}, Mounts: system()}); err != nil ||
		e.Cause != sandbox.CauseCancelled {
		t.Errorf("Run after the end = %+v, %v", e, err)
	}
}

func TestRun_begins_and_finishes_on_request(t *testing.T) {
	p := open(t, local.Config{})
	begin, finish, up := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	var exits []sandbox.Exit
	done := make(chan sandbox.Exit)
	go func() {
		e, err := p.Run(t.Context(), sandbox.Spec{
			Argv: []string{"/bin/bash", "-c", "echo up; while :; do :; done"}, Mounts: system(),
			Begin: begin, Finish: finish, Limits: haft.Limits{Wall: ms(20000), CPU: ms(20000)},
			Stdout: writerFunc(func(b []byte) (int, error) { once.Do(func() { close(up) }); return len(b), nil }),
			Ended:  func(e sandbox.Exit) { exits = append(exits, e) },
		})
		if err != nil {
			t.Error(err)
		}
		done <- e
	}()
	<-up
	close(begin)
	close(finish)
	e := <-done
	if e.Cause != sandbox.CauseFinished || len(exits) != 1 || exits[0].Cause != sandbox.CauseFinished ||
		exits[0].Usage.Stdout != 3 {
		t.Errorf("Run = %+v, exits %+v", e, exits)
	}
}

// The kernel puts the name of a process into the file from which its memory is read.
func TestRun_a_process_cannot_name_its_memory(t *testing.T) {
	p := open(t, local.Config{})
	finish := make(chan struct{})
	var once sync.Once
	e, err := p.Run(t.Context(), sandbox.Spec{
		Argv: []string{"/usr/bin/python3", "-I", "-S", "-c", `import ctypes, time
ctypes.CDLL(None).prctl(15, b"VmHWM:99999999 ")
print("named", flush=True)
time.sleep(100)`},
		Mounts: system(), Finish: finish, Limits: haft.Limits{Wall: ms(20000)},
		Stdout: writerFunc(func(b []byte) (int, error) { once.Do(func() { close(finish) }); return len(b), nil }),
		Ended:  func(sandbox.Exit) {},
	})
	if err != nil || e.Cause != sandbox.CauseFinished || e.Usage.MaxRSS <= 0 || e.Usage.MaxRSS > 1<<30 {
		t.Errorf("Run = %+v, %v", e, err)
	}
}

// A writerFunc is a writer.
type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestRun_stops_the_clock_until_it_begins(t *testing.T) {
	t.Parallel()
	p := open(t, local.Config{})
	begin := make(chan struct{})
	in, line := io.Pipe()
	time.AfterFunc(2*time.Second, func() {
		close(begin)
		_, _ = line.Write([]byte("go\n"))
		_ = line.Close()
	})
	e, _ := sh(t, p, "read line", func(s *sandbox.Spec) { s.Begin, s.Stdin, s.Limits.Wall = begin, in, ms(1500) })
	if e.Cause != sandbox.CauseExit {
		t.Errorf("Run = %+v", e)
	}
}

func TestRun_collects_regular_files_only(t *testing.T) {
	p := open(t, local.Config{})
	e, out := sh(t, p, `cd out && echo hi > a.txt && mkdir -p d/e && echo '{}' > d/e/b.json && ln -s /etc/passwd link &&
		ln -s ../.. up && mkfifo pipe && echo x > two && ln two three && ln -s /dev/zero zero && head -c 100K /dev/zero > big &&
		printf x > $'new\nline' && printf x > $'\xff' && printf '\x89PNG\r\n\x1a\n' > p.png && ln -s e d/f && (chmod 0 a.txt || true)`,
		func(s *sandbox.Spec) { s.Collect, s.Limits.ArtBytes = true, 10000 })
	if e.Cause != sandbox.CauseExit || e.Code != 0 {
		t.Fatalf("Run = %+v\n%s", e, out)
	}
	got := map[string]string{}
	for _, a := range e.Artifacts {
		got[a.Name] = a.ContentType
	}
	delete(got, "a.txt") // only root can read it
	want := map[string]string{"d/e/b.json": "application/json", "p.png": "image/png"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("artifacts %v, want %v", got, want)
	}
	if len(e.ArtifactsCut) < 9 {
		t.Errorf("left out %q", e.ArtifactsCut)
	}
}

func TestRun_many_at_once(t *testing.T) {
	p := open(t, local.Config{})
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			var out bytes.Buffer
			e, err := p.Run(t.Context(), sandbox.Spec{Argv: []string{"/bin/echo", fmt.Sprint(i)}, Mounts: system(),
				Stdout: &out})
			if err != nil || e.Cause != sandbox.CauseExit || strings.TrimSpace(out.String()) != fmt.Sprint(i) {
				t.Errorf("Run %d = %+v, %v, %q", i, e, err, out.String())
			}
		})
	}
	wg.Wait()
}

func TestRun_gives_channel_as_descriptor_3(t *testing.T) {
	p := open(t, local.Config{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sh(t, p, "echo through >&3", func(s *sandbox.Spec) { s.Channel = w })
	if b, err := io.ReadAll(r); err != nil || string(b) != "through\n" {
		t.Errorf("got %q, %v", b, err)
	}
}

// The host's network brings /etc/ssl, in which a mount of the spec may be as well.
func TestRun_mount_below_what_the_network_brings(t *testing.T) {
	const file = "/etc/ssl/openssl.cnf"
	if _, err := os.Stat(file); err != nil {
		t.Skip("there is no " + file + " here")
	}
	p := open(t, local.Config{})
	var out bytes.Buffer
	exit, err := p.Run(t.Context(), sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", "test -s " + file + " && echo there"}, Env: []string{"PATH=/usr/bin:/bin"},
		Mounts: append(system(), sandbox.Mount{Host: file, Inside: file}), Network: sandbox.NetworkFull, Stdout: &out,
	})
	if err != nil || exit.Cause != sandbox.CauseExit || out.String() != "there\n" {
		t.Errorf("it ended with %+v, %v and printed %q", exit, err, out.String())
	}
}

// The status of a process that ignores no signal. An image may have no grep.
const (
	status  = "cat /proc/self/status"
	ignores = "\nSigIgn:\t0000000000000000\n"
)

// As an ordinary user the command has the user of the init, and before Linux 6.12 Landlock lets it send signals there.
func TestRun_signals_do_not_end_the_init(t *testing.T) {
	if strings.HasPrefix(os.Getenv(modeVar), "reduced") {
		t.Skip("the reduced mode needs Landlock, and has no init of its own at pid 1")
	}
	p := open(t, local.Config{Forbid: []haft.Control{haft.ControlLandlock}})
	if i := must(p.Isolation(t.Context())); !i.Has(haft.ControlPIDNS) {
		lacking(t, haft.ControlPIDNS)
	}
	// A signal while the init still starts the command may end the sandbox, and so the command. Later none does:
	// neither alone, nor while others are handled, when one without a handler would. The last thing that the init does
	// is to ignore signals such as 34.
	ready := py(`while True:
    for line in open("/proc/1/status"):
        if line.startswith("SigIgn:") and int(line.split()[1], 16) >> 33 & 1: raise SystemExit`)
	for _, send := range []string{
		py(`import os, time; [(os.kill(1, n), time.sleep(0.002)) for n in range(1, 65)]`),
		py(`import os; [os.kill(1, n) for _ in range(20) for n in range(1, 65)]`),
		py(`import ctypes; queue = ctypes.CDLL(None).sigqueue; ` +
			`assert not any(queue(1, n, None) for n in range(1, 32)); ` +
			`[queue(1, n, None) for _ in range(20) for n in range(1, 65)]`),
	} {
		for range 5 {
			exit, out := sh(t, p, "("+ready+"); ("+send+") && "+status)
			if exit.Cause != sandbox.CauseExit || exit.Code != 0 || !strings.Contains(out, ignores) {
				t.Fatalf("after all signals to the init by %s: %+v, %q", send, exit, out)
			}
		}
	}
}

// What Haft ignores its commands do not. It may have been started so: glibc's posix_spawn, with which make starts
// programs, leaves signal 32 ignored.
func TestRun_gives_default_actions(t *testing.T) {
	if strings.HasPrefix(os.Getenv(modeVar), "reduced") {
		t.Skip("the reduced mode shows no /proc, and has the same beginning of its init")
	}
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGUSR1, 32} { // Go leaves the last one as it is
		action := func(now, was *[4]uintptr) {
			_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(now)),
				uintptr(unsafe.Pointer(was)), 8, 0, 0)
			if errno != 0 {
				t.Error(errno)
			}
		}
		ignore, was := [4]uintptr{1}, [4]uintptr{}
		action(&ignore, &was)
		defer action(&was, nil) // signal.Reset would not undo signal.Ignore
	}
	exit, out := sh(t, open(t, local.Config{}), status)
	if exit.Cause != sandbox.CauseExit || !strings.Contains(out, ignores) {
		t.Errorf("the signals that a command ignores: %+v, %q", exit, out)
	}
}
