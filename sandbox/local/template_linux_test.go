package local_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
)

// python is a spec for templates.
func python() sandbox.Spec {
	return sandbox.Spec{Argv: []string{"/usr/bin/python3", "-I", "-S"}, Mounts: system(), Env: []string{"LANG=C.UTF-8"}}
}

// template starts a template that is closed with the test.
func template(t testing.TB, p *local.Provider, boot string) sandbox.Template {
	t.Helper()
	if i, err := p.Isolation(t.Context()); err != nil || !i.Has(haft.ControlUserNS) {
		lacking(t, haft.ControlUserNS)
	}
	tpl, err := p.Template(t.Context(), python(), boot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tpl.Close(); err != nil {
			t.Error(err)
		}
	})
	return tpl
}

// forked runs one fork and returns what it wrote.
func forked(t testing.TB, tpl sandbox.Template, spec sandbox.Spec) (sandbox.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	spec.Stdout, spec.Stderr = &out, &out
	e, err := tpl.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return e, out.String()
}

func TestTemplate_ends(t *testing.T) {
	p := open(t, local.Config{})
	tests := []struct {
		name, program string
		limits        haft.Limits
		want          sandbox.Exit
		needs         haft.Control
	}{
		{name: "return", program: "pass", want: sandbox.Exit{Cause: sandbox.CauseExit}},
		{name: "exit", program: "sys.exit(3)", want: sandbox.Exit{Cause: sandbox.CauseExit, Code: 3}},
		{name: "hard exit", program: "os._exit(5)", want: sandbox.Exit{Cause: sandbox.CauseExit, Code: 5}},
		{name: "exception", program: "1/0", want: sandbox.Exit{Cause: sandbox.CauseExit, Code: 1}},
		{name: "segfault", program: "import ctypes; ctypes.string_at(0)",
			want: sandbox.Exit{Cause: sandbox.CauseSignal, Signal: 11}},
		{name: "sleep", program: "import time; time.sleep(100)", limits: haft.Limits{Wall: ms(150)},
			want: sandbox.Exit{Cause: sandbox.CauseTimeout, Limit: haft.FailTimeout}},
		{name: "busy", program: "while True: pass", limits: haft.Limits{CPU: ms(200)},
			want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailCPU}},
		{name: "memory", program: "b = []\n    while True: b.append(bytearray(1 << 20))",
			limits: haft.Limits{Memory: 64 << 20},
			want:   sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailMemory}},
		{name: "forks", program: "import time\n    while os.fork() >= 0: time.sleep(0.001)",
			limits: haft.Limits{Processes: 10}, want: sandbox.Exit{Cause: sandbox.CauseLimit, Limit: haft.FailPIDs},
			needs: haft.ControlPIDs},
		{name: "forbidden", program: "import ctypes; ctypes.CDLL(None).syscall(169, 0, 0, 0, 0)",
			want: sandbox.Exit{Cause: sandbox.CauseBlocked, Signal: 31}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.needs != "" && !must(p.Isolation(t.Context())).Has(tt.needs) {
				lacking(t, tt.needs)
			}
			tpl := template(t, p, "import os, sys\ndef main(fd):\n    "+tt.program+"\n")
			e, out := forked(t, tpl, sandbox.Spec{Limits: tt.limits})
			got := sandbox.Exit{Cause: e.Cause, Code: e.Code, Signal: e.Signal, Limit: e.Limit}
			if e.Cause == sandbox.CauseTimeout || e.Cause == sandbox.CauseLimit {
				got.Signal = 0
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%q = %+v, want %+v\n%s", tt.program, got, tt.want, out)
			}
		})
	}
}

func TestTemplate_forks_owe_each_other_nothing(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, `import os, random, tempfile, time, uuid
count = 0
def main(fd):
    global count
    count += 1
    open('/tmp/trace', 'x').close(); open('/work/trace', 'x').close(); open('/dev/shm/trace', 'x').close()
    print(count, os.getpid(), os.getuid(), time.monotonic() < 60, sorted(os.listdir('/tmp')))
    print(random.random(), uuid.uuid4(), tempfile.mktemp())
`)
	seen := map[string]bool{}
	for range 5 {
		_, out := forked(t, tpl, sandbox.Spec{})
		first, second, _ := strings.Cut(out, "\n")
		if want := "1 1 1000 True ['trace']"; first != want {
			t.Errorf("a fork says %q, want %q", first, want)
		}
		for _, word := range strings.Fields(second) {
			if seen[word] {
				t.Errorf("two forks drew %q", word)
			}
			seen[word] = true
		}
	}
}

func TestTemplate_hands_files_in_and_out(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, "def main(fd):\n    open('out/b', 'w').write(open('sub/a').read() * 2)\n")
	e, out := forked(t, tpl, sandbox.Spec{Collect: true, Files: []sandbox.File{{Name: "sub/a", Data: []byte("x")}}})
	if len(e.Artifacts) != 1 || string(e.Artifacts[0].Data) != "xx" {
		t.Errorf("artifacts %+v, cut %q\n%s", e.Artifacts, e.ArtifactsCut, out)
	}
}

