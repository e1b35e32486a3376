package forkprog

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/plan"
)

// The words of an operation, as the machine code reads them.
const (
	wordNr    = 0 // the number of the system call, or one of the operations below
	wordArg   = 1 // to 6: the arguments
	wordFlags = 7 // bit i: argument i is the address of an int32; and the condition of the jump
	wordAllow = 8 // the error that is none
	wordSave  = 9 // where the result goes, as an int32; 0 means nowhere
	wordWant  = 10
	wordJump  = 11 // the operation that comes next if the condition holds; 0 means none
	words     = 12
	opSize    = words * 8
)

// The operations that are no system call, as negative numbers.
const (
	opReturn = -1 - iota // return the first argument
	opJump               // go on at the first argument
	opDigits             // write an int32 in decimal digits
	opStore              // store the second argument at the first, as 64 bits
)

const (
	flagIfPositive = 1 << 8 // the jump is taken if the result is no error, and otherwise if it is 0
	wantThird      = -1     // the result must be the third argument
)

// A Program is a table of operations with its data, for one address.
type Program struct {
	base  uint64
	limit int
	ops   []operation
	data  []byte
	// pointers are where the data has an address in the data.
	pointers []int

	scratch *value // see temporary
	rights  value  // a control message for the descriptors of the parent
	kept    int    // how many it has
}

// An operation is one row of the table. Words whose bit is set in data count from the beginning of the data, and
// those in ops are the number of an operation.
type operation struct {
	words     [words]uint64
	data, ops uint16
	step      plan.Failure // what to call it if it fails
}

// A value is an argument of a system call.
type value struct {
	v    uint64
	kind kind
}

type kind int

const (
	number   kind = iota
	inData        // an address in the data of the program
	fdInData      // the descriptor that is stored there
	fdAt          // the descriptor that is stored at an address
)

// New begins a program that is to be at base, in at most limit bytes.
func New(base uint64, limit int) *Program { return &Program{base: base, limit: limit} }

// num is an argument that is a number.
func num[T ~int | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr](n T) value {
	return value{v: uint64(n)}
}

// bytes adds data and returns its address.
func (p *Program) bytes(b []byte) value {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	at := len(p.data)
	p.data = append(p.data, b...)
	return value{uint64(at), inData}
}

// text adds a string that ends with 0.
func (p *Program) text(s string) value { return p.bytes(append([]byte(s), 0)) }

// at returns the address that lies n bytes behind v.
func (v value) at(n int) value { return value{v.v + uint64(n), v.kind} }

// fd returns the descriptor that is stored at v.
func (v value) fd() value { return value{v.v, fdInData} }

// set makes v the word w of the last operation.
func (p *Program) set(w int, v value) {
	o := &p.ops[len(p.ops)-1]
	o.words[w] = v.v
	if v.kind == inData || v.kind == fdInData {
		o.data |= 1 << w
	}
	if v.kind == fdInData || v.kind == fdAt {
		o.words[wordFlags] |= 1 << (w - wordArg)
	}
}

// op appends an operation.
func (p *Program) op(nr int64, args ...value) {
	p.ops = append(p.ops, operation{})
	p.ops[len(p.ops)-1].words[wordNr] = uint64(nr)
	for i, a := range args {
		p.set(wordArg+i, a)
	}
}

// call appends a system call, which is named by step and path in errors.
func (p *Program) call(step, path string, nr uintptr, args ...value) {
	p.op(int64(nr), args...)
	p.ops[len(p.ops)-1].step = plan.Failure{Step: step, Path: path}
}

// allow makes an error of the last call none.
func (p *Program) allow(errno int) { p.ops[len(p.ops)-1].words[wordAllow] = uint64(errno) }

// want makes each result of the last call but n a failure.
func (p *Program) want(n int) { p.ops[len(p.ops)-1].words[wordWant] = uint64(int64(n)) }

// save stores the result of the last call.
func (p *Program) save(v value) { p.set(wordSave, v) }

// jumpTo makes the last operation jump, and target the number of an operation.
func (p *Program) jumpTo(op, target int) {
	w := wordJump
	if int64(p.ops[op].words[wordNr]) == opJump {
		w = wordArg
	}
	p.ops[op].words[w] = uint64(target)
	p.ops[op].ops |= 1 << w
}

// next is the number of the operation that comes next.
func (p *Program) next() int { return len(p.ops) }

// Bytes returns the program: its operations, of which the first is where it begins, and then its data.
func (p *Program) Bytes() ([]byte, error) {
	dataAt := p.base + uint64(len(p.ops))*opSize
	size := len(p.ops)*opSize + len(p.data)
	if size > p.limit {
		return nil, unix.E2BIG
	}
	b := make([]byte, 0, size)
	for i := range p.ops {
		o := &p.ops[i]
		for w, v := range o.words {
			switch {
			case o.data&(1<<w) != 0:
				v += dataAt
			case o.ops&(1<<w) != 0:
				v = p.base + v*opSize
			}
			b = binary.NativeEndian.AppendUint64(b, v)
		}
	}
	at := len(b)
	b = append(b, p.data...)
	for _, n := range p.pointers {
		to := b[at+n:]
		binary.NativeEndian.PutUint64(to, binary.NativeEndian.Uint64(to)+dataAt)
	}
	return b, nil
}

// point stores an address in the data at another.
func (p *Program) point(at, to value) {
	binary.NativeEndian.PutUint64(p.data[at.v:], to.v)
	p.pointers = append(p.pointers, int(at.v))
}

// uint64s adds an array of numbers.
func (p *Program) uint64s(list ...uint64) value {
	var b []byte
	for _, n := range list {
		b = binary.NativeEndian.AppendUint64(b, n)
	}
	return p.bytes(b)
}

// errNoStep says that a process names an operation that there is none.
var errNoStep = errors.New("a fork names an operation that it does not have")

// Failed returns the step of the operation at an address, with its error, which is negative, or another result than
// the one that was wanted.
func (p *Program) Failed(at uint64, result int64) (*plan.Failure, error) {
	n := at - p.base
	if at < p.base || n%opSize != 0 || n/opSize >= uint64(len(p.ops)) {
		return nil, errNoStep
	}
	o := &p.ops[n/opSize]
	f := o.step
	switch f.Errno = unix.EIO; {
	case result < 0 && result > -4096:
		f.Errno = unix.Errno(-result)
	case result > 0 && o.words[wordNr] == unix.SYS_WRITE:
		f.Errno = unix.ENOSPC // part of a file was written, see Program.file
	}
	return &f, nil
}
