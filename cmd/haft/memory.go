package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// The runtime collects garbage when the heap has doubled, or at 4 MB: with the
// little that lives in it, that is while a short command still starts, and dozens
// of times a second in a server.
const (
	// shortPercent lets the heap of a short command grow to 36 MB first.
	shortPercent = 800
	// ballastSize is memory that is never touched, and so never there: with it a
	// server's heap grows by so much, and not only by as much as lives.
	ballastSize = 32 << 20
)

// short tunes the collector for a command that ends soon. Who sets $GOGC wants it
// otherwise.
func short() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(shortPercent)
	}
}

// long tunes it for one that runs on, until the function it returns is called.
func long() func() {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	ballast := make([]byte, ballastSize)
	debug.SetGCPercent(100)
	return func() { runtime.KeepAlive(ballast) }
}
