package rented

import (
	"encoding/base64"
	"errors"
	"testing"

	"haft"
	"haft/sandbox"
)

// A tool can write where the relay writes. It cannot say that it has not run: then it would be run again.
func TestLink_of_a_command_that_began_reports_no_failed_start(t *testing.T) {
	refusal := base64.StdEncoding.EncodeToString([]byte(`{"step":"exec","errno":2}`))
	for name, c := range map[string]struct {
		says string
		lost bool
	}{
		"before": {"!" + refusal + "\n", false},
		"after":  {"r\n!" + refusal + "\n", true},
	} {
		p := &Provider{cfg: Config{Name: "X"}}
		r := newRun(p, nil, sandbox.Spec{Argv: []string{"/bin/true"}}, nil)
		r.begun, r.cancel = true, func() {}
		l := newLink(r, nil)
		r.link = l
		l.fail(l.take([]byte(c.says)))
		l.close()
		err := r.lost()
		_, setup := errors.AsType[*sandbox.SetupError](err)
		if errors.Is(err, sandbox.ErrLost) != c.lost || setup == c.lost ||
			c.lost && haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("%s it began: %v", name, err)
		}
	}
}
