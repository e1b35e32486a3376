package haft_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"haft"
)

func TestCheckToolName(t *testing.T) {
	for name, ok := range map[string]bool{
		"add": true, "_x": true, "get-weather": true, strings.Repeat("a", haft.MaxToolName): true,
		"": false, "1st": false, "a b": false, "a.b": false, "naïve": false, "../etc": false, "a\n": false,
		strings.Repeat("a", haft.MaxToolName+1): false,
	} {
		if err := haft.CheckToolName(name); (err == nil) != ok {
			t.Errorf("CheckToolName(%q) = %v, want ok = %v", name, err, ok)
		} else if err != nil && haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("CheckToolName(%q) has code %q", name, haft.CodeOf(err))
		}
	}
}

func TestLevel_AtLeast(t *testing.T) {
	levels := haft.Levels()
	for i, have := range levels {
		for j, want := range levels {
			if got := have.AtLeast(want); got != (i >= j) {
				t.Errorf("%q.AtLeast(%q) = %v", have, want, got)
			}
		}
		if !have.AtLeast("") {
			t.Errorf("%q does not satisfy an empty demand", have)
		}
		if have.AtLeast("bogus") || haft.Level("bogus").AtLeast(have) {
			t.Errorf("an unknown level is comparable with %q", have)
		}
	}
}

func TestLimits(t *testing.T) {
	got := haft.Limits{Memory: 1 << 40, Processes: 3}.Or(haft.DefaultLimits()).Within(haft.LimitCeilings())
	if got.Memory != haft.LimitCeilings().Memory || got.Processes != 3 || got.Wall != haft.DefaultLimits().Wall {
		t.Errorf("limits are %+v", got)
	}
	if neg := (haft.Limits{Memory: -1, Wall: -1}).Or(haft.DefaultLimits()); neg.Memory != haft.DefaultLimits().Memory ||
		neg.Wall <= 0 {
		t.Errorf("a negative limit became %+v, want the default", neg)
	}
	// Every default is set and within its ceiling: no tool runs without a bound.
	if haft.DefaultLimits().Within(haft.LimitCeilings()) != haft.DefaultLimits() {
		t.Error("a default is above its ceiling")
	}
	var fields map[string]float64
	b, err := json.Marshal(haft.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	if len(fields) != 15 {
		t.Errorf("%d limits have a default, want all 15: %v", len(fields), fields)
	}
}

func TestMillis(t *testing.T) {
	b, err := json.Marshal(haft.Millis(1234567 * time.Nanosecond))
	if err != nil || string(b) != "1.235" {
		t.Errorf("1.234567 ms is written as %s, %v", b, err)
	}
	var m haft.Millis
	if err := json.Unmarshal([]byte("1.5"), &m); err != nil || m.D() != 1500*time.Microsecond {
		t.Errorf("1.5 is read as %v, %v", m, err)
	}
	for _, bad := range []string{`"1s"`, `1e300`, `{}`} {
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s is read as a duration", bad)
		}
	}
}

func TestError(t *testing.T) {
	cause := errors.New("row 7 of /var/lib/x")
	err := fmt.Errorf("call: %w", &haft.Error{Code: haft.CodeConflict, Message: "the key was used", Err: cause})
	if haft.CodeOf(err) != haft.CodeConflict || haft.MessageOf(err) != "the key was used" {
		t.Errorf("code %q, message %q", haft.CodeOf(err), haft.MessageOf(err))
	}
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "row 7") {
		t.Errorf("the operator does not see the cause in %q", err)
	}
	if haft.CodeOf(cause) != haft.CodeInternal || strings.Contains(haft.MessageOf(cause), "/var") {
		t.Errorf("a foreign error is %q, %q", haft.CodeOf(cause), haft.MessageOf(cause))
	}
	if haft.CodeOf(nil) != "" || haft.MessageOf(nil) != "" {
		t.Error("no error has a code or a message")
	}
}

func TestNewEvent_needs_a_principal(t *testing.T) {
	if _, err := haft.NewEvent(haft.Call{ID: "c"}, haft.EventOutput, time.Now(),
		nil); haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Errorf("an event without a principal: %v", err)
	}
}

func TestStatus_Final(t *testing.T) {
	for _, s := range haft.Statuses() {
		open := s == haft.StatusPending || s == haft.StatusQueued || s == haft.StatusRunning
		if s.Final() == open {
			t.Errorf("%q.Final() = %v", s, s.Final())
		}
	}
}
