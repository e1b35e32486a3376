package script

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
)

// maxTransformed is how many results a transformer remembers.
const maxTransformed = 256

// transformer turns TypeScript and modules into what Node runs as CommonJS, with
// a source map, so that errors name the lines of the user. Results are
// remembered, because tools are called more often than changed.
type transformer struct {
	mu   sync.Mutex
	seen map[[32]byte]transformed
}

// transformed is the outcome for one source.
type transformed struct {
	code    string
	mapping json.RawMessage
	esm     bool
	failure *haft.Failure
}

// newTransformer returns an empty transformer.
func newTransformer() *transformer { return &transformer{seen: map[[32]byte]transformed{}} }

// into replaces the source of m by what Node can run.
func (t *transformer) into(m *call, kind haft.Kind) *haft.Failure {
	key := sha256.Sum256([]byte(string(kind) + "\x00" + m.File + "\x00" + m.Function + "\x00" + m.Source))
	t.mu.Lock()
	out, ok := t.seen[key]
	t.mu.Unlock()
	if !ok {
		out = transform(m, kind)
		t.mu.Lock()
		if len(t.seen) >= maxTransformed {
			clear(t.seen)
		}
		t.seen[key] = out
		t.mu.Unlock()
	}
	if out.failure != nil {
		return out.failure
	}
	m.Source, m.Map, m.ESM = out.code, out.mapping, out.esm
	return nil
}

// transform runs esbuild. The source is bounded by the caller. CommonJS is quicker
// to load and can be required from; only a source that awaits outside of a function
// stays a module.
func transform(m *call, kind haft.Kind) transformed {
	loader := api.LoaderJS
	if kind == haft.KindTypeScript {
		loader = api.LoaderTS
	}
	opts := api.TransformOptions{
		Loader: loader, Format: api.FormatCommonJS, Platform: api.PlatformNode, Target: api.ES2022,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Sourcefile: m.File,
		LogLevel: api.LogLevelSilent, LogLimit: 1, KeepNames: false,
	}
	if isIdentifier(m.Function) {
		// A function need not be exported to be the tool.
		opts.Footer = fmt.Sprintf("\n;typeof %[1]s===\"function\"&&(globalThis[Symbol.for(\"haft\")]=%[1]s);", m.Function)
	}
	res := api.Transform(m.Source, opts)
	if len(res.Errors) > 0 && strings.HasPrefix(res.Errors[0].Text, "Top-level await") {
		opts.Format = api.FormatESModule
		res = api.Transform(m.Source, opts)
	}
	if len(res.Errors) > 0 {
		e := res.Errors[0]
		msg := e.Text
		if e.Location != nil {
			msg = fmt.Sprintf("line %d, column %d: %s", e.Location.Line, e.Location.Column+1, msg)
		}
		return transformed{failure: &haft.Failure{Kind: haft.FailSource, Message: bounded(clean(msg), 2<<10), Retry: haft.RetryNever}}
	}
	return transformed{code: string(res.Code), mapping: json.RawMessage(res.Map), esm: opts.Format == api.FormatESModule}
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
const jsWords = " await break case catch class const continue debugger default delete do else enum export extends false finally for function if import in instanceof new null return static super switch this throw true try typeof var void while with yield let package private protected public interface implements arguments eval module exports require "
