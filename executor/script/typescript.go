package script

import (
	"encoding/json"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
)

// TypeScript makes JavaScript of TypeScript, with its imports and exports as they
// are, and a source map. It runs nothing of it.
func (x *Executor) TypeScript(source string) (code string, sourceMap json.RawMessage, failure *haft.Failure) {
	out := esbuild(source, "", api.TransformOptions{
		Loader: api.LoaderTS, Platform: api.PlatformNode, Target: api.ES2022,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Sourcefile: "code.ts", LogLimit: 1,
	})
	return out.code, out.mapping, out.failure
}
