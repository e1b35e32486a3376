package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/egress"
	"haft/internal/store"
	"haft/internal/store/sqlite"
	"haft/internal/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// enough is after which a test gives up.
const enough = time.Minute

var admin = haft.Principal{Org: "acme", User: "root", Roles: []string{haft.RoleAdmin}}

// A world is a notifier over a real store, with real receivers.
type world struct {
	t     *testing.T
	store *store.Store
	cfg   webhook.Config
	*webhook.Sender

	mu    sync.Mutex
	seqs  map[haft.CallID]int64
	audit []string
}

func setup(t *testing.T, change func(*webhook.Config)) *world {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, store: s, seqs: map[haft.CallID]int64{}}
	roots := x509.NewCertPool()
	probe := httptest.NewTLSServer(nil) // all servers of httptest have the same certificate
	roots.AddCert(probe.Certificate())
	probe.Close()
	guard := egress.New(egress.Config{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Redirects: -1, MaxBytes: 1 << 20,
		TLS: &egress.TLS{Roots: roots}, Resolver: loopback{},
	})
	t.Cleanup(guard.CloseIdle)
	w.cfg = webhook.Config{
		Client: guard.Client(), Cursor: func(ctx context.Context) (int64, error) {
			cursor, _, err := s.Events.LastEvents(ctx, nil)
			return cursor, err
		},
		May: func(p haft.Principal, _ haft.Action) error {
			if slices.Contains(p.Roles, haft.RoleAdmin) {
				return nil
			}
			return &haft.Error{Code: haft.CodeDenied, Message: "no"}
		},
		Poll: 5 * time.Millisecond, Retry: haft.Backoff{Tries: 3, Strategy: haft.Constant,
			Initial: haft.Millis(time.Millisecond)},
	}
	w.cfg.Manage = func(ctx context.Context, p haft.Principal, a haft.Action, kind string,
		do func(context.Context) (any, error)) error {
		if err := w.cfg.May(p, a); err != nil {
			return err
		}
		if _, err := do(ctx); err != nil {
			return err
		}
		w.mu.Lock()
		w.audit = append(w.audit, kind)
		w.mu.Unlock()
		return nil
	}
	if change != nil {
		change(&w.cfg)
	}
	w.start()
	t.Cleanup(w.stop)
	return w
}

// loopback finds every name here.
type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func (w *world) start() {
	w.t.Helper()
	n, err := webhook.Open(context.Background(), w.store, w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Sender = n
}

func (w *world) stop() {
	if err := w.Sender.Close(); err != nil {
		w.t.Error(err)
	}
}

// happen makes events.
func (w *world) happen(org string, call haft.CallID, types ...haft.EventType) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var events []haft.Event
	for _, typ := range types {
		w.seqs[call]++
		events = append(events, haft.Event{Seq: w.seqs[call], Type: typ, Time: time.Now(), Call: call, Tool: "f",
			Principal: haft.Principal{Org: org, User: "ann"}, Data: json.RawMessage(`{"n":1,"value":"ZZVALUEZZ"}`)})
	}
	if err := w.store.Commit(w.t.Context(), store.Batch{Events: events}); err != nil {
		w.t.Fatal(err)
	}
}

// hook adds a webhook.
func (w *world) hook(h haft.Webhook) (haft.Webhook, string) {
	w.t.Helper()
	kept, secret, err := w.PutWebhook(w.t.Context(), admin, h)
	if err != nil {
		w.t.Fatal(err)
	}
	return *kept, secret
}

// until waits for a webhook to be as wanted.
func (w *world) until(id haft.WebhookID, what string, ok func(haft.Webhook) bool) haft.Webhook {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), enough)
	defer cancel()
	for {
		h, err := w.Webhook(ctx, admin, id)
		if err != nil {
			w.t.Fatalf("wait until %s: %v", what, err)
		}
		if ok(*h) {
			return *h
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			w.t.Fatalf("it never came that %s: %+v", what, h)
		}
	}
}

// A receiver is a real HTTPS server that keeps what it got.
type receiver struct {
	*httptest.Server
	got chan string // CALL#SEQ of what it took

	mu     sync.Mutex
	bodies [][]byte
	heads  []http.Header
}

