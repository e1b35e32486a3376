package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/registry"
)

// listOf is a list of n tools with one schema.
func listOf(n int, schema string) haft.MCPListing {
	var l haft.MCPListing
	for i := range n {
		l.Tools = append(l.Tools, haft.MCPTool{Name: fmt.Sprintf("tool%d", i), Description: "d",
			Input: json.RawMessage(schema)})
	}
	return l
}

// wide is a schema with n properties, each with this beside its type.
func wide(n int, more string) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"p%d":{"type":"string"%s}`, i, more)
	}
	return b.String() + "}}"
}

// doubling is a schema whose references name twice as much at each of n steps.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"type":"object","properties":{"x":{"$ref":"#/$defs/d%d"},"y":{"$ref":"#/$defs/d%d"}}},`,
			i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string"}}}`, n)
	return b.String()
}

func TestSync_refuses_lists_over_a_bound(t *testing.T) {
	r := registry.New(open(t), registry.Config{})
	s := haft.MCPServer{Org: ann.Org, ID: "mcp_1", Name: "files", Transport: haft.MCPHTTP, URL: "https://example.com"}
	if _, err := r.Sync(t.Context(), ann, s, listOf(3, wide(2, "")), true); err != nil {
		t.Fatal(err)
	}
	described := listOf(900, wide(1, ""))
	for i := range described.Tools {
		described.Tools[i].Description = strings.Repeat("x", 10<<10)
	}
	for name, tt := range map[string]struct {
		list haft.MCPListing
		want string
	}{
		"tools":    {listOf(1001, wide(1, "")), "1000 tools"},
		"bytes":    {described, "bytes"},
		"values":   {listOf(200, wide(1000, "")), "values"},
		"patterns": {listOf(11, wide(100, `,"pattern":"^a{1,999}$"`)), "patterns"},
		"a long pattern": {listOf(1, wide(1, `,"pattern":"`+strings.Repeat("a", 2000)+`"`)),
			"bytes in a pattern"},
		"names that are patterns": {listOf(1001, `{"type":"object","patternProperties":{"^a":{},"^b":{}}}`), "tools"},
		"references":              {listOf(500, doubling(13)), "not taken"},
		"too many references":     {listOf(500, doubling(40)), "not taken"},
		"many of those":           {listOf(600, `{"type":"object","patternProperties":{"^a":{},"^b":{}}}`), "patterns"},
	} { // what references name may take more time than there is before it is counted
		t.Run(name, func(t *testing.T) {
			_, err := r.Sync(t.Context(), ann, s, tt.list, true)
			if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), tt.want) ||
				!strings.Contains(haft.MessageOf(err), "not taken") {
				t.Errorf("Sync: %v, want that there are too many %s", err, tt.want)
			}
			if _, err := r.Tool(t.Context(), ann, "files__tool2"); err != nil {
				t.Errorf("the tools that were there are gone: %v", err)
			}
		})
	}
}

// TestSync_makes_nobody_wait stops in the middle of a list and lets others write.
func TestSync_makes_nobody_wait(t *testing.T) {
	stopped, goOn := make(chan struct{}), make(chan struct{})
	r := registry.New(open(t), registry.Config{Derive: derive, Review: clean, Reserved: func(name string) bool {
		if name == "files__tool5" {
			close(stopped)
			<-goOn
		}
		return false
	}})
	s := haft.MCPServer{Org: ann.Org, ID: "mcp_1", Name: "files", Transport: haft.MCPHTTP, URL: "https://example.com"}
	synced := make(chan error, 1)
	go func() {
		_, err := r.Sync(context.WithoutCancel(t.Context()), ann, s, listOf(10, wide(100, "")), true)
		synced <- err
	}()
	<-stopped
	bob := haft.Principal{Org: "other", User: "bob"}
	put := make(chan error, 2)
	for _, who := range []haft.Principal{bob, ann} { // of another organisation, and of the same
		go func() {
			_, err := r.Put(context.WithoutCancel(t.Context()), who, add())
			put <- err
		}()
	}
	for range 2 {
		select {
		case err := <-put:
			if err != nil {
				t.Errorf("Put: %v", err)
			}
		case <-time.After(3 * time.Minute): // it would never end
			t.Error("a tool is not written while a list is compiled")
		}
	}
	close(goOn)
	if err := <-synced; err != nil {
		t.Errorf("Sync: %v", err)
	}
}

// BenchmarkSync_worst takes the most expensive lists that are not refused.
func BenchmarkSync_worst(b *testing.B) {
	s := haft.MCPServer{Org: ann.Org, ID: "mcp_1", Name: "files", Transport: haft.MCPHTTP, URL: "https://example.com"}
	for name, l := range map[string]haft.MCPListing{
		"values": listOf(48, wide(1000, "")), "tools": listOf(1000, wide(45, "")),
		"patterns": listOf(10, wide(100, `,"pattern":"^((a{1,30}){1,30})$"`)),
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if _, err := registry.New(open(b), registry.Config{}).Sync(b.Context(), ann, s, l, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
