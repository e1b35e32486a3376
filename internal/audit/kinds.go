package audit

// TakesNothing reports whether an entry of the audit of that kind says of no change by
// which anybody may do less. Kinds that are not known count as one.
func TakesNothing(kind string) bool {
	switch kind {
	case "request.refused", "call.refused", "key.create", "secret.put", "secret.remove", "retention.set",
		"mcp_server.login", "mcp_server.login_ended", "workspace.put", "workspace.remove_file", "workspace.add",
		"workspace.load", "block.add", "block.change", "block.remove", "block.attach", "block.detach", "passage.add",
		"passage.remove":
		return true
	}
	return false
}
