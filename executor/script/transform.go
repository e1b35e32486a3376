package script

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
	"haft/executor"
	"haft/internal/javascript"
	"haft/schema/tsschema"
)

// transformed is a source of TypeScript or JavaScript as Node runs it, with a source map,
// so that errors name the lines of the user.
type transformed struct {
	code    string
	mapping json.RawMessage
	esm     bool
	failure *haft.Failure
}

// toCommonJS replaces the source of m by code that Node can run. Results are kept,
// because tools are called more often than they change.
func (x *Executor) toCommonJS(m *call, kind haft.Kind) *haft.Failure {
	key := sha256.Sum256([]byte(string(kind) + "\x00" + m.File + "\x00" + m.Function + "\x00" + m.Source))
	out, ok := x.js.get(key)
	if !ok {
		if out = transform(m, kind); out.failure == nil || out.failure.Kind == haft.FailSource {
			x.js.put(key, out)
		}
	}
	if out.failure != nil {
		return out.failure
	}
	m.Source, m.Map, m.ESM = out.code, out.mapping, out.esm
	return nil
}

// transform returns the source as CommonJS, which is quicker to load and can use require.
// Only a source with a top-level await stays a module.
func transform(m *call, kind haft.Kind) transformed {
	opts := api.TransformOptions{
		Loader: api.LoaderJS, Format: api.FormatCommonJS, Platform: api.PlatformNode, Target: api.ES2022,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Sourcefile: m.File, LogLimit: 1,
	}
	if kind == haft.KindTypeScript {
		opts.Loader = api.LoaderTS
	}
	footer := ""
	if isIdentifier(m.Function) {
		// A function need not be exported to be the tool.
		footer = fmt.Sprintf("\n;typeof %[1]s===\"function\"&&(globalThis[Symbol.for(\"haft\")]=%[1]s);", m.Function)
	}
	out := esbuild(m.Source, footer, opts)
	if out.failure != nil && strings.Contains(out.failure.Message, "Top-level await") {
		opts.Format = api.FormatESModule
		out = esbuild(m.Source, footer, opts)
		out.esm = true
	}
	return out
}

// unreadable is the result for a source with an error.
func unreadable(why string) transformed {
	return transformed{failure: &haft.Failure{Kind: haft.FailSource, Message: executor.Shorten(clean(why), 2<<10),
		Retry: haft.RetryNever}}
}

// esbuild transforms source and puts footer behind it. A source whose variables
// cannot keep their names in bounded time gets short ones, and so has others in
// error messages.
func esbuild(source, footer string, opts api.TransformOptions) transformed {
	if err := tsschema.CheckBounds([]byte(source)); err != nil {
		return unreadable(err.Error())
	}
	s, bad := javascript.Scan([]byte(source))
	if bad == nil && !s.NamesAreCheap() {
		opts.MinifyIdentifiers, opts.KeepNames = true, true
		s, bad = javascript.Scan([]byte(source + footer)) // which has to get the same names
	} else {
		opts.Footer = footer
	}
	if bad != nil {
		return unreadable(bad.Message)
	}
	res, err := s.Transform(context.Background(), opts) // bounded by itself
	switch {
	case errors.As(err, &bad):
		return unreadable(bad.Message)
	case err != nil: // another source takes the time
		return transformed{failure: &haft.Failure{Kind: haft.FailRuntime, Message: err.Error(), Retry: haft.RetrySame}}
	case len(res.Errors) > 0:
		e := res.Errors[0]
		msg := e.Text
		if e.Location != nil {
			msg = fmt.Sprintf("line %d, column %d: %s", e.Location.Line, e.Location.Column+1, msg)
		}
		return unreadable(msg)
	}
	return transformed{code: string(res.Code), mapping: json.RawMessage(res.Map)}
}

// isIdentifier reports whether s can stand in JavaScript as a plain name.
func isIdentifier(s string) bool {
	for i, c := range s {
		if !(c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != "" && !strings.Contains(jsWords, " "+s+" ")
}

// jsWords cannot be names.
const jsWords = " await break case catch class const continue debugger default delete do else enum export extends " +
	"false finally for function if import in instanceof new null return static super switch this throw true try " +
	"typeof var void while with yield let package private protected public interface implements arguments eval " +
	"module exports require "
