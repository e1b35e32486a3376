package client_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"haft"
	"haft/client"
)

// A page of the audit that is empty is not the last one if it says how to go on.
func TestAuditEntries_go_on_behind_empty_pages(t *testing.T) {
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		pages := map[string]string{"": `{"data":[{"n":1}],"next_cursor":"a"}`, "a": `{"data":[],"next_cursor":"b"}`,
			"b": `{"data":[{"n":2},{"n":3}]}`}
		_, _ = w.Write([]byte(pages[r.URL.Query().Get("cursor")]))
	}))
	t.Cleanup(web.Close)
	c := dial(t, client.Config{URL: web.URL})
	f := haft.AuditFilter{Kind: "k", User: "u", Agent: "a", Tool: "t", Call: "c", Since: time.Unix(1, 5).UTC(),
		Until: time.Unix(2, 0).UTC(), Oldest: true}
	read := func(limit int) (got []string) {
		f.Limit = limit
		for raw, err := range c.Audit.Entries(t.Context(), haft.Principal{}, f) {
			check(t, err)
			got = append(got, string(raw))
		}
		return got
	}
	if got := read(0); !slices.Equal(got, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}) {
		t.Errorf("all: %v", got)
	}
	if got := read(2); !slices.Equal(got, []string{`{"n":1}`, `{"n":2}`}) {
		t.Errorf("two: %v", got)
	}
	want := "agent=a&call=c&kind=k&limit=1000&since=1970-01-01T00%3A00%3A01.000000005Z&sort=time&tool=t&until=1970-01-01T00%3A00%3A02Z&user=u"
	if asked[0] != want {
		t.Errorf("asked %s, want %s", asked[0], want)
	}
}
