package session_test

import (
	"testing"

	"haft/executor"
	"haft/internal/session"
)

// BenchmarkManager_open makes a session, runs one code in it, and ends it. It reports how
// long each took.
func BenchmarkManager_open(b *testing.B) {
	m := setup(b, session.Config{})
	req := executor.Request{Org: "acme", Principal: alice}
	use := func() {
		s, err := m.Open(b.Context(), session.Options{Request: req})
		if err != nil {
			b.Fatal(err)
		}
		code(b, s, "python", "1")
		b.StopTimer()
		s.Close("done")
		b.StartTimer()
	}
	use() // which makes the first cells
	for b.Loop() {
		use()
	}
}

// BenchmarkSession_code runs code in a session.
func BenchmarkSession_code(b *testing.B) {
	s := open(b, setup(b, session.Config{}), session.Options{})
	code(b, s, "python", "x = 0")
	for b.Loop() {
		code(b, s, "python", "x += 1")
	}
}
