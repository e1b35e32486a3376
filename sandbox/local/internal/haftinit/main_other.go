//go:build !linux

// Command haftinit is the init of a sandbox, of which there are none here.
package main

func main() {}
