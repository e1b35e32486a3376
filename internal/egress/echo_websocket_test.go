package egress_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"
)

// frame is one of a WebSocket, as a server sends it.
func frame(first byte, text string) string {
	b := []byte{first}
	switch n := len(text); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return string(b) + text
}

// unframed returns the messages in what a client of a WebSocket has read, and what
// stands between them.
func unframed(t *testing.T, b []byte) (messages []string, control string) {
	t.Helper()
	part := ""
	for len(b) >= 2 {
		op, last, n := b[0]&0xf, b[0]&0x80 != 0, uint64(b[1])
		b = b[2:]
		switch n {
		case 126:
			n, b = uint64(binary.BigEndian.Uint16(b)), b[2:]
		case 127:
			n, b = binary.BigEndian.Uint64(b), b[8:]
		}
		if n > uint64(len(b)) {
			t.Fatalf("a frame of %d bytes has %d", n, len(b))
		}
		text := string(b[:n])
		b = b[n:]
		if op >= 8 {
			control += text
			continue
		}
		if part += text; last {
			messages, part = append(messages, part), ""
		}
	}
	return messages, control
}

// single is a message for each byte.
func single(key string) (all string) {
	for i := range len(key) {
		all += frame(0x81, key[i:i+1])
	}
	return all
}

func TestBroker_takes_secrets_out_of_WebSockets(t *testing.T) {
	switched := func(more string) string {
		return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + more + "\r\n"
	}
	long := strings.Repeat("harmless text ", 20_000)
	tests := map[string]struct {
		answer  func(key string) string
		want    []string // messages, if all arrive
		refused bool
	}{
		"one message": {func(k string) string { return switched("") + frame(0x81, "a "+k+" b") + frame(0x81, "next") },
			[]string{"a * b", "next"}, false},
		"a binary one": {func(k string) string { return switched("") + frame(0x82, "a "+k+" b") }, []string{"a * b"},
			false},
		"fragments": {func(k string) string {
			return switched("") + frame(0x01, "a "+k[:7]) + frame(0x00, k[7:9]) + frame(0x80, k[9:]+" b")
		}, []string{"a * b"}, false},
		"a ping between fragments": {func(k string) string {
			return switched("") + frame(0x01, "a "+k[:7]) + frame(0x89, "hi") + frame(0x80, k[7:]+" b")
		}, []string{"a * b"}, false},
		"two messages": {func(k string) string {
			return switched("") + frame(0x81, "a "+k[:12]) +
				frame(0x81, k[12:]+" b")
		}, []string{"a *", "* b"}, false},
		"a message for each byte": {func(k string) string { return switched("") + single(k) }, nil, false},
		"escaped": {func(k string) string {
			return switched("") +
				frame(0x81, `"`+strings.ReplaceAll(k, "R", `\u0052`)+`"`)
		}, []string{`"*"`}, false},
		"a ping": {func(k string) string { return switched("") + frame(0x89, k) + frame(0x81, "x") },
			[]string{"x"}, false},
		"the reason of the end": {func(k string) string { return switched("") + frame(0x88, "\x03\xe8"+k) }, nil,
			false},
		"a long message": {func(k string) string { return switched("") + frame(0x81, long+k+long) },
			[]string{long + "*" + long}, false},
		"a header": {func(k string) string {
			return switched("Sec-Websocket-Protocol: "+hex.EncodeToString([]byte(k))+"\r\n") + frame(0x81, "x")
		}, []string{"x"}, false},
		"compressed": {func(k string) string { return switched("") + frame(0xc1, pack(t, "raw", k)) }, nil, true},
		"masked": {func(k string) string { return switched("") + "\x81" + string(rune(0x80|5)) + "abcd" + k }, nil,
			true},
		"an extension": {func(k string) string {
			return switched("Sec-Websocket-Extensions: permessage-deflate\r\n") + frame(0x81, k)
		}, nil, true},
		"another protocol": {func(k string) string {
			return "HTTP/1.1 101 " + k + "\r\nConnection: Upgrade\r\nUpgrade: " + hex.EncodeToString([]byte(k)) +
				"\r\n\r\n" + k
		}, nil, true},
		"no WebSocket": {func(k string) string { return switched("") + "\x83" + k }, nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := rawBroker(t, "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: "+
				"permessage-deflate\r\n", func(c net.Conn, key string) {
				_, _ = io.WriteString(c, tt.answer(key))
			})
			got, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			holds(t, string(got), real, real)
			head, rest, _ := bytes.Cut(got, []byte("\r\n\r\n"))
			if tt.refused {
				if bytes.HasPrefix(head, []byte("HTTP/1.1 101")) && len(rest) > 0 {
					t.Errorf("it arrived: %q", rest)
				}
				return
			}
			messages, control := unframed(t, rest)
			holds(t, control, real, real)
			holds(t, strings.Join(messages, ""), real, real)
			if all := strings.Join(messages, ""); strings.Contains(all, real[6:]) {
				t.Errorf("%q holds most of the value", all)
			}
			if tt.want == nil {
				return
			}
			if len(messages) != len(tt.want) {
				t.Fatalf("%d messages, want %d: %.300q", len(messages), len(tt.want), messages)
			}
			for i, want := range tt.want {
				before, after, masked := strings.Cut(want, "*")
				if m := messages[i]; !strings.HasPrefix(m, before) || !strings.HasSuffix(m, after) ||
					!masked && m != want {
					t.Errorf("message %d is %.100q, want %.100q", i, m, want)
				}
			}
		})
	}
}

// A value is known in answers that were being read before it was sent: one request
// listens, and another has the server tell it the secret.
