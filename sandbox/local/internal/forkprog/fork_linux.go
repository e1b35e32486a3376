package forkprog

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/plan"
)

// A Fork is what a template is to do for one fork. Its descriptors are standard input, output and error, the socket of
// the fork, the channel if there is one, and those that the steps use.
type Fork struct {
	Channel bool
	Wait    bool        // for a byte on the socket of the fork, before its steps
	Maps    [][2]string // the id maps: a file in its directory of /proc, and a line
	Clock   string      // the offsets of the clocks, where the fork gets a time namespace
	Flags   uint64      // of clone3
	Steps   []plan.Step
	Own     []plan.Step // the steps of the run itself, in the place of plan.DoOwn
	Last    []plan.Step // after the message that everything is ready
	Slots   int         // how many descriptors the steps use
	Once    bool        // the template returns to its interpreter afterwards
}

// Order compiles f for the template of l. What is to be sent begins with its length, as the loop reads it.
func (l *Loop) Order(f *Fork) (*Program, []byte, error) {
	p := New(l.areas.Order, OrderSize-headSize)
	pipe, pid, pidfd := p.uint64s(0), p.uint64s(0), p.newRights(1)
	reader, writer := pipe, pipe.at(4)
	p.received(l, f)
	if f.Clock != "" {
		p.clock(f.Clock)
	}
	p.call("fork", "pipe", unix.SYS_PIPE2, pipe, num(0))
	p.clone(f.Flags, l.areas.TID, pidfd.at(cmsgHeader))
	p.save(pid)
	clone := p.next() - 1
	p.closeFD("fork", "pipe", reader)
	for _, m := range f.Maps {
		p.mapIDs(m[0], m[1], pid)
	}
	p.call("fork", "pipe", unix.SYS_WRITE, writer.fd(), p.text("1"), num(1))
	p.want(1)
	p.forked(pid, pidfd)
	if f.Once {
		p.op(opJump, num(l.once))
	} else {
		p.op(opJump, num(l.again))
	}
	p.jumpTo(clone, p.next())
	if err := p.child(l, f, reader, writer); err != nil {
		return nil, nil, fmt.Errorf("compile a fork: %w", err)
	}
	b, err := p.Bytes()
	if err != nil {
		return nil, nil, fmt.Errorf("compile a fork: %w", err)
	}
	return p, append(binary.NativeEndian.AppendUint64(make([]byte, 0, headSize+len(b)), uint64(len(b))), b...), nil
}

// received makes sure that all descriptors have come: the kernel leaves out those that it cannot install. What the loop
// has in the place of such a one is no open descriptor yet, because all of the last order were closed.
func (p *Program) received(l *Loop, f *Fork) {
	n := 4 + f.Slots
	if f.Channel {
		n++
	}
	p.call("fork", "descriptors", unix.SYS_FCNTL, value{l.fds + uint64(4*(n-1)), fdAt}, num(unix.F_GETFD))
}

// clock makes the time namespace that the fork is born in.
func (p *Program) clock(offsets string) {
	fd := p.temporary()
	p.call("unshare", "time", unix.SYS_UNSHARE, num(unix.CLONE_NEWTIME))
	p.open("unshare", "time", p.text("/proc/self/timens_offsets"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	p.save(fd)
	p.write("unshare", "time", fd, p.text(offsets), len(offsets))
	p.closeFD("unshare", "time", fd)
}

// clone makes the fork, which gets a copy of the memory.
func (p *Program) clone(flags, tid uint64, pidfd value) {
	if tid != 0 {
		flags |= unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID
	}
	// struct clone_args: flags, pidfd, child_tid, and eight words that are 0 here.
	args := p.uint64s(flags, 0, tid, 0, 0, 0, 0, 0, 0, 0, 0)
	p.point(args.at(8), pidfd)
	p.call("clone", "", unix.SYS_CLONE3, args, num(11*8))
}

// digits is how many there are for the number of a process.
const digits = 10

// mapIDs writes an id map of the fork.
func (p *Program) mapIDs(name, line string, pid value) {
	fd, shown := p.temporary(), "/proc/"+name
	path := p.text("/proc/" + strings.Repeat("/", digits) + "/" + name) // slashes in a row count as one
	p.op(opDigits, pid, path.at(len("/proc/")+digits), num(digits), num(int('/')))
	p.open("fork", shown, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	p.save(fd)
	p.write("fork", shown, fd, p.text(line), len(line))
	p.closeFD("fork", shown, fd)
}

// forked tells Haft the number of the fork, and gives it a descriptor of it. It is the last operation of the order that
// can fail, so that there is one answer. The loop closes the template's own descriptor of it.
func (p *Program) forked(pid, pidfd value) {
	head := `{"kind":"forked","pid":`
	text, size := p.frame(head + strings.Repeat(" ", digits) + "}")
	p.op(opDigits, pid, text.at(frameHead+len(head)+digits), num(digits), num(int(' ')))
	p.send("fork", num(control), p.header(text, size, pidfd, 1), size)
}

// child appends what the fork does.
func (p *Program) child(l *Loop, f *Fork, reader, writer value) error {
	fd := func(n int) value { return value{l.fds + uint64(4*n), fdAt} }
	slots, socket := 4, value{l.Socket(), fdAt}
	p.closeFD("fork", "pipe", writer) // so that the end of the template is the end of the pipe
	one := p.temporary()
	p.call("fork", "pipe", unix.SYS_READ, reader.fd(), one, num(1))
	p.want(1)
	if f.Wait {
		p.call("fork", "wait", unix.SYS_READ, socket, one, num(1))
		p.want(1)
	}
	for n := range 3 { // none of them is what it is copied to: 0 to 3 are in use
		p.call("fork", "descriptors", unix.SYS_DUP3, fd(n), num(n), num(0))
	}
	first := control
	if f.Channel {
		p.call("fork", "descriptors", unix.SYS_DUP3, fd(slots), num(control), num(0))
		slots, first = slots+1, control+1
	} else {
		p.call("fork", "descriptors", unix.SYS_CLOSE, num(control))
	}
	list := make([]value, f.Slots)
	for i := range list {
		list[i] = fd(slots + i)
	}
	n := keeps(f.Steps) + keeps(f.Own)
	p.rights, p.kept = p.newRights(n), 0
	if err := p.steps(f.Steps, list, f.Own); err != nil {
		return err
	}
	text, size := p.frame(`{"kind":"ready"}`)
	p.send("fork", socket, p.header(text, size, p.rights, n), size)
	if err := p.steps(f.Last, nil, nil); err != nil {
		return err
	}
	p.call("fork", "close_range", unix.SYS_CLOSE_RANGE, num(first), num(^uint32(0)), num(0))
	p.op(opJump, num(l.inFork))
	return nil
}
