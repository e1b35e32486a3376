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
	events := 0
	for lines.Scan() {
		line := bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if events++; events > maxEvents {
				return invalidAnswer("has more than %d events", maxEvents)
			}
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
// as empty: servers that imitate a vendor differ in the fields that they do not fill. An object is decoded only once,
// however often it is asked for its fields.
type value struct {
	raw    json.RawMessage
	fields map[string]*value // nil until one is asked for
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *value) UnmarshalJSON(text []byte) error {
	v.raw = bytes.Clone(text)
	return nil
}

// decode reads the fields of an object.
func (v *value) decode() error {
	v.fields = map[string]*value{}
	return json.Unmarshal(v.raw, &v.fields)
}

// at returns the value at a path of keys.
func (v *value) at(path ...string) *value {
	for _, key := range path {
		if v.fields == nil && (!v.present() || v.raw[0] != '{' || v.decode() != nil) {
			return &value{}
		}
		if v = v.fields[key]; v == nil {
			return &value{}
		}
	}
	return v
}

func (v *value) present() bool { return len(v.raw) > 0 && string(v.raw) != "null" }

// text returns the text at a path.
func (v *value) text(path ...string) (s string) {
	if v = v.at(path...); v.present() && v.raw[0] == '"' {
		_ = json.Unmarshal(v.raw, &s) // it was valid as a part of the event
	}
	return s
}

// count returns the number at a path, which is not negative.
func (v *value) count(path ...string) int {
	var n float64
	_ = json.Unmarshal(v.at(path...).raw, &n) // 0 for another type
	return int(min(max(n, 0), math.MaxInt32))
}

// list returns the elements of the list at a path.
func (v *value) list(path ...string) (all []*value) {
	if v = v.at(path...); v.present() && v.raw[0] == '[' {
		_ = json.Unmarshal(v.raw, &all) // it was valid as a part of the event
	}
	for i := range all {
		if all[i] == nil { // which is what null becomes
			all[i] = &value{}
		}
	}
	return all
}

// textOrJSON returns a text, and any other value as JSON.
func (v *value) textOrJSON() string {
	if !v.present() || v.raw[0] == '"' {
		return v.text()
	}
	return string(v.raw)
}
