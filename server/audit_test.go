package server_test

import (
	"net/url"
	"strings"
	"testing"

	"haft/internal/audit"
)

// Pages of the audit hold what fits the filter, each entry once, in the order that
// was asked for.
func TestAudit_is_filtered_and_paged(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	for range 7 {
		w.call(user, `{"tool":"f"}`)
	}
	list := func(query string) (all []audit.Entry) {
		t.Helper()
		for next := ""; ; {
			a := w.must(200, admin, "GET", "/v1/audit/entries?limit=3"+query+next, "")
			var page struct {
				Data []audit.Entry
				Next string `json:"next_cursor"`
			}
			a.into(t, &page)
			if all = append(all, page.Data...); page.Next == "" {
				return all
			}
			if !strings.Contains(a.header.Get("Link"), url.QueryEscape(page.Next)) || len(all) > 1000 {
				t.Fatalf("the next page is at %q", a.header.Get("Link"))
			}
			next = "&cursor=" + page.Next
		}
	}
	all := list("&sort=time")
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Errorf("entry %d has the number %d", i+1, e.Seq)
		}
	}
	for query, fits := range map[string]func(audit.Entry) bool{
		"":                 func(audit.Entry) bool { return true },
		"&kind=call.ended": func(e audit.Entry) bool { return e.Kind == "call.ended" },
		"&kind=call.ended&tool=f&user=" + all[len(all)-1].Actor.User: func(
			e audit.Entry) bool {
			return e.Kind == "call.ended"
		},
		"&call=" + string(all[len(all)-1].Call): func(
			e audit.Entry) bool {
			return e.Call == all[len(all)-1].Call
		},
		"&agent=nobody":               func(audit.Entry) bool { return false },
		"&since=2100-01-01T00:00:00Z": func(audit.Entry) bool { return false },
		"&until=2100-01-01T00:00:00Z": func(audit.Entry) bool { return true },
	} {
		want := 0
		for _, e := range all {
			if fits(e) {
				want++
			}
		}
		for _, order := range []string{"time", "-time"} {
			got := list(query + "&sort=" + order)
			for i, e := range got {
				if !fits(e) || i > 0 && (e.Time.Before(got[i-1].Time) != (order == "-time")) &&
					!e.Time.Equal(got[i-1].Time) {
					t.Errorf("%s by %s: entry %d is %s of %v", query, order, i, e.Kind, e.Time)
				}
			}
			if len(got) != want {
				t.Errorf("%s by %s: %d entries, want %d", query, order, len(got), want)
			}
		}
	}
	for _, bad := range []string{"cursor=x", "cursor=" + url.QueryEscape("YXVkaXQ6MQ"), "since=soon", "sort=kind",
		"limit=0"} {
		if a := w.ask(admin, "GET", "/v1/audit/entries?"+bad, ""); a.status != 422 && a.status != 400 {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	w.must(403, user, "GET", "/v1/audit/entries?kind=call.ended", "")
}
