package script

import (
	"encoding/json"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
)

// TypeScript compiles TypeScript to JavaScript, with unchanged imports and exports, and a
// source map. It runs nothing of it.
func (x *Executor) TypeScript(source string) (code string, sourceMap json.RawMessage, failure *haft.Failure) {
	out := esbuild(source, "", api.TransformOptions{
		Loader: api.LoaderTS, Platform: api.PlatformNode, Target: api.ES2022,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Sourcefile: "code.ts", LogLimit: 1,
	})
	return out.code, out.mapping, out.failure
}