func TestTemplate_reports_a_boot_that_fails(t *testing.T) {
	p := open(t, local.Config{})
	if i, _ := p.Isolation(t.Context()); !i.Has(haft.ControlUserNS) {
		lacking(t, haft.ControlUserNS)
	}
	for boot, want := range map[string]string{
		"import nonsense":        "ModuleNotFoundError",
		"x = 1":                  "KeyError",
		"import os\nos._exit(1)": "EOF",
		"def main(:":             "SyntaxError",
	} {
		if _, err := p.Template(t.Context(), python(), boot); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Template(%q) = %v, want %s", boot, err, want)
		}
	}
	spec := python()
	spec.Argv[0] = "/usr/bin/true"
	if _, err := p.Template(t.Context(), spec, "def main(fd): pass"); err == nil {
		t.Error("a template that is no Python has no error")
	}
	spec.Argv[0] = "/usr/bin/no-such-python"
	_, err := p.Template(t.Context(), spec, "def main(fd): pass")
	if step, ok := errors.AsType[*sandbox.SetupError](err); !ok || step.Step != "exec" {
		t.Errorf("a missing interpreter gives %v", err)
	}
}

func TestTemplate_sandboxes_outlive_its_Close(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, "import os\ndef main(fd):\n    os.write(fd, b'x'); os.write(fd, os.read(fd, 1))\n")
	c := park(t, tpl)
	defer c.close()
	if err := tpl.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.channel.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c.channel); err != nil || string(b) != "y" {
		t.Errorf("the sandbox says %q, %v", b, err)
	}
	if e := <-c.ended; e.Cause != sandbox.CauseExit || e.Code != 0 {
		t.Errorf("it ended with %+v", e)
	}
	if err := <-c.done; err != nil {
		t.Error(err)
	}
	if _, err := tpl.Run(t.Context(), sandbox.Spec{}); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Run after Close = %v", err)
	}
}

func TestTemplate_many_at_once(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, "import os\ndef main(fd):\n    os.write(fd, b'x'); os.read(fd, 1)\n")
	cells := make([]*idle, 100)
	var wg sync.WaitGroup
	for i := range cells {
		wg.Go(func() { cells[i] = park(t, tpl) })
	}
	wg.Wait()
	for _, c := range cells {
		if c == nil {
			t.Fatal("a fork did not start")
		}
		close(c.finish)
	}
	for _, c := range cells {
		if e := <-c.ended; e.Cause != sandbox.CauseFinished {
			t.Errorf("it ended with %+v", e)
		}
		if err := <-c.done; err != nil {
			t.Error(err)
		}
		c.close()
	}
}

// A template that died is replaced by the next run.
func TestTemplate_is_replaced_when_it_dies(t *testing.T) {
	p := open(t, local.Config{})
	word := fmt.Sprint(300000 + os.Getpid())
	tpl := template(t, p, "import os, sys\nsys.argv.append('"+word+"')\ndef main(fd): print('alive')\n")
	if _, out := forked(t, tpl, sandbox.Spec{}); out != "alive\n" {
		t.Fatalf("it says %q", out)
	}
	local.KillTemplate(tpl)
	for range 2 {
		if _, out := forked(t, tpl, sandbox.Spec{}); out != "alive\n" {
			t.Errorf("it says %q", out)
		}
	}
}

// After an order that was not received as a whole, what follows in the socket may be the content of a file.
// The kernel cuts the receiving of such an order short where the descriptors of the next one are.
func TestTemplate_takes_no_more_orders_after_a_torn_one(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, "def main(fd): print('alive')\n")
	for range 2 {
		if err := local.SendTemplate(tpl, binary.NativeEndian.AppendUint64(nil, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if _, out := forked(t, tpl, sandbox.Spec{}); out != "alive\n" {
			t.Errorf("it says %q", out)
		}
	}
}

func TestTemplate_does_not_fork_without_its_descriptors(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, "def main(fd): print('alive')\n")
	for range 2 {
		err := local.ForkWithout(tpl, 0, 1, 2)
		if step, ok := errors.AsType[*sandbox.SetupError](err); !ok || step.Path != "descriptors" {
			t.Errorf("a fork without its descriptors: %v", err)
		}
		if _, out := forked(t, tpl, sandbox.Spec{}); out != "alive\n" {
			t.Errorf("it says %q", out)
		}
	}
}

