package event_test

import (
	"encoding/json"
	"testing"

	"haft"
	"haft/internal/event"
)

func TestWithoutValue(t *testing.T) {
	for _, tt := range []struct {
		typ        haft.EventType
		data, want string
	}{
		{haft.EventCompleted, `{"status":"success","value":"x","value_truncated":3,"wall_ms":1}`,
			`{"status":"success","wall_ms":1}`},
		{haft.EventCompleted, `{"status":"error"}`, `{"status":"error"}`},
		{haft.EventCompleted, `["value"]`, ``},
		{haft.EventCompleted, ``, ``},
		{haft.EventProgress, `{"value":1}`, `{"value":1}`},
	} {
		e := event.WithoutValue(haft.Event{Type: tt.typ, Data: json.RawMessage(tt.data)})
		if string(e.Data) != tt.want {
			t.Errorf("%s %s: got %s", tt.typ, tt.data, e.Data)
		}
	}
}
