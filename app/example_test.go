package app_test

import (
	"context"
	"encoding/json"
	"fmt"

	"haft"
	"haft/app"
	"haft/executor/builtin"
	"haft/schema"
)

// Run one tool, without keeping anything.
func ExampleOpen() {
	ctx := context.Background()
	// "process" isolates nothing, so that the example runs everywhere. The zero Config is a sandbox.
	a, err := app.Open(ctx, app.Config{Sandbox: "process"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	tool, err := a.Prepare(ctx, app.Source{Kind: haft.KindBash, Text: []byte(`#!/usr/bin/env bash
# tool: greet
# Greets somebody.
#
# Args:
#   name (string): Who is greeted.
#
# Returns:
#   text: The greeting.
echo "Hello, $ARG_NAME"
`)}, schema.Options{}, haft.Output{})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := a.Call(ctx, tool, app.Run{Args: []byte(`{"name": "Ada"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Status, string(res.Value))
	// Output: success "Hello, Ada"
}

// Keep tools and calls, with a Go function as a tool. Data is empty, so everything is in memory.
func ExampleOpenService() {
	ctx := context.Background()
	type in struct {
		A int `json:"a" jsonschema:"the first number"`
		B int `json:"b" jsonschema:"the second number"`
	}
	s, err := app.OpenService(ctx, app.ServiceConfig{
		Config: app.Config{Sandbox: "process"},
		Builtins: func(set *builtin.Set) error {
			return builtin.Add(set, builtin.Def{Name: "add", Description: "Add two numbers."},
				func(_ context.Context, _ builtin.Call, in in) (int, error) { return in.A + in.B, nil })
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	ann := haft.Principal{Org: "acme", User: "ann", Roles: []string{"admin"}}
	res, err := s.Call(ctx, haft.Call{Principal: ann, Tool: "add", Args: json.RawMessage(`{"a": "1", "b": 2}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Status, string(res.Value))
	// Output: success 3
}
