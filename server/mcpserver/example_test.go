package mcpserver_test

import (
	"fmt"

	"haft"
	"haft/server/mcpserver"
)

// Serve the tools of a [haft.Service] to MCP clients.
func ExampleNew() {
	var service struct{ haft.Service } // an app.Service, or your own
	s, err := mcpserver.New(service, mcpserver.Config{Version: "example"})
	fmt.Println(s != nil, err)
	// Output: true <nil>
}
