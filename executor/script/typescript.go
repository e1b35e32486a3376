package script

import (
	"encoding/json"
	"fmt"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
	"haft/schema/tsschema"
)

// TypeScript makes JavaScript of TypeScript, with its imports and exports as they
// are, and a source map. It runs nothing of it.
func (x *Executor) TypeScript(source string) (code string, sourceMap json.RawMessage, failure *haft.Failure) {
	if err := tsschema.CheckBounds([]byte(source)); err != nil {
		return "", nil, unreadable(err.Error()).failure
	}
	res, ok := x.js.esbuild(source, "", api.TransformOptions{
		Loader: api.LoaderTS, Platform: api.PlatformNode, Target: api.ES2022,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Sourcefile: "code.ts",
		LogLevel: api.LogLevelSilent, LogLimit: 1,
	})
	if !ok {
		return "", nil, unreadable("the source takes too long to read").failure
	}
	if len(res.Errors) > 0 {
		e := res.Errors[0]
		msg := e.Text
		if e.Location != nil {
			msg = fmt.Sprintf("line %d, column %d: %s", e.Location.Line, e.Location.Column+1, msg)
		}
		return "", nil, unreadable(msg).failure
	}
	return string(res.Code), json.RawMessage(res.Map), nil
}
