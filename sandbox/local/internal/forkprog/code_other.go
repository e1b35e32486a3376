//go:build linux && !amd64 && !arm64

package forkprog

// Code returns nil: there is none for this processor, and so there are no templates.
func Code() []byte { return nil }
