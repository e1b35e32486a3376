package script

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"haft"
	"haft/executor"
	"haft/sandbox"
)

// allFiles returns the files of the tool and those of the call. Files that are arguments cannot be
// written to: what the tool changed of them would be lost.
func allFiles(req executor.Request) []sandbox.File {
	if len(req.Modules)+len(req.FileArgs) == 0 {
		return req.Files
	}
	all := slices.Concat(req.Modules, req.Files)
	for i := range all {
		if slices.ContainsFunc(req.FileArgs, func(a executor.FileArg) bool { return a.Path == all[i].Name }) {
			all[i].Mode = 0o444
		}
	}
	return all
}

// givenFiles names what is put into the working directory of a call: its files, and the source of a
// tool of Node.js, which is there until it is loaded.
func givenFiles(req executor.Request) []string {
	var names []string
	for _, f := range allFiles(req) {
		names = append(names, f.Name)
	}
	switch req.Kind {
	case haft.KindTypeScript:
		names = append(names, fileName(req, ".ts")+".mjs")
	case haft.KindJavaScript:
		names = append(names, fileName(req, "")+".mjs")
	}
	return names
}

// checkShadows reports a file of the caller that the tool could take for a module of its own,
// or that lies in a directory of its modules: helper.js beside helper/index.js, or core/x.py.
func checkShadows(req executor.Request) error {
	if len(req.Modules) == 0 || len(req.Files) == 0 {
		return nil
	}
	own := make(map[string]bool, len(req.Modules))
	for _, f := range req.Modules {
		own[topName(f.Name)] = true
	}
	for i, f := range req.Files {
		if own[topName(f.Name)] {
			return invalid("the file %d of the call has a name that belongs to a file of the tool: choose another path",
				i+1)
		}
	}
	return nil
}

// topName is the first part of a path, up to its first dot, without regard to case: some file
// systems have none.
func topName(name string) string {
	top, _, _ := strings.Cut(name, "/")
	top, _, _ = strings.Cut(top, ".")
	return strings.ToLower(strings.ToUpper(top))
}

// pythonModules returns the names that Python can import of files.
func pythonModules(files []sandbox.File) []string {
	var names []string
	for _, f := range files {
		if top, _, _ := strings.Cut(f.Name, "/"); strings.HasSuffix(f.Name, ".py") {
			if name := strings.TrimSuffix(top, ".py"); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// nodeModule is a file as Node.js loads it.
type nodeModule struct {
	Name   string          `json:"name"`
	Source string          `json:"source"`
	Map    json.RawMessage `json:"map,omitempty"`
	// Error says why it cannot be loaded.
	Error string `json:"error,omitempty"`
}

// nodeModules returns the files that are JavaScript or TypeScript, as CommonJS. A file that
// cannot be read is an error only if the tool loads it.
func (x *Executor) nodeModules(files []sandbox.File) []nodeModule {
	var list []nodeModule
	for _, f := range files {
		kind := haft.KindJavaScript
		switch path.Ext(f.Name) {
		case ".ts", ".mts", ".cts":
			kind = haft.KindTypeScript
		case ".js", ".mjs":
		default:
			continue
		}
		m := &call{File: f.Name, Source: trimBOM(string(f.Data))}
		failure := x.toCommonJS(m, kind)
		switch {
		case failure != nil:
			list = append(list, nodeModule{Name: f.Name, Error: failure.Message})
		case m.ESM:
			list = append(list, nodeModule{Name: f.Name,
				Error: "only the source of the tool can use await outside of a function"})
		default:
			list = append(list, nodeModule{Name: f.Name, Source: m.Source, Map: m.Map})
		}
	}
	return list
}