// receive starts a receiver. answer is called first; if it returns false, what
// came does not count as received.
func receive(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int) bool) *receiver {
	t.Helper()
	rec := &receiver{got: make(chan string, 1000)}
	n := 0
	rec.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		rec.mu.Lock()
		n++
		this := n
		rec.bodies, rec.heads = append(rec.bodies, body), append(rec.heads, r.Header.Clone())
		rec.mu.Unlock()
		if answer != nil && !answer(w, r, this) {
			return
		}
		var m struct{ Data haft.Event }
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		rec.got <- fmt.Sprintf("%s#%d", m.Data.Call, m.Data.Seq)
	}))
	t.Cleanup(rec.Close)
	return rec
}

// hang answers nothing for as long as somebody waits, and nothing then: the client may still
// see an answer that comes as it gives up.
func hang(_ http.ResponseWriter, r *http.Request, _ int) bool {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// next returns what was received next.
func (r *receiver) next(t *testing.T) string {
	t.Helper()
	select {
	case got := <-r.got:
		return got
	case <-time.After(enough):
		t.Fatal("nothing is received")
		return ""
	}
}

func TestSender_sends_what_a_webhook_is_for_signed_and_in_order(t *testing.T) {
	w := setup(t, nil)
	rec := receive(t, nil)
	w.happen("acme", "old", haft.EventCompleted)
	h, secret := w.hook(haft.Webhook{URL: rec.URL + "/in",
		Types: []haft.EventType{haft.EventExecuting, haft.EventCompleted}, Tools: []string{"f"},
		Users: []string{"ann"}})
	w.happen("other", "theirs", haft.EventCompleted)
	w.happen("acme", "c1", haft.EventExecuting, haft.EventOutput, haft.EventCompleted)
	for _, want := range []string{"c1#1", "c1#3"} {
		if got := rec.next(t); got != want {
			t.Errorf("received %s, want %s", got, want)
		}
	}
	w.until(h.ID, "it has moved on", func(h haft.Webhook) bool { return h.Position >= 5 && !h.Delivered.IsZero() })
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for i, body := range rec.bodies {
		head := rec.heads[i]
		if completed := i == 1; bytes.Contains(body, []byte("ZZVALUEZZ")) == completed {
			t.Errorf("the value of the call is sent, or something else is not: %s", body)
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(head.Get("Webhook-Id") + "." + head.Get("Webhook-Timestamp") + "."))
		mac.Write(body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); head.Get("Webhook-Signature") != want {
			t.Errorf("the signature is %q, want %q", head.Get("Webhook-Signature"), want)
		}
	}
	if rec.heads[0].Get("Webhook-Id") >= rec.heads[1].Get("Webhook-Id") {
		t.Error("the ids do not rise")
	}
}

func TestSender_tries_again_and_keeps_the_order_of_a_call(t *testing.T) {
	w := setup(t, nil)
	rec := receive(t, func(w http.ResponseWriter, _ *http.Request, n int) bool {
		if n <= 2 {
			w.WriteHeader(http.StatusInternalServerError)
			return false
		}
		return true
	})
	h, _ := w.hook(haft.Webhook{URL: rec.URL})
	w.happen("acme", "c1", haft.EventExecuting, haft.EventCompleted)
	for _, want := range []string{"c1#1", "c1#2"} {
		if got := rec.next(t); got != want {
			t.Errorf("received %s, want %s", got, want)
		}
	}
	w.until(h.ID, "it does not fail any more", func(h haft.Webhook) bool {
		return h.FailingSince.IsZero() &&
			h.Position >= 2
	})
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if a, b := rec.heads[0].Get("Webhook-Id"), rec.heads[2].Get("Webhook-Id"); a != b {
		t.Errorf("the same message has the ids %s and %s", a, b)
	}
}

func TestSender_buries_what_cannot_be_delivered(t *testing.T) {
	away := httptest.NewTLSServer(nil)
	url := away.URL
	away.Close()
	long := strings.Repeat("x", 3<<20)
	for name, tt := range map[string]struct {
		answer  func(http.ResponseWriter, *http.Request, int) bool
		url     string
		failure string
		change  func(*webhook.Config)
	}{
		"away": {url: url, failure: "no connection"},
		"broken": {answer: func(w http.ResponseWriter, _ *http.Request,
			_ int) bool {
			w.WriteHeader(503)
			return false
		}, failure: "the receiver answered 503"},
		"elsewhere": {answer: func(w http.ResponseWriter, r *http.Request, _ int) bool {
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
			return false
		}, failure: "redirects"},
		"private": {url: "https://10.0.0.1/", failure: "not public"},
		"long and sore": {answer: func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(500)
			fmt.Fprint(w, long)
			return false
		}, failure: "the receiver answered 500"},
		"slow": {answer: hang, failure: "the receiver did not answer in time",
			change: func(c *webhook.Config) { c.Timeout = 50 * time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, tt.change)
			if tt.url == "" {
				rec := receive(t, tt.answer)
				tt.url = rec.URL
			}
			h, _ := w.hook(haft.Webhook{URL: tt.url})
			w.happen("acme", "c1", haft.EventExecuting, haft.EventCompleted)
			w.until(h.ID, "it has moved on", func(h haft.Webhook) bool { return h.Position >= 2 })
			var dead []haft.DeadLetter
			for l, err := range w.DeadLetters(t.Context(), admin, h.ID) {
				if err != nil {
					t.Fatal(err)
				}
				dead = append(dead, l)
			}
			if len(dead) != 2 || dead[0].Event.Seq != 1 || dead[0].Tries != 3 ||
				!strings.Contains(dead[0].Failure, tt.failure) {
				t.Errorf("the dead letters are %+v, want two that say %q", dead, tt.failure)
			}
			if now := w.until(h.ID, "it fails", func(h haft.Webhook) bool { return true }); now.FailingSince.IsZero() ||
				now.Failure == "" {
				t.Errorf("the webhook does not say that it fails: %+v", now)
			}
		})
	}
}

