package filter_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/filter"
)

// instructions returns a compiled filter.
func instructions(t *testing.T, c filter.Config) []bpf.Instruction {
	t.Helper()
	program, err := filter.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]bpf.RawInstruction, len(program)/8)
	for i := range raw {
		b := program[i*8:]
		raw[i] = bpf.RawInstruction{Op: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3],
			K: binary.NativeEndian.Uint32(b[4:])}
	}
	list, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program has unknown instructions")
	}
	return list
}

// An observed run has the verdicts of every run, but that allowed calls with something to see are asked about.
func TestCompile_observes_only_what_is_allowed(t *testing.T) {
	looks, err := filter.Looks()
	if err != nil {
		t.Fatal(err)
	}
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []filter.Config{{}, {Egress: true}, {Internet: true}, {Reduced: true},
		{Reduced: true, Scoped: true}, {Reduced: true, Internet: true}, {Uncounted: true}} {
		plain := instructions(t, c)
		c.Observe = true
		watched, asked := instructions(t, c), 0
		for nr := range uint32(1024) {
			if nr == unix.SYS_SOCKET {
				continue // see TestConfig_Refusal
			}
			for _, arg := range []uint64{0, 1, 2, ^uint64(0)} {
				data := make([]byte, 64)
				binary.NativeEndian.PutUint32(data, nr)
				binary.NativeEndian.PutUint32(data[4:], uint32(info.ID))
				for i := range 6 {
					binary.NativeEndian.PutUint64(data[16+8*i:], arg)
				}
				want := run(t, plain, data)
				if _, ok := looks[nr]; ok && want == allow {
					want = unix.SECCOMP_RET_USER_NOTIF
					asked++
				}
				if got := run(t, watched, data); got != want {
					t.Errorf("%+v: call %d (%s) with %#x has the verdict %#x, want %#x", c, nr,
						info.SyscallNumbers[int(nr)], arg, got, want)
				}
			}
		}
		if asked == 0 {
			t.Errorf("%+v observes nothing", c)
		}
	}
}

// Sockets for datagrams and raw packets of the internet are asked about where they are refused, and the answer is the
// error that the filter of a run that is not observed gives. Every other socket has the verdict of every run.
func TestConfig_Refusal(t *testing.T) {
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint64]string{unix.SOCK_DGRAM: "socket:udp", unix.SOCK_RAW: "socket:raw"}
	for _, c := range []filter.Config{{}, {Egress: true}, {Internet: true}, {Reduced: true},
		{Reduced: true, Internet: true}} {
		watch := c
		watch.Observe = true
		plain, watched := instructions(t, c), instructions(t, watch)
		for family := range uint64(64) {
			for args := range uint64(16 * 3) {
				typ, protocol := args/3, []uint64{0, unix.IPPROTO_TCP, unix.IPPROTO_ICMP}[args%3]
				typ |= []uint64{0, unix.SOCK_CLOEXEC, unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC}[family%3]
				want := judgeBy(t, plain, uint32(info.ID), unix.SYS_SOCKET, family, typ, protocol)
				got := judgeBy(t, watched, uint32(info.ID), unix.SYS_SOCKET, family, typ, protocol)
				name := names[args/3]
				if family != unix.AF_INET && family != unix.AF_INET6 || name == "" || want == allow {
					if got != want {
						t.Errorf("%+v: socket(%d, %#x, %d) has the verdict %#x, want %#x", c, family, typ, protocol,
							got, want)
					}
					continue
				}
				called, errno := watch.Refusal([6]uint64{family, typ, protocol})
				if got != unix.SECCOMP_RET_USER_NOTIF || called != name ||
					want != unix.SECCOMP_RET_ERRNO|uint32(errno) {
					t.Errorf("%+v: socket(%d, %#x, %d) has the verdict %#x and is %s refused with %d, want %#x", c,
						family, typ, protocol, got, called, errno, want)
				}
			}
		}
	}
}

// A run in which files can be opened unseen cannot be observed.
func TestCompile_observes_all_or_nothing(t *testing.T) {
	for _, name := range []string{"io_uring_setup", "open_by_handle_at", "chroot"} {
		if _, err := filter.Compile(filter.Config{}, name); err != nil {
			t.Errorf("%s cannot be allowed: %v", name, err)
		}
		if _, err := filter.Compile(filter.Config{Observe: true}, name); err == nil ||
			!strings.Contains(err.Error(), "cannot be observed") {
			t.Errorf("with %s the error is %v", name, err)
		}
	}
}
