package script

import "haft/executor"

// Await returns when everything that Prepare began is there.
func Await(p executor.Prepared) { <-p.(*ahead).done }
