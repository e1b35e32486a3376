package layer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"haft"
	"haft/internal/requirement"
)

// pipEnv keeps pip to what we say: no files of a user or of the system, no questions,
// and the index in the environment, where the list of processes does not show it.
func (st *step) pipEnv() []string {
	ix := st.in.Index
	env := []string{
		"PIP_CONFIG_FILE=" + os.DevNull, "PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_CACHE_DIR=1",
		"PIP_PROGRESS_BAR=off", "PIP_NO_COLOR=1", "PIP_ROOT_USER_ACTION=ignore", "PIP_NO_WARN_SCRIPT_LOCATION=1",
		"PIP_RETRIES=2", "PIP_DEFAULT_TIMEOUT=30", "PIP_LOG=" + st.inside("pip.log"),
	}
	set := func(name, value string) {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	set("PIP_INDEX_URL", ix.URL)
	set("PIP_EXTRA_INDEX_URL", strings.Join(ix.Extra, " "))
	set("PIP_FIND_LINKS", strings.Join(st.wheels(), " "))
	if ix.Offline {
		set("PIP_NO_INDEX", "1")
	}
	return env
}

// pip returns the command line of pip install.
func (st *step) pip(args ...string) []string {
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
	return append(argv, args...)
}

// checkIndex refuses what cannot be handed to an installer safely.
func (st *step) checkIndex() error {
	ix := st.in.Index
	known := len(ix.Env) > 0 ||
		credentials().MatchString(strings.Join(append([]string{ix.URL, ix.Registry, ix.Proxy}, ix.Extra...), " "))
	if known && (st.kind == "pip" && st.in.Source || st.kind == "npm" && st.in.Scripts) {
		return &haft.Error{Code: haft.CodeDenied, Message: "" +
			"packages that run code when they are installed could read the credentials of the index: give the " +
			"credentials to the proxy, or install built packages only"}
	}
	for _, w := range append(append([]string{}, ix.Extra...), ix.Wheels...) {
		if strings.ContainsAny(w, " \t\n,") {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: "an extra index or a directory of wheels has a space or a comma in its name, which pip " +
					"takes for two"}
		}
	}
	return nil
}

// requirements writes what is asked for to a file.
func (st *step) requirements(set requirement.Set) error {
	st.set = set
	var b strings.Builder
	for _, p := range set.Pip {
		b.WriteString(p.Line() + "\n")
	}
	return st.put("requirements.in", []byte(b.String()))
}

// pipResolve makes a lock by pip's dry run.
func (st *step) pipResolve(ctx context.Context, set requirement.Set) ([]byte, error) {
	if err := st.checkIndex(); err != nil {
		return nil, err
	}
	if err := st.requirements(set); err != nil {
		return nil, err
	}
	err := st.run(ctx, Command{Step: "resolve", Network: !st.in.Index.Offline, Env: st.pipEnv(), Argv: st.pip(
		"--dry-run", "--ignore-installed", "--report", st.inside("report.json"), "-r", st.inside("requirements.in"))})
	if err != nil {
		return nil, err
	}
	text, err := st.scratch.read("report.json", maxResult)
	if err != nil {
		return nil, fmt.Errorf("read the report of pip: %w", err)
	}
	return lockOfReport(text)
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
	return checkedLock(requirement.WriteLock(list))
}

// checkedLock returns a lock in its normal form.
func checkedLock(text string) ([]byte, error) {
	list, err := requirement.ReadLock("the lock", text)
	if err != nil {
		return nil, err
	}
	return []byte(requirement.WriteLock(list)), nil
}

// putLock checks a lock and writes it for the installer.
func (st *step) putLock(lock []byte) error {
	if err := st.checkIndex(); err != nil {
		return err
	}
	list, err := requirement.ReadLock("the lock", string(lock))
	if err != nil {
		return err
	}
	st.set.Pip = list
	return st.put("lock.txt", []byte(requirement.WriteLock(list)))
}

// pipInstall installs a lock by pip.
func (st *step) pipInstall(ctx context.Context, lock []byte) error {
	if err := st.putLock(lock); err != nil || len(st.set.Pip) == 0 {
		return err
	}
	err := st.run(ctx, Command{Step: "install", Network: !st.in.Index.Offline, Env: st.pipEnv(), Argv: st.pip(
		"--no-deps", "--require-hashes", "--no-compile", "--target", st.target(), "-r", st.inside("lock.txt"))})
	if err != nil {
		return err
	}
	return st.compile(ctx)
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
	if p, ok := problemOf(err); ok && p.Kind != ProblemTimeout && p.Kind != ProblemDisk {
		// Packages hold files that are templates, or of other versions of Python.
		st.progress("not every file could be compiled ahead: " + cut(p.Error(), maxLine))
		return nil
	}
	return err
}

// uvEnv is for uv what pipEnv is for pip.
func (st *step) uvEnv() []string {
	ix := st.in.Index
	env := []string{"UV_NO_CONFIG=1", "UV_NO_CACHE=1", "UV_NO_PROGRESS=1", "UV_PYTHON_DOWNLOADS=never",
		"UV_LINK_MODE=copy", "UV_HTTP_TIMEOUT=30", "UV_NO_ENV_FILE=1"}
	set := func(name, value string) {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	set("UV_DEFAULT_INDEX", ix.URL)
	set("UV_INDEX", strings.Join(ix.Extra, " "))
	set("UV_FIND_LINKS", strings.Join(st.wheels(), ","))
	return env
}

// uv returns a command line of uv pip.
func (st *step) uv(verb string, args ...string) []string {
	argv := []string{st.in.UV, "pip", verb, "--python", st.in.Python}
	if !st.in.Source {
		argv = append(argv, "--only-binary", ":all:")
	}
	if st.in.Index.Offline {
		argv = append(argv, "--no-index")
	}
	return append(argv, args...)
}

// uvResolve makes a lock by uv.
func (st *step) uvResolve(ctx context.Context, set requirement.Set) ([]byte, error) {
	if err := st.checkIndex(); err != nil {
		return nil, err
	}
	if err := st.requirements(set); err != nil {
		return nil, err
	}
	err := st.run(ctx, Command{Step: "resolve", Network: !st.in.Index.Offline, Env: st.uvEnv(), Argv: st.uv("compile",
		"--generate-hashes", "--no-header", "--no-annotate", "--quiet", "-o", st.inside("lock.txt"),
		st.inside("requirements.in"))})
	if err != nil {
		return nil, err
	}
	text, err := st.scratch.read("lock.txt", maxResult)
	if err != nil {
		return nil, fmt.Errorf("read the lock of uv: %w", err)
	}
	return checkedLock(string(text))
}

// uvInstall installs a lock by uv.
func (st *step) uvInstall(ctx context.Context, lock []byte) error {
	if err := st.putLock(lock); err != nil || len(st.set.Pip) == 0 {
		return err
	}
	err := st.run(ctx, Command{Step: "install", Network: !st.in.Index.Offline, Env: st.uvEnv(), Argv: st.uv("install",
		"--no-deps", "--require-hashes", "--target", st.target(), "-r", st.inside("lock.txt"))})
	if err != nil {
		return err
	}
	return st.compile(ctx)
}
