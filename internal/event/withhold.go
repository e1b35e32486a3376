package event

import (
	"encoding/json"
	"iter"

	"haft"
)

// WithoutValue returns an event without the value of the call, for those who may know that it ended but not its result.
func WithoutValue(e haft.Event) haft.Event {
	if e.Type != haft.EventCompleted || len(e.Data) == 0 {
		return e
	}
	var data map[string]json.RawMessage
	if err := json.Unmarshal(e.Data, &data); err != nil {
		e.Data = nil
		return e
	}
	delete(data, "value")
	delete(data, "value_truncated")
	raw, err := json.Marshal(data)
	if err != nil { // of what was just read: cannot be
		raw = nil
	}
	e.Data = raw
	return e
}

// WithoutValues yields events without the values of calls.
func WithoutValues(events iter.Seq2[haft.Event, error]) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		for e, err := range events {
			if !yield(WithoutValue(e), err) {
				return
			}
		}
	}
}