func TestSender_sends_dead_letters_again(t *testing.T) {
	w := setup(t, nil)
	var mu sync.Mutex
	broken := true
	rec := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		mu.Lock()
		defer mu.Unlock()
		if broken {
			w.WriteHeader(500)
		}
		return !broken
	})
	h, _ := w.hook(haft.Webhook{URL: rec.URL})
	w.happen("acme", "c1", haft.EventExecuting, haft.EventOutput, haft.EventCompleted)
	w.until(h.ID, "all are dead", func(h haft.Webhook) bool { return h.Position >= 3 })
	if n, err := w.Redeliver(t.Context(), admin, h.ID, ""); haft.CodeOf(err) != haft.CodeConflict || n != 0 {
		t.Errorf("Redeliver to a broken receiver = %d, %v", n, err)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	var first string
	for l, err := range w.DeadLetters(t.Context(), admin, h.ID) {
		if err != nil {
			t.Fatal(err)
		}
		first = l.ID
		break
	}
	if n, err := w.Redeliver(t.Context(), admin, h.ID, first); err != nil || n != 1 {
		t.Errorf("Redeliver of one = %d, %v", n, err)
	}
	if n, err := w.Redeliver(t.Context(), admin, h.ID, ""); err != nil || n != 2 {
		t.Errorf("Redeliver of all = %d, %v", n, err)
	}
	for _, want := range []string{"c1#1", "c1#2", "c1#3"} {
		if got := rec.next(t); got != want {
			t.Errorf("received %s, want %s", got, want)
		}
	}
	_, err := w.Redeliver(t.Context(), haft.Principal{Org: "other", Roles: []string{haft.RoleAdmin}}, h.ID, "")
	if haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Redeliver of a stranger: %v", err)
	}
}

func TestSender_goes_on_after_a_restart(t *testing.T) {
	w := setup(t, nil)
	rec := receive(t, nil)
	h, _ := w.hook(haft.Webhook{URL: rec.URL})
	w.happen("acme", "c1", haft.EventExecuting)
	rec.next(t)
	w.until(h.ID, "it has moved on", func(h haft.Webhook) bool { return h.Position >= 1 })
	w.stop()
	w.happen("acme", "c1", haft.EventCompleted)
	w.start()
	if got := rec.next(t); got != "c1#2" {
		t.Errorf("after a restart %s is received, want c1#2", got)
	}
}

