//go:build !haft_init || !linux

// Package initimage holds the program that is the init of a sandbox, if it was
// built in. See package haftinit.
package initimage

// Bytes returns the program, or nil.
func Bytes() []byte { return nil }
