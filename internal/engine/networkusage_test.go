package engine_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/egress/route"
	"haft/internal/engine"
	"haft/internal/secret"
)

// countedGuard makes routes on which two connections are made.
type countedGuard struct{}

func (countedGuard) Host(entry string) (string, error) { return entry, nil }

func (countedGuard) Open(context.Context, route.Request) (*route.Route, error) {
	return &route.Route{Session: countedSession{}}, nil
}

type countedSession struct{}

func (countedSession) Serve(context.Context, net.Conn) {}
func (countedSession) Refused() bool                   { return false }

func (countedSession) Close() ([]route.Connection, []secret.Named) {
	return []route.Connection{{To: "a.example:443", Up: 1, Down: 20, Took: 3e6},
		{To: "a.example:443", Up: 4, Took: 5e6}}, nil
}

// Personal data is removed from results where the operator asks for it.
func TestPersonal(t *testing.T) {
	for personal, want := range map[bool]bool{true: false, false: true} {
		w := setup(t, allowAll, engine.Config{Personal: personal})
		w.tool("o", "work", nil)
		w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
			return &haft.Result{Status: haft.StatusSuccess, Value: []byte(`"write to ann@example.com"`)}, nil
		})
		res := w.call(user("o", "ann"), "work", "{}")
		if strings.Contains(string(res.Value), "ann@example.com") != want {
			t.Errorf("with Personal %v the value is %s", personal, res.Value)
		}
	}
}

// The time and the bytes of connections are in the usage of a call, and of its user.
func TestUsage_has_the_network(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Egress: countedGuard{}})
	w.tool("o", "work", func(d *haft.Draft) { d.Settings.Network = []string{"a.example"} })
	res := w.call(user("o", "ann"), "work", "{}")
	want(t, res, haft.StatusSuccess)
	if u := res.Usage; u.Network != 8e6 || u.Sent != 5 || u.Received != 20 {
		t.Errorf("the usage is %+v, want 8ms, 5 bytes sent and 20 received", u)
	}
	sums, err := w.store.Calls.Usage(t.Context(), "o", haft.UsageQuery{By: []haft.UsageBy{haft.ByUser}})
	if err != nil || len(sums) != 1 || sums[0].User != "ann" || sums[0].Network != 8e6 {
		t.Errorf("the usage by user is %+v, %v", sums, err)
	}
}
