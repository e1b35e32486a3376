//go:build amd64 || arm64

package forkprog

import (
	"bytes"
	"slices"
	"unsafe"
)

// code is the machine code. It is no function of Go, and never called here.
func code()

// address returns where code begins.
func address() unsafe.Pointer

// maxCode bounds the search for the end of the code.
const maxCode = 2 << 10

// Code returns a C function that carries out a program, for memory that can be executed:
//
//	long run(void *operation, long failure[2])
//
// It returns what the program does, or -1 after a failure, with the address of the operation and its result.
func Code() []byte {
	b := unsafe.Slice((*byte)(address()), maxCode)
	return slices.Clone(b[:bytes.Index(b, []byte("haft end"))])
}
