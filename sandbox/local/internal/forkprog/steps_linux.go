package forkprog

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/plan"
)

// steps appends the steps of a plan. Slots are the descriptors that they use, and own takes the place of DoOwn. It
// stores the descriptors for the parent in p.rights.
func (p *Program) steps(list []plan.Step, slots []value, own []plan.Step) error {
	for i := range list {
		s := &list[i]
		switch s.Do {
		case plan.DoSyscall:
			p.syscall(s)
		case plan.DoFile:
			p.file(s)
		case plan.DoJoin:
			if s.Slot >= len(slots) {
				return fmt.Errorf("compile %s: no descriptor %d", s.Name, s.Slot)
			}
			p.call(s.Name, s.Path, unix.SYS_WRITE, slots[s.Slot], p.text("0"), num(1))
			p.want(1)
		case plan.DoKeep:
			p.open(s.Name, s.Path, p.text(s.Path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
			p.keep()
		case plan.DoListen:
			p.listen(s)
		case plan.DoLoopback:
			p.loopback(s)
		case plan.DoLandlock:
			p.landlock(s)
		case plan.DoSeccomp:
			p.seccomp(s)
		case plan.DoOwn:
			if err := p.steps(own, nil, nil); err != nil {
				return err
			}
		default:
			return fmt.Errorf("compile %s: a fork cannot do %q", s.Name, s.Do)
		}
	}
	return nil
}

// syscall appends the system call of a step.
func (p *Program) syscall(s *plan.Step) {
	args := make([]value, len(s.Args))
	for i, a := range s.Args {
		switch {
		case a.Text != "":
			args[i] = p.text(a.Text)
		case len(a.Buf) > 0:
			args[i] = p.bytes(a.Buf)
		default:
			args[i] = num(a.Int)
		}
	}
	p.call(s.Name, s.Path, s.Nr, args...)
	p.allow(s.Allow)
}

// open appends the opening of a path. The caller says where the descriptor goes.
func (p *Program) open(step, shown string, path value, flags int, mode uint32) {
	p.call(step, shown, unix.SYS_OPENAT, num(atCWD), path, num(flags), num(mode))
}

// write appends the writing of n bytes to a stored descriptor.
func (p *Program) write(step, shown string, fd, b value, n int) {
	p.call(step, shown, unix.SYS_WRITE, fd.fd(), b, num(n))
	p.want(wantThird)
}

// atCWD is AT_FDCWD as the kernel wants it in a register.
const atCWD = ^uint64(0) - 99

// temporary returns where a descriptor is kept until it is closed.
func (p *Program) temporary() value {
	if p.scratch == nil {
		v := p.bytes(make([]byte, 8))
		p.scratch = &v
	}
	return *p.scratch
}

// closeFD appends the closing of a stored descriptor.
func (p *Program) closeFD(step, path string, v value) { p.call(step, path, unix.SYS_CLOSE, v.fd()) }

// keep has the descriptor of the last call sent to the parent.
func (p *Program) keep() {
	p.save(p.rights.at(cmsgHeader + 4*p.kept))
	p.kept++
}

// file appends the writing of a new file.
func (p *Program) file(s *plan.Step) {
	fd := p.temporary()
	p.open(s.Name, s.Path, p.text(s.Path), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, s.Mode)
	p.save(fd)
	// The kernel writes at most 2 GiB at once, and a program is smaller: less is written only where there is no space.
	if len(s.Data) > 0 {
		p.write(s.Name, s.Path, fd, p.bytes(s.Data), len(s.Data))
	}
	p.closeFD(s.Name, s.Path, fd)
}

// ifreqUp is a struct ifreq that raises lo.
func ifreqUp() []byte {
	b := make([]byte, 40)
	copy(b, "lo")
	binary.NativeEndian.PutUint16(b[16:], unix.IFF_UP)
	return b
}

// loopback makes 127.0.0.0/8 there.
func (p *Program) loopback(s *plan.Step) {
	fd := p.temporary()
	p.call(s.Name, s.Path, unix.SYS_SOCKET, num(unix.AF_INET), num(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), num(0))
	p.save(fd)
	p.call(s.Name, s.Path, unix.SYS_IOCTL, fd.fd(), num(unix.SIOCSIFFLAGS), p.bytes(ifreqUp()))
	p.closeFD(s.Name, s.Path, fd)
}

// listen raises the loopback and listens there.
func (p *Program) listen(s *plan.Step) {
	p.loopback(s)
	address := make([]byte, 16) // struct sockaddr_in
	binary.NativeEndian.PutUint16(address, unix.AF_INET)
	binary.BigEndian.PutUint16(address[2:], s.Port)
	copy(address[4:], []byte{127, 0, 0, 1})
	p.call(s.Name, s.Path, unix.SYS_SOCKET, num(unix.AF_INET),
		num(unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), num(0))
	fd := p.rights.at(cmsgHeader + 4*p.kept).fd()
	p.keep()
	p.call(s.Name, s.Path, unix.SYS_BIND, fd, p.bytes(address), num(len(address)))
	p.call(s.Name, s.Path, unix.SYS_LISTEN, fd, num(s.Queue))
}

// landlock restricts the process to the rules of a step.
func (p *Program) landlock(s *plan.Step) {
	set := p.bytes(make([]byte, 8))
	p.call(s.Name, s.Path, unix.SYS_LANDLOCK_CREATE_RULESET, p.bytes(s.Data), num(len(s.Data)), num(0))
	p.save(set)
	for _, r := range s.Rules {
		add := func(kind int, rule value) {
			p.call(s.Name, r.Path, unix.SYS_LANDLOCK_ADD_RULE, set.fd(), num(kind), rule, num(0))
		}
		if r.Port != 0 {
			add(2, p.uint64s(r.Access, uint64(r.Port))) // LANDLOCK_RULE_NET_PORT, Linux 6.7
			continue
		}
		rule := p.uint64s(r.Access, 0) // struct landlock_path_beneath_attr
		p.open(s.Name, r.Path, p.text(r.Path), unix.O_PATH|unix.O_CLOEXEC, 0)
		p.save(rule.at(8))
		add(unix.LANDLOCK_RULE_PATH_BENEATH, rule)
		p.closeFD(s.Name, r.Path, rule.at(8))
	}
	p.call(s.Name, s.Path, unix.SYS_LANDLOCK_RESTRICT_SELF, set.fd(), num(0))
	p.closeFD(s.Name, s.Path, set)
}

// seccomp loads a filter. The listener of one that has some is for the parent.
func (p *Program) seccomp(s *plan.Step) {
	head := p.uint64s(0, 0) // struct sock_fprog
	binary.NativeEndian.PutUint16(p.data[head.v:], uint16(len(s.Data)/8))
	p.point(head.at(8), p.bytes(s.Data))
	load := func(flags int) {
		p.call(s.Name, s.Path, unix.SYS_SECCOMP, num(unix.SECCOMP_SET_MODE_FILTER), num(flags), head)
	}
	if !s.Listen {
		load(0)
		return
	}
	// See plan.Step.seccomp.
	load(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	first := len(p.ops) - 1
	p.allow(int(unix.EINVAL))
	p.ops[first].words[wordFlags] |= flagIfPositive
	p.save(p.rights.at(cmsgHeader + 4*p.kept))
	load(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	p.keep()
	p.jumpTo(first, p.next())
}

// keeps counts the descriptors that steps have for the parent.
func keeps(list []plan.Step) int {
	n := 0
	for _, s := range list {
		if s.Do == plan.DoKeep || s.Do == plan.DoListen || s.Listen {
			n++
		}
	}
	return n
}
