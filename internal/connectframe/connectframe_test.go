package connectframe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"haft/internal/connectframe"
)

func TestFrame_is_read_as_it_was_written(t *testing.T) {
	b, err := connectframe.Append([]byte{}, connectframe.End, map[string]int{"n": 7})
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(b)
	flag, size, err := connectframe.Head(r, 100)
	if err != nil || flag != connectframe.End {
		t.Fatalf("Head = %d, %v", flag, err)
	}
	raw, err := connectframe.Body(r, size)
	if err != nil || string(raw) != `{"n":7}` {
		t.Errorf("Body = %s, %v", raw, err)
	}
	if _, _, err := connectframe.Head(r, 100); !errors.Is(err, io.EOF) {
		t.Errorf("Head at the end = %v", err)
	}
}

func TestFrame_refuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"compressed": {"\x01\x00\x00\x00\x01x", connectframe.ErrCompressed},
		"too large":  {"\x00\x7f\x00\x00\x00", connectframe.ErrTooLarge},
		"half":       {"\x00\x00\x00\x00\x05ab", io.ErrUnexpectedEOF},
		"half head":  {"\x00\x00", io.ErrUnexpectedEOF},
	} {
		r := bytes.NewReader([]byte(c.text))
		_, size, err := connectframe.Head(r, 1000)
		if err == nil {
			_, err = connectframe.Body(r, size)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzHead(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		_, size, err := connectframe.Head(r, 1<<10)
		if err != nil {
			return
		}
		if raw, err := connectframe.Body(r, size); err == nil && len(raw) != int(size) {
			t.Errorf("%d bytes of %d", len(raw), size)
		} else if err == nil {
			_ = json.Valid(raw)
		}
	})
}
