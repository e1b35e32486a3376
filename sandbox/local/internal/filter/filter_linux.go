package filter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Config says how a filter differs from the usual one.
type Config struct {
	// Internet allows sockets of the families AF_INET and AF_INET6.
	Internet bool
	// Template is for the process that cells are forked from.
	Template bool
	// Also are names of further calls that the operator allows. They beat every
	// list but that of the calls that kill.
	Also []string
}

// errno makes an action that answers with e.
func errno(e unix.Errno) seccomp.Action { return seccomp.ActionErrno | seccomp.Action(e) }

// Compile returns a filter as an array of struct sock_filter, for the
// architecture of this program.
func Compile(c Config) ([]byte, error) {
	info, err := arch.GetInfo(runtime.GOARCH)
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	for _, name := range c.Also {
		if _, ok := info.SyscallNames[name]; !ok {
			return nil, fmt.Errorf("seccomp: %s has no system call %q", info.Name, name)
		}
		if slices.Contains(killed, name) {
			return nil, fmt.Errorf("seccomp: system call %q cannot be allowed", name)
		}
	}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: groups(c, info)}
	body, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	raw, err := bpf.Assemble(append(gate(info), body...))
	if err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	var out bytes.Buffer
	if err := binary.Write(&out, binary.NativeEndian, raw); err != nil {
		return nil, fmt.Errorf("seccomp: %w", err)
	}
	return out.Bytes(), nil
}

// gate kills callers of foreign ABIs: i386 has numbers of its own, with which a
// filter for x86-64 would judge the wrong calls, and x32 sets a bit in the
// number (CVE-2009-0835 was a hole of this kind).
func gate(info *arch.Info) []bpf.Instruction {
	kill := bpf.RetConstant{Val: uint32(seccomp.ActionKillProcess)}
	g := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		kill,
	}
	if info.ID == arch.X86_64.ID {
		g = append(g,
			bpf.LoadAbsolute{Off: 0, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(arch.X32.SeccompMask), SkipTrue: 1},
			kill)
	}
	return g
}

// groups returns the rules, first match first. What matches none gets EPERM.
func groups(c Config, info *arch.Info) []seccomp.SyscallGroup {
	has := func(name string) bool { _, ok := info.SyscallNames[name]; return ok }
	taken := map[string]bool{}
	pick := func(lists ...[]string) (names []string) {
		for _, name := range slices.Concat(lists...) {
			if has(name) && !taken[name] {
				taken[name] = true
				names = append(names, name)
			}
		}
		return names
	}
	var gs []seccomp.SyscallGroup
	deadly := pick(killed)
	var plain []string
	if c.Template {
		plain = pick(allowed, c.Also, template, []string{"clone", "ioctl", "personality", "socket", "socketpair"})
	} else {
		plain = pick(c.Also, without(allowed, "epoll_ctl_old", "epoll_wait_old"))
		gs = append(gs, conditional(c, func(name string) bool { return has(name) && !taken[name] })...)
	}
	return append([]seccomp.SyscallGroup{{Names: plain, Action: seccomp.ActionAllow}}, append(gs,
		seccomp.SyscallGroup{Names: pick(missing), Action: errno(unix.ENOSYS)},
		seccomp.SyscallGroup{Names: deadly, Action: seccomp.ActionKillProcess})...)
}

// without returns list less names.
func without(list []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(names, s) })
}

// conditional are the calls that are judged by their arguments.
func conditional(c Config, has func(string) bool) []seccomp.SyscallGroup {
	var gs []seccomp.SyscallGroup
	add := func(action seccomp.Action, rules ...seccomp.NameWithConditions) {
		rules = slices.DeleteFunc(rules, func(r seccomp.NameWithConditions) bool { return !has(r.Name) })
		gs = append(gs, seccomp.SyscallGroup{NamesWithCondtions: rules, Action: action})
	}
	is := func(name string, arg uint32, values ...uint64) (rules []seccomp.NameWithConditions) {
		for _, v := range values {
			// Only the low half of an int argument reaches the kernel, so a
			// comparison of all 64 bits could be fooled by a dirty upper half
			// when it denies. When it allows, a dirty half is merely refused.
			rules = append(rules, seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{
				{Argument: arg, Operation: seccomp.Equal, Value: v}}})
		}
		return rules
	}
	// Threads and processes, but no namespace. One bit of NEWTIME (0x80) is also
	// a bit of the exit signal in clone(2), so it is no flag there.
	add(seccomp.ActionAllow, seccomp.NameWithConditions{Name: "clone", Conditions: seccomp.ArgumentConditions{
		{Argument: 0, Operation: seccomp.BitsNotSet, Value: namespaceFlags}}})
	// No TIOCSTI, TIOCLINUX and TIOCSETD on a terminal that somebody handed in
	// (CVE-2017-5226): the requests that remain are those that runtimes make.
	add(errno(unix.EPERM), lowBits("ioctl", 1, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.TIOCSCTTY, unix.TIOCCONS)...)
	add(seccomp.ActionAllow, seccomp.NameWithConditions{Name: "ioctl", Conditions: seccomp.ArgumentConditions{
		{Argument: 1, Operation: seccomp.LessOrEqual, Value: 0xffffffff}}})
	// PER_LINUX, and asking.
	add(seccomp.ActionAllow, is("personality", 0, 0, 0xffffffff)...)
	families := []uint64{unix.AF_UNIX}
	if c.Internet {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	add(seccomp.ActionAllow, is("socketpair", 0, unix.AF_UNIX)...)
	add(seccomp.ActionAllow, is("socket", 0, families...)...)
	if !c.Internet {
		// The clearest words for a model that reads the error.
		add(errno(unix.ENETUNREACH), is("socket", 0, unix.AF_INET, unix.AF_INET6)...)
	}
	add(errno(unix.EAFNOSUPPORT), seccomp.NameWithConditions{Name: "socket", Conditions: seccomp.ArgumentConditions{
		{Argument: 0, Operation: seccomp.GreaterOrEqual, Value: 0}}})
	return gs
}

// lowBits matches calls whose argument has these low 32 bits. BPF can only say
// "some bit of" and "equal", so the upper half is refused separately.
func lowBits(name string, arg uint32, values ...uint64) (rules []seccomp.NameWithConditions) {
	for _, v := range values {
		rules = append(rules, seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{
			{Argument: arg, Operation: seccomp.Equal, Value: v}}})
	}
	return rules
}

// namespaceFlags are the flags of clone that make namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