func TestTemplate_reports_a_step_that_fails_in_the_fork(t *testing.T) {
	p := open(t, local.Config{})
	if i, _ := p.Isolation(t.Context()); !i.Has(haft.ControlUserNS) {
		lacking(t, haft.ControlUserNS)
	}
	spec := python()
	spec.Limits.Disk = 1 << 20
	tpl, err := p.Template(t.Context(), spec, "def main(fd): print('alive')\n")
	if err != nil {
		t.Fatal(err)
	}
	defer tpl.Close()                  //nolint:errcheck // the leaks are looked for in the end
	files := make([]sandbox.File, 200) // two pages each
	for i := range files {
		files[i] = sandbox.File{Name: fmt.Sprint(i), Data: make([]byte, 4097)}
	}
	for range 2 {
		_, err := tpl.Run(t.Context(), sandbox.Spec{Files: files})
		step, ok := errors.AsType[*sandbox.SetupError](err)
		if !ok || step.Step != "file" || !errors.Is(err, unix.ENOSPC) {
			t.Errorf("a file that does not fit: %v", err)
		}
		if _, out := forked(t, tpl, sandbox.Spec{}); out != "alive\n" {
			t.Errorf("it says %q", out)
		}
	}
}

// A meter may report a limit when its process has ended. The next process of this number is another call.
func TestTemplate_limits_are_not_for_the_next_process(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, "def main(fd): print('alive')\n")
	local.SendLimits(tpl)
	for range 3 {
		if e, out := forked(t, tpl, sandbox.Spec{}); e.Cause != sandbox.CauseExit || out != "alive\n" {
			t.Errorf("it ended with %s %s and says %q", e.Cause, e.Limit, out)
		}
	}
	if n := local.Ends(tpl); n != 0 {
		t.Errorf("%d ends of forks are waited for", n)
	}
}

func TestTemplate_meters_no_process_that_was_waited_for(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	before := local.MetersOf(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if after := local.MetersOf(cmd.Process.Pid); before != 1 || after != 0 {
		t.Errorf("%d meters before, %d afterwards", before, after)
	}
}

// The socket holds a part of such an order at a time.
func TestTemplate_takes_large_orders(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, "import os\ndef main(fd): print(os.path.getsize('a'), open('a').read(3))\n")
	for _, n := range []int{32<<10 - 8, 1 << 20, 3<<20 + 1} {
		data := bytes.Repeat([]byte("abc"), n/3)
		if _, out := forked(t, tpl, sandbox.Spec{Files: []sandbox.File{{Name: "a", Data: data}}}); out !=
			fmt.Sprintln(len(data), "abc") {
			t.Errorf("%d bytes: it says %q", len(data), out)
		}
	}
}

// The init of a template looks at the processes of its forks where there is no cgroup, and outlives them.
func TestTemplate_init_needs_little_memory(t *testing.T) {
	p := open(t, local.Config{Forbid: []haft.Control{haft.ControlMemory, haft.ControlPIDs, haft.ControlCPU}})
	tpl := template(t, p, `import os, time
def main(fd):
    for _ in range(60):
        if os.fork() == 0:
            os.execv('/bin/sleep', ['sleep', '100'])
    time.sleep(100)
`)
	most := make(chan int)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	go func() { most <- initMemory(ctx) }()
	var runs sync.WaitGroup
	for range 4 {
		runs.Go(func() {
			e, err := tpl.Run(ctx, sandbox.Spec{Limits: haft.Limits{Memory: 1 << 30}})
			if err != nil || e.Cause != sandbox.CauseCancelled {
				t.Errorf("a fork ended with %+v, %v", e, err)
			}
		})
	}
	runs.Wait()
	if kib := <-most; kib == 0 || kib > 100<<10 {
		t.Errorf("the init used up to %d KiB", kib)
	}
}

// initMemory returns the most KiB that an init of this process has used until ctx ends.
func initMemory(ctx context.Context) int {
	most := 0
	for ctx.Err() == nil {
		all, _ := filepath.Glob("/proc/[0-9]*/status")
		for _, name := range all {
			b, _ := os.ReadFile(name) // it may have ended
			args, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			ours := bytes.Contains(b, fmt.Appendf(nil, "\nPPid:\t%d\n", os.Getpid())) &&
				bytes.HasPrefix(args, []byte("haft-sandbox-init"))
			if _, rest, ok := bytes.Cut(b, []byte("\nVmRSS:")); ok && ours {
				var kib int
				_, _ = fmt.Sscan(string(rest), &kib)
				most = max(most, kib)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
	return most
}

// A container masks parts of /proc, and then no sandbox in it may mount its own.
func TestTemplate_needs_a_process_file_system(t *testing.T) {
	if os.Getenv(modeVar) != "masked-proc" {
		t.Skip("TestModes runs it where /proc is masked")
	}
	p := open(t, local.Config{})
	tpl, err := p.Template(t.Context(), python(), "def main(fd): pass")
	if haft.CodeOf(err) != haft.CodeDenied || p.CanFork(t.Context()) {
		t.Errorf("Template = %v, %v; want it denied", tpl, err)
	}
	if e, out := sh(t, p, "echo one"); e.Code != 0 || out != "one\n" {
		t.Errorf("without a template: %+v, %q", e, out)
	}
}
