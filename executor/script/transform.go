package script

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"haft"
	"haft/internal/javascript"
	"haft/schema/tsschema"
)

// maxTransformed is how many results a transformer remembers.
const maxTransformed = 256

// transformer turns TypeScript and modules into what Node runs as CommonJS, with
// a source map, so that errors name the lines of the user. Results are
// remembered, because tools are called more often than changed.
type transformer struct {
	left atomic.Int64 // transformations that were given up and still run

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
		out = t.transform(m, kind)
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

// transform makes CommonJS of the source, which is quicker to load and can be
// required from; only a source that awaits outside of a function stays a module.
func (t *transformer) transform(m *call, kind haft.Kind) transformed {
	if err := tsschema.CheckBounds([]byte(m.Source)); err != nil {
		return unreadable(err.Error())
	}
	opts := api.TransformOptions{
		Loader: api.LoaderJS, Format: api.FormatCommonJS, Platform: api.PlatformNode, Target: api.ES2022,
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, Sourcefile: m.File,
		LogLevel: api.LogLevelSilent, LogLimit: 1,
	}
	if kind == haft.KindTypeScript {
		opts.Loader = api.LoaderTS
	}
	footer := ""
	if isIdentifier(m.Function) {
		// A function need not be exported to be the tool.
		footer = fmt.Sprintf("\n;typeof %[1]s===\"function\"&&(globalThis[Symbol.for(\"haft\")]=%[1]s);", m.Function)
	}
	res, ok := t.esbuild(m.Source, footer, opts)
	if ok && len(res.Errors) > 0 && strings.HasPrefix(res.Errors[0].Text, "Top-level await") {
		opts.Format = api.FormatESModule
		res, ok = t.esbuild(m.Source, footer, opts)
	}
	if !ok {
		return unreadable("the source takes too long to read")
	}
	if len(res.Errors) > 0 {
		e := res.Errors[0]
		msg := e.Text
		if e.Location != nil {
			msg = fmt.Sprintf("line %d, column %d: %s", e.Location.Line, e.Location.Column+1, msg)
		}
		return unreadable(msg)
	}
	return transformed{code: string(res.Code), mapping: json.RawMessage(res.Map), esm: opts.Format == api.FormatESModule}
}

// unreadable is the outcome for a source that is wrong.
func unreadable(why string) transformed {
	return transformed{failure: &haft.Failure{Kind: haft.FailSource, Message: bounded(clean(why), 2<<10), Retry: haft.RetryNever}}
}

// How long a source may take. The way of esbuild to keep the names of variables
// takes time by the cube of how deep functions are nested, so what does not end
// soon gets short names, which is quick, and loses them in error messages.
const (
	niceTime  = time.Second
	shortTime = 5 * time.Second
	// smallSource is read with its names in any case: it cannot take long.
	smallSource = 2 << 10
)

// esbuild transforms source, with the names of variables if that can be done in
// time, and puts footer behind it.
func (t *transformer) esbuild(source, footer string, opts api.TransformOptions) (api.TransformResult, bool) {
	// At most one source that takes long is left to run to its end.
	if namesAreCheap(source) && (t.left.Load() == 0 || len(source) <= smallSource) {
		opts.Footer = footer
		if res, ok := t.timed(source, opts, niceTime); ok {
			return res, true
		}
	}
	// Here the footer has to get the same short names.
	opts.Footer, opts.MinifyIdentifiers, opts.KeepNames = "", true, true
	return t.timed(source+footer, opts, shortTime)
}

// namesAreCheap reports whether esbuild keeps the names of variables in bounded
// time.
func namesAreCheap(source string) bool {
	s, bad := javascript.Scan([]byte(source))
	return bad == nil && s.NamesAreCheap()
}

// timed runs esbuild, which cannot be interrupted. After its time it is left to
// itself; what remains of its work is bounded by what [tsschema.CheckBounds] let
// through.
func (t *transformer) timed(source string, opts api.TransformOptions, limit time.Duration) (api.TransformResult, bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	done := make(chan api.TransformResult)
	gone := make(chan struct{})
	go func() {
		var res api.TransformResult
		defer func() {
			if recover() != nil {
				res = api.TransformResult{Errors: []api.Message{{Text: "the source cannot be read"}}}
			}
			select {
			case done <- res:
			case <-gone:
				t.left.Add(-1)
			}
		}()
		res = api.Transform(source, opts)
	}()
	select {
	case res := <-done:
		return res, true
	case <-timer.C:
		t.left.Add(1)
		close(gone)
		return api.TransformResult{}, false
	}
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
