package letta_test

import (
	"fmt"

	"haft"
	"haft/compat/letta"
	"haft/server"
)

// Serve Letta's tools API beside that of Haft.
func ExampleNew() {
	var service struct{ haft.Service } // an app.Service, or your own
	cfg := server.Config{APIs: map[string]server.API{letta.Prefix + "/": letta.New(service, letta.Config{})}}
	for pattern := range cfg.APIs {
		fmt.Println(pattern)
	}
	// Output: /letta/
}
