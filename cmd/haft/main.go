// Command haft runs the tools that AI agents call.
package main

import "os"

func main() { os.Exit(2) }
