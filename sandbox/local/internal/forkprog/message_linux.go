package forkprog

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	cmsgHeader = 16 // of a control message, before its first descriptor
	frameHead  = 4  // the length before a message, see package wire
)

// newRights adds a control message for n descriptors.
func (p *Program) newRights(n int) value {
	v := p.uint64s(uint64(cmsgHeader+4*n), unix.SOL_SOCKET|unix.SCM_RIGHTS<<32)
	p.data = append(p.data, make([]byte, 4*n)...)
	return v
}

// frame adds a message of package wire, and returns its size, too.
func (p *Program) frame(body string) (value, int) {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	return p.bytes(append(b, body...)), frameHead + len(body)
}

// header adds a struct msghdr of one buffer, with n descriptors.
func (p *Program) header(buffer value, size int, rights value, n int) value {
	vector := p.uint64s(0, uint64(size))
	p.point(vector, buffer)
	header := p.uint64s(0, 0, 0, 1, 0, 0, 0)
	p.point(header.at(16), vector)
	if n > 0 {
		p.point(header.at(32), rights)
		binary.NativeEndian.PutUint64(p.data[header.v+40:], uint64(cmsgHeader+4*n))
	}
	return header
}

// send sends a message, all at once.
func (p *Program) send(step string, socket, header value, size int) {
	p.call(step, "message", unix.SYS_SENDMSG, socket, header, num(unix.MSG_NOSIGNAL))
	p.want(size)
}
