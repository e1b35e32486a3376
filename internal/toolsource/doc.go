// Package toolsource works with the source code of tools: it derives their schemas, reviews
// them, and calls tools that are not stored.
//
// [Runner.Prepare] turns source code into a tool that can be called; [Runner.Call] takes
// one call of it through its stages:
//
//	read → validate → execute → check
package toolsource

import (
	"context"
	"log/slog"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/sandbox"
)

// A Runner reads the source of tools and calls them. All fields are required.
type Runner struct {
	Executor *script.Executor
	// Elsewhere runs the calls instead, where they do not run in the sandbox of this machine; nil means Executor.
	Elsewhere executor.Executor
	Provider  sandbox.Provider
	// Need refuses every run with less isolation than this.
	Need sandbox.Need
	// Runtime finds the interpreter for tools of a kind.
	Runtime func(ctx context.Context, kind haft.Kind) (*script.Runtime, error)
	Logger  *slog.Logger
}
