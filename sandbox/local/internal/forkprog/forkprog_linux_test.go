package forkprog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"haft/internal/skiptest"
	"haft/sandbox/local/internal/plan"
)

// runner carries out a program in another process, as a template does: it says where its memory is, and reads the code
// and the program.
const runner = `
import ctypes, sys
libc = ctypes.PyDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
code, area = libc.mmap(None, 4096, 3, 0x22, -1, 0), libc.mmap(None, 1 << 16, 3, 0x22, -1, 0)
print(area, flush=True)
for at in code, area:
    data = bytes.fromhex(sys.stdin.readline())
    ctypes.memmove(at, data, len(data))
libc.mprotect(ctypes.c_void_p(code), ctypes.c_size_t(4096), 5)
failure = (ctypes.c_int64 * 2)()
end = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)(code)(area, ctypes.addressof(failure))
print(end, *failure)
`

// run carries out the program that build makes, and returns what it prints, what it returns, and what failed.
func run(t *testing.T, build func(p *Program)) (said string, end int64, failed *plan.Failure) {
	t.Helper()
	if Code() == nil {
		t.Skip("there is no code for this processor")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		skiptest.Lacking(t, "python", "python3 is not installed")
	}
	cmd := exec.Command(python, "-I", "-S", "-c", runner)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var area uint64
	if _, err := fmt.Fscanln(out, &area); err != nil {
		t.Fatal(err)
	}
	p := New(area, 1<<16)
	build(p)
	program, err := p.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(in, "%s\n%s\n", hex.EncodeToString(Code()), hex.EncodeToString(program)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	said, last, _ := strings.Cut(string(text), "\x00")
	if last == "" {
		said, last = "", said
	}
	var at uint64
	var result int64
	if _, err := fmt.Sscan(last, &end, &at, &result); err != nil {
		t.Fatalf("%q: %v", last, err)
	}
	if end == -1 {
		if failed, err = p.Failed(at, result); err != nil {
			t.Fatal(err)
		}
	}
	return said, end, failed
}

func TestCode_carries_out_programs(t *testing.T) {
	t.Parallel()
	say := func(p *Program, v value, n int) {
		p.call("say", "", unix.SYS_WRITE, num(1), v, num(n))
		p.want(wantThird)
	}
	done := func(p *Program) {
		say(p, p.bytes([]byte{0}), 1)
		p.op(opReturn, num(7))
	}
	tests := []struct {
		name  string
		build func(p *Program)
		said  string
		fails *plan.Failure
	}{
		{name: "return", build: done},
		{name: "results are kept, and are descriptors later", said: "through", build: func(p *Program) {
			pipe, b := p.uint64s(0), p.bytes(make([]byte, 8))
			p.call("pipe", "", unix.SYS_PIPE2, pipe, num(0))
			p.write("write", "", pipe.at(4), p.text("through"), 7)
			count := p.uint64s(0)
			p.call("read", "", unix.SYS_READ, pipe.fd(), b, num(8))
			p.save(count)
			p.call("write", "", unix.SYS_WRITE, num(1), b, count.fd())
			p.want(7)
			done(p)
		}},
		{name: "digits", said: "/proc////40213/x", build: func(p *Program) {
			n, path := p.uint64s(40213), p.text("/proc/12345678/x")
			p.op(opDigits, n, path.at(14), num(8), num(int('/')))
			say(p, path, 16)
			done(p)
		}},
		{name: "pointers in the data", said: "two parts", build: func(p *Program) {
			vector := p.uint64s(0, 4, 0, 5)
			p.point(vector, p.text("two "))
			p.point(vector.at(16), p.text("parts"))
			p.call("writev", "", unix.SYS_WRITEV, num(1), vector, num(2))
			done(p)
		}},
		{name: "a jump at 0", build: func(p *Program) {
			p.call("close", "", unix.SYS_CLOSE, num(0))
			closed := p.next() - 1
			p.op(opReturn, num(9))
			p.jumpTo(closed, p.next())
			done(p)
		}},
		{name: "no jump at another result", build: func(p *Program) {
			p.call("dup", "", unix.SYS_DUP3, num(0), num(9), num(0))
			dup := p.next() - 1
			p.jumpTo(dup, p.next()+2)
			done(p)
			p.op(opReturn, num(9))
		}},
		{name: "an error", build: func(p *Program) {
			p.open("open", "/none", p.text("/none"), unix.O_RDONLY, 0)
			done(p)
		}, fails: &plan.Failure{Step: "open", Path: "/none", Errno: unix.ENOENT}},
		{name: "an error that is allowed", build: func(p *Program) {
			p.open("open", "/none", p.text("/none"), unix.O_RDONLY, 0)
			p.allow(int(unix.ENOENT))
			done(p)
		}},
		{name: "another error than the one allowed", build: func(p *Program) {
			p.call("close", "", unix.SYS_CLOSE, num(1000))
			p.allow(int(unix.ENOENT))
			done(p)
		}, fails: &plan.Failure{Step: "close", Errno: unix.EBADF}},
		{name: "less than is wanted", fails: &plan.Failure{Step: "write", Errno: unix.EIO}, build: func(p *Program) {
			p.call("write", "", unix.SYS_WRITE, num(2), p.text(""), num(0))
			p.want(1)
			done(p)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			said, end, failed := run(t, tt.build)
			if tt.fails != nil {
				if failed == nil || *failed != *tt.fails {
					t.Errorf("failed with %v, want %v", failed, tt.fails)
				}
				return
			}
			if end != 7 || said != tt.said {
				t.Errorf("said %q and returned %d (%v), want %q", said, end, failed, tt.said)
			}
		})
	}
}

func TestOrder_refuses_what_it_cannot_do(t *testing.T) {
	t.Parallel()
	l, _, err := NewLoop(Areas{Loop: 1 << 20, Order: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*Fork{
		"a step that needs Go":     {Steps: []plan.Step{{Name: "attach", Do: plan.DoAttach}}},
		"a slot that is not there": {Steps: []plan.Step{{Name: "cgroup", Do: plan.DoJoin, Slot: 1}}, Slots: 1},
		"an unknown step of a run": {Steps: []plan.Step{{Do: plan.DoOwn}}, Own: []plan.Step{{Do: "dance"}}},
		"more than its memory holds": {Own: []plan.Step{{Do: plan.DoFile, Data: make([]byte, OrderSize)}},
			Steps: []plan.Step{{Do: plan.DoOwn}}},
	} {
		if _, _, err := l.Order(f); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	_, order, err := l.Order(&Fork{})
	if err != nil || binary.NativeEndian.Uint64(order) != uint64(len(order)-headSize) {
		t.Errorf("an order of %d bytes begins with %x, %v", len(order), order[:headSize], err)
	}
}

func TestProgram_Failed_knows_its_operations_only(t *testing.T) {
	t.Parallel()
	p := New(1<<20, 1<<16)
	p.call("first", "a", 1)
	p.call("second", "b", 2)
	p.write("third", "c", p.temporary(), p.text("text"), 4)
	for _, at := range []uint64{0, 1<<20 - opSize, 1<<20 + 1, 1<<20 + 3*opSize, ^uint64(0)} {
		if f, err := p.Failed(at, -2); !errors.Is(err, errNoStep) {
			t.Errorf("Failed(%#x) = %v, %v", at, f, err)
		}
	}
	for _, result := range []int64{0, 5, -4096, -1 << 63} {
		if f, err := p.Failed(1<<20+opSize, result); err != nil || f.Step != "second" || f.Errno != unix.EIO {
			t.Errorf("Failed of the second with %d = %v, %v", result, f, err)
		}
	}
	if f, err := p.Failed(1<<20+2*opSize, 3); err != nil || f.Errno != unix.ENOSPC {
		t.Errorf("Failed of a write of 3 of 4 bytes = %v, %v", f, err)
	}
}
