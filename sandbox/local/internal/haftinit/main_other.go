//go:build !linux

// Command haftinit is the init of a sandbox. There are none on this system.
package main

func main() {}
