package layer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"haft"
	"haft/internal/requirement"
)

// variables returns "NAME=value" for each pair whose value is not empty.
func variables(pairs ...string) []string {
	var env []string
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			env = append(env, pairs[i]+"="+pairs[i+1])
		}
	}
	return env
}

// pip keeps pip to our settings: no files of a user or of the system, no questions, and the
// index in the environment, where the list of processes does not show it.
func (st *step) pip() program {
	ix, noIndex := st.in.Index, ""
	if ix.Offline {
		noIndex = "1"
	}
	argv := append([]string{}, st.in.Pip...)
	if len(argv) == 0 {
		argv = []string{st.in.Python, "-I", "-m", "pip"}
	}
	argv = append(argv, "install")
	if st.in.Source {
		argv = append(argv, "--prefer-binary")
	} else {
		argv = append(argv, "--only-binary", ":all:")
	}
	return st.python(program{
		name: "pip",
		env: variables("PIP_CONFIG_FILE", os.DevNull, "PIP_NO_INPUT", "1", "PIP_DISABLE_PIP_VERSION_CHECK", "1",
			"PIP_NO_CACHE_DIR", "1", "PIP_PROGRESS_BAR", "off", "PIP_NO_COLOR", "1", "PIP_ROOT_USER_ACTION", "ignore",
			"PIP_NO_WARN_SCRIPT_LOCATION", "1", "PIP_RETRIES", "2", "PIP_DEFAULT_TIMEOUT", "30",
			"PIP_LOG", st.inside("pip.log"), "PIP_INDEX_URL", ix.URL,
			"PIP_EXTRA_INDEX_URL", strings.Join(ix.Extra, " "), "PIP_FIND_LINKS", strings.Join(st.wheels(), " "),
			"PIP_NO_INDEX", noIndex),
		resolve: slices.Concat(argv, []string{"--dry-run", "--ignore-installed", "--report", st.inside("report.json"),
			"-r", st.inside("requirements.in")}),
		result: "report.json",
		lock:   lockOfReport,
		install: slices.Concat(argv, []string{"--no-deps", "--require-hashes", "--no-compile", "--target", st.target(),
			"-r", st.inside("lock.txt")}),
	})
}

// uv is for uv what pip is for pip.
func (st *step) uv() program {
	ix := st.in.Index
	argv := func(verb string, args ...string) []string {
		argv := []string{st.in.UV, "pip", verb, "--python", st.in.Python}
		if !st.in.Source {
			argv = append(argv, "--only-binary", ":all:")
		}
		if ix.Offline {
			argv = append(argv, "--no-index")
		}
		return append(argv, args...)
	}
	return st.python(program{
		name: "uv",
		env: variables("UV_NO_CONFIG", "1", "UV_NO_CACHE", "1", "UV_NO_PROGRESS", "1", "UV_PYTHON_DOWNLOADS", "never",
			"UV_LINK_MODE", "copy", "UV_HTTP_TIMEOUT", "30", "UV_NO_ENV_FILE", "1", "UV_DEFAULT_INDEX", ix.URL,
			"UV_INDEX", strings.Join(ix.Extra, " "), "UV_FIND_LINKS", strings.Join(st.wheels(), ",")),
		resolve: argv("compile", "--generate-hashes", "--no-header", "--no-annotate", "--quiet",
			"-o", st.inside("lock.txt"), st.inside("requirements.in")),
		result:  "lock.txt",
		lock:    checkedLock,
		install: argv("install", "--no-deps", "--require-hashes", "--target", st.target(), "-r", st.inside("lock.txt")),
	})
}

// python adds what pip and uv do alike.
func (st *step) python(p program) program {
	p.ask = func(set requirement.Set) error {
		var b strings.Builder
		for _, p := range set.Pip {
			b.WriteString(p.Line() + "\n")
		}
		return st.put("requirements.in", []byte(b.String()))
	}
	p.prepare = func(lock []byte) (empty bool, err error) {
		if st.set.Pip, err = requirement.ReadLock("the lock", string(lock)); err != nil {
			return false, err
		}
		return len(st.set.Pip) == 0, st.put("lock.txt", []byte(requirement.WriteLock(st.set.Pip)))
	}
	p.finish = st.compile
	return p
}

// lockOfReport turns the report of pip into a lock. The report is written by a
// program that has seen the index: it is not trusted.
func lockOfReport(text []byte) ([]byte, error) {
	var report struct {
		Install []struct {
			Direct   bool `json:"is_direct"`
			Download struct {
				Archive *struct {
					Hash   string            `json:"hash"`
					Hashes map[string]string `json:"hashes"`
				} `json:"archive_info"`
			} `json:"download_info"`
			Metadata struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"metadata"`
		} `json:"install"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("read the report of pip: %w", err)
	}
	var list []requirement.Pip
	for i, one := range report.Install {
		p, err := requirement.ParsePip(one.Metadata.Name + "==" + one.Metadata.Version)
		if err != nil {
			return nil, fmt.Errorf("package %d in the report of pip: %w", i+1, err)
		}
		if one.Direct {
			return nil, &haft.Error{Code: haft.CodeDenied,
				Message: p.Name + " would come from a URL that a package names, and not from the index"}
		}
		if a := one.Download.Archive; a != nil {
			if sum := a.Hashes["sha256"]; sum != "" {
				p.Hashes = []string{"sha256:" + sum}
			} else if sum, ok := strings.CutPrefix(a.Hash, "sha256="); ok {
				p.Hashes = []string{"sha256:" + sum}
			}
		}
		list = append(list, p)
	}
	return checkedLock([]byte(requirement.WriteLock(list)))
}

// checkedLock returns a lock in its normal form.
func checkedLock(text []byte) ([]byte, error) {
	list, err := requirement.ReadLock("the lock", string(text))
	if err != nil {
		return nil, err
	}
	return []byte(requirement.WriteLock(list)), nil
}

// compile makes bytecode, since nobody can write it later. It is not compared with
// the source's time, which mounts and copies change, and names the path that the
// layer has in a sandbox.
func (st *step) compile(ctx context.Context) error {
	if err := st.files.share(); err != nil {
		return explain("make bytecode", err)
	}
	err := st.run(ctx, Command{Step: "compile", Argv: []string{st.in.Python, "-I", "-S", "-m", "compileall", "-q",
		"--invalidation-mode", "unchecked-hash", "-s", st.target(), "-p", PythonDir, st.target()}})
	p, ok := problemOf(err)
	if ok && p.Kind != ProblemTimeout && p.Kind != ProblemDisk && st.files.holds(".pyc") {
		// Packages hold files that are templates, or of other versions of Python.
		st.progress("not every file could be compiled ahead: " + cut(p.Error(), maxLine))
		return nil
	}
	return err
}
