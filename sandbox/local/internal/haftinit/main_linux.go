// Command haftinit is the init of a sandbox and nothing else.
//
// Haft can be its own init, and is where this program was not built into it. But
// all of its packages then prepare themselves first, schema compilers and
// expression languages among them, which takes longer than setting up the
// sandbox. `make build` builds this one, puts it into package initimage, and then
// builds Haft with the tag haft_init.
package main

import (
	"os"

	"haft/sandbox/local"
)

func main() {
	local.Init()
	os.Exit(125) // it was not started by Haft
}
