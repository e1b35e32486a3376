package script

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"haft"
	"haft/executor"
	"haft/sandbox"
	"haft/sandbox/cell"
)

// Bounds on the layers of a request.
const (
	maxLayers  = 8
	maxImports = 32
)

// runFunc is [sandbox.Provider.Run].
type runFunc = func(context.Context, sandbox.Spec) (sandbox.Exit, error)

// checkLayers reports what is wrong with layers. They come from Haft itself,
// so that an error is not the caller's.
func checkLayers(layers []executor.Layer) error {
	if len(layers) > maxLayers {
		return fmt.Errorf("a call has %d layers, %d is the most", len(layers), maxLayers)
	}
	for _, l := range layers {
		if l.Digest == "" || !filepath.IsAbs(l.Dir) || !path.IsAbs(l.Inside) {
			return fmt.Errorf("the layer %.16q has no digest or no directory", l.Digest)
		}
	}
	return nil
}

// hold holds all layers.
func hold(layers []executor.Layer) (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	for _, l := range layers {
		if l.Hold == nil {
			continue
		}
		r, ok := l.Hold()
		if !ok {
			release()
			return nil, &haft.Error{Code: haft.CodeUnavailable,
				Message: "installed packages were removed while a sandbox was made for them: try again"}
		}
		held = append(held, r)
	}
	return release, nil
}

// holding returns run such that the layers stay while anything of it runs.
func holding(layers []executor.Layer, run runFunc) runFunc {
	if len(layers) == 0 {
		return run
	}
	return func(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
		release, err := hold(layers)
		if err != nil {
			if spec.Channel != nil {
				_ = spec.Channel.Close() // as the provider does
			}
			return sandbox.Exit{}, err
		}
		defer release()
		return run(ctx, spec)
	}
}

// paths are the directories that the tool's packages are in.
func (r *run) paths() []string {
	if len(r.req.Layers) == 0 {
		return r.rt.Paths
	}
	var list []string
	for _, l := range r.req.Layers {
		list = append(list, l.Inside)
	}
	return append(list, r.rt.Paths...)
}

// extrasDigest names the layers, the imports that cells have done and the programs, or is "".
func (r *run) extrasDigest() string {
	if len(r.req.Layers)+len(r.req.Programs) == 0 {
		return ""
	}
	h := sha256.New()
	for _, l := range r.req.Layers {
		fmt.Fprintf(h, "%q %q\n", l.Digest, l.Inside)
	}
	fmt.Fprintf(h, "%q\n%q\n", r.imports(), r.req.Programs)
	return "+" + hex.EncodeToString(h.Sum(nil)[:16])
}

// imports are what cells of this call import before they are idle: nothing if
// that did not work once.
func (r *run) imports() []string {
	if r.rt.Kind != haft.KindPython || r.x.cfg.Cold {
		return nil
	}
	var list []string
	for _, l := range r.req.Layers {
		list = append(list, l.Imports...)
	}
	list = list[:min(len(list), maxImports)]
	if len(list) == 0 || r.x.badImports.has(r.importsKey(list)) {
		return nil
	}
	return list
}

// importsKey names imports in layers.
func (r *run) importsKey(list []string) string {
	var b strings.Builder
	for _, l := range r.req.Layers {
		b.WriteString(l.Digest + " ")
	}
	return r.rt.Digest + b.String() + strings.Join(list, ",")
}

// warmer returns what makes a cell of this call ready. Importing runs code of the
// packages, in the sandbox of the cell. If it takes too long, ends the process or leaves
// something running, the cells that follow do without: spoilt says so.
func (r *run) warmer(key *cell.Key) (warmUp func(*sandbox.Pipe) error, spoilt func()) {
	list := r.imports()
	x, paths, name, python := r.x, r.paths(), r.importsKey(list), r.rt.Kind == haft.KindPython
	if len(list) > 0 {
		spoilt = func() {
			x.badImports.put(name, true)
			x.badKeys.put(*key, true)
		}
	}
	return func(conn *sandbox.Pipe) error {
		var head []byte
		if python {
			head, _ = x.recent.get(*key)
		}
		if err := warm(conn, head != nil); err != nil {
			return err
		}
		if len(list) > 0 {
			if err := load(conn, paths, list); err != nil {
				spoilt()
				return fmt.Errorf("import %d modules before the call: %w", len(list), err)
			}
		}
		if head != nil {
			return post(conn, frame(nil, head))
		}
		return nil
	}, spoilt
}
