package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"haft"
	"haft/client"
)

// A call that ends before the client asks for its record is still one that was accepted:
// what Submit returns does not depend on who is faster.
func TestSubmit_returns_the_call_as_it_was_acknowledged(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"call_id":"c_1","tool":"t","status":"queued","value":null}`)
			return
		}
		_, _ = io.WriteString(w,
			`{"call":{"id":"c_1","tool":"t"},"status":"success","started_at":"2026-01-01T00:00:00Z",
			"ended_at":"2026-01-01T00:00:01Z","result_digest":"d","result":{"call_id":"c_1","tool":"t","status":"success","value":1}}`)
	}))
	t.Cleanup(web.Close)
	c := dial(t, client.Config{URL: web.URL})
	rec, err := c.Submit(t.Context(), haft.Call{Tool: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Call.ID != "c_1" || rec.Status != haft.StatusQueued || rec.Result != nil || !rec.Started.IsZero() ||
		!rec.Ended.IsZero() {
		t.Errorf("got %+v, want the call queued", rec)
	}
}
