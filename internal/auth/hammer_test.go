package auth_test

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft/internal/auth"
)

// Everything at once: good and bad keys, signatures that are sent several times,
// tokens, and keys that are rotated meanwhile.
func TestHammer(t *testing.T) {
	p := newIDP(edJWK("d1"))
	w := setup(t, p.use())
	const workers, rounds = 8, 60
	k, token := w.issue(t, auth.Key{User: "ann"})
	latest := atomic.Pointer[string]{}
	latest.Store(&token)
	shared := make([]string, rounds)
	for i := range shared {
		shared[i] = header(w.key, "GET", "/", "", nonce(), time.Now().Unix())
	}
	var once [rounds]atomic.Int32
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			for i := range rounds {
				if _, err := w.Admit(received("GET", "/", "", shared[i]), home); err == nil {
					once[i].Add(1)
				} else if auth.ReasonOf(err) != auth.ReasonReplay {
					t.Errorf("a shared request: %v", err)
				}
				held := latest.Load()
				// Who was held up while it was rotated twice is refused.
				if _, err := w.bearer(t.Context(), *held); err != nil && latest.Load() == held {
					t.Errorf("the latest key: %v", err)
				}
				if _, err := w.bearer(t.Context(), goodToken("d1")); err != nil {
					t.Errorf("a token: %v", err)
				}
				from := netip.AddrFrom4([4]byte{10, 0, byte(n), byte(i)})
				if _, err := w.Authenticate(t.Context(),
					auth.Credential{Scheme: "Bearer", Token: fmt.Sprint(n, i), Source: from}); err == nil {
					t.Error("nonsense is believed")
				}
				if n == 0 && i%10 == 0 {
					_, next, err := w.ring.Rotate(t.Context(), w.admin, k.ID, time.Hour)
					if err != nil {
						t.Errorf("Rotate: %v", err)
						return
					}
					text := next.Reveal()
					latest.Store(&text)
				}
			}
		})
	}
	all.Wait()
	for i := range once {
		if n := once[i].Load(); n != 1 {
			t.Errorf("request %d was good %d times", i, n)
		}
	}
	if n := p.fetches(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}
