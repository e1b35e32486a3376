package layer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"haft"
	"haft/internal/requirement"
)

// npmEnv keeps npm to what we say. The two files of settings do not exist; npm
// refuses one name for both.
func (st *step) npmEnv() []string {
	env := []string{
		"npm_config_userconfig=" + st.inside("user.npmrc"), "npm_config_globalconfig=" + st.inside("global.npmrc"),
		"npm_config_cache=" + st.inside("cache"), "npm_config_audit=false", "npm_config_fund=false",
		"npm_config_update_notifier=false",
		"npm_config_progress=false", "npm_config_color=false", "npm_config_fetch_retries=2",
		"npm_config_fetch_timeout=30000",
		"npm_config_fetch_retry_mintimeout=500", "npm_config_fetch_retry_maxtimeout=3000",
		"npm_config_omit_lockfile_registry_resolved=true", "npm_config_logs_max=0",
	}
	if st.in.Index.Registry != "" {
		env = append(env, "npm_config_registry="+st.in.Index.Registry)
	}
	if st.in.Index.Offline {
		env = append(env, "npm_config_offline=true")
	}
	return env
}

// npm returns a command line of npm that works in dir.
func (st *step) npm(verb, dir string, args ...string) []string {
	argv := append(append([]string{}, st.in.NPM...), verb, "--prefix", dir)
	return append(argv, args...)
}

// npmPackage is the package.json of a layer.
func npmPackage(dependencies map[string]string) ([]byte, error) {
	return json.Marshal(map[string]any{"name": "haft-layer", "version": "0.0.0", "private": true,
		"dependencies": dependencies})
}

// npmResolve makes a lock by npm.
func (st *step) npmResolve(ctx context.Context, set requirement.Set) ([]byte, error) {
	if err := st.checkIndex(); err != nil {
		return nil, err
	}
	st.set = set
	deps := map[string]string{}
	for _, n := range set.NPM {
		deps[n.Name] = n.Range
	}
	text, err := npmPackage(deps)
	if err != nil {
		return nil, fmt.Errorf("write package.json: %w", err)
	}
	if err := st.scratch.mkdir("project"); err != nil {
		return nil, explain("write for the installer", err)
	}
	if err := st.put("project/package.json", text); err != nil {
		return nil, err
	}
	err = st.run(ctx, Command{Step: "resolve", Network: !st.in.Index.Offline, Env: st.npmEnv(),
		Argv: st.npm("install", st.inside("project"), "--package-lock-only", "--ignore-scripts")})
	if err != nil {
		return nil, err
	}
	text, err = st.scratch.read("project/package-lock.json", maxResult)
	if err != nil {
		return nil, fmt.Errorf("read the lock of npm: %w", err)
	}
	text, _, err = npmLock(text)
	return text, err
}

var (
	npmPlace = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^(?:node_modules/(?:@[A-Za-z0-9._~-]+/)?[A-Za-z0-9._~-]+)(?:/node_modules/(?:@[A-Za-z0-9._~-]+/)?[A-Za-z0-9._~-]+)*$`)
	})
	npmIntegrity = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^sha(?:256|384|512)-[A-Za-z0-9+/=]+(?: sha[0-9]+-[A-Za-z0-9+/=]+)*$`)
	})
)

// maxNPMPackages bounds a lock.
const maxNPMPackages = 5000

// npmLock checks the lock of npm and returns it in its normal form, with what it was
// asked for. Every package comes from the registry and has a hash.
func npmLock(text []byte) (lock []byte, dependencies map[string]string, err error) {
	if len(text) > requirement.MaxLock {
		return nil, nil, &haft.Error{Code: haft.CodeInvalid, Message: "the npm lock is too large"}
	}
	bad := func(format string, args ...any) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the npm lock: " + fmt.Sprintf(format, args...)}
	}
	var doc struct {
		Version  int                        `json:"lockfileVersion"`
		Packages map[string]json.RawMessage `json:"packages"`
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Version < 2 || doc.Packages == nil {
		return nil, nil, bad("it is not one of version 2 or newer")
	}
	if len(doc.Packages) > maxNPMPackages {
		return nil, nil, bad("it has %d packages, %d is the most", len(doc.Packages), maxNPMPackages)
	}
	for place, raw := range doc.Packages {
		var p struct {
			Version      string            `json:"version"`
			Resolved     string            `json:"resolved"`
			Integrity    string            `json:"integrity"`
			Link         bool              `json:"link"`
			InBundle     bool              `json:"inBundle"`
			Dependencies map[string]string `json:"dependencies"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, nil, bad("a package is not described as it should be")
		}
		if place == "" {
			dependencies = p.Dependencies
			continue
		}
		switch {
		case len(place) > 1000 || !npmPlace().MatchString(place) || strings.Contains(place, "/../") ||
			strings.HasSuffix(place, "/.."):
			return nil, nil, bad("a package is not in node_modules")
		case p.Link:
			return nil, nil, bad("%s is a link and no package", place)
		case p.Resolved != "" && !strings.HasPrefix(p.Resolved, "https://") &&
			!strings.HasPrefix(p.Resolved, "http://"):
			return nil, nil, bad("%s does not come from the registry", place)
		case !p.InBundle && !npmIntegrity().MatchString(p.Integrity):
			return nil, nil, bad("%s has no hash", place)
		}
	}
	root, err := json.Marshal(map[string]any{"name": "haft-layer", "version": "0.0.0", "dependencies": dependencies})
	if err != nil {
		return nil, nil, fmt.Errorf("write the lock of npm: %w", err)
	}
	doc.Packages[""] = root
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err = enc.Encode(map[string]any{"name": "haft-layer", "version": "0.0.0", "lockfileVersion": doc.Version,
		"requires": true, "packages": doc.Packages})
	if err != nil {
		return nil, nil, fmt.Errorf("write the lock of npm: %w", err)
	}
	return out.Bytes(), dependencies, nil
}

// npmInstall installs a lock by npm ci. The layer holds package.json and the lock
// beside node_modules.
func (st *step) npmInstall(ctx context.Context, lock []byte) error {
	if err := st.checkIndex(); err != nil {
		return err
	}
	lock, deps, err := npmLock(lock)
	if err != nil {
		return err
	}
	for name, rng := range deps {
		st.set.NPM = append(st.set.NPM, requirement.NPM{Name: name, Range: rng})
	}
	text, err := npmPackage(deps)
	if err != nil {
		return fmt.Errorf("write package.json: %w", err)
	}
	for name, data := range map[string][]byte{"package.json": text, "package-lock.json": lock} {
		if err := st.files.put(name, data); err != nil {
			return explain("write for the installer", err)
		}
	}
	// The directory must be there even if nothing is asked for: it is what is mounted.
	if err := st.files.mkdir("node_modules"); err != nil {
		return explain("write for the installer", err)
	}
	args := []string{"--omit=dev", "--install-links=true"}
	if !st.in.Scripts {
		args = append(args, "--ignore-scripts")
	}
	if err := st.run(ctx, Command{Step: "install", Network: !st.in.Index.Offline, Env: st.npmEnv(),
		Argv: st.npm("ci", st.target(), args...)}); err != nil {
		return err
	}
	return explain("keep what was installed", st.files.mkdir("node_modules"))
}
