package script

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"testing"
	"time"

	"haft/sandbox"
)

// framed puts a length before b.
func framed(b string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func TestAnswer_is_exactly_one(t *testing.T) {
	result := `{"type":"result","value":1}`
	for _, c := range []struct {
		name string
		in   []byte
		ok   bool
	}{
		{"one_result", framed(result), true},
		{"one_error", framed(`{"type":"error","kind":"exception"}`), true},
		{"null", framed(`{"type":"result","value":null}`), true},
		{"two", append(framed(result), framed(result)...), false},
		{"one_and_a_byte", append(framed(result), 0), false},
		{"half_a_length", []byte{0, 0}, false},
		{"half_a_frame", framed(result)[:10], false},
		{"empty_frame", framed(""), false},
		{"too_large", framed(string(bytes.Repeat([]byte(" "), 2000)) + result), false},
		{"announced_4_GB", []byte{0xff, 0xff, 0xff, 0xff, '{'}, false},
		{"no_value", framed(`{"type":"result"}`), false},
		{"no_type", framed(`{"value":1}`), false},
		{"not_an_answer", framed(`{"type":"ready"}`), false},
		{"no_object", framed(`[1]`), false},
		{"no_JSON", framed(`garbage`), false},
		{"wrong_shape", framed(`{"type":"error","code":"x"}`), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := answer(bytes.NewReader(c.in), 1000, false)
			if c.ok != (err == nil) || !c.ok && (m != nil || !errors.Is(err, errFrame)) {
				t.Errorf("answer = %+v, %v", m, err)
			}
		})
	}
	if _, err := answer(bytes.NewReader(nil), 1000, false); !errors.Is(err, io.EOF) {
		t.Errorf("nothing at all is %v, want io.EOF", err)
	}
}

func TestReadFrame_reserves_no_more_than_arrives(t *testing.T) {
	in := append([]byte{0x7f, 0xff, 0xff, 0xff}, "few"...)
	n := testing.AllocsPerRun(10, func() {
		if _, err := readFrame(bytes.NewReader(in), 1<<31); !errors.Is(err, errFrame) {
			t.Fatal(err)
		}
	})
	if n > 20 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(framed(`{"type":"result","value":[1,{"a":null}],"times":[1,2,3]}`))
	f.Add(framed(`{"type":"error","kind":"exit","code":3}`))
	f.Add([]byte{0, 0, 0, 5, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1 << 12
		m, err := answer(bytes.NewReader(in), limit, false)
		if err != nil {
			if m != nil || !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) {
				t.Fatalf("answer = %+v, %v", m, err)
			}
			return
		}
		if len(in) > limit+headSize || int(binary.BigEndian.Uint32(in)) != len(in)-headSize {
			t.Fatalf("%d bytes were accepted as one frame", len(in))
		}
		if m.Type == typeResult && !json.Valid(m.Value) {
			t.Fatalf("the value %q is not JSON", m.Value)
		}
	})
}

// FuzzPlainResult: what is read without the decoder is what the decoder reads.
func FuzzPlainResult(f *testing.F) {
	for _, s := range []string{
		`{"type":"result","times":[0.1,2,3],"value":42}`, `{"type":"result","times":[],"value":1}`,
		`{"type":"result","times":[1],"value": 1 }`,
		`{"type":"result","times":[1],"value":1,"type":"error"}`, `{"type":"result","times":[NaN],"value":1}`,
		`{"type":"result","times":[1e999],"value":"\u00e9"}`,
		`{"type":"result","times":[0x1p-2],"value":{"a":[1,"],\"value\":"]}}`,
		`{"type":"result","times":["],"value":1],"value":2}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := plainResult(b)
		if !ok {
			return
		}
		var want reply
		if err := json.Unmarshal(b, &want); err != nil || !reflect.DeepEqual(*m, want) {
			t.Errorf("%q is %+v, and %+v to the decoder, %v", b, *m, want, err)
		}
	})
}

// An answer counts also if somebody else holds the stream open when the process has ended: a child of this one
// that has not yet run its program has all its descriptors.
func TestAnswer_of_a_stream_that_is_held_open(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write(frame(nil, []byte(`{"type":"result","value":42}`))); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if m, err := answer(sandbox.NewPipe(r), 1000, false); err != nil || string(m.Value) != "42" {
		t.Errorf("answer = %+v, %v", m, err)
	}
}
