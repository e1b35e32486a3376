package secret_test

import (
	"sync"
	"testing"

	"haft/internal/secret"
)

func TestDigester(t *testing.T) {
	t.Parallel()
	plain, keyed, other := secret.NewDigester(nil), secret.NewDigester([]byte("k")), secret.NewDigester([]byte("l"))
	// As sha256sum prints it.
	const empty = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	if got := plain.Digest("args", nil); got != empty {
		t.Errorf("plain: %s", got)
	}
	// What approvals and idempotency keys were bound to stays what it was.
	if got := keyed.Digest("args", nil); got != "hmac-sha256:03c323ac22d4d9d43214a2de68e2809c"+
		"9671dcb461f3ae4b989e079da34abf24" {
		t.Errorf("keyed: %s", got)
	}
	if got := keyed.Binds("v", []byte("1")); got != "hmac-sha256:5aaab49d125bf9ca34703ec76896d5ca"+
		"8aac0d24c2dfee69c6651a4d62f5520a" {
		t.Errorf("bound: %s", got)
	}
	first := keyed.Digest("args", []byte(`{"a":1}`))
	for name, d := range map[string]string{
		"kind": keyed.Digest("result", []byte(`{"a":1}`)), "value": keyed.Digest("args", []byte(`{"a":2}`)),
		"key": other.Digest("args", []byte(`{"a":1}`)), "border": keyed.Digest("args\x00{", []byte(`"a":1}`)),
	} {
		if d == first {
			t.Errorf("another %s makes the same digest", name)
		}
	}
	if keyed.Binds("v", []byte("1")) == keyed.Binds("v1", nil) {
		t.Error("a version and its arguments run together")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if got := keyed.Digest("args", []byte(`{"a":1}`)); got != first {
					t.Errorf("the same value makes %s and %s", first, got)
				}
			}
		})
	}
	wg.Wait()
}
