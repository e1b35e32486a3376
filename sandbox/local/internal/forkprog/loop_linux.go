package forkprog

import (
	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/plan"
)

// Areas are where a template keeps its programs, and what else their compiler has to know.
type Areas struct {
	// Loop is where the program is that waits for orders, of LoopSize bytes, and Order where an order is, of OrderSize.
	Loop  uint64 `json:"loop"`
	Order uint64 `json:"order"`
	// TID is where the C library keeps the number of the thread, which the kernel sets in a fork; or 0.
	TID uint64 `json:"tid"`
	// Hooks says that the interpreter has something to do before and after each fork.
	Hooks bool `json:"hooks"`
}

// The sizes of the areas. An order takes no more memory than it has bytes.
const (
	LoopSize  = 16 << 10
	OrderSize = 192 << 20
)

// What the loop returns, beside -1: the address of the operation that failed and its result are in the two words that
// the code was given.
const (
	closed = 0 // the other end of the socket was closed
	forked = 1 // this is a fork, which has carried out its steps
	again  = 2 // the template is to call the loop again
)

const (
	control  = 3   // the descriptor of the template's socket
	maxFDs   = 253 // SCM_MAX_FD
	headSize = 8   // the length before an order
)

// A Loop is the program of a template that waits for orders and carries them out.
type Loop struct {
	program *Program
	areas   Areas
	fds     uint64 // where the descriptors of an order are
	// Where an order goes on in the end: in the fork, and in the template before it calls its interpreter, or does not.
	inFork, once, again uint64
}

// NewLoop compiles the loop of a template.
func NewLoop(a Areas) (*Loop, []byte, error) {
	p := New(a.Loop, LoopSize)
	l := &Loop{program: p, areas: a}
	here := func() uint64 { return a.Loop + uint64(p.next()*opSize) }
	rights := p.newRights(maxFDs + 1)
	for i := range 4 * (maxFDs + 1) {
		p.data[int(rights.v)+cmsgHeader+i] = 0xff // no descriptor
	}
	// The length of an order is received where the third operation has it as an argument.
	vector := p.uint64s(a.Loop+2*opSize+(wordArg+2)*8, headSize)
	header := p.uint64s(0, 0, 0, 1, 0, 0, 0)
	p.point(header.at(16), vector)
	p.point(header.at(32), rights)

	p.op(opStore, header.at(40), num(cmsgHeader+4*maxFDs)) // the kernel writes there how much came last
	p.call("fork", "order", unix.SYS_RECVMSG, num(control), header, num(unix.MSG_WAITALL|unix.MSG_CMSG_CLOEXEC))
	received := p.next() - 1
	p.want(headSize)
	p.call("fork", "order", unix.SYS_RECVFROM, num(control), num(a.Order), num(0), num(unix.MSG_WAITALL))
	p.want(wantThird)
	p.op(opJump, num(a.Order))

	p.jumpTo(received, p.next())
	p.op(opReturn, num(closed))
	l.inFork = here()
	p.call("fork", "order", unix.SYS_MUNMAP, num(a.Order), num(OrderSize))
	p.op(opReturn, num(forked))
	l.once = here()
	p.clear(a)
	p.op(opReturn, num(again))
	if l.again = l.once; !a.Hooks {
		l.again = here()
		p.clear(a)
		p.op(opJump, num(a.Loop))
	}
	b, err := p.Bytes()
	l.fds = here() + rights.v + cmsgHeader
	return l, b, err
}

// Socket is where a fork finds the descriptor of its socket.
func (l *Loop) Socket() uint64 { return l.fds + 3*4 }

// clear closes the descriptors of an order, and empties it: the next fork must find neither.
func (p *Program) clear(a Areas) {
	p.call("fork", "close_range", unix.SYS_CLOSE_RANGE, num(control+1), num(^uint32(0)), num(0))
	p.call("fork", "order", unix.SYS_MADVISE, num(a.Order), num(OrderSize), num(unix.MADV_DONTNEED))
}

// Has reports whether the operation at an address is one of the loop, whose failure is the end of the template.
func (l *Loop) Has(at uint64) bool { return at >= l.areas.Loop && at-l.areas.Loop < LoopSize }

// Failed says which step failed at an address, of the loop or of an order.
func (l *Loop) Failed(order *Program, at uint64, result int64) (*plan.Failure, error) {
	if f, err := l.program.Failed(at, result); err == nil {
		return f, nil
	}
	return order.Failed(at, result)
}
