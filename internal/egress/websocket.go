package egress

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// upgraded passes bytes both ways after the server agreed to speak WebSocket.
func (x *exchange) upgraded(resp *http.Response, clean *cleaner) {
	server, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		x.track.Outcome = OutcomeFailed
		return
	}
	upgrade := resp.Header.Get("Upgrade")
	stripHops(resp.Header)
	var down io.Reader = server
	var frames *frameReader
	if clean != nil {
		if !strings.EqualFold(upgrade, "websocket") || len(resp.Header["Sec-Websocket-Extensions"]) > 0 {
			x.close = true
			x.failed(unreadable("the server speaks something in which secrets could hide: an extension of " +
				"WebSocket, or no WebSocket"))
			return
		}
		clean.header(resp.Header)
		frames = clean.messages(server)
		down, upgrade = frames, "websocket"
	}
	w := bufio.NewWriterSize(x.conn, 4<<10)
	fmt.Fprintf(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n", printable(upgrade))
	_ = resp.Header.Write(w) // a bufio.Writer: Flush returns the error
	fmt.Fprint(w, "\r\n")
	if err := w.Flush(); err != nil {
		x.track.Outcome = OutcomeFailed
		return
	}
	x.client.idle = x.proxy.cfg.Limits.Total // the relayer watches
	m := x.proxy.newRelayer(x.conn, server)
	m.copy(x.conn, down)
	m.copy(server, x.br)
	m.wait()
	if frames != nil && frames.refusal != nil {
		x.track.refuse(frames.refusal)
	}
}

// The kinds of frames (RFC 6455, 5.2).
const (
	opContinue = 0x0
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPong     = 0xa
)

// maxFrame is how much of a message is gathered before a part of it is passed on.
const maxFrame = 64 << 10

// frameReader reads the frames of a server's WebSocket messages and removes values from
// them, also a value that is split over frames and messages. It refuses compressed or
// masked frames, since neither was negotiated.
type frameReader struct {
	from    *bufio.Reader
	data    searchedStream
	control searchedStream
	ready   []byte // frames to hand out
	op      byte   // of the message at hand, until a frame of it was handed out
	inside  bool   // a message has begun and not ended
	reading bool   // a frame of a message is being read, and
	left    uint64 // how much of it is left
	err     error
	refusal *Refusal // read when the relayer is done
	buf     [16 << 10]byte
}

// messages returns what r says without values.
func (c *cleaner) messages(r io.Reader) *frameReader {
	return &frameReader{from: bufio.NewReader(r), data: searchedStream{broker: c.broker},
		control: searchedStream{broker: c.broker}}
}

// Read implements [io.Reader].
func (m *frameReader) Read(p []byte) (int, error) {
	for len(m.ready) == 0 && m.err == nil {
		m.ready = nil
		m.err = m.frame()
	}
	n := copy(p, m.ready)
	if m.ready = m.ready[n:]; n == 0 && len(p) > 0 {
		return 0, m.err
	}
	return n, nil
}

// refuse ends the connection.
func (m *frameReader) refuse(reason string) error {
	m.refusal = &Refusal{Rule: RuleProtocol, Reason: reason}
	return m.refusal.err()
}

// frame reads one frame, or the next part of a long one, and hands out what is to be
// handed out of it.
func (m *frameReader) frame() error {
	if m.reading {
		return m.payload()
	}
	var head [8]byte
	if _, err := io.ReadFull(m.from, head[:2]); err != nil {
		return err
	}
	last, op, length := head[0]&0x80 != 0, head[0]&0x0f, uint64(head[1]&0x7f)
	if head[0]&0x70 != 0 || head[1]&0x80 != 0 {
		return m.refuse("the server compresses or masks messages of a WebSocket, in which secrets could hide")
	}
	if op > opPong || op > opBinary && op < opClose || op >= opClose && (length > 125 || !last) ||
		op == opContinue && !m.inside || op != opContinue && op < opClose && m.inside {
		return m.refuse("the server does not speak WebSocket")
	}
	switch length {
	case 126:
		if _, err := io.ReadFull(m.from, head[:2]); err != nil {
			return err
		}
		length = uint64(binary.BigEndian.Uint16(head[:]))
	case 127:
		if _, err := io.ReadFull(m.from, head[:8]); err != nil {
			return err
		}
		length = binary.BigEndian.Uint64(head[:])
	}
	if op >= opClose {
		return m.controlFrame(op, int(length))
	}
	if op != opContinue {
		m.op = op
	}
	m.inside, m.reading, m.left = !last, true, length
	return m.payload()
}

// controlFrame reads a control frame. If it contains a value, it is passed on without
// content.
func (m *frameReader) controlFrame(op byte, length int) error {
	text := m.buf[:length]
	if _, err := io.ReadFull(m.from, text); err != nil {
		return err
	}
	m.control.out = m.control.out[:0]
	m.control.write(text)
	m.control.endMessage()
	if string(m.control.out) != string(text) {
		if text = text[:0]; op == opClose && length >= 2 {
			text = m.buf[:2] // the code
		}
	}
	m.appendFrame(op, true, text)
	return nil
}

// payload reads the content of a frame of a message, as much as is handed out at once.
func (m *frameReader) payload() error {
	for m.left > 0 {
		n, err := m.from.Read(m.buf[:min(uint64(len(m.buf)), m.left)])
		if n > 0 {
			m.data.write(m.buf[:n])
			m.left -= uint64(n)
		}
		if m.left > 0 && err != nil {
			return io.ErrUnexpectedEOF
		}
		if m.left > 0 && len(m.data.out) > maxFrame {
			m.flushMessage(false)
			return nil
		}
	}
	m.reading = false
	if !m.inside {
		m.data.endMessage()
	}
	if !m.inside || len(m.data.out) > 0 {
		m.flushMessage(!m.inside)
	}
	return nil
}

// flushMessage appends the searched part of the current message as a frame.
func (m *frameReader) flushMessage(last bool) {
	m.appendFrame(m.op, last, m.data.out)
	m.op, m.data.out = opContinue, m.data.out[:0]
}

// appendFrame appends one frame to the bytes to return.
func (m *frameReader) appendFrame(op byte, last bool, text []byte) {
	if last {
		op |= 0x80
	}
	m.ready = append(m.ready, op)
	switch n := len(text); {
	case n < 126:
		m.ready = append(m.ready, byte(n))
	case n < 1<<16:
		m.ready = binary.BigEndian.AppendUint16(append(m.ready, 126), uint16(n))
	default:
		m.ready = binary.BigEndian.AppendUint64(append(m.ready, 127), uint64(n))
	}
	m.ready = append(m.ready, text...)
}
