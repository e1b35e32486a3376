package letta

import (
	"errors"

	"haft"
	"haft/internal/bounds"
)

// bodyShape bounds the fields of all bodies by their names, which mean the same in all of
// them. Packages that check the values again have the same bounds. Unknown fields are
// refused by the reader, or ignored.
func bodyShape() *bounds.Shape {
	list := func(items, text int) *bounds.Shape {
		return &bounds.Shape{Items: items, Item: &bounds.Shape{Text: text}}
	}
	text := func(most int) *bounds.Shape { return &bounds.Shape{Text: most} }
	env := &bounds.Shape{Members: 100, Name: 128, Rest: text(96 << 10)}
	packages := &bounds.Shape{Items: 100, Item: &bounds.Shape{Text: 300, Members: 10, Rest: text(300)}}
	fields := map[string]*bounds.Shape{
		"tool_ids": list(1000, 200), "tools": list(1000, 200), "tool_rules": {Items: 100},
		"tags": list(100, 200), "tool_types": list(100, 200), "block_ids": list(100, 200), "run_ids": list(100, 200),
		"memory_blocks": {Items: 100}, "messages": {Items: 100}, "include_return_message_types": list(20, 50),
		"system": text(400_000), "model": text(256), "text": text(haft.MaxPassage), "label": text(64),
		"secrets": env, "tool_exec_environment_variables": env, "env_vars": env, "env": env,
		"custom_headers":   {Members: 64, Name: 256, Rest: text(16 << 10)},
		"pip_requirements": packages, "npm_requirements": packages,
		"args":        {Items: 256, Item: text(32 << 10)}, // of a command; those of a tool are an object
		"source_code": text(1 << 20), "name": text(512), "description": text(16 << 10),
		"key": text(128), "value": text(haft.MaxBlockLimit), "server_url": text(2048), "command": text(32 << 10),
		"server_name": text(200), "query": text(2000), "source_type": text(64),
	}
	config, body := &bounds.Shape{}, &bounds.Shape{}
	for name, s := range fields {
		config.Field(name, s)
		body.Field(name, s)
	}
	body.Field("config", config) // of a sandbox, or of an MCP server
	return body
}

// bounded reports why a body exceeds the limits, before it is decoded. Only this function
// bounds bodies of this API.
func (d *API) bounded(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	err := bounds.Check(body, bounds.Default(), d.shape)
	if err == nil || errors.Is(err, bounds.ErrSyntax) {
		return nil // the decoder reports it
	}
	return unprocessable("body %s", haft.MessageOf(err))
}
