package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
)

// between is an observer that does something, once, when a stage of a call has ended.
type between struct {
	stage string
	do    func()
}

func (b *between) Begin(ctx context.Context, _ haft.Call) (context.Context, engine.Span) {
	return ctx, b
}
func (*between) Tool(string)             {}
func (*between) End(*haft.Result, error) {}

func (b *between) Stage(name string, _ time.Duration) {
	if do := b.do; name == b.stage && do != nil {
		b.do = nil
		do()
	}
}

// TestStarting_calls_follow_the_rules_of_now changes the policy while a call is between two
// stages, where it may have waited in a queue for minutes.
func TestStarting_calls_follow_the_rules_of_now(t *testing.T) {
	const all = "authorize limit validate approve"
	for name, c := range map[string]struct {
		stages, rules string
		status        haft.Status
		why           string
	}{
		"denied": {all, `rules: [{id: x, effect: deny}]`, haft.StatusDenied, "org/x"},
		"no host": {all, `rules: [{id: x, effect: limit, network: []}]`,
			haft.StatusDenied, "policy does not let the tool reach a.example"},
		"fewer hosts": {all, `rules: [{id: x, effect: limit, network: [a.example]}]`, haft.StatusSuccess, ""},
		"isolation": {"limit validate approve", `rules: [{id: x, effect: limit, min_isolation: machine}]`,
			haft.StatusDenied, "isolation machine"},
		"approval": {"authorize", `rules: [{id: x, effect: ask}]`, haft.StatusPending, ""},
		"filter": {"authorize", `filters: [{id: x, on: input, pattern: secret, action: refuse}]`,
			haft.StatusDenied, "a filter refuses it"},
	} {
		for stage := range strings.FieldsSeq(c.stages) {
			t.Run(name+" after "+stage, func(t *testing.T) {
				g, b := &openGuard{}, &between{stage: stage}
				w := setup(t, allowAll, engine.Config{Egress: g, Observer: b})
				w.tool("o", "quick", func(d *haft.Draft) { d.Settings.Network = []string{"a.example"} })
				forbids := ""
				w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
					forbids = g.forbids("login.example")
					return ok(req, "1"), nil
				})
				b.do = func() {
					text := haft.PolicyText{Text: []byte("version: 1\n" + c.rules + "\n")}
					check(t, second(w.PutPolicy(t.Context(), admin("o"), false, text)))
				}
				res := w.call(user("o", "ann"), "quick", `{"path":"a secret"}`)
				want(t, res, c.status)
				if c.why != "" && (res.Error == nil || !strings.Contains(res.Error.Message, c.why)) {
					t.Errorf("it says %+v, want %q", res.Error, c.why)
				}
				if c.status == haft.StatusSuccess && forbids != "org/x" {
					t.Errorf("connections are held against rules of before: %q", forbids)
				}
			})
		}
	}
}

// TestJudge_keeps_the_later_rules: the call and a review may decide at the same time.
func TestJudge_keeps_the_later_rules(t *testing.T) {
	for _, c := range []struct {
		first, second int64
		want          string
	}{{1, 2, "second"}, {2, 2, "second"}, {2, 1, "first"}} {
		if rule := engine.JudgedBy(c.first, c.second); rule != c.want {
			t.Errorf("rules of change %d and then of %d: the %s hold, want the %s", c.first, c.second, rule, c.want)
		}
	}
}
