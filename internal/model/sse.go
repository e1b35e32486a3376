package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"haft/internal/bounds"
)

// An event is one of a stream of server-sent events.
type event struct {
	name string
	data []byte // until the next event is read
}

// decode reads the data of an event. It is bounded before it is decoded.
func (ev event) decode(into any) error {
	if err := bounds.Check(ev.data, bounds.Default(), nil); err != nil {
		return invalidAnswer("has an event that is no JSON, or more than is read of it")
	}
	if err := json.Unmarshal(ev.data, into); err != nil {
		return invalidAnswer("has an event that is not of the format")
	}
	return nil
}

// readEvents gives the events of a stream to handle until that is done. A stream that ends before is a fault.
func readEvents(r io.Reader, handle func(event) (done bool, err error)) error {
	limited := &io.LimitedReader{R: r, N: maxStream}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	var ev event
	for lines.Scan() {
		line := bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			done, err := dispatch(ev, handle)
			if done || err != nil {
				return err
			}
			ev = event{data: ev.data[:0]}
		case string(field) == "event":
			ev.name = string(value[:min(len(value), 100)])
		case string(field) == "data":
			if len(ev.data)+len(value) > maxLine {
				return invalidAnswer("has an event of more than %d bytes", maxLine)
			}
			if len(ev.data) > 0 {
				ev.data = append(ev.data, '\n')
			}
			ev.data = append(ev.data, value...)
		}
	}
	switch {
	case limited.N <= 0:
		return invalidAnswer("has more than %d bytes", maxStream)
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return invalidAnswer("has a line of more than %d bytes", maxLine)
	case lines.Err() == nil && (isDone(ev) || json.Valid(ev.data)):
		// The last event of some servers has no empty line after it.
		if done, err := dispatch(ev, handle); done || err != nil {
			return err
		}
	}
	return &Fault{Kind: Cut, Message: "the stream of the model ended before its answer did", Err: lines.Err()}
}

// isDone reports whether an event is what ends the streams of Chat Completions.
func isDone(ev event) bool { return string(bytes.TrimSpace(ev.data)) == "[DONE]" }

// dispatch gives an event to handle, unless it is empty.
func dispatch(ev event, handle func(event) (bool, error)) (bool, error) {
	if len(bytes.TrimSpace(ev.data)) == 0 {
		return false, nil
	}
	return handle(ev)
}
