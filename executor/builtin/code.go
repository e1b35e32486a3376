package builtin

import (
	"haft"
	"haft/executor"
)

// CodeConfig says how [RunCode] works. The zero value is useful.
type CodeConfig struct {
	// TypeScript makes JavaScript of TypeScript, and a source map if it can. Nil
	// leaves it to a Node.js that is new enough.
	TypeScript func(source string) (code string, sourceMap []byte, failure *haft.Failure)
}

// RunCode adds the tool run_code, which has run run the code.
func RunCode(s *Set, run executor.Executor, cfg CodeConfig) error { return nil }
