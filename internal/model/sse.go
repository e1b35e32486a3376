package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
)

// readEvents gives the events of a stream to handle until that is done. A stream that ends before is a fault.
func readEvents(r io.Reader, handle func(data []byte) (done bool, err error)) error {
	limited := &io.LimitedReader{R: r, N: maxStream}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	var data []byte
	for lines.Scan() {
		line := bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if done, err := dispatch(data, handle); done || err != nil {
				return err
			}
			data = data[:0]
		case string(field) == "data":
			if len(data)+len(value) > maxLine {
				return invalidAnswer("has an event of more than %d bytes", maxLine)
			}
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
	}
	switch {
	case limited.N <= 0:
		return invalidAnswer("has more than %d bytes", maxStream)
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return invalidAnswer("has a line of more than %d bytes", maxLine)
	case lines.Err() == nil && (isDone(data) || json.Valid(data)):
		// The last event of some servers has no empty line after it.
		if done, err := dispatch(data, handle); done || err != nil {
			return err
		}
	}
	return &Fault{Kind: Cut, Message: "the stream of the model ended before its answer did", Err: lines.Err()}
}

// isDone reports whether an event is the one that ends the streams of Chat Completions.
func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

// dispatch gives an event to handle, unless it is empty.
func dispatch(data []byte, handle func([]byte) (bool, error)) (bool, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return false, nil
	}
	return handle(data)
}

// A value is one of an event that was bounded before. What is absent, null, or of another type than is asked for counts
// as empty: servers that imitate a vendor differ in the fields that they do not fill.
type value json.RawMessage

// at returns the value at a path of keys.
func (v value) at(path ...string) value {
	for _, key := range path {
		var fields map[string]json.RawMessage
		if json.Unmarshal(v, &fields) != nil {
			return nil
		}
		v = value(fields[key])
	}
	return v
}

func (v value) present() bool { return len(v) > 0 && string(v) != "null" }

// text returns the text at a path.
func (v value) text(path ...string) (s string) {
	_ = json.Unmarshal(v.at(path...), &s) // "" for another type
	return s
}

// count returns the number at a path, which is not negative.
func (v value) count(path ...string) int {
	var n float64
	_ = json.Unmarshal(v.at(path...), &n) // 0 for another type
	return int(min(max(n, 0), math.MaxInt32))
}

// list returns the elements of the list at a path.
func (v value) list(path ...string) []value {
	var raw []json.RawMessage
	_ = json.Unmarshal(v.at(path...), &raw) // none for another type
	all := make([]value, 0, len(raw))
	for _, r := range raw {
		all = append(all, value(r))
	}
	return all
}

// textOrJSON returns a text, and any other value as JSON.
func (v value) textOrJSON() string {
	if !v.present() || v[0] == '"' {
		return v.text()
	}
	return string(v)
}