func TestSender_one_that_hangs_delays_nobody(t *testing.T) {
	w := setup(t, func(c *webhook.Config) { c.Timeout = enough })
	var hanging []*receiver
	for range 3 {
		hanging = append(hanging, receive(t, hang))
		w.hook(haft.Webhook{URL: hanging[len(hanging)-1].URL})
	}
	rec := receive(t, nil)
	w.hook(haft.Webhook{URL: rec.URL})
	for i := range 20 {
		w.happen("acme", haft.CallID(fmt.Sprint("c", i)), haft.EventExecuting, haft.EventCompleted)
	}
	got := map[string]bool{}
	for range 40 {
		got[rec.next(t)] = true
	}
	if len(got) != 40 {
		t.Errorf("%d of 40 events are received", len(got))
	}
	w.stop() // with tries that hang
	w.start()
}

func TestSender_disables_what_fails_for_too_long(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		after  time.Duration
		want   string
	}{
		"failing": {500, time.Nanosecond, "deliveries failed since"},
		"gone":    {410, 0, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, func(c *webhook.Config) { c.DisableAfter = tt.after })
			var mu sync.Mutex
			status := tt.status
			rec := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int) bool {
				mu.Lock()
				defer mu.Unlock()
				w.WriteHeader(status)
				return status == 200
			})
			h, _ := w.hook(haft.Webhook{URL: rec.URL})
			w.happen("acme", "c1", haft.EventCompleted)
			off := w.until(h.ID, "it is disabled", func(h haft.Webhook) bool { return h.Disabled })
			if !strings.Contains(off.Reason, tt.want) || off.Position != h.Position {
				t.Errorf("disabled: %+v, want the reason %q and the same place", off, tt.want)
			}
			w.mu.Lock()
			written := slices.Contains(w.audit, "webhook.disabled")
			w.mu.Unlock()
			if !written {
				t.Error("the audit does not say so")
			}
			mu.Lock()
			status = 200
			mu.Unlock()
			off.Disabled = false
			if _, _, err := w.PutWebhook(t.Context(), admin, off); err != nil {
				t.Fatal(err)
			}
			if got := rec.next(t); got != "c1#1" {
				t.Errorf("enabled again it is sent %s, want c1#1", got)
			}
		})
	}
}

func TestSender_refuses(t *testing.T) {
	w := setup(t, nil)
	for name, h := range map[string]haft.Webhook{
		"no address":      {},
		"plain text":      {URL: "http://example.com/"},
		"a file":          {URL: "file:///etc/passwd"},
		"a user":          {URL: "https://ann:pw@example.com/"},
		"a fragment":      {URL: "https://example.com/#x"},
		"a type":          {URL: "https://example.com/", Types: []haft.EventType{"none"}},
		"too many":        {URL: "https://example.com/", Tools: make([]string, 101)},
		"an empty user":   {URL: "https://example.com/", Users: []string{""}},
		"a long address":  {URL: "https://example.com/" + strings.Repeat("x", 2000)},
		"a mail address":  {URL: "mailto:ann@example.com"},
		"half an address": {URL: "https:///x"},
	} {
		if _, _, err := w.PutWebhook(t.Context(), admin, h); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: %v, want an invalid webhook", name, err)
		}
	}
	if _, _, err := w.PutWebhook(t.Context(), haft.Principal{Org: "acme", User: "ann"},
		haft.Webhook{URL: "https://example.com/"}); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("a webhook of somebody who manages nothing: %v", err)
	}
	h, _ := w.hook(haft.Webhook{URL: "https://example.com/", Disabled: true})
	stranger := haft.Principal{Org: "other", Roles: []string{haft.RoleAdmin}}
	if _, err := w.Webhook(t.Context(), stranger, h.ID); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("the webhook of a stranger: %v", err)
	}
	if err := w.RemoveWebhook(t.Context(), stranger, h.ID, ""); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("removed by a stranger: %v", err)
	}
	h.If = "1"
	if _, _, err := w.PutWebhook(t.Context(), admin, h); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("over an old revision: %v", err)
	}
}
