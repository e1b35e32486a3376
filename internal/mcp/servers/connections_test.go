package servers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/egress/route"
	"haft/internal/service"
)

// Connections of a server are gathered by place, bounded, without what is secret of
// it, and written when it ends at the latest.
func TestServerLogs(t *testing.T) {
	type entry struct {
		server haft.MCPServer
		list   []service.ServerConnections
		more   int
	}
	var written []entry
	c := &serverLogs{
		every: time.Hour, all: map[*connectionLog]bool{},
		write: func(_ context.Context, s haft.MCPServer, list []service.ServerConnections, more int) error {
			written = append(written, entry{s, list, more})
			return nil
		},
		fail: func(_ haft.MCPServer, err error) { t.Error(err) },
	}
	l := c.of(haft.MCPServer{Org: "acme", Name: "files", Env: map[string]string{"KEY": "hunter2-the-key"}},
		map[string]string{"KEY": "hunter2-the-key"})
	for range 1000 {
		l.ended(route.Connection{To: "GET api.example:443", Up: 1, Down: 2})
	}
	l.begun(route.Connection{To: "POST mcp.example:443"})
	l.over(route.Connection{To: "POST mcp.example:443", Up: 5, Down: 7}, true)
	l.over(route.Connection{To: "POST mcp.example:443", Refused: "no"}, false)
	l.ended(route.Connection{To: "hunter2-the-key.evil.example:443",
		Refused: "the tool may not reach hunter2-the-key.evil.example"})
	for i := range 500 {
		l.ended(route.Connection{To: fmt.Sprintf("host%d.example:443", i)})
	}
	if len(written) != 0 || len(c.all) != 1 {
		t.Fatalf("%d entries were written, %d logs wait", len(written), len(c.all))
	}
	l.flush()
	l.flush()
	if len(written) != 1 || len(c.all) != 0 {
		t.Fatalf("%d entries were written, %d logs wait", len(written), len(c.all))
	}
	e := written[0]
	if len(e.list) != maxPlaces || e.more != 500-(maxPlaces-4) || e.server.Env != nil {
		t.Errorf("%d places, %d left out", len(e.list), e.more)
	}
	if got := e.list[0]; got.Count != 1000 || got.Up != 1000 || got.Down != 2000 {
		t.Errorf("%+v", got)
	}
	if got := e.list[1]; got.Count != 1 || got.Up != 5 || got.Down != 7 {
		t.Errorf("%+v", got)
	}
	if all := fmt.Sprintf("%+v", e); strings.Contains(all, "hunter2") {
		t.Errorf("the key is in the audit: %s", all)
	}
	// What is there when everything ends is written too.
	l.ended(route.Connection{To: "late.example:443"})
	c.flushAll()
	if len(written) != 2 || written[1].list[0].To != "late.example:443" {
		t.Errorf("%+v", written[1:])
	}
}
